//! The commands for queues and jobs, and the replies.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::Timestamp;

use crate::{BulkId, Filter, JobId, JobSpec, JobState, LeaseToken, Priority, QueueChange, Refusal};

/// A command of one commit. A later command sees the effects of earlier ones.
///
/// A refused command refuses its whole commit; those in [`Command::Each`] are answered one by one
/// instead.
#[derive(Debug, Clone, Copy, Hash)]
pub enum Command<'c> {
    /// Adds a job, and the queue when it is new. Answered by [`Reply::Enqueued`].
    Enqueue {
        /// The queue's name: 1 to 255 bytes of `A-Z a-z 0-9 . _ - /`, no empty segment between
        /// slashes.
        queue: &'c str,
        /// The job.
        job: JobSpec<'c>,
    },
    /// Leases jobs that may run. Answered by [`Reply::Fetched`], with an empty list when there are
    /// none; an empty fetch takes no log space. Jobs that earlier commands of the same commit made
    /// pending are not returned. Jobs that became pending by time are.
    Fetch {
        /// The queues, 1 to 64. An unknown queue counts as empty.
        queues: &'c [&'c str],
        /// The order in which the queues are used.
        order: Order<'c>,
        /// The maximum number of jobs: 1 to 1,024.
        count: u32,
        /// The duration of the leases, in microseconds from the time of the record: at least 1, at
        /// most 7 days. A job's own timeout may end it before.
        lease_micros: u64,
        /// The name of the worker, which is shown with the job while it is active, and kept in its
        /// history. At most 255 bytes.
        worker: &'c str,
    },
    /// Ends a job as completed. Answered by [`Reply::Acked`].
    Ack {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// The result, kept in the job's history; may be empty.
        result: &'c [u8],
    },
    /// Ends an attempt as failed: the job waits for the next, or is dead when this was the last
    /// one. Answered by [`Reply::Failed`].
    Fail {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// The error message, kept in the job's history.
        error: &'c str,
        /// When to try again.
        retry: Retry,
    },
    /// Gives a job back for later; the attempt does not count. Answered by [`Reply::Snoozed`].
    Snooze {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// When it may run again; at once when that is past.
        until: Timestamp,
    },
    /// Sets the lease to end this long from now, earlier or later than before, and keeps the
    /// progress and the checkpoint. Answered by [`Reply::Extended`].
    Heartbeat {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// The new duration, as in [`Command::Fetch`]; `None` leaves the lease as it is.
        lease_micros: Option<u64>,
        /// The progress of the attempt, for people: at most 64 KiB. `None` leaves the last
        /// progress.
        progress: Option<&'c [u8]>,
        /// The checkpoint for the next attempt: at most 1 MiB. `None` leaves the last checkpoint.
        checkpoint: Option<&'c [u8]>,
    },
    /// Changes a job that this caller does not hold. Answered by [`Reply::Changed`].
    Change {
        /// The job.
        job: JobId,
        /// How.
        change: Change<'c>,
    },
    /// Changes the settings of a queue, and creates it when it is new. Answered by
    /// [`Reply::QueueSet`].
    SetQueue {
        /// The queue.
        queue: &'c str,
        /// How.
        change: QueueChange,
    },
    /// Cancels every job of a queue that is not being worked on. Answered by [`Reply::Cleared`].
    Clear {
        /// The queue.
        queue: &'c str,
    },
    /// Removes a queue with its settings, and cancels all its jobs; late acks are refused. Answered
    /// by [`Reply::Cleared`].
    Destroy {
        /// The queue.
        queue: &'c str,
    },
    /// Begins to change every job that a filter matches now. [`Command::Tick`] does the work, a
    /// bounded part per commit, and resumes after a crash. Answered by [`Reply::BulkBegun`].
    Bulk {
        /// The jobs to change.
        filter: Filter<'c>,
        /// How.
        change: Change<'c>,
    },
    /// Runs each command on its own: a refused command does not affect the others. At most 1,024,
    /// none of them an `Each`. Answered by [`Reply::Each`].
    Each(&'c [Command<'c>]),
    /// Applies the passage of time: expired leases, jobs that may run now, and expired jobs. One
    /// tick applies up to 1,024 of them, queue by queue, the longest due first. It also advances
    /// bulk changes. Answered by [`Reply::Ticked`]. Costs no log space when nothing is due.
    Tick,
}

impl Command<'_> {
    /// The job that the command names.
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Command::Ack { job, .. }
            | Command::Fail { job, .. }
            | Command::Snooze { job, .. }
            | Command::Heartbeat { job, .. }
            | Command::Change { job, .. } => Some(job),
            Command::Enqueue { .. }
            | Command::Fetch { .. }
            | Command::SetQueue { .. }
            | Command::Clear { .. }
            | Command::Destroy { .. }
            | Command::Bulk { .. }
            | Command::Each(_)
            | Command::Tick => None,
        }
    }

    /// Whether the command only removes data. A full disk keeps some space for such commands.
    pub fn frees_space(&self) -> bool {
        match self {
            // A result is kept.
            Command::Ack { result, .. } => result.is_empty(),
            Command::Clear { .. } | Command::Destroy { .. } => true,
            Command::Change { change, .. } | Command::Bulk { change, .. } => {
                matches!(change, Change::Cancel { .. } | Change::Delete)
            }
            Command::Each(each) => each.iter().all(Command::frees_space),
            Command::Enqueue { .. }
            | Command::Fetch { .. }
            | Command::Fail { .. }
            | Command::Snooze { .. }
            | Command::Heartbeat { .. }
            | Command::SetQueue { .. }
            | Command::Tick => false,
        }
    }
}

