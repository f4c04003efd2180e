//! Quire for Python: the module `quire._quire`, which the package `quire` shows to its users.
//!
//! Every call of the database releases the interpreter's lock, and no thread of the database takes
//! it: a thread that holds the interpreter's lock never waits for a lock of the database. The
//! package's stubs describe each class; `docs/python.md` has the conventions.

mod asyncio;
mod commit;
mod consumer;
mod database;
mod errors;
mod events;
mod graph;
mod held;
mod home;
mod jobs;
mod pieces;
mod pool;
mod query;
mod replies;
mod served;
mod sql;
mod topic;
mod values;
mod wait;
mod worker;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _quire {
    #[pymodule_export]
    use super::commit::Commit;
    #[pymodule_export]
    use super::consumer::{Consumer, Delivery};
    #[pymodule_export]
    use super::database::{Database, connect, open};
    #[pymodule_export]
    use super::events::{Event, EventStore, Events, Subscription};
    #[pymodule_export]
    use super::graph::{Block, Graph, Neighbour, Visit};
    #[pymodule_export]
    use super::held::forked;
    #[pymodule_export]
    use super::jobs::{Job, Queue};
    #[pymodule_export]
    use super::query::{Condition, NewEvent, Query, fail_if_matches, last_is};
    #[pymodule_export]
    use super::replies::{AppendResult, CommitResult, EnqueueResult, ProduceResult, PutResult};
    #[pymodule_export]
    use super::sql::Rows;
    #[pymodule_export]
    use super::topic::{Record, Records, Topic};
    #[pymodule_export]
    use super::worker::{Fail, Snooze, Worker};
}
