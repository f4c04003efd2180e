//! The 40 bytes in front of a record's entries.

use std::fmt;
use std::ops::Range;

use quire_model::{Position, Timestamp};

use super::ALIGNMENT;
use super::checksum::checksum;
use crate::mark::{Mark, Term};

/// The bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 40;

const KIND_COMMIT: u8 = 1;
/// What is left of a commit after a compaction: the entries that survived, and the index that each had. Kind 3 holds the
/// numbers of the tags of a compacted segment.
const KIND_REMAINS: u8 = 2;
const KIND_NUMBERS: u8 = 3;

/// Some entry's body carries a checksum of its own.
const FLAG_OWN_CHECKSUMS: u8 = 1;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Commit,
    Remains,
    Numbers,
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// CRC of what stands behind it in the record: see [`checksum`](super::checksum).
    pub(crate) crc: u32,
    /// Bytes of the whole record, padding included.
    pub(crate) length: u32,
    pub(crate) position: Position,
    pub(crate) time: Timestamp,
    /// CRC of the record before: the chain.
    pub(crate) previous: u32,
    /// The term in which it was appended; terms never fall.
    pub(crate) term: Term,
    /// How many entries follow.
    pub(crate) entries: u32,
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is nothing: the eight bytes where it would begin are zero, or the file ends.
    End,
    /// The length can't be.
    Length(u32),
    /// The checksum is not that of the bytes.
    Checksum { stored: u32, computed: u32 },
    /// The checksum is right, but the kind is unknown to this version.
    Kind(u8),
    /// The checksum is right, but the entries do not add up.
    Entries,
    /// A sound record, but not the one that belongs here.
    Position { found: Position, expected: Position },
    /// A sound record of the right position, but of another past.
    Chain { found: u32, expected: u32 },
    /// A sound record that follows, but of an earlier term than the record before it.
    Term { found: Term, before: Term },
    /// The checksum is not that of the frame which the record is packed in.
    Frame { stored: u32, computed: u32 },
    /// The record may be as it was written: there is no memory for so many bytes, which it takes to unpack it.
    Memory(usize),
    /// The frame which the record is packed in can't be unpacked, or not to what the table says; or the table is no longer as it was.
    Unpack,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::End => f.write_str("the log ends here"),
            Fault::Length(length) => write!(f, "a record can't have {length} bytes here"),
            Fault::Checksum { stored, computed } => {
                write!(f, "the checksum is {computed:08x} where {stored:08x} is stored")
            }
            Fault::Kind(kind) => write!(f, "records of kind {kind} are unknown to this version"),
            Fault::Entries => f.write_str("the entries do not fill their record"),
            Fault::Position { found, expected } => write!(f, "record {found} stands where {expected} belongs"),
            Fault::Chain { found, expected } => {
                write!(f, "the record follows one with checksum {found:08x}, and the one before has {expected:08x}")
            }
            Fault::Term { found, before } => {
                write!(f, "the record is of term {found}, and the one before it of term {before}")
            }
            Fault::Frame { stored, computed } => {
                write!(f, "the checksum of the packed frame is {computed:08x} where {stored:08x} is stored")
            }
            Fault::Memory(bytes) => write!(f, "there is no memory for the {bytes} bytes that it takes"),
            Fault::Unpack => f.write_str("the packed frame does not come to what the table of frames says"),
        }
    }
}

impl RecordHeader {
    /// Writes the header in front of a record whose entries and padding stand already, and seals it with the CRC,
    /// which it returns. The parts of it that carry checksums of their own are `own_parts`, in order.
    #[inline]
    pub(crate) fn seal(self, record: &mut [u8], own_parts: &[Range<usize>]) -> u32 {
        self.seal_as(RecordKind::Commit, record, own_parts)
    }

