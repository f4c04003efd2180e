//! One segment in memory, gone through record by record, also where it is damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_model::{Entry, Position, Timestamp};

use super::unpacked::{NotUnpacked, Unpacked};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::{Mark, Term};
use crate::record::{ALIGNMENT, Fault, RecordKind, RecordView};
use crate::recovery::{bytes_before_zeros, find_record};
use crate::sealed::build;
use crate::segment::{COMPACTED_HEADER_BYTES, HEADER_BYTES, SegmentHeader};
use crate::storage::Storage;
use crate::storage::directory::{Directory, folder_of};

/// A segment whose header verified.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    header: SegmentHeader,
    bytes: Vec<u8>,
    /// What it comes to, when it is packed.
    unpacked: Option<Unpacked>,
}

/// A record whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub struct Record<'s> {
    /// Where it begins in its file; of a packed one, in the bytes that this comes to.
    pub offset: u64,
    view: RecordView<'s>,
}

/// What stands at a place of a segment.
#[derive(Debug)]
pub enum Stretch<'s> {
    /// A record that verifies and follows the one before.
    Record(Record<'s>),
    /// Bytes that are not the record that should follow.
    Damaged {
        /// Where they begin.
        offset: u64,
        /// The record that should stand here.
        position: Position,
        /// What was met.
        message: String,
        /// Where the next record that verifies begins, and its position; `None` when there is none in this file.
        next: Option<(u64, Position)>,
        /// Whether a write that was interrupted can have left this.
        torn: bool,
    },
    /// The end of the records: from here on, nothing was appended.
    End {
        /// Where they end.
        offset: u64,
        /// How many bytes behind it are not zero, from there to the last: what a commit left that was not appended.
        dirty: u64,
    },
}

impl Record<'_> {
    /// Its position.
    pub fn position(&self) -> Position {
        self.view.header.position
    }

    /// When it was appended.
    pub fn time(&self) -> Timestamp {
        self.view.header.time
    }

    /// Its bytes, header and padding included.
    pub fn length(&self) -> u32 {
        self.view.header.length
    }

    /// Its position, term and checksum.
    pub fn mark(&self) -> Mark {
        self.view.header.mark()
    }

    /// The checksum of the record before it, as it says.
    pub fn previous(&self) -> u32 {
        self.view.header.previous
    }

    /// Whether it is what a compaction left of it.
    pub fn is_remains(&self) -> bool {
        self.view.kind() == RecordKind::Remains
    }

    /// How many entries it has.
    pub fn entry_count(&self) -> u32 {
        self.view.header.entries
    }
}

impl<'s> Record<'s> {
    /// Its entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'s>> + use<'s> {
        self.view.entries().map(|(_, entry)| entry)
    }
}

impl SegmentFile {
    /// Reads a segment file, which must be of the log of `identity` when that is given.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), and [`Error::Damaged`](crate::Error::Damaged) and [`Error::NewerFormat`](crate::Error::NewerFormat) of its header.
    pub fn read(storage: &Arc<dyn Storage>, path: &Path, identity: Option<Identity>) -> Result<Self> {
        let directory = Directory::open(Arc::clone(storage), folder_of(path))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let own = || SegmentHeader::identity_of(&directory.read_head(name, COMPACTED_HEADER_BYTES).ok()?);
        Self::read_in(&directory, name, identity.or_else(own).unwrap_or(Identity { database: 0, shard: 0 }))
    }

    pub(super) fn read_in(directory: &Directory, name: &str, identity: Identity) -> Result<Self> {
        let bytes = directory.read(name)?;
        let path = directory.path_of(name);
        let header = SegmentHeader::decode(&bytes, &path, identity)?;
        let packed = header.compacted.and_then(|compacted| compacted.packed);
        let unpacked = packed.map(|packed| Unpacked::of(&bytes, packed)).transpose();
        let unpacked = unpacked.map_err(|error| match error {
            NotUnpacked::Table(bad) => Error::Damaged {
                path: path.clone(),
                offset: bad.offset as u64,
                position: Some(header.first),
                message: bad.message.to_owned(),
            },
            NotUnpacked::Memory(fault) => {
                Error::io("unpack", &path, io::Error::new(io::ErrorKind::OutOfMemory, fault.to_string()))
            }
        })?;
        Ok(SegmentFile { path, header, bytes, unpacked })
    }

