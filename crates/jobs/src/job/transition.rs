//! One job's step from one state to the next: the transition table as a function.
//!
//! Deciding and applying both use this table, so a draft and a replay cannot differ. A step without
//! a row in the table is a broken invariant, and panics.

use quire_model::Place;

use super::live::Job;
use crate::codec::To;
use crate::{Cause, JobState};

/// The state of a job after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransitionResult {
    Live(Job),
    Finished(JobState),
    Deleted,
}

impl TransitionResult {
    /// The state; `None` when the job is deleted.
    pub(crate) fn state(&self) -> Option<JobState> {
        match self {
            TransitionResult::Live(job) => Some(job.state),
            TransitionResult::Finished(state) => Some(*state),
            TransitionResult::Deleted => None,
        }
    }

    pub(crate) fn live(&self) -> Option<&Job> {
        if let TransitionResult::Live(job) = self { Some(job) } else { None }
    }
}

/// Whether the table has a row for this.
fn is_row(from: JobState, cause: Cause, to: &To) -> bool {
    use JobState::{Active, Held, Pending, Retrying, Scheduled};
    let waits = matches!(from, Scheduled | Pending | Retrying);
    match cause {
        Cause::Due => matches!((from, to), (Scheduled | Retrying, To::Pending)),
        Cause::Leased => matches!((from, to), (Pending, To::Active { .. })),
        Cause::Completed => matches!((from, to), (Active, To::Completed(_))),
        Cause::Failed => matches!((from, to), (Active, To::Retrying { .. } | To::Dead(_))),
        Cause::LeaseExpired | Cause::TimedOut => {
            matches!((from, to), (Active, To::Pending | To::Retrying { .. } | To::Dead(_)))
        }
        Cause::Snoozed => matches!((from, to), (Active, To::Scheduled { .. } | To::Pending)),
        Cause::Cancelled => matches!(to, To::Cancelled(_)),
        Cause::Held => waits && matches!(to, To::Held),
        Cause::Released => matches!((from, to), (Held, To::Pending)),
        Cause::Rescheduled => waits && matches!(to, To::Scheduled { .. } | To::Pending),
        Cause::Expired => (waits || from == Held) && matches!(to, To::Dead(_)),
        Cause::Deleted => matches!(to, To::Deleted(_)),
        Cause::Replaced => (waits || from == Held) && matches!(to, To::Cancelled(_)),
        Cause::Unreadable => matches!((from, to), (Pending, To::Held)),
    }
}

impl Job {
    /// The job after a step whose entry has the place `place`.
    pub(crate) fn after(self, cause: Cause, to: &To, attempt: u16, place: Place) -> TransitionResult {
        let after = self.stepped(cause, to, attempt, place);
        after.unwrap_or_else(|| panic!("{cause:?} of a job that is {} can't lead to {to:?}", self.state))
    }

    /// [`Job::after`], or `None` when the table has no row for the step.
    pub(crate) fn stepped(mut self, cause: Cause, to: &To, attempt: u16, place: Place) -> Option<TransitionResult> {
        if !is_row(self.state, cause, to) {
            return None;
        }
        self.attempt = attempt;
        self.lost |= matches!(cause, Cause::LeaseExpired | Cause::TimedOut);
        self.set_last(place);
        self.set_until(match to {
            To::Scheduled { at } | To::Retrying { at } => *at,
            To::Active { deadline, .. } => *deadline,
            _ => quire_model::Timestamp::ZERO,
        });
        Some(match to.state() {
            None => TransitionResult::Deleted,
            Some(state) if state.is_finished() => TransitionResult::Finished(state),
            Some(state) => {
                self.state = state;
                TransitionResult::Live(self)
            }
        })
    }
}
