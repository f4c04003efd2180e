//! Job queues with fenced leases, as a model: which jobs may run, which worker holds each and until
//! when, and how each ended.
//!
//! ```text
//! Command ─▶ decide ─▶ steps of jobs (one table, one function), edits, settings of queues ─▶ apply ─▶ indexes of the queues
//!              │ draft: what the earlier commands of the commit did
//!              ▼
//!            Reply                  payloads, results, errors and history stay in the log; ids, times and priorities in memory
//! ```
//!
//! * A [`JobId`] is the place of the job's enqueue entry, a [`LeaseToken`] the place of the entry
//!   that granted the lease. A late ack, fail or heartbeat carries an old token and is refused with
//!   [`Refusal::StaleLease`].
//! * [`Command`]s of one commit are decided together; [`Jobs`] is the state, and the reads are its
//!   methods. The same function decides a command alone, in a [`Command::Each`] and in a commit
//!   with others.
//! * Every change of a job's state is a step, and every step is a row of the table in
//!   `docs/jobs.md`. Decide and apply both use that table.
//! * Within a queue the greater [`Priority`] goes first, then the group that was served longest
//!   ago, then the older job. A retried job keeps its place. A job that waits for its time never
//!   blocks the jobs after it.
//! * An attempt ends by ack, by fail, by its lease running out or by its timeout; each counts, so a
//!   job whose workers die ends in `dead` too. After a failure it waits (`retrying`) for its
//!   [`Backoff`]. When a lease or a timeout runs out for the first time, the job may be fetched at
//!   once, because the lease was the wait. From the second time on it waits for its backoff too.
//! * Time passes only in commands. A fetch first applies the changes that time brought to its
//!   queues; [`Command::Tick`] does so for all queues, and [`Jobs::next_due`] returns when the next
//!   tick is useful. An ack, fail or heartbeat with an expired lease is refused even before any
//!   command has noticed the expiry.
//! * The entries of a queue are its life-cycle events ([`LifeEvent`]), numbered without gaps: no
//!   second log of the changes exists.
//!
//! # Example
//!
//! The database drives a model as the tests' [`World`](quire_model::memory::World) does: decide,
//! append, apply.
//!
//! ```
//! use quire_jobs::{Command, Jobs, JobSpec, Order, Reply};
//! use quire_model::{Timestamp, memory::World};
//!
//! let mut world = World::<Jobs>::new();
//! let now = Timestamp::from_millis(1_000);
//! let job = JobSpec { kind: "notify", ..JobSpec::new(b"{\"plane\":\"N14228\"}") };
//! world.commit(now, &[Command::Enqueue { queue: "air/delays", job }]).unwrap();
//!
//! let fetch = Command::Fetch {
//!     queues: &["air/delays"], order: Order::Strict, count: 1, lease_micros: 30_000_000, worker: "w1",
//! };
//! let Reply::Fetched(jobs) = &world.commit(now, &[fetch]).unwrap()[0] else { unreachable!() };
//! let (job, token) = (jobs[0].job, jobs[0].token);
//! assert_eq!((job.to_string().as_str(), token.to_string().as_str()), ("1-1", "2-0"));
//!
//! world.commit(now, &[Command::Ack { job, token, result: b"" }]).unwrap();
//! assert_eq!(world.model.queue_stats("air/delays").unwrap().completed, 1);
//! ```
//!
//! # In memory
//!
//! A live job takes 36 bytes and its places in the indexes, whatever its payload. A job with a key,
//! an expiry, a running timeout or a heartbeat takes more. A dead job takes its id. Another
//! finished job takes nothing once its end is in the log, or 32 bytes during its retention.
//!
//! Not here: workflows, schedules that repeat, webhooks.

#![no_std]

extern crate alloc;

// The vocabulary.
mod backoff;
mod cause;
mod cursor;
mod filter;
mod id;
mod job_state;
mod name;
mod settings;
mod spec;

mod command;
mod refusal;

// Entries as bytes.
mod codec;
#[cfg(test)]
mod codec_tests;
mod reply_codec;

// The state.
mod bulk;
#[cfg(test)]
mod cleared_tests;
mod job;
mod ordered;
mod queue;
mod state;

// In the order of a write, then of a read.
mod touches;

mod decide;

mod applicable;
mod apply;
mod checkpoint;
mod equality;
mod survival;

mod read;

mod model;

pub use backoff::{BACKOFF_FIRST_MICROS, BACKOFF_MAX_MICROS, Backoff};
pub use bulk::BulkProgress;
pub use cause::Cause;
pub use command::{Change, Command, FetchedJob, Order, Reply, Retry};
pub use cursor::{Cursor, ParseCursorError};
pub use filter::{Filter, States};
pub use id::{BulkId, JobId, LeaseToken, ParseIdError};
pub use job_state::JobState;
pub use queue::QueueStats;
pub use read::{
    BulkOrigin, HistoryPage, JobEvent, JobPage, JobView, LifeEvent, LifeFilter, LifeProgress, LifeReading, QueueEntry,
    QueueLog, SEARCH_LOOKED_AT_MAX, Status, Transition,
};
pub use refusal::{JobLimit, Refusal};
pub use settings::{QueueChange, QueueSettings, Rate};
pub use spec::{ATTEMPTS_MAX_DEFAULT, Clash, JobSpec, Priority, Unique, UniqueHold, UniqueScope};
pub use state::Jobs;
