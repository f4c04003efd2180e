//! Settings of a queue, and what happens to all its jobs at once.

use alloc::string::String;

use super::Decision;
use crate::{Limit, QueueChange, Rate, Refusal, Reply};

fn check_rate(rate: Option<Rate>) -> Result<(), Refusal> {
    match rate {
        None => Ok(()),
        Some(Rate::TokenBucket { count, per_micros, burst }) => {
            Limit::RateCount.check(u64::from(count))?;
            Limit::RateMicros.check(per_micros)?;
            Limit::RateCount.check(u64::from(burst))
        }
        Some(Rate::SlidingWindow { count, window_micros }) => {
            Limit::WindowCount.check(u64::from(count))?;
            Limit::RateMicros.check(window_micros)
        }
    }
}

impl Decision<'_> {
    pub(super) fn set_queue(&mut self, name: &str, change: QueueChange) -> Result<Reply, Refusal> {
        match change {
            QueueChange::ActiveMax(Some(most)) | QueueChange::GroupActiveMax(Some(most)) => {
                Limit::ActiveMax.check(u64::from(most))?;
            }
            QueueChange::Rate(rate) | QueueChange::GroupRate(rate) => check_rate(rate)?,
            _ => {}
        }
        let queue = self.queue_for(name)?;
        let settings = self.draft.settings(queue).with(change);
        if settings != self.draft.settings(queue) {
            self.draft.set_queue(queue, settings);
        }
        Ok(Reply::QueueSet)
    }

    pub(super) fn clear(&mut self, name: &str, destroyed: bool) -> Result<Reply, Refusal> {
        let Some(queue) = self.draft.queue(name) else {
            return Err(Refusal::UnknownQueue { queue: String::from(name) });
        };
        // What expired is dead, not cancelled; whose lease ran out is not worked on.
        self.sweep(queue);
        Ok(Reply::Cleared { jobs: self.draft.clear(queue, name, destroyed) })
    }
}
