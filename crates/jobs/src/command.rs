//! What callers may ask of the queues, and what they are told.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::Timestamp;

use crate::{JobId, JobState, LeaseToken, NewJob, Priority, Refusal};

/// A command of one commit. A later command sees what the earlier ones did to jobs that were there before the commit.
///
/// A refused command refuses its whole commit; [`Command::AckMany`] answers item by item instead.
#[derive(Debug, Clone, Copy)]
pub enum Command<'c> {
    /// Adds a job, and the queue when it is new. Answered by [`Reply::Enqueued`].
    Enqueue {
        /// The queue's name: 1 to 255 bytes of `A-Z a-z 0-9 . _ - /`, no empty segment between slashes.
        queue: &'c str,
        /// The job.
        job: NewJob<'c>,
    },
    /// Leases jobs that may run. Answered by [`Reply::Fetched`], with an empty list when there are none: that costs no
    /// log space. Jobs that the same commit enqueues or fails are not among them.
    Fetch {
        /// The queues, 1 to 64, in strict order: the next is looked at when those before have no more. A queue that
        /// nobody has used yet is empty.
        queues: &'c [&'c str],
        /// At most so many jobs: 1 to 1,024.
        count: u32,
        /// How long the leases last, in microseconds from the time of the record: at least 1, at most 7 days.
        lease_micros: u64,
        /// Who works: shown with the job while it is active, and kept in its history. At most 255 bytes.
        worker: &'c str,
    },
    /// Ends a job as completed. Answered by [`Reply::Acked`].
    Ack {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// What came out, kept in the job's history; may be empty.
        result: &'c [u8],
    },
    /// Ends jobs as completed, each by itself. Answered by [`Reply::AckedMany`].
    AckMany {
        /// The jobs, at most 1,024.
        items: &'c [AckItem<'c>],
    },
    /// Ends an attempt as failed: the job waits for the next, or is dead when this was the last one. Answered by
    /// [`Reply::Failed`].
    Fail {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// What went wrong, kept in the job's history.
        error: &'c str,
        /// When to try again.
        retry: Retry,
    },
    /// Makes a lease last so long from now, be that more or less than before. Answered by [`Reply::Extended`].
    Heartbeat {
        /// The job.
        job: JobId,
        /// The lease that the worker got with it.
        token: LeaseToken,
        /// As in [`Command::Fetch`].
        lease_micros: u64,
    },
    /// Takes in what time has brought: leases that ran out, jobs that may run now; up to 1,024 of them, queue by queue,
    /// the longest due first. Answered by [`Reply::Ticked`]. Costs no log space when nothing is due.
    Tick,
}

/// One job of [`Command::AckMany`].
#[derive(Debug, Clone, Copy)]
pub struct AckItem<'c> {
    /// The job.
    pub job: JobId,
    /// The lease that the worker got with it.
    pub token: LeaseToken,
    /// What came out; may be empty.
    pub result: &'c [u8],
}

/// When a failed job is to be tried again. None of these gives a job more attempts than it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        /// Its id.
        job: JobId,
        /// `Scheduled` or `Pending`.
        state: JobState,
    },
    /// These jobs are the worker's until their deadlines, the most urgent of the first queue first.
    Fetched(Vec<FetchedJob>),
    /// The job is completed.
    Acked,
    /// One answer an item, in order: completed, or why not. A refused item leaves the others alone.
    AckedMany(Vec<Result<(), Refusal>>),
    /// The attempt has failed.
    Failed {
        /// When the next attempt may start; `None` when the job is dead.
        retry_at: Option<Timestamp>,
    },
    /// The lease lasts longer.
    Extended {
        /// From this time on it no longer holds.
        deadline: Timestamp,
    },
    /// Time was taken in.
    Ticked {
        /// How many jobs changed.
        jobs: usize,
        /// Whether more were due: then tick again.
        more: bool,
    },
}

/// A job as its worker gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedJob {
    /// The job.
    pub job: JobId,
    /// Goes with every ack, fail and heartbeat.
    pub token: LeaseToken,
    /// The queue that it comes from.
    pub queue: String,
    /// The name of the handler.
    pub kind: String,
    /// The number of this attempt, from 1.
    pub attempt: u16,
    /// How urgent it is.
    pub priority: Priority,
    /// What the producer gave.
    pub payload: Vec<u8>,
    /// From this time on the lease no longer holds.
    pub deadline: Timestamp,
}
