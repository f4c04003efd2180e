//! A segment in memory, read record by record, even when it is damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_model::{Entry, Position, Timestamp};

use super::unpacked::{UnpackError, UnpackedSegment};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::{Mark, Term};
use crate::record::{ALIGNMENT, RecordFault, RecordKind, RecordView};
use crate::recovery::{bytes_before_zeros, find_record};
use crate::sealed::build;
use crate::segment::{COMPACTED_HEADER_BYTES, HEADER_BYTES, SegmentHeader};
use crate::storage::Storage;
use crate::storage::directory::{Directory, folder_of};

/// A segment whose header verified.
#[derive(Debug)]
pub struct InspectedSegment {
    path: PathBuf,
    header: SegmentHeader,
    bytes: Vec<u8>,
    /// The unpacked records of a packed segment.
    unpacked: Option<UnpackedSegment>,
}

/// A record with a valid checksum.
#[derive(Debug, Clone, Copy)]
pub struct InspectedRecord<'s> {
    /// The offset of the record in its file. In a packed segment, the offset in the unpacked bytes.
    pub offset: u64,
    pub(crate) view: RecordView<'s>,
}

/// A part of a segment.
#[derive(Debug)]
pub enum Stretch<'s> {
    /// A record that verifies and continues the chain.
    Record(InspectedRecord<'s>),
    /// Damaged bytes in place of the next record.
    Damaged {
        /// The offset of the first damaged byte.
        offset: u64,
        /// The position of the expected record.
        position: Position,
        /// A description of the damage.
        message: String,
        /// The offset and position of the next record that verifies; `None` when this file has
        /// none.
        next: Option<(u64, Position)>,
        /// Whether an interrupted write can explain the damage.
        torn: bool,
    },
    /// The end of the records.
    End {
        /// The offset of the end.
        offset: u64,
        /// The number of bytes from here to the last byte that is not zero. An unfinished commit
        /// left them.
        dirty: u64,
    },
}

impl InspectedRecord<'_> {
    /// Returns the position of the record.
    pub fn position(&self) -> Position {
        self.view.header.position
    }

    /// Returns the time of the append.
    pub fn time(&self) -> Timestamp {
        self.view.header.time
    }

    /// Returns the length in bytes, header and padding included.
    pub fn length(&self) -> u32 {
        self.view.header.length
    }

    /// Returns the mark of the record: position, term and checksum.
    pub fn mark(&self) -> Mark {
        self.view.header.mark()
    }

    /// Returns the checksum of the preceding record, as stored in this record.
    pub fn previous(&self) -> u32 {
        self.view.header.previous
    }

    /// Whether a compaction reduced this record.
    pub fn is_remains(&self) -> bool {
        self.view.kind() == RecordKind::Remains
    }

    /// Returns the number of entries.
    pub fn entry_count(&self) -> u32 {
        self.view.header.entries
    }
}

impl<'s> InspectedRecord<'s> {
    /// Returns the entries in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'s>> + use<'s> {
        self.view.entries().map(|(_, entry)| entry)
    }
}

impl InspectedSegment {
    /// Reads a segment file. If `identity` is given, the file must belong to that log.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io). For an invalid header,
    /// [`Error::Damaged`](crate::Error::Damaged) or
    /// [`Error::NewerFormat`](crate::Error::NewerFormat).
    pub fn read(storage: &Arc<dyn Storage>, path: &Path, identity: Option<Identity>) -> Result<Self> {
        let directory = Directory::open(Arc::clone(storage), folder_of(path))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let own = || SegmentHeader::identity_of(&directory.read_head(name, COMPACTED_HEADER_BYTES).ok()?);
        Self::read_in(&directory, name, identity.or_else(own).unwrap_or(Identity { database: 0, shard: 0 }))
    }

    /// Returns the unpacked size in bytes of the packed segment at `path`, from its header, so that
    /// a caller can provide the memory before it reads the segment; `None` for another segment.
    ///
    /// # Errors
    /// Those of [`InspectedSegment::read`] for the header.
    pub fn unpacked_bytes_of(storage: &Arc<dyn Storage>, path: &Path, identity: Identity) -> Result<Option<u64>> {
        let directory = Directory::open(Arc::clone(storage), folder_of(path))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        let header = SegmentHeader::decode(&head, &directory.path_of(name), identity)?;
        Ok(header.compacted.and_then(|compacted| compacted.packed).map(|packed| packed.bytes.into()))
    }

    pub(super) fn read_in(directory: &Directory, name: &str, identity: Identity) -> Result<Self> {
        let bytes = directory.read(name)?;
        let path = directory.path_of(name);
        let header = SegmentHeader::decode(&bytes, &path, identity)?;
        let packed = header.compacted.and_then(|compacted| compacted.packed);
        let unpacked = packed.map(|packed| UnpackedSegment::of(&bytes, packed)).transpose();
        let unpacked = unpacked.map_err(|error| match error {
            UnpackError::Table(bad) => Error::Damaged {
                path: path.clone(),
                offset: bad.offset as u64,
                position: Some(header.first),
                message: bad.message.to_owned(),
            },
            UnpackError::Memory(fault) => {
                Error::io("unpack", &path, io::Error::new(io::ErrorKind::OutOfMemory, fault.to_string()))
            }
        })?;
        Ok(InspectedSegment { path, header, bytes, unpacked })
    }