    /// As [`RecordHeader::seal`], of another kind.
    #[inline]
    pub(crate) fn seal_as(self, kind: RecordKind, record: &mut [u8], own_parts: &[Range<usize>]) -> u32 {
        debug_assert_eq!(self.length as usize, record.len());
        let kind = match kind {
            RecordKind::Commit => KIND_COMMIT,
            RecordKind::Remains => KIND_REMAINS,
            RecordKind::Numbers => KIND_NUMBERS,
        };
        let fixed = record.first_chunk_mut::<HEADER_BYTES>().expect("a record holds its header");
        fixed[4..8].copy_from_slice(&self.length.to_le_bytes());
        fixed[8..16].copy_from_slice(&self.position.get().to_le_bytes());
        fixed[16..24].copy_from_slice(&self.time.as_micros().to_le_bytes());
        fixed[24..28].copy_from_slice(&self.previous.to_le_bytes());
        fixed[28..32].copy_from_slice(&self.term.get().to_le_bytes());
        fixed[32..36].copy_from_slice(&self.entries.to_le_bytes());
        let flags = if own_parts.is_empty() { 0 } else { FLAG_OWN_CHECKSUMS };
        fixed[36..40].copy_from_slice(&[kind, flags, 0, 0]);
        let crc = checksum(record, own_parts.iter().cloned());
        record[0..4].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads the header of a record that was verified before.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let fixed = bytes.first_chunk::<HEADER_BYTES>().expect("a record holds its header");
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        RecordHeader {
            crc: u32_at(0),
            length: u32_at(4),
            position: Position::new(u64_at(8)),
            time: Timestamp::from_micros(u64_at(16)),
            previous: u32_at(24),
            term: Term::new(u32_at(28)),
            entries: u32_at(32),
        }
    }

    /// The header of the record that these bytes begin with, with a length that can be and everything else to be verified.
    pub(super) fn framed(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.len() < 8 || bytes[..8] == [0; 8] {
            return Err(Fault::End);
        }
        let length = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let whole = length as usize;
        if whole < HEADER_BYTES || !whole.is_multiple_of(ALIGNMENT) || whole > bytes.len() {
            return Err(Fault::Length(length));
        }
        Ok(RecordHeader::read(bytes))
    }

    /// Whether some entry of the record that these bytes begin with carries a checksum of its own.
    pub(super) fn has_own_checksums(bytes: &[u8]) -> bool {
        bytes[37] & FLAG_OWN_CHECKSUMS != 0
    }

    /// The kind of the record that these bytes begin with.
    pub(super) fn kind(bytes: &[u8]) -> Result<RecordKind, Fault> {
        match bytes[36] {
            KIND_COMMIT => Ok(RecordKind::Commit),
            KIND_REMAINS => Ok(RecordKind::Remains),
            KIND_NUMBERS => Ok(RecordKind::Numbers),
            kind => Err(Fault::Kind(kind)),
        }
    }

    /// The mark of the record.
    pub(crate) fn mark(&self) -> Mark {
        Mark { position: self.position, term: self.term, chain: self.crc }
    }

    /// Checks that the record follows the record of `before` in a compacted segment, which may have left records out.
    pub(crate) fn follows_remains(&self, before: Mark) -> Result<(), Fault> {
        let expected = before.position.next();
        if self.position < expected {
            return Err(Fault::Position { found: self.position, expected });
        }
        self.chains_to(before)
    }

    /// Checks that the record is the next one after the record of `before`.
    pub(crate) fn follows(&self, before: Mark) -> Result<(), Fault> {
        let expected = before.position.next();
        if self.position != expected {
            return Err(Fault::Position { found: self.position, expected });
        }
        self.chains_to(before)
    }

    fn chains_to(&self, before: Mark) -> Result<(), Fault> {
        if self.previous != before.chain {
            return Err(Fault::Chain { found: self.previous, expected: before.chain });
        }
        if self.term < before.term {
            return Err(Fault::Term { found: self.term, before: before.term });
        }
        Ok(())
    }
}
