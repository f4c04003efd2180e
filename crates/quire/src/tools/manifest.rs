//! The files that mark a backup. `quire.backup` is written last, so an unfinished backup has none.
//! `quire.unfinished` is written first and removed last, so an unfinished backup or restored
//! database is recognised. `quire.streamed` is the first file of a streamed backup. So the part of
//! a stream that was extracted without this program is recognised, too. `docs/file-format.md` has
//! the layout.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use quire_log::{Access, Disk, Identity, Storage, crc32c};
use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Position, Timestamp};

use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// The file's name.
pub(super) const NAME: &str = "quire.backup";
/// The name of the empty file that marks an unfinished backup, or an unfinished restore.
const UNFINISHED: &str = "quire.unfinished";
/// The name of the empty file that marks the files of a streamed backup. Without [`NAME`], the
/// stream was cut.
pub(super) const STREAMED: &str = "quire.streamed";
const MAGIC: &[u8; 8] = b"QUIREBAK";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;

/// A backup: its position and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The log that was backed up.
    pub identity: Identity,
    /// The last record that it holds.
    pub position: Position,
    /// Time of that record.
    pub time: Timestamp,
    /// Number of later records that were in the log when the backup began. They are left out
    /// because they were not synced.
    pub left_out: u64,
    /// The files.
    pub files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name within the shard.
    pub name: String,
    /// Its length, with the zeros at its end.
    pub bytes: u64,
    /// Its length without these zeros.
    pub used: u64,
    /// CRC-32C of the first `used` bytes.
    pub crc: u32,
}

impl Backup {
    /// Reads the list of the backup in a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`] when there is none, or an unfinished one;
    /// [`ErrorKind::Damaged`], [`ErrorKind::NewerFormat`], [`ErrorKind::Io`].
    pub fn read(folder: &Path) -> Result<Self> {
        Backup::read_finished(&Disk, folder)
    }

    pub(super) fn read_finished(storage: &dyn Storage, folder: &Path) -> Result<Self> {
        refuse_unfinished(storage, folder)?;
        Backup::read_from(storage, folder)
    }

    fn read_from(storage: &dyn Storage, folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let bytes = match storage.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is = match Meta::read(storage, folder) {
                    Ok(_) => "it is a database; `quire backup` makes a backup of it",
                    Err(_) => "it is not a backup, or an unfinished one",
                };
                let message = format!("{} holds no {NAME}: {is}", folder.display());
                return Err(Error::new(ErrorKind::NotADatabase, message));
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        Backup::parse(&bytes, &path)
    }

    /// Parses the list of the file at `path`.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
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
        let backup = Backup::decode(body).map_err(|_| damaged())?;
        // No list may name files outside of its backup.
        if backup.files.iter().any(|file| !is_plain(&file.name)) {
            return Err(damaged());
        }
        Ok(backup)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Encoder::new();
        body.raw(&self.identity.database.to_le_bytes()).u32(self.identity.shard);
        body.u64(self.position.get()).u64(self.time.as_micros()).varint(self.left_out).varint(self.files.len() as u64);
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
        let left_out = from.varint()?;
        let mut files = Vec::new();
        for _ in 0..from.varint()? {
            let name = from.string()?;
            files.push(BackupFile { name, bytes: from.varint()?, used: from.varint()?, crc: from.u32()? });
        }
        from.end()?;
        Ok(Backup { identity, position, time, left_out, files })
    }

    /// The file of this name.
    pub(super) fn file(&self, name: &str) -> Option<&BackupFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// Whether `name` is a plain file name, not a path to another directory.
pub(super) fn is_plain(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name() == Some(path.as_os_str())
}

/// Refuses a directory that is a backup, or an unfinished one: its files are shared with other
/// backups and must not be written.
///
/// # Errors
/// [`ErrorKind::NotADatabase`], with what to do; [`ErrorKind::Io`].
pub(crate) fn refuse_backup(storage: &dyn Storage, folder: &Path) -> Result<()> {
    refuse_unfinished(storage, folder)?;
    if !has(&names_in(storage, folder)?, NAME) {
        return Ok(());
    }
    let of = match Backup::read_from(storage, folder) {
        Ok(Backup { identity, position, .. }) => format!(" of {identity} up to record {position}"),
        Err(_) => String::new(),
    };
    let message =
        format!("{} is a backup{of}, not a database; `quire restore` makes a database of it", folder.display());
    Err(Error::new(ErrorKind::NotADatabase, message))
}

fn refuse_unfinished(storage: &dyn Storage, folder: &Path) -> Result<()> {
    let names = names_in(storage, folder)?;
    let of = if has(&names, UNFINISHED) {
        format!("backup or restore: it holds {UNFINISHED}")
    } else if has(&names, STREAMED) && !has(&names, NAME) {
        format!("streamed backup: it holds {STREAMED} and no {NAME}")
    } else {
        return Ok(());
    };
    let message = format!("{} is an unfinished {of}; remove the folder", folder.display());
    Err(Error::new(ErrorKind::NotADatabase, message))
}

/// The names in a directory; none when it does not exist.
fn names_in(storage: &dyn Storage, folder: &Path) -> Result<Vec<OsString>> {
    match storage.list(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        names => names.map_err(|error| Error::io("list", folder, error)),
    }
}

fn has(names: &[OsString], name: &str) -> bool {
    names.iter().any(|found| found == name)
}

/// Marks a directory as unfinished, before anything is written to it.
pub(super) fn begin(storage: &dyn Storage, folder: &Path) -> Result<()> {
    let path = folder.join(UNFINISHED);
    let begin = || -> io::Result<()> {
        storage.open(&path, Access::CreateNew)?.sync_all()?;
        sync_folder(storage, folder)
    };
    begin().map_err(|error| Error::io("create", &path, error))
}

/// Removes the mark of [`begin`], once everything is durable.
pub(super) fn finish(storage: &dyn Storage, folder: &Path) -> Result<()> {
    let path = folder.join(UNFINISHED);
    let finish = || -> io::Result<()> {
        storage.remove(&path)?;
        sync_folder(storage, folder)
    };
    finish().map_err(|error| Error::io("remove", &path, error))
}

/// Makes the names in a directory durable.
pub(super) fn sync_folder(storage: &dyn Storage, folder: &Path) -> io::Result<()> {
    storage.open(folder, Access::Read)?.sync_all()
}
