//! The life-cycle events of queues: the log's entries in order, as one event for each job that a
//! step changed.
//!
//! ```text
//! entry under a queue's tag ─▶ event: one for each number that the entry took ─▶ reading: filtered, from a cursor on
//!                                                                             └▶ log of one queue: by number
//! ```
//!
//! There is no second log and no state: the entries that make the state are the events. Events
//! therefore have the durability, order and retention of the entries. A queue's events are numbered
//! from 0, without gaps except for deleted events.

mod event;
mod numbered;
mod reading;

pub use event::LifeEvent;
pub use numbered::QueueLog;
pub use reading::{LifeFilter, LifeProgress, LifeReading};
