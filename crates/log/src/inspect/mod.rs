//! Inspection of the files of a shard without opening the log. It changes no file and does not
//! disturb processes that have the log open.
//!
//! ```text
//! Survey: list of files ─▶ InspectedSegment: one segment in memory, record by record
//!        ─▶ verify: all segments in order
//! ```
//!
//! Each file is read at one moment. Records appended during verification lie after the tail that
//! was read first, so they are never reported as damage. One segment is held in memory at a time.

mod finding;
mod segment;
mod survey;
mod unpacked;
mod verify;

pub use finding::{Finding, LogPart, Severity};
pub use segment::{InspectedRecord, InspectedSegment, Stretch};
pub use survey::{FileKind, Survey, SurveyedFile, identity_of};
pub(crate) use unpacked::{UnpackError, UnpackedSegment};
pub use verify::{Totals, Watcher, verify};

pub use crate::durable::checkpoint::read as read_checkpoint;
pub use crate::sealed::{IndexFile, NumberedTag};
