//! The position of a scan over the log's entries: of a search, or of a reading of life-cycle
//! events.

use core::fmt;
use core::str::FromStr;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position};

use crate::JobId;
use crate::codec::{read_id, write_id};

/// The point at which a search or a reading continues. Written `position-index-item`; valid for the
/// same filter only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// An entry of the log.
    pub(crate) place: Place,
    /// The number of scanned items of that entry: jobs that it enqueues or finishes, or events.
    pub(crate) items: u32,
}

/// A text that is not `position-index-item`, three plain decimal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseCursorError;

impl Cursor {
    /// Before everything.
    pub const START: Cursor = Cursor { place: Place::START, items: 0 };

    /// The cursor after the record at this position. A reading of life-cycle events from there
    /// returns later events only.
    pub const fn behind(position: Position) -> Self {
        Cursor { place: Place::new(Position::new(position.get().saturating_add(1)), 0), items: 0 }
    }

    /// Whether it lies after every possible place in a log that ends at this position. No response
    /// contains such a cursor.
    pub fn is_ahead_of(self, position: Position) -> bool {
        self > Cursor::behind(position)
    }

    pub(crate) fn write(self, out: &mut Encoder) {
        write_id(self.place, out);
        out.varint(u64::from(self.items));
    }

    pub(crate) fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Cursor { place: read_id(from)?, items: from.varint_u32()? })
    }
}

impl From<JobId> for Cursor {
    /// After this job, in a search ordered by id.
    fn from(job: JobId) -> Self {
        Cursor { place: job.place(), items: 1 }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", JobId::new(self.place), self.items)
    }
}

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let (place, items) = text.rsplit_once('-').ok_or(ParseCursorError)?;
        let place = place.parse::<JobId>().map_err(|_| ParseCursorError)?.place();
        Ok(Cursor { place, items: items.parse().map_err(|_| ParseCursorError)? })
    }
}

impl fmt::Display for ParseCursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected position-index-item, such as 4711-0-1, as an answer gave it")
    }
}

impl core::error::Error for ParseCursorError {}
