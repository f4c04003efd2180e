//! Looking at the files of a shard without opening the log: whoever has it open goes on, and no file is changed.
//!
//! ```text
//! Survey: which files there are ─▶ SegmentFile: one in memory, record by record ─▶ verify: all of them, in order, against each other
//! ```
//! A file is read as it was at some moment. What is appended meanwhile is behind the tail that was known at the beginning,
//! so it is never taken for damage. One segment is held in memory at a time.

mod finding;
mod segment;
mod survey;
mod unpacked;
mod verify;

pub use finding::{Finding, Part, Severity};
pub use segment::{Record, SegmentFile, Stretch};
pub use survey::{FileKind, Survey, SurveyedFile, identity_of};
pub use verify::{Totals, Watcher, verify};

pub use crate::durable::checkpoint::read as read_checkpoint;
pub use crate::sealed::{IndexFile, NumberedTag};
