//! `quire.meta`: the file that makes a directory a database. `docs/file-format.md` has the layout.
//!
//! Creation writes it last. A directory whose creation was interrupted holds `quire.meta.new`, and
//! is created again: it can hold no commit.

use std::io;
use std::path::{Path, PathBuf};

use quire_log::{Access, Lock, Storage, StoredFile};

use crate::tools::refuse_backup;
use crate::{Error, ErrorKind, Result};

const NAME: &str = Meta::NAME;
const BESIDE: &str = "quire.meta.new";
const MAGIC: &[u8; 8] = b"QUIREMET";
const VERSION: u32 = 1;
const BYTES: usize = 40;

/// Number of shards of a database. Other numbers are refused, so that no program takes one of
/// several shards for the whole.
const SHARDS: u32 = 1;

/// The directory of the only shard.
pub(crate) const SHARD: &str = "shard-0000";

/// The content of `quire.meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// A random number that all files of the database carry.
    pub(crate) database: u128,
    pub(crate) shards: u32,
}

impl Meta {
    pub(crate) const NAME: &str = "quire.meta";

    /// Reads the file of the database in `path`, or creates a database if the directory is empty.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`] when the directory holds something else.
    pub(crate) fn open_or_create(
        storage: &dyn Storage,
        path: &Path,
        create: bool,
        id: impl FnOnce() -> u128,
    ) -> Result<Self> {
        match storage.read(&path.join(NAME)) {
            Ok(bytes) => Meta::decode(&bytes, &path.join(NAME)),
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory => {
                if let Err(refused) = check_creatable(storage, path, create) {
                    // Another process may have created the database meanwhile.
                    let made = storage.read(&path.join(NAME)).map_err(|_| refused)?;
                    return Meta::decode(&made, &path.join(NAME));
                }
                create_database(storage, path, id)
            }
            Err(error) => Err(Error::io("read", &path.join(NAME), error)),
        }
    }

    /// Reads the file of the database in `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`] when the file does not exist.
    pub(crate) fn read(storage: &dyn Storage, path: &Path) -> Result<Self> {
        match storage.read(&path.join(NAME)) {
            Ok(bytes) => Meta::decode(&bytes, &path.join(NAME)),
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory => {
                refuse_backup(storage, path)?;
                let message = format!("{} is not a Quire database: {}", path.display(), nothing_in(storage, path));
                Err(Error::new(ErrorKind::NotADatabase, message))
            }
            Err(error) => Err(Error::io("read", &path.join(NAME), error)),
        }
    }

    /// Reads the file of the database in `path`; `None` when it does not exist.
    pub(crate) fn read_if_there(storage: &dyn Storage, path: &Path) -> Result<Option<Self>> {
        let file = path.join(NAME);
        match storage.read(&file) {
            Ok(bytes) => Meta::decode(&bytes, &file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &file, error)),
        }
    }

    /// Writes the file in a directory that holds the rest of the database.
    pub(crate) fn write(self, storage: &dyn Storage, database: &Path) -> Result<()> {
        let beside = database.join(BESIDE);
        let write = || -> io::Result<()> {
            let file = storage.open(&beside, Access::CreateEmpty)?;
            file.write_at(&self.encode(), 0)?;
            file.sync_all()?;
            // Commit point: from here on the directory is a database.
            storage.rename(&beside, &Meta::path(database))?;
            storage.open(database, Access::Read)?.sync_all()
        };
        write().map_err(|error| Error::io("write", &Meta::path(database), error))
    }

    /// Returns the path of the file.
    pub(crate) fn path(database: &Path) -> PathBuf {
        database.join(NAME)
    }

    /// Returns the name of a shard's directory.
    pub(crate) fn shard_name(shard: u32) -> String {
        format!("shard-{shard:04}")
    }

    fn encode(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.database.to_le_bytes());
        out[32..36].copy_from_slice(&self.shards.to_le_bytes());
        let crc = checksum(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |message: &str| {
            let message = format!(
                "{} is damaged: {message}; `quire repair` writes it again from the shard, if that is readable; else restore a backup, or copy the whole records with `quire salvage`",
                path.display()
            );
            Error::new(ErrorKind::Damaged, message)
        };
        let Some(fixed) = bytes.first_chunk::<BYTES>() else { return Err(damaged("it is too short")) };
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        if &fixed[..8] != MAGIC {
            return Err(damaged("its first bytes are wrong"));
        }
        if u32_at(8) > VERSION && !is_only_its_version_damaged(fixed) {
            let message = format!(
                "{} has format version {}, and this program reads up to {VERSION}; use a newer program",
                path.display(),
                u32_at(8)
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        if u32_at(12) != checksum(fixed) {
            return Err(damaged("its checksum does not match"));
        }
        let database = u128::from_le_bytes(fixed[16..32].try_into().expect("sixteen bytes"));
        let shards = u32_at(32);
        if shards != SHARDS {
            let message = format!(
                "{} has {shards} shards, and this program supports {SHARDS}; use a newer program",
                path.display()
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        Ok(Meta { database, shards })
    }
}

/// Whether the checksum is that of the same bytes with this program's version. A newer program
/// writes no such file.
fn is_only_its_version_damaged(bytes: &[u8; BYTES]) -> bool {
    let mut with_version = *bytes;
    with_version[8..12].copy_from_slice(&VERSION.to_le_bytes());
    checksum(&with_version).to_le_bytes() == bytes[12..16]
}

fn checksum(bytes: &[u8; BYTES]) -> u32 {
    let mut fields = [0; BYTES - 4];
    fields[..12].copy_from_slice(&bytes[..12]);
    fields[12..].copy_from_slice(&bytes[16..]);
    quire_log::crc32c(&fields)
}

/// Returns the reason why a path holds no database.
fn nothing_in(storage: &dyn Storage, path: &Path) -> &'static str {
    match storage.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "directory not found",
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => "it is a file; name the directory of a database",
        Ok(names) if names.iter().any(|name| name == SHARD) => {
            "it holds no quire.meta, but a shard: `quire repair` writes quire.meta again from the shard, if that is readable"
        }
        _ => "it holds no quire.meta",
    }
}

/// Checks that the path is free, or holds only the rest of an interrupted creation.
fn check_creatable(storage: &dyn Storage, path: &Path, create: bool) -> Result<()> {
    let not_a_database = |what: String| {
        let message = format!("{} is not a Quire database: {what}", path.display());
        Error::new(ErrorKind::NotADatabase, message)
    };
    let names = match storage.list(path) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_database("it is a file; name the directory of a database".to_owned()));
        }
        Err(error) => return Err(Error::io("list", path, error)),
    };
    refuse_backup(storage, path)?;
    if !create {
        return Err(not_a_database(format!("{}, and creation is disabled", nothing_in(storage, path))));
    }
    let interrupted = names.iter().any(|name| name == BESIDE);
    match names.iter().find(|name| !(interrupted && (*name == BESIDE || *name == SHARD))) {
        Some(other) if *other == SHARD => Err(not_a_database(format!(
            "it holds {SHARD} and no quire.meta; `quire repair` writes quire.meta again if that is a shard of Quire"
        ))),
        Some(other) => Err(not_a_database(format!(
            "it holds {} and no quire.meta; name an empty or a new directory",
            other.display()
        ))),
        None => Ok(()),
    }
}

