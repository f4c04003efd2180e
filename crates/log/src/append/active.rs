//! The segment to which records are appended: found by recovery, or begun from a prepared file.

use std::sync::Arc;

use quire_mapped::Appender;

use crate::append::prepare::PreparedSegment;
use crate::error::Result;
use crate::segment::{HEADER_BYTES, Segment, SegmentHeader, SegmentIndex, segment_name};
use crate::settings::Durability;
use crate::storage::directory::{Directory, Fill};

/// The segment to which records are appended.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) appender: Appender,
    /// Where the space for records ends: at the end of the segment, unless the disk lacks that
    /// space.
    pub(super) end: usize,
    /// A record of more bytes is written through the file, even in an `os` log.
    pub(crate) in_place_bytes_max: usize,
}

/// Largest record, in bytes, that is written in place. One call for all pages of a record is
/// cheaper than a page fault for each page (0.5 against 2 µs a page on Linux 6.18, ext4). The call
/// costs more than a fault for each huge page.
fn in_place_bytes_max(fill: Fill) -> usize {
    match fill {
        Fill::Written | Fill::Small => fill.piece_bytes(),
        Fill::Huge => usize::MAX,
    }
}

impl Active {
    /// A segment that exists already and takes more records.
    pub(crate) fn found(segment: Arc<Segment>, appender: Appender) -> Self {
        assert!(appender.settled() >= HEADER_BYTES, "records follow the header of their segment");
        let whole = appender.len();
        // The writer that begins the next segment finds and reports the reason for missing disk
        // space.
        let end = if segment.file.is_allocated(whole) { whole } else { appender.settled() };
        Active { segment, appender, end, in_place_bytes_max: in_place_bytes_max(Fill::Small) }
    }

    /// Gives a prepared file of zeros its header and its name.
    ///
    /// # Errors
    /// The errors of the system.
    pub(crate) fn begin(
        prepared: PreparedSegment,
        header: &SegmentHeader,
        durability: Durability,
        directory: &Directory,
    ) -> Result<Self> {
        assert_eq!(prepared.bytes, header.bytes, "the header states the length of the file");
        assert!(header.compacted.is_none(), "a segment is compacted after it is sealed");
        let mut appender = prepared.appender;
        match durability {
            Durability::Os => appender.bytes_mut(0..HEADER_BYTES).copy_from_slice(&header.encode()),
            Durability::Sync => prepared.file.write_at(0, &header.encode())?,
        }
        appender.settle(HEADER_BYTES);
        let name = segment_name(header.first);
        // Commit point: from here on the segment is the last one of the log, and empty.
        directory.rename(&prepared.name, &name)?;
        let index = SegmentIndex::new(header.first, header.identity.seed());
        let file = prepared.file.named(directory.path_of(&name));
        let segment = Arc::new(Segment::new(header.first, file, appender.view(), index));
        let end = appender.len();
        Ok(Active { segment, appender, end, in_place_bytes_max: in_place_bytes_max(prepared.fill) })
    }
}
