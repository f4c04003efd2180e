//! A deterministic world around the database: one seed is one run, bit for bit.
//!
//! ```text
//! seed ─▶ plan ─▶ world: clients, clock, faults ─▶ the database, on a disk that loses and breaks what it is told to
//!                   │                                   │
//!                   └── naive models, a timeline ◀──────┘  after each step: what is there must be what was promised
//! ```
//!
//! The database is the real one, opened through its public interface with a storage, a clock and a background of the world's:
//! it can't tell. What the lines of a run mean stands in `docs/simulation.md`.
//!
//! # What is not here
//! Threads: what they could interleave is for the tests of the log and the database. Real time, real disks, real processes.

mod book;
mod check;
mod disk;
mod naive;
mod panics;
mod plan;
mod run;
#[cfg(test)]
mod scenario;
mod trace;
mod world;

pub use panics::keep_quiet;
pub use run::{Report, run, shrink, steps};
