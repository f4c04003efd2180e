//! Finished jobs as counters that never fall.
//!
//! A queue's counts of finished jobs fall when dead or cancelled jobs are retried or deleted, and a
//! queue can be destroyed. Prometheus takes a counter that falls for a restart. So each rise since
//! the last scrape is added here, and a fall is not. A job that finishes, is retried and finishes
//! again between two scrapes counts once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use quire::jobs::JobState;

use quire_api::reply::QueueReply;

/// The outcomes of jobs.
const OUTCOMES: [JobState; 3] = [JobState::Completed, JobState::Cancelled, JobState::Dead];

/// The counters of this process; see the module.
#[derive(Debug, Default)]
pub(crate) struct FinishedJobs {
    queues: Mutex<BTreeMap<String, [OutcomeCount; 3]>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OutcomeCount {
    /// The count of the queue at the last scrape.
    seen: u64,
    total: u64,
}

/// The finished jobs of a queue, with the name of each outcome.
pub(crate) type OutcomeTotals = [(&'static str, u64); 3];

impl FinishedJobs {
    /// Adds what rose since the last call, and returns the totals of these queues, in their order.
    /// Queues that are gone are forgotten.
    pub(crate) fn count(&self, queues: &[QueueReply]) -> Vec<OutcomeTotals> {
        let mut before = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = BTreeMap::new();
        let mut totals = Vec::with_capacity(queues.len());
        for queue in queues {
            let mut counts = before.remove(&queue.queue).unwrap_or_default();
            totals.push(std::array::from_fn(|outcome| {
                let (state, count) = (OUTCOMES[outcome], &mut counts[outcome]);
                let now = queue.count(state);
                count.total += now.saturating_sub(count.seen);
                count.seen = now;
                (state.name(), count.total)
            }));
            after.insert(queue.queue.clone(), counts);
        }
        *before = after;
        totals
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn a_total_rises_with_its_queue_and_never_falls() {
        let finished = FinishedJobs::default();
        let totals = |dead: u64| {
            let counts = [(JobState::Dead.name().into(), dead)].into();
            finished.count(&[QueueReply { queue: "q".to_owned(), counts, settings: Map::new() }])[0][2]
        };
        assert_eq!([3, 1, 2, 2].map(totals), [("dead", 3), ("dead", 3), ("dead", 4), ("dead", 4)]);
        assert!(finished.count(&[]).is_empty());
        assert_eq!(totals(1), ("dead", 1), "a new queue of the name counts from the start");
    }
}