    /// The log it belongs to.
    pub fn identity(&self) -> Identity {
        self.header.identity
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The position of its first record, and the checksum of the one before.
    pub fn first(&self) -> (Position, u32) {
        (self.header.first, self.header.previous)
    }

    /// The last record that it stands for, and its time, when it is what a compaction left of several segments.
    pub fn compacted(&self) -> Option<(Mark, Timestamp)> {
        let compacted = self.header.compacted?;
        // The header does not name the term.
        let position = Position::new(compacted.end.get() - 1);
        let mark = Mark { position, term: Term::ALONE, chain: compacted.chain };
        Some((mark, compacted.last_time))
    }

    /// The index file that its records, which end at this byte, come to; `None` when one of them does not verify.
    pub(super) fn index(&self, end: u64) -> Option<Vec<u8>> {
        let image = self.image();
        let end = if self.header.compacted.is_some() { image.len() as u64 } else { end };
        let records = image.get(..usize::try_from(end).ok()?).filter(|records| records.len() > HEADER_BYTES)?;
        let built = build(records, &self.header).ok()?;
        Some([built.head, built.body].concat())
    }

    /// Its bytes, as they are in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes it comes to, when it is packed.
    pub fn unpacked_bytes(&self) -> Option<u64> {
        self.unpacked.as_ref().map(|unpacked| unpacked.image.len() as u64)
    }

    /// Header and records, unpacked.
    fn image(&self) -> &[u8] {
        self.unpacked.as_ref().map_or(&self.bytes, |unpacked| &unpacked.image)
    }

    /// When it was begun.
    pub fn begun(&self) -> Timestamp {
        self.header.time
    }

    /// How many bytes it has, and how many it should have.
    pub fn lengths(&self) -> (u64, u64) {
        (self.bytes.len() as u64, self.header.bytes)
    }

    /// Goes through it, and shows every stretch to `visit` until that says to stop.
    pub fn stretches(&self, mut visit: impl FnMut(Stretch<'_>) -> bool) {
        let bytes = self.image();
        let mut before = self.header.before();
        let mut offset = self.header.records_at();
        // How many records are still to come, where that is known.
        let mut left = self.header.compacted.map(|compacted| compacted.records);
        // Whether that went wrong, for a frame could not be unpacked.
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
                    _ => return Err(Fault::Kind(here[36])),
                }
                Ok(record)
            });
            let fault = match verified {
                Ok(view) => {
                    left = left.map(|left| left.saturating_sub(u32::from(!skipped)));
                    // What the tags had reached is no commit.
                    if view.kind() != RecordKind::Numbers
                        && !visit(Stretch::Record(Record { offset: offset as u64, view }))
                    {
                        return;
                    }
                    before = view.header.mark();
                    offset += view.header.length as usize;
                    continue;
                }
                Err(fault) => fault,
            };
            let behind = here.get(ALIGNMENT..).unwrap_or_default();
            // Where positions have gaps, nothing tells a record from what only looks like one, unless a frame begins with it.
            let next = match (&self.unpacked, left) {
                (Some(unpacked), _) => unpacked.next_frame(offset),
                (None, Some(_)) => None,
                (None, None) => find_record(behind, expected).map(|(at, position)| (offset + ALIGNMENT + at, position)),
            };
            skipped |= left.is_some();
            let frame = self.unpacked.as_ref().and_then(|unpacked| unpacked.damaged(offset));
            let byte_of = |at: usize| self.unpacked.as_ref().map_or(at, |unpacked| unpacked.byte_of(at)) as u64;
            if fault == Fault::End && next.is_none() && left.is_none() {
                let dirty = bytes_before_zeros(here) as u64;
                visit(Stretch::End { offset: offset as u64, dirty });
                return;
            }
            let torn = !matches!(fault, Fault::Kind(_) | Fault::Entries);
            let damaged = Stretch::Damaged {
                offset: byte_of(offset),
                position: expected,
                message: frame.unwrap_or(fault).to_string(),
                next: next.map(|(at, position)| (byte_of(at), position)),
                torn,
            };
            let goes_on = visit(damaged);
            let Some((at, position)) = next.filter(|_| goes_on) else { return };
            // It is taken for what it says: nothing before it can tell whether it follows.
            let previous = RecordView::verify(&bytes[at..]).map_or(0, |record| record.header.previous);
            before = Mark { position: Position::new(position.get() - 1), term: Term::ALONE, chain: previous };
            offset = at;
        }
    }
}
