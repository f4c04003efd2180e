//! Backups: a copy of a database after one record, taken while the database is in use.
//!
//! ```text
//! durable mark ─▶ segments up to it, each record verified ─▶ copied, or linked from an
//!              earlier backup ─▶ checkpoint ─▶ quire.backup
//! ```
//! The log up to the durable mark never changes, so no process has to stop. A file that an earlier
//! backup holds with the same bytes becomes a hard link: both backups hold it, and the disk stores
//! it once. No file is linked to the database itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use quire_log::inspect::{InspectedSegment, Stretch, Survey, read_checkpoint};
use quire_log::{Access, Gradual, Snapshot, Storage, crc32c};
use quire_model::{Position, Timestamp};

use super::manifest::{Backup, BackupFile, NAME, begin, finish, refuse_backup, sync_folder};
use super::{machine, verify};
use crate::administration::report_backup;
use crate::meta::Meta;
use crate::{Error, ErrorKind, Result};

/// Backs up the database in `database` to `to`, a new or empty directory, as it was after the last
/// record that was synced when the backup began. Processes that have the database open continue.
/// `before` is an earlier backup to share files with. `progress` gets the bytes of the log that
/// were read so far, and their total.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let in_directory = |name| directory.path().join(name);
/// # let (path, to, again) = (in_directory("data"), in_directory("backup"), in_directory("again"));
/// let database = quire::Database::open(&path)?;
/// database.queue("mail").enqueue(quire::jobs::JobSpec::new(b"to: you"))?;
/// let backup = quire::tools::backup(&path, &to, None, &mut |_, _| ())?;
/// assert_eq!(backup.position.get(), 1);
/// quire::tools::restore(&to, &again, None, &mut |_, _| ())?;
/// let restored = quire::Database::open(&again)?;
/// assert_eq!(restored.queue("mail").stats()?.map(|stats| stats.pending), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// * [`ErrorKind::Damaged`] when a record does not verify: damage is not copied.
/// * [`ErrorKind::Invalid`] when `to` is not empty or lies in the database's directory, or `before`
///   is a backup of another database.
/// * [`ErrorKind::NotADatabase`], [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
///
/// Files that were copied before an error are no backup, and can be removed.
pub fn backup(database: &Path, to: &Path, before: Option<&Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<Backup> {
    refuse_within("database", database, to)?;
    backup_on(&machine(), database, to, before, progress).inspect(report_backup)
}

pub(super) fn backup_on(
    storage: &Arc<dyn Storage>,
    database: &Path,
    to: &Path,
    before: Option<&Path>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Backup> {
    let copy = BackupCopy::of(storage, database)?;
    let identity = copy.backup.identity;
    let previous =
        before.map(|folder| Ok::<_, Error>((folder, Backup::read_finished(&**storage, folder)?))).transpose()?;
    if let Some((folder, of)) = previous.as_ref().filter(|(_, of)| of.identity != identity) {
        let message = format!(
            "{} is a backup of another database: of {}, not of {identity}; name a backup of this one",
            folder.display(),
            of.identity
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    make_empty(&**storage, to)?;
    begin(&**storage, to)?;
    let backup = copy.run(&mut DirectoryTarget { storage: &**storage, to, previous }, progress)?;
    commit(&**storage, to, &backup)?;
    Ok(backup)
}

/// Where the files of a backup go.
pub(super) trait BackupTarget {
    /// Takes the memory for a file of `bytes` bytes, which is read next. Releases that of the file
    /// before.
    fn make_space(&mut self, bytes: u64) -> Result<()>;

    /// Stores a file of a shard: `used`, and zeros up to its length.
    fn put(&mut self, shard: u32, file: &BackupFile, used: &[u8]) -> Result<()>;
}

/// A backup in a directory.
struct DirectoryTarget<'b> {
    storage: &'b dyn Storage,
    to: &'b Path,
    previous: Option<(&'b Path, Backup)>,
}

/// The copy of a database, as it was when the copy was created.
pub(super) struct BackupCopy {
    /// The database's files.
    from: Arc<dyn Storage>,
    survey: Survey,
    /// The last record that a compaction read: a checkpoint of that record or a later one is
    /// needed.
    compacted: Position,
    backup: Backup,
}

impl BackupCopy {
    /// Surveys the database in a directory.
    ///
    /// # Errors
    /// When it is not a database, or its last synced record is unknown.
    pub(super) fn of(storage: &Arc<dyn Storage>, database: &Path) -> Result<Self> {
        refuse_backup(&**storage, database)?;
        let identity = verify::identity(storage, database, &mut Vec::new())?;
        let shard = database.join(Meta::shard_name(identity.shard));
        // From here on the files stay readable, whatever other processes compact meanwhile.
        let from: Arc<dyn Storage> = Arc::new(Snapshot::of(Arc::clone(storage)));
        let survey = Survey::of(&from, &shard, identity)?;
        let position = survey.settled().ok_or_else(|| {
            let message = format!(
                "the last synced record of {} is unknown; open and close the database, and try again",
                shard.display()
            );
            Error::new(ErrorKind::Damaged, message)
        })?;
        let left_out = survey.tail.map_or(0, |tail| tail.get().saturating_sub(position.get()));
        let backup = Backup { identity, position, time: Timestamp::ZERO, left_out, files: Vec::new() };
        Ok(BackupCopy { from, survey, compacted: Position::ZERO, backup })
    }

    /// Copies every file to `target`, and returns the list of them.
    ///
    /// # Errors
    /// When a record does not verify, and the errors of `target`.
    pub(super) fn run(mut self, target: &mut dyn BackupTarget, progress: &mut dyn FnMut(u64, u64)) -> Result<Backup> {
        self.segments(target, progress)?;
        self.checkpoint(target)?;
        Ok(self.backup)
    }

    /// Copies every segment up to the backup's position.
    fn segments(&mut self, target: &mut dyn BackupTarget, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let Backup { identity, position, .. } = self.backup;
        let wanted = self.survey.segments().filter(|(_, first)| *first <= position);
        let wanted: Vec<_> = wanted.map(|(file, first)| (file.clone(), first)).collect();
        let all = wanted.iter().filter_map(|(file, _)| file.bytes).sum();
        let (mut done, mut reached, mut chain) = (0, Position::ZERO, identity.beginning().chain);
        for (file, first) in &wanted {
            progress(done, all);
            done += file.bytes.unwrap_or(0);
            if *first <= reached {
                // A compaction ended before it removed the segments that it had rewritten.
                continue;
            }
            let file_bytes = file.bytes.unwrap_or(0);
            // A packed segment is unpacked as it is read.
            let unpacked_bytes = InspectedSegment::unpacked_bytes_of(&self.from, &file.path, identity)?.unwrap_or(0);
            target.make_space(file_bytes + unpacked_bytes)?;
            let segment = InspectedSegment::read(&self.from, &file.path, Some(identity))?;
            let (first, previous) = segment.first();
            if first != reached.next() || previous != chain {
                return Err(damaged(&file.path, 36, reached.next(), "it does not continue the segment before it"));
            }
            let (mut used, mut failed) = (0, None);
            segment.stretches(|stretch| {
                match stretch {
                    Stretch::Record(record) if record.position() <= position => {
                        reached = record.position();
                        chain = record.mark().chain;
                        self.backup.time = record.time();
                        used = record.offset + u64::from(record.length());
                        return true;
                    }
                    Stretch::Damaged { offset, position: expected, message, .. } if expected <= position => {
                        failed = Some(damaged(&file.path, offset, expected, &message));
                    }
                    _ => {}
                }
                false
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if let Some((up_to, time)) = segment.compacted() {
                (reached, chain) = (up_to.position, up_to.chain);
                (self.compacted, self.backup.time) = (up_to.position, time);
                used = segment.lengths().0;
            }
            // The process that opens the backup creates a segment without records again.
            if used > 0 {
                self.put(target, &file.name, &segment.bytes()[..used as usize], segment.lengths().1)?;
            }
        }
        progress(all, all);
        if reached != position {
            return Err(damaged(
                self.survey.path(),
                0,
                reached.next(),
                &format!("records up to {position} had been synced"),
            ));
        }
        Ok(())
    }

    /// Copies the newest checkpoint of the copied records.
    fn checkpoint(&mut self, target: &mut dyn BackupTarget) -> Result<()> {
        let wanted = self.compacted..=self.backup.position;
        let usable = self.survey.checkpoints().filter(|(_, position)| wanted.contains(position));
        let usable: Vec<_> = usable.map(|(file, _)| file.clone()).collect();
        for file in usable.iter().rev() {
            target.make_space(file.bytes.unwrap_or(0).saturating_mul(2))?;
            // A checkpoint that was replaced meanwhile, or does not verify, is not needed: the log
            // holds everything.
            if let Ok(Some(_)) = read_checkpoint(&self.from, &file.path)
                && let Ok(bytes) = self.from.read(&file.path)
            {
                return self.put(target, &file.name, &bytes, bytes.len() as u64);
            }
        }
        if self.compacted > Position::ZERO {
            let message = format!("no checkpoint of {} is readable; try again", self.survey.path().display());
            return Err(Error::new(ErrorKind::Io, message));
        }
        Ok(())
    }

    /// Adds a file to the backup.
    fn put(&mut self, target: &mut dyn BackupTarget, name: &str, used: &[u8], bytes: u64) -> Result<()> {
        let file = BackupFile { name: name.to_owned(), bytes, used: used.len() as u64, crc: crc32c(used) };
        target.put(self.backup.identity.shard, &file, used)?;
        self.backup.files.push(file);
        Ok(())
    }
}

impl BackupTarget for DirectoryTarget<'_> {
    fn make_space(&mut self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Stores a file: as a link to the file of the earlier backup, if that is the same.
    fn put(&mut self, shard: u32, file: &BackupFile, used: &[u8]) -> Result<()> {
        let (shard, BackupFile { name, bytes, .. }) = (Meta::shard_name(shard), file);
        let path = self.to.join(&shard).join(name);
        let same = self.previous.as_ref().filter(|(_, of)| of.file(name) == Some(file));
        let linked = same.is_some_and(|(folder, _)| {
            let source = folder.join(&shard).join(name);
            // The manifest describes the file as it was written. Reading the file avoids a link to
            // damage.
            self.storage.read(&source).is_ok_and(|there| there.len() as u64 == *bytes && there.starts_with(used))
                && self.storage.link(&source, &path).is_ok()
        });
        if linked {
            return Ok(());
        }
        write_file(self.storage, &path, used, *bytes).map_err(|error| Error::io("write", &path, error))
    }
}

/// Makes a backup of the files in a directory: they are all there.
pub(super) fn commit(storage: &dyn Storage, to: &Path, backup: &Backup) -> Result<()> {
    let shard = to.join(Meta::shard_name(backup.identity.shard));
    let commit = || -> io::Result<()> {
        sync_folder(storage, &shard)?;
        let beside = to.join(format!("{NAME}.new"));
        let bytes = backup.encode();
        write_file(storage, &beside, &bytes, bytes.len() as u64)?;
        sync_folder(storage, to)?;
        // Commit point: from here on the directory is a backup.
        storage.rename(&beside, &to.join(NAME))?;
        sync_folder(storage, to)
    };
    commit().map_err(|error| Error::io("finish the backup in", to, error))?;
    finish(storage, to)
}

fn damaged(path: &Path, offset: u64, position: Position, message: &str) -> Error {
    let message = format!(
        "{} is damaged at byte {offset} (record {position}): {message}; a backup copies no damage: verify the database",
        path.display()
    );
    Error::new(ErrorKind::Damaged, message)
}

/// Refuses a directory within `folder`, the directory of a database or a backup: it would be
/// deleted with it.
pub(super) fn refuse_within(what: &str, folder: &Path, to: &Path) -> Result<()> {
    let real = |path: &Path| fs::canonicalize(if path.as_os_str().is_empty() { Path::new(".") } else { path });
    // A missing directory is reported later, with what it lacks.
    let Ok(folder) = real(folder) else { return Ok(()) };
    // A directory that is still to be created lies in its nearest existing ancestor.
    match to.ancestors().find_map(|above| real(above).ok()) {
        Some(above) if above.starts_with(&folder) => {
            let message = format!("{} lies in the folder of the {what}; name a folder elsewhere", to.display());
            Err(Error::new(ErrorKind::Invalid, message))
        }
        _ => Ok(()),
    }
}

/// Creates a directory with the shard's directory in it. Refuses a directory that holds anything
/// except the rest of an interrupted call.
pub(super) fn make_empty(storage: &dyn Storage, folder: &Path) -> Result<()> {
    let failed = |error| Error::io("create", folder, error);
    let above = storage.create_directories(folder).map_err(failed)?;
    let shard = Meta::shard_name(0);
    let is_left =
        |name: &OsString| *name == *shard && storage.list(&folder.join(&shard)).is_ok_and(|names| names.is_empty());
    if !storage.list(folder).map_err(failed)?.iter().all(is_left) {
        let message = format!("{} is not empty; name a new or empty directory", folder.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    storage.create_directories(&folder.join(&shard)).map_err(failed)?;
    let all = std::iter::once(folder).chain(above.iter().map(PathBuf::as_path));
    all.into_iter().try_for_each(|path| sync_folder(storage, path)).map_err(failed)
}

/// Writes a new durable file of `bytes` bytes: `used`, and zeros, which take no space.
pub(super) fn write_file(storage: &dyn Storage, path: &Path, used: &[u8], bytes: u64) -> io::Result<()> {
    let file = storage.open(path, Access::CreateNew)?;
    Gradual::of(&*file).write_at(used, 0)?;
    file.set_bytes(bytes)?;
    file.sync_all()
}
