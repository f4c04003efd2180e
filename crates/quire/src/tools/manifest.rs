//! `quire.backup`: what makes a folder a backup. It is the last file that a backup gets, so that half a backup has none.
//! The layout is drawn in `docs/file-format.md`.

use std::path::Path;

use quire_log::{Disk, Identity, Storage, crc32c};
use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Position, Timestamp};

use crate::error::{Error, ErrorKind, Result};

/// The file's name.
pub(super) const NAME: &str = "quire.backup";
const MAGIC: &[u8; 8] = b"QUIREBAK";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;

/// A backup: where it stands, and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The log that it is of.
    pub identity: Identity,
    /// The last record that it holds.
    pub position: Position,
    /// When that record was appended.
    pub time: Timestamp,
    /// Its files.
    pub files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name within the shard.
    pub name: String,
    /// How long it is, with the zeros at its end.
    pub bytes: u64,
    /// How many bytes it has without those.
    pub used: u64,
    /// The CRC-32C of the bytes that are used.
    pub crc: u32,
}

impl Backup {
    /// Reads what the backup in a folder is made of.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`] when there is none, or none that was finished; [`ErrorKind::Damaged`],
    /// [`ErrorKind::NewerFormat`], [`ErrorKind::Io`].
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let bytes = match Disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let message =
                    format!("{} holds no {NAME}: it is no backup, or one that was not finished", folder.display());
                return Err(Error::new(ErrorKind::NotADatabase, message));
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let damaged = || {
            let message = format!("{} is damaged; take another backup", path.display());
            Error::new(ErrorKind::Damaged, message)
        };
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(damaged)?;
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if &header[..8] != MAGIC || u32_at(12) != crc32c(body) {
            return Err(damaged());
        }
        if u32_at(8) != VERSION {
            let message = format!(
                "{} has format version {}, and this program reads {VERSION}; use a newer program",
                path.display(),
                u32_at(8)
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        Backup::decode(body).map_err(|_| damaged())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Encoder::new();
        body.raw(&self.identity.database.to_le_bytes()).u32(self.identity.shard);
        body.u64(self.position.get()).u64(self.time.as_micros()).varint(self.files.len() as u64);
        for BackupFile { name, bytes, used, crc } in &self.files {
            body.str(name).varint(*bytes).varint(*used).u32(*crc);
        }
        let body = body.into_bytes();
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(crc32c(&body).to_le_bytes());
        out.extend(body);
        out
    }

    fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let database = u128::from_le_bytes(from.raw(16)?.try_into().expect("sixteen bytes"));
        let identity = Identity { database, shard: from.u32()? };
        let (position, time) = (Position::new(from.u64()?), Timestamp::from_micros(from.u64()?));
        let mut files = Vec::new();
        for _ in 0..from.varint()? {
            let name = from.string()?;
            files.push(BackupFile { name, bytes: from.varint()?, used: from.varint()?, crc: from.u32()? });
        }
        from.end()?;
        Ok(Backup { identity, position, time, files })
    }

    /// The file of this name.
    pub(super) fn file(&self, name: &str) -> Option<&BackupFile> {
        self.files.iter().find(|file| file.name == name)
    }
}
