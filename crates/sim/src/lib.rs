//! A deterministic world around the database: one seed is one run, bit for bit.
//!
//! ```text
//! seed ─▶ plan ─▶ world: clients, clock, faults ─▶ the database, on a disk that loses and breaks what it is told to
//!                   │                                   │
//!                   └── naive models, a timeline ◀──────┘  after each step: what is there must be what was promised
//! ```
//!
//! The database is the real one, opened through its public interface with the storage, the clock
//! and the background work of the world. It can't detect the difference. `docs/simulation.md`
//! explains the lines of a run.
//!
//! # What is not here
//! Not covered: threads, whose interleavings the tests of the log and the database explore; real
//! time, real disks, real processes.

#[cfg(target_os = "linux")]
mod agreement;
mod book;
mod check;
#[cfg(target_os = "linux")]
mod cluster;
mod disk;
mod naive;
mod panics;
mod plan;
#[cfg(test)]
mod rules;
mod run;
#[cfg(test)]
mod scenario;
mod trace;
mod world;

#[cfg(target_os = "linux")]
pub use agreement::{AgreementReport, agree};
#[cfg(target_os = "linux")]
pub use cluster::{ClusterReport, run_cluster};
pub use panics::keep_quiet;
pub use run::{RunReport, run, shrink, steps};