    /// Returns the identity of the log.
    pub fn identity(&self) -> Identity {
        self.header.identity
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position of the first record and the checksum of the record before it.
    pub fn first(&self) -> (Position, u32) {
        (self.header.first, self.header.previous)
    }

    /// Returns the mark and time of the last record that a compacted segment replaces; `None` for
    /// other segments. The header does not store the term: the mark has the lowest one.
    pub fn compacted(&self) -> Option<(Mark, Timestamp)> {
        let compacted = self.header.compacted?;
        let position = Position::new(compacted.end.get() - 1);
        let mark = Mark { position, term: Term::UNSTORED, chain: compacted.chain };
        Some((mark, compacted.last_time))
    }

    /// Builds the index file for the records up to byte `end`. Returns `None` when a record does
    /// not verify.
    pub(super) fn index(&self, end: u64) -> Option<Vec<u8>> {
        let image = self.image();
        let end = if self.header.compacted.is_some() { image.len() as u64 } else { end };
        let records = image.get(..usize::try_from(end).ok()?).filter(|records| records.len() > HEADER_BYTES)?;
        let built = build(records, &self.header).ok()?;
        Some([built.head, built.body].concat())
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the unpacked size in bytes of a packed segment.
    pub fn unpacked_bytes(&self) -> Option<u64> {
        self.unpacked.as_ref().map(|unpacked| unpacked.image.len() as u64)
    }

    /// Returns the header and the unpacked records.
    fn image(&self) -> &[u8] {
        self.unpacked.as_ref().map_or(&self.bytes, |unpacked| &unpacked.image)
    }

    /// Returns the creation time of the segment.
    pub fn begun(&self) -> Timestamp {
        self.header.time
    }

    /// Returns the actual and the expected length of the file in bytes.
    pub fn lengths(&self) -> (u64, u64) {
        (self.bytes.len() as u64, self.header.bytes)
    }

    /// Passes each part of the segment to `visit`, in order, until `visit` returns false.
    pub fn stretches(&self, mut visit: impl FnMut(Stretch<'_>) -> bool) {
        let bytes = self.image();
        let mut before = self.header.before();
        let mut offset = self.header.records_at();
        // The number of remaining records, when known.
        let mut left = self.header.compacted.map(|compacted| compacted.records);
        // Whether a damaged frame made this number unreliable.
        let mut skipped = false;
        loop {
            let expected = before.position.next();
            let here = bytes.get(offset..).unwrap_or_default();
            if left == Some(0) || (skipped && here.is_empty()) {
                visit(Stretch::End { offset: offset as u64, dirty: here.len() as u64 });
                return;
            }
            let verified = RecordView::verify(here).and_then(|record| {
                match (record.kind(), left) {
                    (RecordKind::Commit, None) => record.header.follows(before)?,
                    (RecordKind::Remains | RecordKind::Numbers, Some(_)) => {
                        record.header.follows_remains(before)?;
                    }
                    _ => return Err(RecordFault::Kind(here[36])),
                }
                Ok(record)
            });
            let fault = match verified {
                Ok(view) => {
                    left = left.map(|left| left.saturating_sub(u32::from(!skipped)));
                    // A record of the last numbers of tags is not a commit.
                    if view.kind() != RecordKind::Numbers
                        && !visit(Stretch::Record(InspectedRecord { offset: offset as u64, view }))
                    {
                        return;
                    }
                    before = view.header.mark();
                    offset += view.header.length as usize;
                    continue;
                }
                Err(fault) => fault,
            };
            let rest = here.get(ALIGNMENT..).unwrap_or_default();
            // In a compacted segment, positions have gaps, so only the beginning of a frame
            // identifies a record.
            let next = match (&self.unpacked, left) {
                (Some(unpacked), _) => unpacked.next_frame(offset),
                (None, Some(_)) => None,
                (None, None) => find_record(rest, expected).map(|(at, position)| (offset + ALIGNMENT + at, position)),
            };
            skipped |= left.is_some();
            let frame = self.unpacked.as_ref().and_then(|unpacked| unpacked.damaged(offset));
            let byte_of = |at: usize| self.unpacked.as_ref().map_or(at, |unpacked| unpacked.byte_of(at)) as u64;
            if fault == RecordFault::End && next.is_none() && left.is_none() {
                let dirty = bytes_before_zeros(here) as u64;
                visit(Stretch::End { offset: offset as u64, dirty });
                return;
            }
            let torn = !matches!(fault, RecordFault::Kind(_) | RecordFault::Entries);
            let damaged = Stretch::Damaged {
                offset: byte_of(offset),
                position: expected,
                message: frame.unwrap_or(fault).to_string(),
                next: next.map(|(at, position)| (byte_of(at), position)),
                torn,
            };
            let continues = visit(damaged);
            let Some((at, position)) = next.filter(|_| continues) else { return };
            // The record is trusted: no valid record before it can confirm the chain.
            let previous = RecordView::verify(&bytes[at..]).map_or(0, |record| record.header.previous);
            before = Mark { position: Position::new(position.get() - 1), term: Term::UNSTORED, chain: previous };
            offset = at;
        }
    }
}