/// The order in which a fetch takes from several queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order<'c> {
    /// In the given order: a queue is used when the earlier ones have no more jobs.
    Strict,
    /// In random order, the same in every replay: a queue of weight 3 goes first three times as
    /// often as one of weight 1. One weight for each queue, each at least 1.
    Weighted(&'c [u32]),
}

/// A change of a job by a client that does not hold its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change<'c> {
    /// Ends an unfinished job as cancelled. Later requests of its worker are refused.
    Cancel {
        /// Why, kept in its history; at most 1,024 bytes.
        reason: &'c str,
    },
    /// Keeps a waiting job from being fetched until it is released.
    Hold {
        /// Why, kept in its history; at most 1,024 bytes.
        reason: &'c str,
    },
    /// Makes a held job pending.
    Release,
    /// Changes when a scheduled, pending or retrying job runs; at once when the time is past.
    Reschedule {
        /// When.
        run_at: Timestamp,
    },
    /// Makes a dead job pending again, with all its attempts before it.
    Retry {
        /// Another payload than before.
        payload: Option<&'c [u8]>,
    },
    /// Removes a job in any state. Later requests of its worker are refused.
    Delete,
    /// Puts an unfinished job into another queue, which is created when it is new. Its state and
    /// its lease stay.
    Move {
        /// The other queue.
        queue: &'c str,
    },
    /// Gives an unfinished job another priority.
    Priority(Priority),
    /// Gives an unfinished job another number of attempts.
    AttemptsMax(u16),
    /// Gives a job that waits another payload.
    Payload(&'c [u8]),
}

/// When to retry a failed job. No choice gives a job more attempts than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// After its backoff.
    Backoff,
    /// At this time; at once when it is past.
    At(Timestamp),
    /// Never: the job is dead.
    Never,
}

/// The answer to an accepted command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The job is in the queue.
    Enqueued {
        /// Its id; of a duplicate, that of the job that has the key.
        job: JobId,
        /// The state that it is in.
        state: JobState,
        /// Whether another job has the key, so that this one was not enqueued.
        duplicate: bool,
    },
    /// These jobs are the worker's until their deadlines, the most urgent of the first queue first.
    Fetched(Vec<FetchedJob>),
    /// The job is completed.
    Acked,
    /// The attempt has failed.
    Failed {
        /// When the next attempt may start; `None` when the job is dead.
        retry_at: Option<Timestamp>,
    },
    /// The job is given back.
    Snoozed {
        /// When it may run again.
        until: Timestamp,
    },
    /// The lease holds.
    Extended {
        /// The time at which the lease ends.
        deadline: Timestamp,
    },
    /// The job is changed.
    Changed {
        /// The state that it is in; `None` when it is deleted.
        state: Option<JobState>,
    },
    /// The queue is changed.
    QueueSet,
    /// Jobs were cancelled.
    Cleared {
        /// The number of jobs.
        jobs: u64,
    },
    /// A bulk change has begun.
    BulkBegun {
        /// Its name: see [`Jobs::bulk`](crate::Jobs::bulk).
        bulk: BulkId,
    },
    /// One answer a command, in order.
    Each(Vec<Result<Reply, Refusal>>),
    /// The changes that time brought are applied.
    Ticked {
        /// The number of changed jobs.
        jobs: usize,
        /// Whether there is more to do: then tick again.
        more: bool,
    },
}

/// A job as its worker gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedJob {
    /// The job.
    pub job: JobId,
    /// The token for every ack, fail, snooze and heartbeat of this lease.
    pub token: LeaseToken,
    /// The queue of the job.
    pub queue: Arc<str>,
    /// The name of the handler.
    pub kind: String,
    /// The job's group; see [`JobSpec::group`].
    pub group: String,
    /// The number of this attempt, from 1.
    pub attempt: u16,
    /// The largest number of attempts.
    pub attempts_max: u16,
    /// The priority.
    pub priority: Priority,
    /// The payload that the producer gave.
    pub payload: Vec<u8>,
    /// The last checkpoint that a heartbeat of an earlier attempt stored.
    pub checkpoint: Option<Vec<u8>>,
    /// The time at which the lease ends.
    pub deadline: Timestamp,
    /// The time beyond which no heartbeat extends the lease: the end of the job's timeout.
    pub run_until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use quire_model::{Place, Position};

    use super::*;

    #[test]
    fn only_what_keeps_nothing_new_frees_space() {
        let clear = Command::Clear { queue: "q" };
        let place = Place::new(Position::new(1), 0);
        assert!(clear.frees_space() && !Command::Tick.frees_space());
        assert!(Command::Each(&[clear, clear]).frees_space());
        assert!(!Command::Each(&[clear, Command::Tick]).frees_space());
        let ack = |result| Command::Ack { job: JobId::new(place), token: LeaseToken::new(place), result };
        assert!(ack(b"").frees_space() && !ack(b"what came out").frees_space());
    }
}
