//! The processes that have one log open at the same time: their shared memory, the turn to append,
//! and their wake-ups.
//!
//! Reading order: `control` (the shared file), `seat` (the live openings), `turn` (the writer
//! lock), `wakeups` (wake-ups between processes), `listener` (the thread that waits for wake-ups).

pub(crate) mod control;
pub(crate) mod listener;
pub(crate) mod seat;
pub(crate) mod turn;
pub(crate) mod wakeups;
