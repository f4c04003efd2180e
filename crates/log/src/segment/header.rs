//! What stands in front of a segment's records: 64 bytes, or 96 in front of what a compaction left of several segments.

use std::path::Path;

use quire_model::{Position, Timestamp};

use crate::checksum::crc32c_of_two;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::{Mark, Term};

/// The bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 64;

/// The bytes of a compacted segment's header.
pub(crate) const COMPACTED_HEADER_BYTES: usize = 96;

/// The highest position that a segment may begin with, or end before: the control file has 48 bits for one, and a segment takes
/// fewer records than bytes.
const POSITION_MAX: u64 = (1 << 48) - (1 << 32);

const MAGIC: &[u8; 8] = b"QUIRESEG";
const MAGIC_COMPACTED: &[u8; 8] = b"QUIRECMP";
const VERSION: u32 = 1;

/// The version of a compacted segment that is packed: a program that can't unpack it says that it is newer.
const VERSION_PACKED: u32 = 2;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) identity: Identity,
    /// The checksum of the record before the first: where the chain goes on.
    pub(crate) previous: u32,
    pub(crate) first: Position,
    pub(crate) time: Timestamp,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// What it stands for, if it is what a compaction left.
    pub(crate) compacted: Option<Compacted>,
}

/// The records that a compacted segment stands for, whatever is left of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The position behind the last.
    pub(crate) end: Position,
    /// The checksum of the last, as it was: what the next segment chains to.
    pub(crate) chain: u32,
    /// The time of the last.
    pub(crate) last_time: Timestamp,
    /// How many records the file holds, that of the numbers included.
    pub(crate) records: u32,
    /// What its records come to, if it is packed.
    pub(crate) packed: Option<PackedImage>,
}

/// The image of a packed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedImage {
    /// How many bytes it has: those that the file would have if it were not packed.
    pub(crate) bytes: u32,
    /// The checksum of the table of the frames.
    pub(crate) table: u32,
}

