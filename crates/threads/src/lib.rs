//! Synchronization primitives: atomics and fences, locks, conditions, and a word to sleep on; and a
//! lock at which no thread starves, made of them.
//!
//! ```text
//! ordinary build      system      std's own types and the kernel's futex: nothing is wrapped that runs often
//! --cfg loom          explored    those of loom, a model checker: a test of them is run in every order that the memory model allows
//! ```
//! The model checker therefore explores the code that runs, not a model of it. In a build with
//! `--cfg loom` only those tests work.
//!
//! # What is explored
//! * Loom treats sequentially consistent accesses as weaker ones
//!   ([loom#180](https://github.com/tokio-rs/loom/issues/180)) and would report impossible results.
//!   Here a fence precedes each of them, as compilers emit it for processors whose only strong
//!   instruction is a fence. An order that neither the fence nor another access promises is still
//!   broken.
//! * Time does not pass: a sleep with a timeout ends only when another thread wakes the sleeper.
//!   Code that is correct only because a thread polls again after a while is reported as a
//!   deadlock. A sleep on a [`Futex`] with a timeout may end at any moment, so the code after it is
//!   explored too.
//! * There are no spurious wake-ups. They find few defects and multiply the number of orders.

#[cfg(loom)]
mod explored;
mod fair;
#[cfg(not(loom))]
mod system;

#[cfg(loom)]
pub use explored::*;
#[cfg(not(loom))]
pub use system::*;

pub use fair::FairRwLock;
