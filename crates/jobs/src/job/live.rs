//! The part of a live job that scheduling needs, in 36 bytes, and the rare properties of some jobs.
//!
//! Payloads, kinds, tags, results and errors are not here but in the log.

use alloc::boxed::Box;

use quire_model::{Place, Timestamp};

use super::keys::Key;
use crate::codec::FinalFacts;
use crate::id::{PackedPlace, QueueId};
use crate::{JobId, JobState, LeaseToken, Priority};

/// A live job, or a job that was cancelled with its queue and has no step for that in the log yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) queue: QueueId,
    /// The number of its group in the queue.
    pub(crate) group: u32,
    /// The place of its last step: of an active job the token of its lease.
    last: PackedPlace,
    /// The time that ends its state, zero when none does; of one that was cancelled with its queue,
    /// when that was. In two halves, for alignment to four.
    until: [u32; 2],
    /// The number of started attempts.
    pub(crate) attempt: u16,
    pub(crate) attempts_max: u16,
    pub(crate) priority: Priority,
    pub(crate) state: JobState,
    /// Whether it has an [`RareFields`].
    pub(crate) extra: bool,
    /// Whether an attempt of it was lost: its lease or its timeout ran out.
    pub(crate) lost: bool,
}

const _: () = assert!(size_of::<Job>() == 36 && align_of::<Job>() == 4);

impl Job {
    /// A job that was enqueued, in no state yet.
    pub(crate) fn enqueued(id: JobId, queue: QueueId, group: u32, priority: Priority, attempts_max: u16) -> Self {
        let last = PackedPlace::new(id.place());
        let (state, until) = (JobState::Pending, [0, 0]);
        Job { queue, group, last, until, attempt: 0, attempts_max, priority, state, extra: false, lost: false }
    }

    pub(crate) fn last(&self) -> Place {
        self.last.place()
    }

    pub(crate) fn set_last(&mut self, place: Place) {
        self.last = PackedPlace::new(place);
    }

    /// Notes the place of an edit. That of an active job stays: it is the token of its lease.
    pub(crate) fn set_last_unless_active(&mut self, place: Place) {
        if self.state != JobState::Active {
            self.set_last(place);
        }
    }

    pub(crate) fn until(&self) -> Timestamp {
        Timestamp::from_micros(u64::from(self.until[0]) << 32 | u64::from(self.until[1]))
    }

    pub(crate) fn set_until(&mut self, time: Timestamp) {
        self.until = [(time.as_micros() >> 32) as u32, time.as_micros() as u32];
    }

    /// Whether this lease holds it.
    pub(crate) fn is_held_by(&self, token: LeaseToken) -> bool {
        self.state == JobState::Active && self.last() == token.place()
    }

    /// The job after its queue is cleared or destroyed, until the log has its step.
    pub(crate) fn cleared(mut self, now: Timestamp) -> Self {
        (self.state, self.group) = (JobState::Cancelled, 0);
        self.set_until(now);
        self
    }

    /// Returns the facts about the job for its last entry.
    pub(crate) fn final_facts(&self, id: JobId, extra: Option<&RareFields>) -> FinalFacts {
        FinalFacts {
            queue: self.queue,
            priority: self.priority,
            attempts_max: self.attempts_max,
            content: extra.and_then(|extra| extra.content).unwrap_or(id.place()),
            progress: extra.and_then(|extra| extra.progress),
            checkpoint: extra.and_then(|extra| extra.checkpoint),
        }
    }

    /// Returns the lowest valid limit of attempts: the started ones, and one more if the job waits
    /// for its next.
    pub(crate) fn attempts_least(&self) -> u16 {
        self.attempt.saturating_add(u16::from(self.state != JobState::Active))
    }

    pub(crate) fn attempts_left(&self) -> bool {
        self.attempt < self.attempts_max
    }
}

/// The rare properties of a live job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RareFields {
    pub(crate) expires_at: Option<Timestamp>,
    /// When the timeout ends the running attempt.
    pub(crate) run_until: Option<Timestamp>,
    /// The key that it may have: [`Keys`](super::Keys) knows.
    pub(crate) key: Option<Box<Key>>,
    /// The entries of the last heartbeats with progress and with a checkpoint.
    pub(crate) progress: Option<Place>,
    pub(crate) checkpoint: Option<Place>,
    /// The entry that holds its payload, when that is no longer the enqueue.
    pub(crate) content: Option<Place>,
    /// The time that the job is found after it is finished, in microseconds, when it differs from
    /// the queue's.
    pub(crate) retention_micros: Option<u64>,
}

impl RareFields {
    /// Removes what a job loses that is cancelled with its queue. Returns its key.
    pub(crate) fn cancel(&mut self) -> Option<Box<Key>> {
        (self.expires_at, self.run_until) = (None, None);
        self.key.take()
    }

    /// Whether it is worth to be kept.
    pub(crate) fn is_some(&self) -> bool {
        *self != RareFields::default()
    }
}
