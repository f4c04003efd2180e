//! The segments of a log, for reports.

use quire_model::{Place, Position, Timestamp};

use super::{Log, LogCore};
use crate::error::Result;
use crate::sealed::SealedSegment;
use crate::segment::{COMPACTED_HEADER_BYTES, Segment, SegmentHeader, segment_name};

/// The stages of a segment, in the order in which a segment goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentStage {
    /// It takes records.
    Active,
    /// It is full, and has no index file yet.
    Full,
    /// It has an index file, and never changes.
    Sealed,
    /// A compaction rewrote it.
    Compacted,
    /// A compaction rewrote and compressed it.
    Packed,
}

impl SegmentStage {
    /// Returns the name, for example `sealed`.
    pub const fn name(self) -> &'static str {
        match self {
            SegmentStage::Active => "active",
            SegmentStage::Full => "full",
            SegmentStage::Sealed => "sealed",
            SegmentStage::Compacted => "compacted",
            SegmentStage::Packed => "packed",
        }
    }
}

/// A segment of the log, with its published records. See [`Log::segments`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The position of its first record, which names its files.
    pub first: Position,
    /// The position after its last record.
    pub end: Position,
    /// The time of its last record; `None` without records.
    pub last_time: Option<Timestamp>,
    /// Its stage.
    pub stage: SegmentStage,
    /// The records that are left in it.
    pub records: u64,
    /// The entries that are left in it.
    pub entries: u64,
    /// The name of its file.
    pub file: String,
    /// The bytes of its file. An active segment has its full length from the beginning. `None` when
    /// the file is missing.
    pub bytes: Option<u64>,
    /// The bytes of its index file; 0 while it has none.
    pub index_bytes: u64,
}

impl Log {
    /// Returns the segments, in the order of the log.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when a file can't be read, and
    /// [`Error::Damaged`](crate::Error::Damaged) for a damaged header.
    pub fn segments(&self) -> Result<Vec<SegmentSummary>> {
        let shared = self.shared();
        let (published, segments) = shared.newest.published(&shared.gate);
        let mut all = Vec::with_capacity(segments.len());
        for sealed in &*segments.sealed {
            all.push(sealed_summary(shared, sealed)?);
        }
        for (number, live) in segments.live.iter().enumerate() {
            let is_active = number + 1 == segments.live.len();
            let stage = if is_active { SegmentStage::Active } else { SegmentStage::Full };
            all.push(live_summary(live, stage, published, shared.settings.segment_bytes));
        }
        Ok(all)
    }
}

fn sealed_summary(shared: &LogCore, sealed: &SealedSegment) -> Result<SegmentSummary> {
    let (header, file) = (&sealed.header, segment_name(sealed.first()));
    let path = shared.directory.path_of(&file);
    let found = shared.directory.read_head(&file, COMPACTED_HEADER_BYTES).and_then(|head| {
        let of = SegmentHeader::decode(&head, &path, shared.identity)?;
        Ok((of.compacted, shared.directory.bytes_of(&file)?))
    });
    let (compacted, bytes) = match found {
        Ok((compacted, bytes)) => (compacted, Some(bytes)),
        Err(error) if error.is_missing() => (None, None),
        Err(error) => return Err(error),
    };
    let stage = match compacted {
        Some(compacted) if compacted.packed.is_some() => SegmentStage::Packed,
        _ if header.compacted => SegmentStage::Compacted,
        _ => SegmentStage::Sealed,
    };
    Ok(SegmentSummary {
        first: header.first,
        end: header.end,
        last_time: (header.first < header.end).then_some(header.time),
        stage,
        records: header.records.into(),
        entries: header.entries.into(),
        file,
        bytes,
        index_bytes: header.file_bytes(),
    })
}

/// Returns the summary of a segment whose index is in memory, up to the published record.
fn live_summary(live: &Segment, stage: SegmentStage, published: Position, bytes: u64) -> SegmentSummary {
    let (end, entries) = {
        let index = live.index();
        let end = index.end().min(published.next()).max(live.first);
        (end, index.ordinal_at(Place::new(end, 0)))
    };
    let last = Position::new(end.get() - 1);
    SegmentSummary {
        first: live.first,
        end,
        last_time: live.record(last).map(|record| record.header.time),
        stage,
        records: end.get() - live.first.get(),
        entries: entries.into(),
        file: segment_name(live.first),
        bytes: Some(bytes),
        index_bytes: 0,
    }
}
