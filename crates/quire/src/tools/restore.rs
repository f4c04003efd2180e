//! Making a database of a backup: every byte is verified before there is one.

use std::fs::{self, File};
use std::path::Path;

use quire_log::crc32c;

use super::backup::{make_empty, write_file};
use super::manifest::{Backup, BackupFile, begin, finish};
use super::verify::{Verification, verify};
use crate::error::{Error, ErrorKind, Result};
use crate::meta::Meta;

/// Makes a database of a backup, in a directory that is new or empty, and verifies it. It has the id of the database that was
/// backed up. `progress` is told how many bytes were verified, and of how many.
///
/// # Errors
/// [`ErrorKind::NotADatabase`] when it is no backup, or one that was not finished. [`ErrorKind::Damaged`] when a file is not as it was
/// written: then there is no database. [`ErrorKind::Invalid`] when the directory is not empty. [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
pub fn restore(backup: &Path, database: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    let manifest = Backup::read(backup)?;
    let name = Meta::shard_name(manifest.identity.shard);
    make_empty(database)?;
    begin(database)?;
    for file in &manifest.files {
        let source = backup.join(&name).join(&file.name);
        let bytes = fs::read(&source).map_err(|error| Error::io("read", &source, error))?;
        let used = usize::try_from(file.used).unwrap_or(usize::MAX);
        if !is_whole(file, &bytes, used) {
            let message = format!("{} is not as it was written; use another backup", source.display());
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let path = database.join(&name).join(&file.name);
        write_file(&path, &bytes[..used], file.bytes).map_err(|error| Error::io("write", &path, error))?;
    }
    let shard = database.join(&name);
    File::open(&shard).and_then(|folder| folder.sync_all()).map_err(|error| Error::io("sync", &shard, error))?;
    // From here on all is there, and durable: what is missing follows from it.
    finish(database)?;
    let meta = Meta { database: manifest.identity.database, shards: 1 };
    meta.write(database)?;
    let verification = verify(database, progress)?;
    if verification.totals.last != manifest.position {
        let message = format!(
            "{} ends with record {}, and the backup was taken after {}; use another backup",
            database.display(),
            verification.totals.last,
            manifest.position
        );
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    Ok(verification)
}

fn is_whole(file: &BackupFile, bytes: &[u8], used: usize) -> bool {
    let rest = bytes.get(used..).unwrap_or_default();
    bytes.len() as u64 == file.bytes
        && bytes.get(..used).is_some_and(|used| crc32c(used) == file.crc)
        && rest.iter().all(|byte| *byte == 0)
}
