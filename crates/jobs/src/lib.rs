//! Job queues with fenced leases, as a model: what may run, who holds it until when, and how it ended.
//!
//! ```text
//! Enqueue ─┐
//! Fetch ───┤            Enqueued ──────▶ payload stays in the log; ids, times and priority in memory
//! Ack ─────┼─ decide ─▶ Leased ────────▶ its place is the lease token
//! Fail ────┤  (draft)   Completed ─────▶ the job leaves memory; its history is the walk over its id's tag
//! Tick ────┘            Failed, Expired, Due, Extended
//! ```
//!
//! * A [`JobId`] is the place of the job's enqueue entry, a [`LeaseToken`] the place of the entry that granted the
//!   lease. A late ack, fail or heartbeat carries an old token and is refused with [`Refusal::StaleLease`].
//! * [`Command`]s are decided together for one commit; [`Jobs`] is the state, and the reads are its methods.
//! * Within a queue the greater [`Priority`] goes first, then the older job. A retried job keeps its place. A job that
//!   may not run yet never hides one that may.
//! * An attempt ends by ack, by fail, or by its lease running out; each counts, so a job whose workers die ends in
//!   `dead` too. After a failure it waits (`retrying`) for its [`Backoff`]; after a lease ran out it may be fetched at
//!   once, for the lease was the wait.
//! * Time passes only in commands. A fetch first takes in what time has brought to the queues that it names;
//!   [`Command::Tick`] does so for all, and [`Jobs::next_due`] says when the next one is worth while. An ack, fail or
//!   heartbeat whose lease has run out is refused even when nothing has noticed yet.
//!
//! # Example
//!
//! The database drives a model as the tests' [`World`](quire_model::memory::World) does: decide, append, apply.
//!
//! ```
//! use quire_jobs::{Command, Jobs, NewJob, Reply};
//! use quire_model::{Timestamp, memory::World};
//!
//! let mut world = World::<Jobs>::new();
//! let now = Timestamp::from_millis(1_000);
//! let job = NewJob { kind: "notify", ..NewJob::new(b"{\"plane\":\"N14228\"}") };
//! world.commit(now, &[Command::Enqueue { queue: "air/delays", job }]).unwrap();
//!
//! let fetch = Command::Fetch { queues: &["air/delays"], count: 1, lease_micros: 30_000_000, worker: "w1" };
//! let Reply::Fetched(jobs) = &world.commit(now, &[fetch]).unwrap()[0] else { unreachable!() };
//! let (job, token) = (jobs[0].job, jobs[0].token);
//! assert_eq!((job.to_string().as_str(), token.to_string().as_str()), ("1-1", "2-0"));
//!
//! world.commit(now, &[Command::Ack { job, token, result: b"" }]).unwrap();
//! assert_eq!(world.model.queue_stats("air/delays").unwrap().completed, 1);
//! ```
//!
//! # Transitions
//!
//! Every event that has no row leaves a job as it is: a lease command is refused, a fetch passes it by.
//!
#![doc = include_str!("transitions.md")]
//!
//! # In memory
//!
//! A live job takes about 200 bytes, whatever its payload. A completed job takes none. A dead one keeps its id,
//! so that dead letters can be listed without a walk: this set has no bound but what users leave in it.
//!
//! Not here: unique keys, pausing, limits, cancelling, holding, workflows.

#![no_std]

extern crate alloc;

mod id;
mod spec;

mod command;
mod refusal;

mod codec;
#[cfg(test)]
mod codec_tests;
mod name;

mod decide;
mod draft;
mod transition;

mod apply;
mod checkpoint;
mod queue;
mod state;
mod survival;

mod history;
mod list;
mod view;

pub use command::{AckItem, Command, FetchedJob, Reply, Retry};
pub use history::{Failure, Transition, TransitionKind};
pub use id::{JobId, LeaseToken, ParseIdError};
pub use list::{LIST_SCAN_MAX, Page};
pub use refusal::{Limit, Refusal};
pub use spec::{ATTEMPTS_MAX_DEFAULT, Backoff, NewJob, Priority};
pub use state::{JobState, Jobs, QueueStats};
pub use view::{JobView, Status};
