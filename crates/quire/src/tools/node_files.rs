//! The records of a node of a cluster, received as a whole from another node, because that node no
//! longer has each record by itself.
//!
//! ```text
//! stream ─▶ quire.incoming: each file, verified ─▶ vote, quire.meta, quire.node
//!        ─▶ quire.incoming/quire.verified  (commit point)
//!        ─▶ the old shard aside, the new files in its place ─▶ both directories removed
//! ```
//! A crash before the commit point leaves the old records as they were. After it, the next start of
//! the node puts the new files in place.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::{Access, Lock, Storage, StoredFile, office_file};

use super::backup::write_file;
use super::machine;
use super::manifest::{Backup, sync_folder};
use super::restore::is_whole;
use super::stream::receive_backup;
use crate::member_file::MemberFile;
use crate::meta::{Meta, SHARD};
use crate::{Error, ErrorKind, Result};

/// The directory of files that arrive.
const INCOMING: &str = "quire.incoming";
/// The file in it that makes them the files of the node.
const VERIFIED: &str = "quire.verified";
/// The shard that was replaced, until it is removed.
const REPLACED: &str = "quire.replaced";

/// Replaces the records of the node in `data` by those of the stream, which
/// [`Database::stream_backup`](crate::Database::stream_backup) of another node sends. `data` may
/// be missing or empty: it becomes the node `member`. No program has it open. The node keeps the
/// vote that it gave.
///
/// # Errors
/// * [`ErrorKind::InUse`] when another program receives files for the same directory.
/// * [`ErrorKind::Damaged`] when the stream is not whole, and [`ErrorKind::Invalid`] when it is of
///   another database.
/// * [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
///
/// After an error, the records in `data` are as they were.
pub fn receive_node(from: &mut dyn Read, data: &Path, member: &MemberFile) -> Result<Backup> {
    let storage = &*machine();
    let failed = |error| Error::io("create", data, error);
    let above = storage.create_directories(data).map_err(failed)?;
    let synced = above.iter().map(PathBuf::as_path).try_for_each(|path| sync_folder(storage, path));
    synced.map_err(failed)?;
    let _lock = lock(storage, data)?;
    finish_locked(storage, data)?;
    let incoming = data.join(INCOMING);
    remove(&incoming)?;
    let backup = receive_backup(from, &incoming)?;
    let meta = Meta { database: backup.identity.database, shards: 1 };
    if let Some(own) = Meta::read_if_there(storage, data)?.filter(|own| *own != meta) {
        let message = format!(
            "the files are of database {:032x}, and {} has database {:032x}",
            meta.database,
            data.display(),
            own.database
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    check(storage, &incoming, &backup)?;
    let take_over = || -> io::Result<()> {
        match storage.read(&office_file(&data.join(SHARD))) {
            Ok(vote) => write_file(storage, &office_file(&incoming.join(SHARD)), &vote, vote.len() as u64)?,
            // The node has not voted yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        sync_folder(storage, &incoming.join(SHARD))
    };
    take_over().map_err(|error| Error::io("copy the vote to", &incoming, error))?;
    meta.write(storage, &incoming)?;
    member.write(storage, &incoming)?;
    let commit = || -> io::Result<()> {
        storage.open(&incoming.join(VERIFIED), Access::CreateNew)?.sync_all()?;
        sync_folder(storage, &incoming)?;
        sync_folder(storage, data)
    };
    commit().map_err(|error| Error::io("finish", &incoming, error))?;
    finish_locked(storage, data)?;
    Ok(backup)
}

/// Puts files in place that [`receive_node`] had verified when it was interrupted. Removes those
/// that it had not.
///
/// # Errors
/// [`ErrorKind::InUse`] and [`ErrorKind::Io`].
pub fn finish_receiving(data: &Path) -> Result<()> {
    if !exists(&data.join(INCOMING))? && !exists(&data.join(REPLACED))? {
        return Ok(());
    }
    let storage = &*machine();
    let _lock = lock(storage, data)?;
    finish_locked(storage, data)
}

fn finish_locked(storage: &dyn Storage, data: &Path) -> Result<()> {
    let incoming = data.join(INCOMING);
    // An error is not an absence: without the mark, the files are removed.
    if exists(&incoming.join(VERIFIED))? {
        let place = || -> io::Result<()> {
            let (new, old) = (incoming.join(SHARD), data.join(SHARD));
            if new.try_exists()? {
                if old.try_exists()? {
                    storage.rename(&old, &data.join(REPLACED))?;
                }
                storage.rename(&new, &old)?;
            }
            for name in [Meta::NAME, MemberFile::NAME] {
                let new = incoming.join(name);
                if new.try_exists()? {
                    storage.rename(&new, &data.join(name))?;
                }
            }
            sync_folder(storage, data)
        };
        place().map_err(|error| Error::io("put in place", &incoming, error))?;
    }
    remove(&data.join(REPLACED))?;
    remove(&incoming)?;
    sync_folder(storage, data).map_err(|error| Error::io("sync", data, error))
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| Error::io("look for", path, error))
}

/// Compares each received file with the list of the sender.
fn check(storage: &dyn Storage, incoming: &Path, backup: &Backup) -> Result<()> {
    for file in &backup.files {
        let path = incoming.join(SHARD).join(&file.name);
        let bytes = storage.read(&path).map_err(|error| Error::io("read", &path, error))?;
        let used = usize::try_from(file.used).unwrap_or(usize::MAX);
        if !is_whole(file, &bytes, used) {
            let message = format!("{} arrived damaged: its bytes do not match the sender's list", path.display());
            return Err(Error::new(ErrorKind::Damaged, message));
        }
    }
    Ok(())
}

/// Keeps other programs from receiving files for the same directory.
fn lock(storage: &dyn Storage, data: &Path) -> Result<Arc<dyn StoredFile>> {
    let directory = storage.open(data, Access::Read).map_err(|error| Error::io("open", data, error))?;
    if directory.lock(Lock::Alone).map_err(|error| Error::io("lock", data, error))? {
        return Ok(directory);
    }
    let message = format!("another program receives the files of the node in {}", data.display());
    Err(Error::new(ErrorKind::InUse, message))
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", directory, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::BackupSink;
    use crate::{Database, jobs};

    struct Bytes(Vec<u8>);

    impl BackupSink for Bytes {
        fn make_space(&mut self, _bytes: u64) -> io::Result<()> {
            Ok(())
        }

        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// A stream of a database with some jobs, and the id of the database.
    fn stream(directory: &Path, jobs: u64) -> (Vec<u8>, u128) {
        let database = Database::open(directory).expect("opened");
        for _ in 0..jobs {
            database.queue("mails").enqueue(jobs::JobSpec::new(b"to: you")).expect("enqueued");
        }
        let mut bytes = Bytes(Vec::new());
        database.stream_backup(&mut bytes).expect("streamed");
        (bytes.0, database.id())
    }

    fn pending(data: &Path) -> u64 {
        let database = Database::builder(data).read_only(true).open().expect("opened");
        database.queue("mails").stats().expect("read").map_or(0, |stats| stats.pending)
    }

    const MEMBER: MemberFile = MemberFile {
        node: 2,
        incarnation: 7,
        is_founder: false,
        cluster: 9,
        since: crate::Position::ZERO,
        has_voted: false,
    };

    #[test]
    fn a_new_directory_becomes_the_node_and_another_database_is_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (bytes, _) = stream(&directory.path().join("leader"), 3);
        let data = directory.path().join("data");
        let backup = receive_node(&mut &bytes[..], &data, &MEMBER).expect("received");
        assert_eq!(backup.position.get(), 3);
        assert_eq!(MemberFile::read(&*machine(), &data).expect("read"), Some(MEMBER));
        assert_eq!(pending(&data), 3);
        let (other, _) = stream(&directory.path().join("other"), 1);
        let refused = receive_node(&mut &other[..], &data, &MEMBER).expect_err("another database");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(pending(&data), 3);
    }

    #[test]
    fn a_damaged_stream_changes_nothing() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let leader = directory.path().join("leader");
        let (first, _) = stream(&leader, 3);
        let data = directory.path().join("data");
        receive_node(&mut &first[..], &data, &MEMBER).expect("received");
        let (second, _) = stream(&leader, 2);
        for at in [700, 1_100, 1 << 20, second.len() - 3 * 512 + 10] {
            let mut damaged = second.clone();
            damaged[at] ^= 0x10;
            receive_node(&mut &damaged[..], &data, &MEMBER).expect_err("damaged");
            receive_node(&mut &second[..at], &data, &MEMBER).expect_err("cut");
            finish_receiving(&data).expect("nothing to finish");
            assert_eq!(pending(&data), 3, "byte {at}");
        }
        receive_node(&mut &second[..], &data, &MEMBER).expect("received");
        assert_eq!(pending(&data), 5);
    }

    /// The directory as a crash after each step leaves it.
    #[test]
    fn an_interrupted_replacement_is_finished_by_the_next_start() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let leader = directory.path().join("leader");
        let (first, _) = stream(&leader, 3);
        let (second, _) = stream(&leader, 2);
        for steps in 0..=6 {
            let data = directory.path().join(format!("data-{steps}"));
            receive_node(&mut &first[..], &data, &MEMBER).expect("received");
            fs::write(office_file(&data.join(SHARD)), b"vote").expect("written");
            // Another node has the new files, which are moved to where such a call has them.
            let new = directory.path().join(format!("new-{steps}"));
            receive_node(&mut &second[..], &new, &MEMBER).expect("received");
            let incoming = data.join(INCOMING);
            fs::rename(&new, &incoming).expect("moved");
            fs::write(office_file(&incoming.join(SHARD)), b"vote").expect("written");
            if steps >= 1 {
                fs::write(incoming.join(VERIFIED), b"").expect("written");
            }
            if steps >= 2 {
                fs::rename(data.join(SHARD), data.join(REPLACED)).expect("moved");
            }
            if steps >= 3 {
                fs::rename(incoming.join(SHARD), data.join(SHARD)).expect("moved");
            }
            if steps >= 4 {
                fs::rename(incoming.join(Meta::NAME), data.join(Meta::NAME)).expect("moved");
            }
            if steps >= 5 {
                fs::rename(incoming.join(MemberFile::NAME), data.join(MemberFile::NAME)).expect("moved");
                fs::remove_dir_all(data.join(REPLACED)).expect("removed");
            }
            if steps >= 6 {
                // The rest of a directory, of which the mark went first.
                fs::remove_file(incoming.join(VERIFIED)).expect("removed");
            }
            finish_receiving(&data).expect("finished");
            assert_eq!(fs::read(office_file(&data.join(SHARD))).expect("kept"), b"vote");
            fs::remove_file(office_file(&data.join(SHARD))).expect("removed");
            assert_eq!(pending(&data), if steps == 0 { 3 } else { 5 }, "after {steps} steps");
            assert!(!incoming.exists() && !data.join(REPLACED).exists());
            assert_eq!(MemberFile::read(&*machine(), &data).expect("read"), Some(MEMBER));
        }
    }
}
