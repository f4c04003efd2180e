//! The header of a sealed index: 128 bytes, and the checksums of the body.

use std::path::Path;

use quire_model::{Position, Timestamp};

use super::blocks::{BLOCK_BYTES, checksums};
use crate::checksum::crc32c_of_two;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::segment::SegmentHeader;

/// The bytes of an index's header, without the checksums of the body.
pub(super) const HEADER_BYTES: usize = 128;

const MAGIC: &[u8; 8] = b"QUIREIDX";
const VERSION: u32 = 1;

/// Bytes of the rows of the body's parts of fixed width.
pub(super) const RECORD_BYTES: usize = 12;
pub(super) const ENTRY_BYTES: usize = 8;
pub(super) const TAG_BYTES: usize = 16;

// The fields end at byte 112, and the checksums of the body follow aligned.
const _: () = assert!(HEADER_BYTES >= 112 && HEADER_BYTES.is_multiple_of(4));

/// The description of an index and its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    pub(crate) identity: Identity,
    /// The checksum in the segment's header, which identifies the segment's file.
    pub(crate) segment: u32,
    pub(crate) first: Position,
    /// The position after the segment's last record.
    pub(crate) end: Position,
    /// The time of the last record.
    pub(crate) time: Timestamp,
    /// The checksum of the last record, to which the next segment chains.
    pub(crate) chain: u32,
    pub(crate) records: u32,
    pub(crate) entries: u32,
    pub(crate) tags: u32,
    /// The end of the records in the segment.
    pub(crate) records_end: u32,
    /// Whether the segment is compacted, so that entries may be missing.
    pub(crate) compacted: bool,
    /// Bytes of the body's parts of variable width.
    pub(crate) lists_bytes: u64,
    pub(crate) numbered_bytes: u64,
    pub(crate) filter_bytes: u64,
}

/// Whether `index` is a sound index that belongs to another segment file than the one that begins
/// with `segment`.
pub(crate) fn is_index_of_another(index: &[u8], segment: &[u8]) -> bool {
    let Ok(Some((header, stored))) = IndexHeader::decode(index, Path::new("")) else { return false };
    let body = index.get(header.body_at()..).unwrap_or_default();
    header.segment != SegmentHeader::crc_of(segment)
        && body.len() as u64 == header.body_bytes()
        && checksums(body).eq(stored)
}

impl IndexHeader {
    /// The bytes of the body.
    pub(super) fn body_bytes(&self) -> u64 {
        self.filter_at() as u64 + self.filter_bytes
    }

    /// The beginnings of the parts in the body; the records begin at 0.
    pub(super) fn entries_at(&self) -> usize {
        self.records as usize * RECORD_BYTES
    }

    pub(super) fn tags_at(&self) -> usize {
        self.entries_at() + self.entries as usize * ENTRY_BYTES
    }

    pub(super) fn lists_at(&self) -> usize {
        self.tags_at() + self.tags as usize * TAG_BYTES
    }

    pub(super) fn numbered_at(&self) -> usize {
        self.lists_at() + self.lists_bytes as usize
    }

    pub(super) fn filter_at(&self) -> usize {
        self.numbered_at() + self.numbered_bytes as usize
    }

    /// The bytes of header and checksums: the offset of the body in the file.
    pub(super) fn body_at(&self) -> usize {
        HEADER_BYTES + self.blocks() * 4
    }

    /// The bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.body_at() as u64 + self.body_bytes()
    }

    fn blocks(&self) -> usize {
        (self.body_bytes() as usize).div_ceil(BLOCK_BYTES)
    }

    /// Encodes the header and the checksums of `body`.
    pub(super) fn encode(&self, body: &[u8]) -> Vec<u8> {
        assert_eq!(body.len() as u64, self.body_bytes(), "the header states the length of the body");
        assert!(self.first <= self.end, "segment {} ends at {}", self.first, self.end);
        let mut out = vec![0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.identity.database.to_le_bytes());
        out[32..36].copy_from_slice(&self.identity.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.segment.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.get().to_le_bytes());
        out[48..56].copy_from_slice(&self.end.get().to_le_bytes());
        out[56..64].copy_from_slice(&self.time.as_micros().to_le_bytes());
        out[64..68].copy_from_slice(&self.chain.to_le_bytes());
        out[68..72].copy_from_slice(&self.records.to_le_bytes());
        out[72..76].copy_from_slice(&self.entries.to_le_bytes());
        out[76..80].copy_from_slice(&self.tags.to_le_bytes());
        out[80..84].copy_from_slice(&self.records_end.to_le_bytes());
        out[84..88].copy_from_slice(&u32::from(self.compacted).to_le_bytes());
        out[88..96].copy_from_slice(&self.lists_bytes.to_le_bytes());
        out[96..104].copy_from_slice(&self.numbered_bytes.to_le_bytes());
        out[104..112].copy_from_slice(&self.filter_bytes.to_le_bytes());
        for checksum in checksums(body) {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        let crc = crc32c_of_two(&out[..12], &out[16..]);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(out.len(), self.body_at(), "each block has a checksum");
        out
    }

    /// The bytes of header and checksums, from the unverified first [`HEADER_BYTES`] of a file.
    pub(super) fn head_bytes(fixed: &[u8]) -> Option<usize> {
        (fixed.len() >= HEADER_BYTES && &fixed[..8] == MAGIC).then(|| Self::read(fixed).head_bytes_at_most())?
    }

    /// Reads and verifies header and checksums of the index at `path`; `None` when they are
    /// damaged.
    ///
    /// # Errors
    /// [`Error::NewerFormat`].
    pub(super) fn decode(head: &[u8], path: &Path) -> Result<Option<(Self, Vec<u32>)>> {
        let Some(bytes) = Self::head_bytes(head) else { return Ok(None) };
        let Some(head) = head.get(..bytes) else { return Ok(None) };
        let u32_at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        if crc32c_of_two(&head[..12], &head[16..]) != u32_at(12) {
            return Ok(None);
        }
        if u32_at(8) > VERSION {
            return Err(Error::NewerFormat { path: path.to_owned(), version: u32_at(8), supported: VERSION });
        }
        let checksums = (HEADER_BYTES..bytes).step_by(4).map(u32_at).collect();
        Ok(Some((Self::read(head), checksums)))
    }

    fn read(fixed: &[u8]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        IndexHeader {
            identity: Identity {
                database: u128::from_le_bytes(fixed[16..32].try_into().expect("sixteen bytes")),
                shard: u32_at(32),
            },
            segment: u32_at(36),
            first: Position::new(u64_at(40)),
            end: Position::new(u64_at(48)),
            time: Timestamp::from_micros(u64_at(56)),
            chain: u32_at(64),
            records: u32_at(68),
            entries: u32_at(72),
            tags: u32_at(76),
            records_end: u32_at(80),
            compacted: u32_at(84) & 1 == 1,
            lists_bytes: u64_at(88),
            numbered_bytes: u64_at(96),
            filter_bytes: u64_at(104),
        }
    }

    /// Bytes of header and checksums, possibly unverified; `None` for an impossible length.
    fn head_bytes_at_most(&self) -> Option<usize> {
        // A part of variable width is shorter than a few segments.
        let sane = |bytes: u64| bytes <= 1 << 36;
        let all_sane = sane(self.lists_bytes) && sane(self.numbered_bytes) && sane(self.filter_bytes);
        all_sane.then(|| self.body_at())
    }
}