/// Creates an empty database, unless another process has just created it.
fn create_database(storage: &dyn Storage, path: &Path, id: impl FnOnce() -> u128) -> Result<Meta> {
    let failed = |error| Error::io("create a database in", path, error);
    let parents = storage.create_directories(path).map_err(failed)?;
    let beside = path.join(BESIDE);
    // Not truncated: the file may belong to another process. It may be that process's database by
    // the time this process locks it.
    let file = storage.open(&beside, Access::Create).map_err(failed)?;
    // Waits for another process that is creating the database.
    file.lock(Lock::InTurn).map_err(failed)?;
    let made = match storage.read(&path.join(NAME)) {
        Ok(bytes) => {
            // The other process had renamed its file before this one opened the path. This file is
            // therefore new and empty.
            let _ = storage.remove(&beside);
            Meta::decode(&bytes, &path.join(NAME))
        }
        Err(_) => fill_database(storage, path, &*file, id),
    };
    // Unlocked explicitly, because a child process that is starting may hold the file, too.
    file.unlock();
    for parent in parents {
        storage.open(&parent, Access::Read).and_then(|directory| directory.sync_all()).map_err(failed)?;
    }
    made
}

/// Creates the files of an empty database. After a crash at any line the directory is created
/// again.
fn fill_database(storage: &dyn Storage, path: &Path, file: &dyn StoredFile, id: impl FnOnce() -> u128) -> Result<Meta> {
    let shard = path.join(SHARD);
    match storage.remove_directory(&shard) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            let message =
                format!("{} is not empty, so {NAME} is missing; restore {NAME} from a backup", shard.display());
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", &shard, error)),
        _ => {}
    }
    let meta = Meta { database: id(), shards: 1 };
    let fill = || -> io::Result<()> {
        let directory = storage.open(path, Access::Read)?;
        file.set_bytes(0)?;
        file.write_at(&meta.encode(), 0)?;
        file.sync_all()?;
        directory.sync_all()?;
        storage.create_directories(&shard)?;
        directory.sync_all()?;
        // Commit point: from here on the directory is a database.
        storage.rename(&path.join(BESIDE), &path.join(NAME))?;
        directory.sync_all()
    };
    fill().map_err(|error| Error::io("create a database in", path, error))?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::sync::Arc;

    use quire_log::Disk;

    use super::*;

    /// A disk on which another process creates a database in a directory just before the first
    /// listing.
    #[derive(Debug)]
    struct RacingStorage(u128);

    impl Storage for RacingStorage {
        fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
            let made = Meta::open_or_create(&Disk, directory, true, || self.0).expect("created");
            assert_eq!(made.database, self.0);
            Disk.list(directory)
        }

        fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
            Disk.create_directories(path)
        }

        fn remove_directory(&self, path: &Path) -> io::Result<()> {
            Disk.remove_directory(path)
        }

        fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
            Disk.open(path, access)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            Disk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            Disk.remove(path)
        }
    }

    #[test]
    fn a_database_that_another_process_creates_meanwhile_is_opened() {
        for create in [true, false] {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let opened = Meta::open_or_create(&RacingStorage(7), folder.path(), create, || 8).expect("opened");
            assert_eq!(opened.database, 7);
        }
    }
}
