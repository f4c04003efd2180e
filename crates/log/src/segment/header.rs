//! The 64 bytes in front of a segment's records.

use std::path::Path;

use quire_model::{Position, Timestamp};

use crate::checksum::crc32c_of_two;
use crate::error::{Error, Result};
use crate::log::Identity;

/// The bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"QUIRESEG";
const VERSION: u32 = 1;

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
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.identity.database.to_le_bytes());
        out[32..36].copy_from_slice(&self.identity.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.previous.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.get().to_le_bytes());
        out[48..56].copy_from_slice(&self.time.as_micros().to_le_bytes());
        out[56..64].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c_of_two(&out[..12], &out[16..]);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The checksum in a header that was verified before.
    pub(crate) fn crc_of(header: &[u8]) -> u32 {
        u32::from_le_bytes(header[12..16].try_into().expect("four bytes"))
    }

    /// Whether these bytes begin with a header that was written whole: of whatever log and version.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        bytes.first_chunk::<HEADER_BYTES>().is_some_and(|fixed| {
            &fixed[..8] == MAGIC && fixed[12..16] == crc32c_of_two(&fixed[..12], &fixed[16..]).to_le_bytes()
        })
    }

    /// Reads and verifies the header of the segment at `path`, which must belong to the log of `identity`.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::NewerFormat`].
    pub(crate) fn decode(bytes: &[u8], path: &Path, identity: Identity) -> Result<Self> {
        let damaged =
            |offset: u64, message: String| Error::Damaged { path: path.to_owned(), offset, position: None, message };
        let Some(fixed) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(damaged(bytes.len() as u64, "the file ends within its header".to_owned()));
        };
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        if &fixed[..8] != MAGIC {
            return Err(damaged(0, "it does not begin as a segment does".to_owned()));
        }
        let computed = crc32c_of_two(&fixed[..12], &fixed[16..]);
        if computed != u32_at(12) {
            return Err(damaged(
                12,
                format!("the header's checksum is {computed:08x} where {:08x} is stored", u32_at(12)),
            ));
        }
        // Magic, version and checksum stay where they are in every version; what follows may not.
        let version = u32_at(8);
        if version > VERSION {
            return Err(Error::NewerFormat { path: path.to_owned(), version, supported: VERSION });
        }
        let database = u128::from_le_bytes(fixed[16..32].try_into().expect("sixteen bytes"));
        let found = Identity { database, shard: u32_at(32) };
        if found != identity {
            return Err(damaged(16, format!("it belongs to {found}, not to {identity}")));
        }
        Ok(SegmentHeader {
            identity,
            previous: u32_at(36),
            first: Position::new(u64_at(40)),
            time: Timestamp::from_micros(u64_at(48)),
            bytes: u64_at(56),
        })
    }
}
