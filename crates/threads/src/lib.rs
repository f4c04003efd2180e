//! What threads meet at: atomics and fences, locks, conditions, and a word to sleep on.
//!
//! ```text
//! ordinary build      system      std's own types and the kernel's futex: nothing is wrapped that runs often
//! --cfg loom          explored    those of loom, a model checker: a test of them is run in every order that the memory model allows
//! ```
//! So what is explored is the code that runs, and not a model of it. In a build with `--cfg loom` nothing but such tests works.
//!
//! # What is explored
//! * Loom takes sequentially consistent accesses for weaker ones ([loom#180](https://github.com/tokio-rs/loom/issues/180)) and would report
//!   what can't happen. Here a fence goes before each of them, as a compiler has it for processors whose only strong instruction is a
//!   fence: one way to make them what they are to be. An order that neither they nor another access promises is still broken.
//! * Time does not pass: a sleep with an end ends only when somebody wakes the sleeper. What is right only because somebody looks again
//!   after a while is a deadlock, and reported. That on a [`Futex`] may end at any moment: it is for what somebody is to do then.
//! * Nobody wakes for no reason; that does the code little harm, and the number of orders much.

#[cfg(loom)]
mod explored;
#[cfg(not(loom))]
mod system;

#[cfg(loom)]
pub use explored::*;
#[cfg(not(loom))]
pub use system::*;
