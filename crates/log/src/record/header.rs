//! The 40 bytes before the entries of a record.

use std::fmt;
use std::ops::Range;

use quire_model::{Position, Timestamp};

use super::ALIGNMENT;
use super::checksum::checksum;
use crate::mark::{Mark, Term};

/// The bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 40;

const KIND_COMMIT: u8 = 1;
/// The entries of a commit that survived a compaction, each with its index in the commit.
const KIND_REMAINS: u8 = 2;
/// The numbers of the tags of a compacted segment.
const KIND_NUMBERS: u8 = 3;

// Entries begin aligned, and so does every record.
const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGNMENT));

/// The body of at least one entry carries its own checksum.
const FLAG_OWN_CHECKSUMS: u8 = 1;

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// All entries of a commit.
    Commit,
    /// The entries of a commit that survived a compaction.
    Remains,
    /// The numbers of the tags of a compacted segment.
    Numbers,
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// CRC of the rest of the record: see [`checksum`](super::checksum).
    pub(crate) crc: u32,
    /// Bytes of the whole record, padding included.
    pub(crate) length: u32,
    pub(crate) position: Position,
    pub(crate) time: Timestamp,
    /// CRC of the previous record: the chain.
    pub(crate) previous: u32,
    /// The term in which the record was appended; terms never fall.
    pub(crate) term: Term,
    /// The count of entries.
    pub(crate) entries: u32,
}

/// The reason why bytes are not the expected record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFault {
    /// No record: the first eight bytes are zero, or the file ends.
    End,
    /// The length is impossible.
    Length(u32),
    /// The checksum does not match the bytes.
    Checksum { stored: u32, computed: u32 },
    /// The checksum matches, but this version does not know the kind.
    Kind(u8),
    /// The checksum matches, but the entries do not fill the record.
    Entries,
    /// A sound record with another position.
    Position { found: Position, expected: Position },
    /// A sound record with the expected position, but of another history.
    Chain { found: u32, expected: u32 },
    /// A sound record that follows, but of an earlier term than the previous record.
    Term { found: Term, before: Term },
    /// The checksum does not match the frame in which the record is packed.
    Frame { stored: u32, computed: u32 },
    /// Unpacking needs this many bytes, and no memory is available. The record may be sound.
    Memory(usize),
    /// The frame cannot be unpacked, its records differ from the table of frames, or the table
    /// changed.
    Unpack,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::End => f.write_str("the log ends here"),
            RecordFault::Length(length) => write!(
                f,
                "invalid record length {length}: a multiple of {ALIGNMENT}, at least {HEADER_BYTES} and within the \
                 segment, is expected"
            ),
            RecordFault::Checksum { stored, computed } => {
                write!(f, "checksum mismatch: stored {stored:08x}, computed {computed:08x}")
            }
            RecordFault::Kind(kind) => write!(f, "unknown record kind {kind}: written by a newer version"),
            RecordFault::Entries => f.write_str("invalid entries: they do not fill their record"),
            RecordFault::Position { found, expected } => write!(f, "found record {found}, expected record {expected}"),
            RecordFault::Chain { found, expected } => {
                write!(f, "the record follows checksum {found:08x}, but the previous record has {expected:08x}")
            }
            RecordFault::Term { found, before } => {
                write!(f, "stale term {found}: the previous record has term {before}")
            }
            RecordFault::Frame { stored, computed } => {
                write!(f, "checksum mismatch of a packed frame: stored {stored:08x}, computed {computed:08x}")
            }
            RecordFault::Memory(bytes) => {
                write!(f, "no memory is available for the {bytes} bytes of an unpacked record; free memory and retry")
            }
            RecordFault::Unpack => f.write_str("the packed frame does not match the table of frames"),
        }
    }
}

impl RecordHeader {
    /// Writes the header before entries and padding that are already in place, and seals the record
    /// with its CRC. Returns the CRC. `own_parts` are the parts with their own checksums, in order.
    #[inline]
    pub(crate) fn seal(self, record: &mut [u8], own_parts: &[Range<usize>]) -> u32 {
        self.seal_as(RecordKind::Commit, record, own_parts)
    }

    /// As [`RecordHeader::seal`], for a record of `kind`.
    #[inline]
    pub(crate) fn seal_as(self, kind: RecordKind, record: &mut [u8], own_parts: &[Range<usize>]) -> u32 {
        debug_assert_eq!(self.length as usize, record.len());
        debug_assert!(record.len().is_multiple_of(ALIGNMENT), "{} bytes are not padded", record.len());
        debug_assert!(kind != RecordKind::Numbers || (self.entries == 0 && own_parts.is_empty()));
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

    /// Reads the header at the start of `bytes` and checks its length, and nothing else.
    pub(super) fn framed(bytes: &[u8]) -> Result<Self, RecordFault> {
        if bytes.len() < 8 || bytes[..8] == [0; 8] {
            return Err(RecordFault::End);
        }
        let length = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let whole = length as usize;
        if whole < HEADER_BYTES || !whole.is_multiple_of(ALIGNMENT) || whole > bytes.len() {
            return Err(RecordFault::Length(length));
        }
        Ok(RecordHeader::read(bytes))
    }

    /// Whether an entry of the record at the start of `bytes` carries its own checksum.
    pub(super) fn has_own_checksums(bytes: &[u8]) -> bool {
        bytes[37] & FLAG_OWN_CHECKSUMS != 0
    }

    /// The kind of the record at the start of `bytes`.
    pub(super) fn kind(bytes: &[u8]) -> Result<RecordKind, RecordFault> {
        match bytes[36] {
            KIND_COMMIT => Ok(RecordKind::Commit),
            KIND_REMAINS => Ok(RecordKind::Remains),
            KIND_NUMBERS => Ok(RecordKind::Numbers),
            kind => Err(RecordFault::Kind(kind)),
        }
    }

    /// The mark of the record.
    pub(crate) fn mark(&self) -> Mark {
        Mark { position: self.position, term: self.term, chain: self.crc }
    }

    /// Checks that the record follows the record of `before` in a compacted segment, where records
    /// may be missing between them.
    pub(crate) fn follows_remains(&self, before: Mark) -> Result<(), RecordFault> {
        let expected = before.position.next();
        if self.position < expected {
            return Err(RecordFault::Position { found: self.position, expected });
        }
        self.chains_to(before)
    }

    /// Checks that the record is the next one after the record of `before`.
    pub(crate) fn follows(&self, before: Mark) -> Result<(), RecordFault> {
        let expected = before.position.next();
        if self.position != expected {
            return Err(RecordFault::Position { found: self.position, expected });
        }
        self.chains_to(before)
    }

    fn chains_to(&self, before: Mark) -> Result<(), RecordFault> {
        if self.previous != before.chain {
            return Err(RecordFault::Chain { found: self.previous, expected: before.chain });
        }
        if self.term < before.term {
            return Err(RecordFault::Term { found: self.term, before: before.term });
        }
        Ok(())
    }
}
