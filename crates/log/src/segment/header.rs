//! The header of a segment: 64 bytes, or 96 in a compacted segment.

use std::path::Path;

use quire_model::{Position, Timestamp};

use crate::checksum::crc32c_of_two;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::{Mark, Term};
use crate::record::ALIGNMENT;

/// The bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 64;

/// The bytes of a compacted segment's header.
pub(crate) const COMPACTED_HEADER_BYTES: usize = 96;

/// The highest position at which a segment may begin or end. The control file stores a position in
/// 48 bits, and a segment has fewer records than bytes.
const POSITION_MAX: u64 = (1 << 48) - (1 << 32);

const MAGIC: &[u8; 8] = b"QUIRESEG";
const MAGIC_COMPACTED: &[u8; 8] = b"QUIRECMP";
const VERSION: u32 = 1;

/// The version of a packed segment: a program that cannot unpack reports a newer format.
const VERSION_PACKED: u32 = 2;

// Magic, version and checksum must stay at one place in both headers, and records begin aligned.
const _: () = assert!(HEADER_BYTES < COMPACTED_HEADER_BYTES);
const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGNMENT) && COMPACTED_HEADER_BYTES.is_multiple_of(ALIGNMENT));
const _: () = assert!(POSITION_MAX + u32::MAX as u64 <= 1 << 48);

/// The description of a segment, stored at the start of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) identity: Identity,
    /// The checksum of the record before the first, to which the first record chains.
    pub(crate) previous: u32,
    pub(crate) first: Position,
    pub(crate) time: Timestamp,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// The records that a compacted segment stands for; `None` in other segments.
    pub(crate) compacted: Option<CompactedRange>,
}

/// The records that a compacted segment stands for, surviving or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactedRange {
    /// The position after the last record.
    pub(crate) end: Position,
    /// The original checksum of the last record, to which the next segment chains.
    pub(crate) chain: u32,
    /// The time of the last record.
    pub(crate) last_time: Timestamp,
    /// The count of records in the file, including the record of the numbers.
    pub(crate) records: u32,
    /// The image of a packed segment; `None` in other segments.
    pub(crate) packed: Option<PackedImage>,
}

/// The image of a packed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedImage {
    /// The bytes of the image: the length that the unpacked file would have.
    pub(crate) bytes: u32,
    /// The checksum of the table of frames.
    pub(crate) table: u32,
}

