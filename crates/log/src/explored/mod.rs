//! The lock-free parts, run by a model checker in every order of their steps: `cargo xtask test
//! --only loom`.
//!
//! ```text
//! turn                 the turn to append, with several processes, one of which dies
//! publication          waiters and publishers, in one process and in two
//! sync                 group commit: shared syncs, failures, and syncs of another process
//! listener             the thread that waits for other processes on behalf of its process
//! segments             the newest list of segments, and the published position
//! compaction_requests  requests of a compaction to other processes
//! truncation           waiters and syncs during a truncation
//! time                 the time after clock changes and after records of other processes
//! ```
//!
//! A test checks a property in all orders with a limited number of preemptions. A deadlock also
//! fails the test. A run prints no orders by default; `LOOM_LOG=trace LOOM_LOCATION=1` prints them.

mod compaction_requests;
mod files;
mod listener;
mod process;
mod publication;
mod segments;
mod sync;
mod time;
mod truncation;
mod turn;

/// Runs a test in every order with at most `switches` preemptions.
fn in_every_order(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut order = loom::model::Builder::new();
    order.preemption_bound = Some(switches);
    order.max_branches = 20_000;
    order.check(test);
}
