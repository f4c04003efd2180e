//! Restoring a backup: every byte is verified before there is a database.

use std::path::Path;
use std::sync::Arc;

use quire_log::{Storage, crc32c};

use super::backup::{make_empty, refuse_within, write_file};
use super::manifest::{Backup, BackupFile, begin, finish, sync_folder};
use super::verify::{Verification, verify_log};
use super::{GraphMemory, machine};
use crate::administration::report_restore;
use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// Restores a backup to `database`, a new or empty directory, and verifies the result. The database
/// has the id of the database that was backed up. `graph_memory` and `progress` are those of
/// [`verify`](super::verify()).
///
/// # Errors
/// * [`ErrorKind::NotADatabase`] when `backup` is no backup, or an unfinished one.
/// * [`ErrorKind::Damaged`] when a file of the backup is damaged: there is then no database.
/// * [`ErrorKind::Invalid`] when `database` is not empty, or lies in the backup.
/// * [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
pub fn restore(
    backup: &Path,
    database: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    refuse_within("backup", backup, database)?;
    restore_on(&machine(), backup, database, graph_memory, progress).inspect(report_restore)
}

pub(super) fn restore_on(
    shared: &Arc<dyn Storage>,
    backup: &Path,
    database: &Path,
    graph_memory: Option<&GraphMemory>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    let storage = &**shared;
    let manifest = Backup::read_finished(storage, backup)?;
    let name = Meta::shard_name(manifest.identity.shard);
    make_empty(storage, database)?;
    begin(storage, database)?;
    for file in &manifest.files {
        let source = backup.join(&name).join(&file.name);
        let bytes = storage.read(&source).map_err(|error| Error::io("read", &source, error))?;
        let used = usize::try_from(file.used).unwrap_or(usize::MAX);
        if !is_whole(file, &bytes, used) {
            let message = format!(
                "{} is damaged: its bytes do not match the backup's list; use another backup",
                source.display()
            );
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let path = database.join(&name).join(&file.name);
        write_file(storage, &path, &bytes[..used], file.bytes).map_err(|error| Error::io("write", &path, error))?;
    }
    let shard = database.join(&name);
    sync_folder(storage, &shard).map_err(|error| Error::io("sync", &shard, error))?;
    let verification = verify_log(shared, database, manifest.identity, Vec::new(), graph_memory, progress)?;
    if verification.totals.last != manifest.position {
        let message = format!(
            "{} is damaged: it ends with record {}, and the backup was taken after record {}; use another backup",
            database.display(),
            verification.totals.last,
            manifest.position
        );
        return Err(Error::new(ErrorKind::Damaged, message));
    }
    // From here on every file that the others follow from is there, and durable.
    finish(storage, database)?;
    let meta = Meta { database: manifest.identity.database, shards: 1 };
    meta.write(storage, database)?;
    Ok(verification)
}

/// Whether the bytes of a file are those that the list describes.
pub(super) fn is_whole(file: &BackupFile, bytes: &[u8], used: usize) -> bool {
    let rest = bytes.get(used..).unwrap_or_default();
    bytes.len() as u64 == file.bytes
        && bytes.get(..used).is_some_and(|used| crc32c(used) == file.crc)
        && rest.iter().all(|byte| *byte == 0)
}