impl SegmentHeader {
    /// The offset of the first record.
    pub(crate) fn records_at(&self) -> usize {
        if self.compacted.is_some() { COMPACTED_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// The mark of the record before the first, without its term, which the header does not store.
    pub(crate) fn before(&self) -> Mark {
        Mark { position: Position::new(self.first.get().saturating_sub(1)), term: Term::UNSTORED, chain: self.previous }
    }

    /// Encodes the header of a segment that is not compacted.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(self.compacted.is_none(), "a compacted segment has another header");
        self.assert_sound();
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        self.encode_shared(&mut out, VERSION);
        seal(&mut out);
        out
    }

    /// Encodes the header of this compacted segment for its packed file of `bytes` bytes.
    pub(crate) fn packed_as(&self, bytes: u64, image: PackedImage) -> [u8; COMPACTED_HEADER_BYTES] {
        let compacted = self.compacted.expect("only a compacted segment is packed");
        assert!(bytes <= u64::from(image.bytes), "packing makes a file smaller: {bytes} of {}", image.bytes);
        SegmentHeader { bytes, ..*self }.encode_compacted(CompactedRange { packed: Some(image), ..compacted })
    }

    /// Encodes the header of a compacted segment.
    pub(crate) fn encode_compacted(&self, compacted: CompactedRange) -> [u8; COMPACTED_HEADER_BYTES] {
        self.assert_sound();
        assert!(compacted.end.get() <= POSITION_MAX, "position {} exceeds {POSITION_MAX}", compacted.end);
        let mut out = [0; COMPACTED_HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC_COMPACTED);
        self.encode_shared(&mut out, if compacted.packed.is_some() { VERSION_PACKED } else { VERSION });
        out[64..72].copy_from_slice(&compacted.end.get().to_le_bytes());
        out[72..80].copy_from_slice(&compacted.last_time.as_micros().to_le_bytes());
        out[80..84].copy_from_slice(&compacted.chain.to_le_bytes());
        out[84..88].copy_from_slice(&compacted.records.to_le_bytes());
        if let Some(packed) = compacted.packed {
            out[88..92].copy_from_slice(&packed.bytes.to_le_bytes());
            out[92..96].copy_from_slice(&packed.table.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Asserts that a header about to be written is one that [`SegmentHeader::decode`] accepts.
    fn assert_sound(&self) {
        assert!(self.first.get() <= POSITION_MAX, "position {} exceeds {POSITION_MAX}", self.first);
        assert!(self.bytes <= u64::from(u32::MAX), "a segment has less than 4 GiB, not {} bytes", self.bytes);
    }

    fn encode_shared(&self, out: &mut [u8], version: u32) {
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[16..32].copy_from_slice(&self.identity.database.to_le_bytes());
        out[32..36].copy_from_slice(&self.identity.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.previous.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.get().to_le_bytes());
        out[48..56].copy_from_slice(&self.time.as_micros().to_le_bytes());
        out[56..64].copy_from_slice(&self.bytes.to_le_bytes());
    }

    /// The checksum of the encoded header.
    pub(crate) fn crc(&self) -> u32 {
        match self.compacted {
            Some(compacted) => Self::crc_of(&self.encode_compacted(compacted)),
            None => Self::crc_of(&self.encode()),
        }
    }

    /// The checksum stored in a header that was verified before.
    pub(crate) fn crc_of(header: &[u8]) -> u32 {
        u32::from_le_bytes(header[12..16].try_into().expect("four bytes"))
    }

    /// Whether `bytes` begin with a whole header, of any log and version.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        header_bytes(bytes)
            .is_some_and(|fixed| fixed[12..16] == crc32c_of_two(&fixed[..12], &fixed[16..]).to_le_bytes())
    }

    /// Whether a segment may begin with this position.
    pub(crate) fn may_begin_at(first: Position) -> bool {
        first.get() <= POSITION_MAX
    }

    /// Whether `bytes` begin with the magic bytes of a compacted segment.
    pub(crate) fn is_of_compacted(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC_COMPACTED)
    }

    /// The log named in a whole header of a known version.
    pub(crate) fn identity_of(bytes: &[u8]) -> Option<Identity> {
        let header = header_bytes(bytes).filter(|header| Self::is_whole(header))?;
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        let database = u128::from_le_bytes(header[16..32].try_into().expect("sixteen bytes"));
        let shard = u32::from_le_bytes(header[32..36].try_into().expect("four bytes"));
        (version <= supported(header)).then_some(Identity { database, shard })
    }

    /// Reads and verifies the header of the segment at `path`, which must belong to the log
    /// `identity`.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::NewerFormat`].
    pub(crate) fn decode(bytes: &[u8], path: &Path, identity: Identity) -> Result<Self> {
        let damaged =
            |offset: u64, message: String| Error::Damaged { path: path.to_owned(), offset, position: None, message };
        if bytes.len() < HEADER_BYTES {
            return Err(damaged(
                bytes.len() as u64,
                format!("the file has {} bytes, fewer than the {HEADER_BYTES} of a segment header", bytes.len()),
            ));
        }
        let Some(fixed) = header_bytes(bytes) else {
            return Err(damaged(0, "the file does not begin with the magic bytes of a segment".to_owned()));
        };
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let computed = crc32c_of_two(&fixed[..12], &fixed[16..]);
        if computed != u32_at(12) {
            return Err(damaged(
                12,
                format!("checksum mismatch of the header: stored {:08x}, computed {computed:08x}", u32_at(12)),
            ));
        }
        // Magic, version and checksum stay at their offsets in every version; later fields may
        // move.
        let version = u32_at(8);
        if version > supported(fixed) {
            return Err(Error::NewerFormat { path: path.to_owned(), version, supported: supported(fixed) });
        }
        let database = u128::from_le_bytes(fixed[16..32].try_into().expect("sixteen bytes"));
        let found = Identity { database, shard: u32_at(32) };
        if found != identity {
            return Err(damaged(16, format!("the segment belongs to {found}, not to {identity}")));
        }
        // A caller maps the file and reads records up to this length.
        if !(fixed.len() as u64..=u64::from(u32::MAX)).contains(&u64_at(56)) {
            return Err(damaged(
                56,
                format!("invalid segment length {}: {} to {} bytes are allowed", u64_at(56), fixed.len(), u32::MAX),
            ));
        }
        let positions = [Some(40), (fixed.len() == COMPACTED_HEADER_BYTES).then_some(64)];
        if let Some(at) = positions.into_iter().flatten().find(|at| u64_at(*at) > POSITION_MAX) {
            return Err(damaged(
                at as u64,
                format!("invalid position {}: at most {POSITION_MAX} is allowed", u64_at(at)),
            ));
        }
        if fixed.len() == COMPACTED_HEADER_BYTES && u64_at(64) < u64_at(40) {
            let message = format!("invalid end {} of a segment that begins with record {}", u64_at(64), u64_at(40));
            return Err(damaged(64, message));
        }
        Ok(SegmentHeader {
            identity,
            previous: u32_at(36),
            first: Position::new(u64_at(40)),
            time: Timestamp::from_micros(u64_at(48)),
            bytes: u64_at(56),
            compacted: (fixed.len() == COMPACTED_HEADER_BYTES).then(|| CompactedRange {
                end: Position::new(u64_at(64)),
                last_time: Timestamp::from_micros(u64_at(72)),
                chain: u32_at(80),
                records: u32_at(84),
                packed: (version == VERSION_PACKED).then(|| PackedImage { bytes: u32_at(88), table: u32_at(92) }),
            }),
        })
    }
}

/// Returns the header at the start of `bytes`, by its magic bytes. Returns `None` without such
/// magic bytes, or when the header is cut short.
fn header_bytes(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.get(..8)? {
        magic if magic == MAGIC => bytes.get(..HEADER_BYTES),
        magic if magic == MAGIC_COMPACTED => bytes.get(..COMPACTED_HEADER_BYTES),
        _ => None,
    }
}

/// The newest known version of a header of this length.
fn supported(header: &[u8]) -> u32 {
    if header.len() == COMPACTED_HEADER_BYTES { VERSION_PACKED } else { VERSION }
}

fn seal(header: &mut [u8]) {
    let crc = crc32c_of_two(&header[..12], &header[16..]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
}
