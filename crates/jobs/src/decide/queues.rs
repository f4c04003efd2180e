//! Settings of a queue, and what happens to all its jobs at once.

use alloc::string::String;

use super::Decision;
use super::draft::Draft;
use crate::id::QueueId;
use crate::{JobLimit, QueueChange, Rate, Refusal, Reply};

/// How long a producer should wait after a full queue refused its job: long enough for workers to
/// finish some jobs, short enough that the queue does not run empty.
const OVERLOADED_RETRY_MICROS: u64 = 100_000;

fn check_rate(rate: Option<Rate>) -> Result<(), Refusal> {
    match rate {
        None => Ok(()),
        Some(Rate::TokenBucket { count, per_micros, burst }) => {
            JobLimit::RateCount.check(u64::from(count))?;
            JobLimit::RateMicros.check(per_micros)?;
            JobLimit::RateCount.check(u64::from(burst))
        }
        Some(Rate::SlidingWindow { count, window_micros }) => {
            JobLimit::WindowCount.check(u64::from(count))?;
            JobLimit::RateMicros.check(window_micros)
        }
    }
}

impl Decision<'_, '_> {
    pub(super) fn set_queue(&mut self, name: &str, change: QueueChange) -> Result<Reply, Refusal> {
        match change {
            QueueChange::JobsMax(Some(most)) => JobLimit::JobsMax.check(u64::from(most))?,
            QueueChange::ActiveMax(Some(most)) | QueueChange::GroupActiveMax(Some(most)) => {
                JobLimit::ActiveMax.check(u64::from(most))?;
            }
            QueueChange::Retention(Some(micros)) => JobLimit::RetentionMicros.check(micros)?,
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

    /// Refuses a job for a full queue. `leaving`: the number of jobs that leave the queue in the
    /// same step.
    pub(super) fn check_room(
        &mut self,
        queue: QueueId,
        name: &str,
        jobs_max: Option<u32>,
        leaving: u64,
    ) -> Result<(), Refusal> {
        let Some(jobs_max) = jobs_max else { return Ok(()) };
        let is_full = |draft: &Draft<'_>| draft.live_count(queue).saturating_sub(leaving) >= u64::from(jobs_max);
        if is_full(self.draft) {
            // Time may have ended some.
            self.sweep(queue);
            if is_full(self.draft) {
                let (queue, retry_after_micros) = (String::from(name), OVERLOADED_RETRY_MICROS);
                return Err(Refusal::Overloaded { queue, jobs_max, retry_after_micros });
            }
        }
        Ok(())
    }

    /// Refuses an active job for a queue that has reached its limit of active jobs.
    pub(super) fn check_active(&mut self, queue: QueueId, name: &str, group: &str) -> Result<(), Refusal> {
        let settings = self.draft.settings(queue);
        let limits = [("active_max", settings.active_max), ("group_active_max", settings.group_active_max)];
        for (setting, most) in limits {
            let Some(most) = most else { continue };
            let is_full = |draft: &Draft<'_>| {
                let active = match setting {
                    "active_max" => draft.active_count(queue),
                    _ => draft.group_active_count(queue, group),
                };
                active >= u64::from(most)
            };
            if is_full(self.draft) {
                // Leases may have run out.
                self.sweep(queue);
                if is_full(self.draft) {
                    return Err(Refusal::TooManyActive { queue: String::from(name), setting, most });
                }
            }
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, name: &str, destroyed: bool) -> Result<Reply, Refusal> {
        let Some(queue) = self.draft.queue(name) else {
            return Err(Refusal::UnknownQueue { queue: String::from(name) });
        };
        // Expired jobs become dead instead of cancelled, and jobs with expired leases are not
        // active.
        self.sweep(queue);
        Ok(Reply::Cleared { jobs: self.draft.clear(queue, name, destroyed) })
    }
}
