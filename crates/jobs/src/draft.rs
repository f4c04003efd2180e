//! The state as the commands of one commit leave it, before anyone has applied them.
//!
//! What the draft knows of a job overrides the state. A pending job is handed out at most once: `taken` marks how far
//! the state's pending jobs were used up, `offered` holds those that became pending in this commit.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::cmp::Reverse;
use core::ops::Bound;

use quire_model::{At, Effects, Placed};

use crate::codec::{Effect, push_enqueued};
use crate::queue::QueueId;
use crate::state::{Jobs, PendingKey, Phase};
use crate::transition::Standing;
use crate::{JobId, JobState, NewJob};

pub(crate) struct Draft<'d> {
    state: &'d Jobs,
    at: At,
    effects: &'d mut dyn Effects,
    queues: BTreeMap<String, QueueId>,
    changed: BTreeMap<JobId, Standing>,
    offered: BTreeMap<QueueId, BTreeSet<PendingKey>>,
    taken: BTreeMap<QueueId, PendingKey>,
}

impl<'d> Draft<'d> {
    pub(crate) fn new(state: &'d Jobs, at: At, effects: &'d mut dyn Effects) -> Self {
        Draft {
            state,
            at,
            effects,
            queues: BTreeMap::new(),
            changed: BTreeMap::new(),
            offered: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// The queue of this name, when it is there.
    pub(crate) fn queue(&self, name: &str) -> Option<QueueId> {
        self.state.queue_ids.get(name).or_else(|| self.queues.get(name)).copied()
    }

    /// How many queues there are.
    pub(crate) fn queue_count(&self) -> usize {
        self.state.queues.len() + self.queues.len()
    }

    /// Adds a queue that was not there.
    pub(crate) fn create_queue(&mut self, name: &str) -> QueueId {
        let queue = QueueId(u32::try_from(self.queue_count()).expect("queues are limited"));
        Effect::QueueCreated { queue, name }.push(self.effects);
        self.queues.insert(String::from(name), queue);
        queue
    }

    /// Adds a job. It is known from here on, but not handed out before the next commit: its payload is not yet in the
    /// history that a fetch reads.
    pub(crate) fn enqueue(&mut self, queue: QueueId, job: &NewJob<'_>) -> (JobId, JobState) {
        let time = self.at.time;
        let run_at = job.run_at.unwrap_or(time).max(time);
        let (id, enqueued) = push_enqueued(self.effects, queue, run_at, job);
        let standing = Standing::Live(enqueued.job(time));
        self.changed.insert(id, standing);
        (id, standing.state())
    }

    /// What is known of a job; `None` when it is neither live nor changed by this commit.
    pub(crate) fn job(&self, id: JobId) -> Option<Standing> {
        self.changed.get(&id).copied().or_else(|| self.state.jobs.get(&id).copied().map(Standing::Live))
    }

    /// Whether this commit has changed a job.
    pub(crate) fn has_changed(&self, id: JobId) -> bool {
        self.changed.contains_key(&id)
    }

    /// Pushes an effect on live jobs, and takes it in.
    pub(crate) fn push(&mut self, effect: &Effect<'_>) -> Placed {
        let placed = effect.push(self.effects);
        for id in effect.jobs() {
            let Some(Standing::Live(job)) = self.job(*id) else {
                panic!("decided {effect:?} of a job that is not live")
            };
            let standing = job.after(effect, placed.place);
            self.changed.insert(*id, standing);
            if let Standing::Live(job) = standing
                && job.phase == Phase::Pending
            {
                self.offered.entry(job.queue).or_default().insert((Reverse(job.priority), *id));
            }
        }
        placed
    }

    /// Takes the job of a queue that is to be fetched next. The caller leases it.
    pub(crate) fn take_pending(&mut self, queue: QueueId) -> Option<JobId> {
        let offered = self.offered.get(&queue).and_then(BTreeSet::first).copied();
        let stored = self.next_stored(queue);
        let next = match (offered, stored) {
            (Some(offered), Some(stored)) => offered.min(stored),
            (offered, stored) => offered.or(stored)?,
        };
        if offered == Some(next) {
            self.offered.get_mut(&queue)?.pop_first();
        } else {
            self.taken.insert(queue, next);
        }
        Some(next.1)
    }

    /// The first pending job of the state that this commit has not used.
    fn next_stored(&self, queue: QueueId) -> Option<PendingKey> {
        let from = self.taken.get(&queue).map_or(Bound::Unbounded, |taken| Bound::Excluded(*taken));
        let pending = &self.state.queues.get(queue.index())?.pending;
        pending.range((from, Bound::Unbounded)).find(|(_, id)| !self.has_changed(*id)).copied()
    }
}