impl SegmentHeader {
    /// Where the records begin.
    pub(crate) fn records_at(&self) -> usize {
        if self.compacted.is_some() { COMPACTED_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// The record before its first: of that, the header names the checksum, and not the term.
    pub(crate) fn before(&self) -> Mark {
        Mark { position: Position::new(self.first.get().saturating_sub(1)), term: Term::ALONE, chain: self.previous }
    }

    /// The header of a segment that takes records.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.compacted.is_none());
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        self.encode_shared(&mut out, VERSION);
        seal(&mut out);
        out
    }

    /// The header of this compacted segment, packed into so many bytes.
    pub(crate) fn packed_as(&self, bytes: u64, image: PackedImage) -> [u8; COMPACTED_HEADER_BYTES] {
        let compacted = self.compacted.expect("what is packed was compacted");
        SegmentHeader { bytes, ..*self }.encode_compacted(Compacted { packed: Some(image), ..compacted })
    }

    /// The header of a compacted segment.
    pub(crate) fn encode_compacted(&self, compacted: Compacted) -> [u8; COMPACTED_HEADER_BYTES] {
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

    fn encode_shared(&self, out: &mut [u8], version: u32) {
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[16..32].copy_from_slice(&self.identity.database.to_le_bytes());
        out[32..36].copy_from_slice(&self.identity.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.previous.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.get().to_le_bytes());
        out[48..56].copy_from_slice(&self.time.as_micros().to_le_bytes());
        out[56..64].copy_from_slice(&self.bytes.to_le_bytes());
    }

    /// The checksum that it has in a file.
    pub(crate) fn crc(&self) -> u32 {
        match self.compacted {
            Some(compacted) => Self::crc_of(&self.encode_compacted(compacted)),
            None => Self::crc_of(&self.encode()),
        }
    }

    /// The checksum in a header that was verified before.
    pub(crate) fn crc_of(header: &[u8]) -> u32 {
        u32::from_le_bytes(header[12..16].try_into().expect("four bytes"))
    }

    /// Whether these bytes begin with a header that was written whole: of whatever log and version.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        header_bytes(bytes)
            .is_some_and(|fixed| fixed[12..16] == crc32c_of_two(&fixed[..12], &fixed[16..]).to_le_bytes())
    }

    /// The log that a whole header of this version says it belongs to.
    pub(crate) fn identity_of(bytes: &[u8]) -> Option<Identity> {
        let header = header_bytes(bytes).filter(|header| Self::is_whole(header))?;
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        let database = u128::from_le_bytes(header[16..32].try_into().expect("sixteen bytes"));
        let shard = u32::from_le_bytes(header[32..36].try_into().expect("four bytes"));
        (version <= supported(header)).then_some(Identity { database, shard })
    }

    /// Reads and verifies the header of the segment at `path`, which must belong to the log of `identity`.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::NewerFormat`].
    pub(crate) fn decode(bytes: &[u8], path: &Path, identity: Identity) -> Result<Self> {
        let damaged =
            |offset: u64, message: String| Error::Damaged { path: path.to_owned(), offset, position: None, message };
        if bytes.len() < HEADER_BYTES {
            return Err(damaged(bytes.len() as u64, "the file ends within its header".to_owned()));
        }
        let Some(fixed) = header_bytes(bytes) else {
            return Err(damaged(0, "it does not begin as a segment does".to_owned()));
        };
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let computed = crc32c_of_two(&fixed[..12], &fixed[16..]);
        if computed != u32_at(12) {
            return Err(damaged(
                12,
                format!("the header's checksum is {computed:08x} where {:08x} is stored", u32_at(12)),
            ));
        }
        // Magic, version and checksum stay where they are in every version; what follows may not.
        let version = u32_at(8);
        if version > supported(fixed) {
            return Err(Error::NewerFormat { path: path.to_owned(), version, supported: supported(fixed) });
        }
        let database = u128::from_le_bytes(fixed[16..32].try_into().expect("sixteen bytes"));
        let found = Identity { database, shard: u32_at(32) };
        if found != identity {
            return Err(damaged(16, format!("it belongs to {found}, not to {identity}")));
        }
        // Who maps the file, and looks for records behind the header, goes by this.
        if !(fixed.len() as u64..=u64::from(u32::MAX)).contains(&u64_at(56)) {
            return Err(damaged(56, format!("no segment has {} bytes", u64_at(56))));
        }
        let positions = [Some(40), (fixed.len() == COMPACTED_HEADER_BYTES).then_some(64)];
        if let Some(at) = positions.into_iter().flatten().find(|at| u64_at(*at) > POSITION_MAX) {
            return Err(damaged(at as u64, format!("no log comes to record {}", u64_at(at))));
        }
        Ok(SegmentHeader {
            identity,
            previous: u32_at(36),
            first: Position::new(u64_at(40)),
            time: Timestamp::from_micros(u64_at(48)),
            bytes: u64_at(56),
            compacted: (fixed.len() == COMPACTED_HEADER_BYTES).then(|| Compacted {
                end: Position::new(u64_at(64)),
                last_time: Timestamp::from_micros(u64_at(72)),
                chain: u32_at(80),
                records: u32_at(84),
                packed: (version == VERSION_PACKED).then(|| PackedImage { bytes: u32_at(88), table: u32_at(92) }),
            }),
        })
    }
}

/// The header that these bytes begin with, by its magic bytes; `None` when they are none or there are too few.
fn header_bytes(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.get(..8)? {
        magic if magic == MAGIC => bytes.get(..HEADER_BYTES),
        magic if magic == MAGIC_COMPACTED => bytes.get(..COMPACTED_HEADER_BYTES),
        _ => None,
    }
}

/// The newest version of a header as long as this.
fn supported(header: &[u8]) -> u32 {
    if header.len() == COMPACTED_HEADER_BYTES { VERSION_PACKED } else { VERSION }
}

fn seal(header: &mut [u8]) {
    let crc = crc32c_of_two(&header[..12], &header[16..]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
}
