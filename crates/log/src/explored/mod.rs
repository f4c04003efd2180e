//! The lock-free parts, run by a model checker in every order of their steps: `cargo xtask test --only loom`.
//!
//! ```text
//! turn          whose turn it is, of several processes, of which one dies
//! published     who waits and who publishes, in one process and in two
//! synced        group commit: who syncs for whom, whom a failure reaches, what another process has synced
//! listened      a thread that hears for those who wait what another process does
//! segments      the newest list of segments, and what is published of it
//! asked         what a compaction asks of others, and what they take it for
//! truncated     waiters and syncs beside a truncation
//! time          what readers are told of a clock that is set, and of the records of others
//! ```
//! A test names what holds in all orders with at most so many switches from a thread that could have gone on; a deadlock fails it,
//! too. A run prints nothing of orders: `LOOM_LOG=trace LOOM_LOCATION=1` does.

mod asked;
mod files;
mod listened;
mod process;
mod published;
mod segments;
mod synced;
mod time;
mod truncated;
mod turn;

/// Runs a test in every order with at most `switches` of threads that need not have stopped.
fn in_every_order(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut order = loom::model::Builder::new();
    order.preemption_bound = Some(switches);
    order.max_branches = 20_000;
    order.check(test);
}
