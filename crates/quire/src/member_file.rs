//! `quire.node`: the file that makes a database the node of a cluster. `docs/file-format.md` has
//! the layout.
//!
//! It is written after `quire.meta`. A crash in between leaves a database alone without a record of
//! the cluster, and the node is begun again.

use std::io;
use std::path::{Path, PathBuf};

use quire_log::{Access, Storage};

use crate::{Error, ErrorKind, Position, Result};

const BESIDE: &str = "quire.node.new";
const MAGIC: &[u8; 8] = b"QUIRENOD";
const VERSION: u32 = 2;
const BYTES: usize = 72;
/// The length of version 1, which has no cluster.
const BYTES_V1: usize = 48;

/// The content of `quire.node`: which node of its cluster a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberFile {
    /// The number of the node, from 1 on.
    pub node: u64,
    /// A random number, made with the file. A node with another one is another node.
    pub incarnation: u128,
    /// Whether this node made the cluster.
    pub is_founder: bool,
    /// A random number, made with the cluster: the incarnation of the node that made it, or a new
    /// number after a [recovery](crate::tools::StoppedNode). Nodes of different clusters have
    /// different ones, also when their databases are copies of each other. 0 in files of version 1.
    pub cluster: u128,
    /// On the node that made the cluster: the last record before the cluster. Members that are set
    /// by records up to it are those of an earlier cluster.
    pub since: Position,
    /// Whether the node has saved a vote. From then on, a node without its vote must not run: it
    /// could vote twice in one term.
    pub has_voted: bool,
}

impl MemberFile {
    pub(crate) const NAME: &str = "quire.node";

    /// Reads the file of the database in `path`; `None` for a database alone, and where there is no
    /// database.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::NewerFormat`] and [`ErrorKind::Io`].
    pub fn read(storage: &dyn Storage, path: &Path) -> Result<Option<Self>> {
        let file = path.join(MemberFile::NAME);
        match storage.read(&file) {
            Ok(bytes) => MemberFile::decode(&bytes, &file).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::io("read", &file, error)),
        }
    }

    /// Writes the file of the database in `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] and [`ErrorKind::Io`]: the database is no node yet.
    pub fn write(&self, storage: &dyn Storage, path: &Path) -> Result<()> {
        let beside = path.join(BESIDE);
        let write = || -> io::Result<()> {
            let file = storage.open(&beside, Access::CreateEmpty)?;
            file.write_at(&self.encode(), 0)?;
            file.sync_all()?;
            // Commit point: from here on the database is a node.
            storage.rename(&beside, &MemberFile::path(path))?;
            storage.open(path, Access::Read)?.sync_all()
        };
        write().map_err(|error| Error::io("write", &MemberFile::path(path), error))
    }

    fn path(database: &Path) -> PathBuf {
        database.join(MemberFile::NAME)
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.node.to_le_bytes());
        out[24..40].copy_from_slice(&self.incarnation.to_le_bytes());
        (out[40], out[41]) = (u8::from(self.is_founder), u8::from(self.has_voted));
        out[48..64].copy_from_slice(&self.cluster.to_le_bytes());
        out[64..72].copy_from_slice(&self.since.get().to_le_bytes());
        let crc = checksum(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |message: &str| {
            let message = format!(
                "{} is damaged: {message}; remove this node from the cluster, and join with an empty directory and another number",
                path.display()
            );
            Error::new(ErrorKind::Damaged, message)
        };
        if bytes.len() < BYTES_V1 {
            return Err(damaged("it is shorter than its fields"));
        }
        if &bytes[..8] != MAGIC {
            return Err(damaged("its first bytes are wrong"));
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if u32_at(12) != checksum(bytes) {
            return Err(damaged("its checksum does not match"));
        }
        if u32_at(8) > VERSION {
            let message = format!(
                "{} has format version {}, and this program reads up to {VERSION}; use a newer program",
                path.display(),
                u32_at(8)
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u128_at = |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
        let (cluster, since) = match (u32_at(8), bytes.len()) {
            (1, BYTES_V1) => (0, Position::ZERO),
            (VERSION, BYTES) => (u128_at(48), Position::new(u64_at(64))),
            _ => return Err(damaged("it has another length than its version")),
        };
        Ok(MemberFile {
            node: u64_at(16),
            incarnation: u128_at(24),
            is_founder: bytes[40] == 1,
            cluster,
            since,
            has_voted: bytes[41] == 1,
        })
    }
}

/// The checksum of everything but the checksum.
fn checksum(bytes: &[u8]) -> u32 {
    quire_log::crc32c(&[&bytes[..12], &bytes[16..]].concat())
}

#[cfg(test)]
mod tests {
    use quire_log::Disk;

    use super::*;
    use crate::Database;

    #[test]
    fn a_file_reads_back_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (incarnation, since) = (9 << 100, Position::new(77));
        let file = MemberFile { node: 3, incarnation, is_founder: true, cluster: incarnation, since, has_voted: true };
        assert_eq!(MemberFile::read(&Disk, directory.path()).expect("none"), None);
        file.write(&Disk, directory.path()).expect("written");
        assert_eq!(MemberFile::read(&Disk, directory.path()).expect("read"), Some(file));
        let bytes = file.encode();
        for at in 0..BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(MemberFile::decode(&damaged, directory.path()).is_err(), "byte {at}");
            assert!(MemberFile::decode(&bytes[..at], directory.path()).is_err(), "{at} bytes");
        }
        // Version 1, whose checksum covers its 48 bytes.
        let mut first = bytes[..BYTES_V1].to_vec();
        first[8] = 1;
        let crc = checksum(&first);
        first[12..16].copy_from_slice(&crc.to_le_bytes());
        let expected = MemberFile { cluster: 0, since: Position::ZERO, ..file };
        assert_eq!(MemberFile::decode(&first, directory.path()).expect("read"), expected);
    }

    #[test]
    fn a_node_is_opened_by_its_server_only_and_read_by_all() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("data");
        drop(Database::open(&path).expect("created"));
        let file = MemberFile {
            node: 2,
            incarnation: 1,
            is_founder: false,
            cluster: 7,
            since: Position::ZERO,
            has_voted: false,
        };
        file.write(&Disk, &path).expect("written");
        let refused = Database::open(&path).expect_err("a node");
        assert_eq!(refused.kind(), ErrorKind::InUse);
        assert!(refused.to_string().contains("node 2 of a cluster"), "{refused}");
        Database::builder(&path).read_only(true).open().expect("read");
        Database::builder(&path).member(true).open().expect("opened by its server");
    }
}
