//! The durable cell of a vote: the facts that a member of a cluster must not forget before it
//! answers.
//!
//! The cell is one file, `office`. A member writes it to another name, syncs and renames it. The
//! member saves the cell before it sends a message that rests on it. After a crash the cell holds
//! the saved value or the one before, never a part of both.
//!
//! ```text
//! 0        8       12  16          32    36   40   48          64      80    84
//! ┌────────┬───────┬───┬───────────┬─────┬────┬────┬───────────┬───────┬─────┬─┐
//! │QUIREOFF│version│crc│database id│shard│term│vote│incarnation│boot id│clean│0│
//! └────────┴───────┴───┴───────────┴─────┴────┴────┴───────────┴───────┴─────┴─┘
//! ```
//! A missing file means that no vote was saved. A damaged one is an error: the member does not know
//! its vote, and must not vote again under its incarnation.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::checksum::crc32c_of_two;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Term;
use crate::storage::directory::Directory;

const MAGIC: &[u8; 8] = b"QUIREOFF";
const VERSION: u32 = 1;
const BYTES: usize = 88;
/// The file's name.
pub(crate) const NAME: &str = "office";

/// The path of the file in the directory of a log.
pub fn office_file(log: &Path) -> PathBuf {
    log.join(NAME)
}

/// The facts that a member of a cluster must not forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Office {
    /// The latest term that the member has seen.
    pub term: Term,
    /// The member that it voted for in that term.
    pub vote: Option<NonZeroU64>,
    /// A random number, made together with the member's directory. A member with a new directory is
    /// another member.
    pub incarnation: u128,
    /// The boot of the machine in which the member last ran.
    pub boot: u128,
    /// Whether the member had synced its log and stopped.
    pub is_clean: bool,
}

impl Office {
    /// Whether `self` may replace `before`: terms never fall, and a vote within a term stays.
    fn may_replace(&self, before: &Office) -> bool {
        self.term > before.term || self.term == before.term && (before.vote.is_none() || self.vote == before.vote)
    }

    fn encode(&self, identity: Identity) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&identity.database.to_le_bytes());
        out[32..36].copy_from_slice(&identity.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.term.get().to_le_bytes());
        out[40..48].copy_from_slice(&self.vote.map_or(0, NonZeroU64::get).to_le_bytes());
        out[48..64].copy_from_slice(&self.incarnation.to_le_bytes());
        out[64..80].copy_from_slice(&self.boot.to_le_bytes());
        out[80..84].copy_from_slice(&u32::from(self.is_clean).to_le_bytes());
        let crc = crc32c_of_two(&out[..12], &out[16..]);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], directory: &Directory, identity: Identity) -> Result<Self> {
        let path = directory.path_of(NAME);
        let damaged = |offset, message: String| Error::Damaged { path: path.clone(), offset, position: None, message };
        let Ok(fixed) = <&[u8; BYTES]>::try_from(bytes) else {
            return Err(damaged(0, format!("it has {} bytes, expected {BYTES}", bytes.len())));
        };
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let u128_at = |at: usize| u128::from_le_bytes(fixed[at..at + 16].try_into().expect("sixteen bytes"));
        let computed = crc32c_of_two(&fixed[..12], &fixed[16..]);
        if &fixed[..8] != MAGIC || computed != u32_at(12) {
            let stored = u32_at(12);
            return Err(damaged(12, format!("the checksum is {computed:08x} where {stored:08x} is stored")));
        }
        if u32_at(8) > VERSION {
            return Err(Error::NewerFormat { path: path.clone(), version: u32_at(8), supported: VERSION });
        }
        let found = Identity { database: u128_at(16), shard: u32_at(32) };
        if found != identity {
            return Err(damaged(16, format!("it belongs to {found}, not to {identity}")));
        }
        Ok(Office {
            term: Term::new(u32_at(36)),
            vote: NonZeroU64::new(u64::from_le_bytes(fixed[40..48].try_into().expect("eight bytes"))),
            incarnation: u128_at(48),
            boot: u128_at(64),
            is_clean: u32_at(80) != 0,
        })
    }
}

/// Reads the cell. Returns `None` when nothing was saved.
pub(crate) fn read(directory: &Directory, identity: Identity) -> Result<Option<Office>> {
    let bytes = directory.try_read_head(NAME, BYTES + 1)?;
    bytes.map(|bytes| Office::decode(&bytes, directory, identity)).transpose()
}

/// Saves the cell: it is durable when this returns.
///
/// # Panics
/// When the term falls, or the vote within a term changes.
pub(crate) fn save(directory: &Directory, identity: Identity, office: &Office) -> Result<()> {
    if let Some(before) = read(directory, identity)? {
        assert!(office.may_replace(&before), "a member votes once in a term, and terms never fall");
    }
    // Commit point: the rename, after which the new vote counts.
    directory.write_whole(NAME, &[&office.encode(identity)])
}
