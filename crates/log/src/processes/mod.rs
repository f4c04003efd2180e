//! The processes that have one log open at the same time: the memory they share, the turn to append, and how they wake each other.
//!
//! Reading order: `control` (the shared file), `seat` (which openings are alive), `turn` (the lock of the writer), `hearing` (wake-ups
//! between processes), `listener` (the thread that waits for them).

pub(crate) mod control;
pub(crate) mod hearing;
pub(crate) mod listener;
pub(crate) mod seat;
pub(crate) mod turn;
