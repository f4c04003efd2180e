//! The queues with their counts, and the jobs of a queue by state, a page at a time.
//!
//! Pages run in the order of ids, and a cursor is an id: however jobs change between two pages, none that keeps its
//! state is skipped or repeated. A page looks at a bounded number of jobs, so it can be short, even empty, and still have
//! a next one.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use quire_model::{History, Place, ReadError};

use crate::codec::{Effect, queue_tag};
use crate::queue::QueueId;
use crate::state::{Job, JobState, Jobs};
use crate::{JobId, QueueStats};

/// How many jobs one page looks at.
pub const LIST_SCAN_MAX: usize = 10_000;

/// Some jobs, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Their ids.
    pub jobs: Vec<JobId>,
    /// Where the next page goes on; `None` after the last one.
    pub next: Option<JobId>,
}

/// A job that was looked at, and whether it is one of those wanted.
type Candidate = Result<(JobId, bool), ReadError>;

impl Jobs {
    /// The queues by name, with how many jobs are in which state.
    pub fn queues(&self) -> impl Iterator<Item = (&str, QueueStats)> {
        self.queue_ids.iter().map(|(name, id)| (name.as_str(), self.queue(*id).stats()))
    }

    /// How many jobs of a queue are in which state; `None` when nobody has used the queue.
    pub fn queue_stats(&self, queue: &str) -> Option<QueueStats> {
        self.queue_ids.get(queue).map(|id| self.queue(*id).stats())
    }

    /// The jobs of a queue in a state, at most `count_max`, after the one at which the page before ended. An unknown
    /// queue has none.
    ///
    /// Completed jobs are found by walking the queue's tag, and are listed as long as the log keeps them.
    ///
    /// # Errors
    /// When an entry on the way can't be read; only for completed jobs.
    pub fn list(
        &self,
        history: &dyn History,
        queue: &str,
        state: JobState,
        after: Option<JobId>,
        count_max: usize,
    ) -> Result<Page, ReadError> {
        let Some(queue) = self.queue_ids.get(queue).copied() else { return Ok(Page::default()) };
        let mut page = Page::default();
        let mut last = after;
        for (looked_at, candidate) in self.candidates(history, queue, state, after).enumerate() {
            if page.jobs.len() == count_max || looked_at == LIST_SCAN_MAX {
                page.next = last;
                break;
            }
            let (id, wanted) = candidate?;
            last = Some(id);
            if wanted {
                page.jobs.push(id);
            }
        }
        Ok(page)
    }

    fn candidates<'a>(
        &'a self,
        history: &'a dyn History,
        queue: QueueId,
        state: JobState,
        after: Option<JobId>,
    ) -> Box<dyn Iterator<Item = Candidate> + 'a> {
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        match state {
            JobState::Completed => Box::new(self.walk_completed(history, queue, after)),
            JobState::Dead => Box::new(self.queue(queue).dead.range(range).map(|id| Ok((*id, true)))),
            _ => {
                let wanted = move |job: &Job| job.queue == queue && job.state() == state;
                Box::new(self.jobs.range(range).map(move |(id, job)| Ok((*id, wanted(job)))))
            }
        }
    }

    /// Every job of the queue, by the walk over its tag; those neither live nor dead are completed.
    fn walk_completed<'a>(
        &'a self,
        history: &'a dyn History,
        queue: QueueId,
        after: Option<JobId>,
    ) -> impl Iterator<Item = Candidate> + 'a {
        let tag = queue_tag(queue);
        let mut from = after.map_or(Place::START, |id| id.place().after());
        core::iter::from_fn(move || {
            loop {
                let entry = match history.next(&[tag.tag()], from) {
                    Ok(entry) => entry?,
                    Err(error) => return Some(Err(error)),
                };
                from = entry.place.after();
                match Effect::read(&entry) {
                    Ok(Effect::Enqueued(_)) => {
                        let id = JobId::new(entry.place);
                        let unfinished = self.jobs.contains_key(&id) || self.queue(queue).dead.contains(&id);
                        return Some(Ok((id, !unfinished)));
                    }
                    Ok(_) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}
