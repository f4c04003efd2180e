//! The directory of a shard. All file-system calls of the log use this type.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quire_mapped::{Appender, SharedWords, View};

use crate::error::{Error, Result};
use crate::storage::{Access, Gradual, Lock, Storage, StoredFile};

/// How a segment is filled with zeros before its first record. The kernel caches a file in pieces
/// as large as its writes. It protects, dirties and writes back a piece of a mapping as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Small pieces, synced. Records are written to the file, and their sync has no metadata to
    /// write.
    Written,
    /// Small pieces, not synced. Records are stored to the mapping, in amounts so small that a
    /// background sync writes little more than the records. The first store to a piece after a sync
    /// costs 2 µs per page (Linux 6.18, ext4).
    Small,
    /// Pieces of a huge page, not synced. Records are stored to the mapping, more than a piece
    /// between two syncs. The kernel maps a piece as one page, so that the first store after a sync
    /// costs 0.1 µs for each 4 KiB.
    Huge,
}

impl Fill {
    /// The size of a piece in bytes.
    pub(crate) fn piece_bytes(self) -> usize {
        match self {
            Fill::Written | Fill::Small => 64 << 10,
            Fill::Huge => 2 << 20,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    handle: Arc<dyn StoredFile>,
    /// Whether whole-file writes reach the disk in small pieces.
    gradual: AtomicBool,
}

/// Returns the directory of a file: for a bare name, the current directory of the process.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Directory {
    /// Opens an existing directory.
    pub(crate) fn open(storage: Arc<dyn Storage>, path: &Path) -> Result<Self> {
        let handle = storage.open(path, Access::Read).map_err(|error| {
            let gone = "no such directory: if it was moved, move it back; if its log is lost, restore a backup";
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            Error::io("open", path, if is_gone { io::Error::new(error.kind(), gone) } else { error })
        })?;
        Ok(Directory { storage, path: path.to_owned(), handle, gradual: AtomicBool::new(false) })
    }

    /// Makes whole-file writes reach the disk in small pieces from now on, so that commits wait
    /// less for their own syncs.
    pub(crate) fn write_gradually(&self) {
        self.gradual.store(true, Ordering::Relaxed);
    }

    /// See [`Storage::free_bytes`].
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.storage.free_bytes(&self.path).map_err(|error| Error::io("read the free space of", &self.path, error))
    }

    /// Returns the file system of the directory.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// See [`Storage::process_id`].
    pub(crate) fn process_id(&self) -> u32 {
        self.storage.process_id()
    }

    /// Returns the handle of the directory, where a test needs any file.
    #[cfg(all(test, loom))]
    pub(crate) fn handle(&self) -> Arc<dyn StoredFile> {
        Arc::clone(&self.handle)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        debug_assert!(!name.contains('/'), "{name:?} is a name in the directory");
        self.path.join(name)
    }

    /// Checks that the path still names this directory. The log finds files by path. After the
    /// directory is moved or removed, its path may name another database whose files have the same
    /// names.
    pub(crate) fn check_place(&self) -> Result<()> {
        match self.handle.is_at(&self.path) {
            Ok(true) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("find", &self.path, error)),
            Ok(false) | Err(_) => {}
        }
        let moved = "the directory opened here was moved or removed; move it back, or close this database and open it at its new path";
        // The error kind is not `NotFound`. That kind would report a file as missing which may be
        // intact in the moved directory.
        Err(Error::io("use", &self.path, io::Error::other(moved)))
    }

    /// Returns the path of a file after a check of the directory, for immediate use. A move between
    /// the check and the use goes unnoticed.
    fn place_of(&self, name: &str) -> Result<PathBuf> {
        self.check_place()?;
        Ok(self.path_of(name))
    }

    /// Lists the names in the directory that are valid UTF-8, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.check_place()?;
        let listed = self.storage.list(&self.path).map_err(|error| Error::io("list", &self.path, error))?;
        let mut names: Vec<_> = listed.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Makes all created, renamed and removed names durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.handle.sync_all().map_err(|error| Error::io("sync", &self.path, error))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        assert_ne!(from, to, "a rename changes the name");
        let from = self.place_of(from)?;
        self.storage.rename(&from, &self.path_of(to)).map_err(|error| Error::io("rename", &from, error))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.place_of(name)?;
        match self.storage.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path, error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.place_of(name)?;
        self.storage.read(&path).map_err(|error| Error::io("read", &path, error))
    }

    /// Reads a file of at most `bytes_max` bytes. For a longer file, the inner error is its length.
    pub(crate) fn read_up_to(&self, name: &str, bytes_max: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let path = self.place_of(name)?;
        let read = || -> io::Result<std::result::Result<Vec<u8>, u64>> {
            let file = self.storage.open(&path, Access::Read)?;
            let length = file.bytes()?;
            if length > bytes_max {
                return Ok(Err(length));
            }
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            Ok(Ok(bytes))
        };
        read().map_err(|error| Error::io("read", &path, error))
    }

    /// Maps a file that is no longer written.
    pub(crate) fn map_whole(&self, name: &str, bytes: u64) -> Result<View> {
        let path = self.place_of(name)?;
        let map = || -> io::Result<View> {
            let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
            self.storage.open(&path, Access::Read)?.map_settled(bytes)
        };
        map().map_err(|error| Error::io("map", &path, error))
    }

    /// Reads the first `bytes` bytes of a file, or fewer when the file is shorter.
    pub(crate) fn read_head(&self, name: &str, bytes: usize) -> Result<Vec<u8>> {
        let path = self.place_of(name)?;
        let read = || -> io::Result<Vec<u8>> {
            let mut head = vec![0; bytes];
            let read = self.storage.open(&path, Access::Read)?.read_at(&mut head, 0)?;
            head.truncate(read);
            Ok(head)
        };
        read().map_err(|error| Error::io("read", &path, error))
    }

    /// As [`Directory::read_head`]. Returns `None` when the file does not exist.
    pub(crate) fn try_read_head(&self, name: &str, bytes: usize) -> Result<Option<Vec<u8>>> {
        match self.read_head(name, bytes) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            head => head.map(Some),
        }
    }

    /// Returns the length of a file in bytes.
    pub(crate) fn bytes_of(&self, name: &str) -> Result<u64> {
        let path = self.place_of(name)?;
        let bytes = self.storage.open(&path, Access::Read).and_then(|file| file.bytes());
        bytes.map_err(|error| Error::io("stat", &path, error))
    }

    /// Writes a new file. The content is complete and durable before the file gets its name.
    pub(crate) fn write_whole(&self, name: &str, pieces: &[&[u8]]) -> Result<()> {
        self.write_whole_in_pieces(name, |file| write_pieces(file, pieces))
    }

    /// As [`Directory::write_whole`], with the content that `fill` writes into the file.
    pub(crate) fn write_whole_in_pieces(
        &self,
        name: &str,
        fill: impl FnOnce(&mut Gradual<'_>) -> io::Result<()>,
    ) -> Result<()> {
        self.put_whole(name, fill)?;
        self.sync()
    }

    /// As [`Directory::write_whole`], but a power failure may remove the name and the file with it.
    /// For files that the log rebuilds when they are missing.
    pub(crate) fn write_derived(&self, name: &str, pieces: &[&[u8]]) -> Result<()> {
        self.put_whole(name, |file| write_pieces(file, pieces))
    }

    fn put_whole(&self, name: &str, fill: impl FnOnce(&mut Gradual<'_>) -> io::Result<()>) -> Result<()> {
        assert!(!name.ends_with(".new"), "{name} would be removed as unfinished");
        let unfinished = format!("{name}.new");
        let path = self.place_of(&unfinished)?;
        let write = || -> io::Result<()> {
            let file = self.storage.open(&path, Access::CreateEmpty)?;
            let gradual = self.gradual.load(Ordering::Relaxed);
            fill(&mut if gradual { Gradual::of(&*file) } else { Gradual::at_once(&*file) })?;
            file.sync_all()
        };
        let put = write().map_err(|error| Error::io("write", &path, error)).and_then(|()| {
            // Commit point: from here on, the name refers to the whole new file.
            self.rename(&unfinished, name)
        });
        // A partial file on a full disk is removed. The first error is returned.
        put.inspect_err(|_| drop(self.remove(&unfinished)))
    }

    /// Removes unfinished files that a crash left.
    pub(crate) fn remove_unfinished(&self) -> Result<()> {
        let unfinished =
            |name: &String| name.ends_with(".new") && name.bytes().take(20).all(|byte| byte.is_ascii_digit());
        self.names()?.iter().filter(|name| unfinished(name)).try_for_each(|name| self.remove(name))
    }

    /// Creates a segment file of zeros. Its disk space is allocated, so no later write to it finds
    /// the disk full. `go_on` is called after each piece with the file and its length so far. An
    /// error of `go_on` ends the creation.
    pub(crate) fn create_segment(
        &self,
        name: &str,
        bytes: u64,
        fill: Fill,
        go_on: &mut FillCallback<'_>,
    ) -> Result<SegmentFile> {
        assert!(bytes > 0, "a segment has a length");
        let path = self.place_of(name)?;
        // A leftover file is removed. Processes that have it mapped keep its bytes.
        self.remove(name)?;
        let mut create = || -> io::Result<Arc<dyn StoredFile>> {
            let file = self.storage.open(&path, Access::CreateNew)?;
            if fill != Fill::Written {
                // The length is durable before the first record. The bytes are not.
                file.set_bytes(bytes)?;
                file.sync_all()?;
            }
            fill_with_zeros(&*file, 0, bytes, fill, go_on)?;
            if fill == Fill::Written {
                file.sync_all()?;
            }
            Ok(file)
        };
        match create() {
            Ok(file) => Ok(SegmentFile { file, path }),
            Err(error) => {
                // A partial file on a full disk is removed. The first error is returned.
                let _ = self.storage.remove(&path);
                Err(Error::io("create", &path, error))
            }
        }
    }

    pub(crate) fn open_segment(&self, name: &str) -> Result<SegmentFile> {
        let path = self.place_of(name)?;
        let file = self.storage.open(&path, Access::Write).map_err(|error| Error::io("open", &path, error))?;
        Ok(SegmentFile { file, path })
    }

    /// Copies the first `bytes` bytes of a file into memory. A shorter file is padded with zeros.
    pub(crate) fn read_padded(&self, name: &str, bytes: u64) -> Result<Appender> {
        let content = self.read(name)?;
        let bytes = usize::try_from(bytes).expect("a segment is shorter than 4 GiB");
        let mut copy = Appender::in_memory(bytes).map_err(|error| Error::io("map", &self.path_of(name), error))?;
        let there = content.len().min(bytes);
        copy.bytes_mut(0..there).copy_from_slice(&content[..there]);
        Ok(copy)
    }

    /// Locks the directory while the log is open. Returns the lock and whether no other opening has
    /// a lock. The lock is on the directory itself, so it does not depend on a file that must not
    /// be removed. Returns `None` when another opening has the log open exclusively, or has it open
    /// and `exclusive` is set. Only one process at a time may call this.
    pub(crate) fn lock_open(&self, exclusive: bool) -> Result<Option<(LockedFile, bool)>> {
        let failed = |error| Error::io("lock", &self.path, error);
        let lock = LockedFile(Arc::clone(&self.handle));
        let alone = lock.0.lock(Lock::Alone).map_err(failed)?;
        let locked = match exclusive {
            true => alone,
            false => lock.0.lock(Lock::Shared).map_err(failed)?,
        };
        Ok(locked.then_some((lock, alone)))
    }

    /// As [`Directory::lock_open`], but waits until all other openings have released their locks.
    pub(crate) fn lock_open_in_turn(&self, exclusive: bool) -> Result<LockedFile> {
        let failed = |error| Error::io("lock", &self.path, error);
        let lock = LockedFile(Arc::clone(&self.handle));
        lock.0.lock(Lock::InTurn).map_err(failed)?;
        if !exclusive {
            lock.0.lock(Lock::Shared).map_err(failed)?;
        }
        Ok(lock)
    }

    /// Locks a file, and creates it if it is missing. Returns `None` when another opening has it
    /// locked.
    pub(crate) fn lock_file(&self, name: &str) -> Result<Option<LockedFile>> {
        self.locked(name, Access::Create, Lock::Alone)
    }

    /// Locks a file, and creates it if it is missing. Waits while another opening has it locked.
    pub(crate) fn lock_file_in_turn(&self, name: &str) -> Result<LockedFile> {
        let locked = self.locked(name, Access::Create, Lock::InTurn)?;
        Ok(locked.expect("a lock that waits is always taken"))
    }

    /// Whether another opening has a file locked. Returns `None` when the file does not exist.
    pub(crate) fn is_locked(&self, name: &str) -> Result<Option<bool>> {
        match self.locked(name, Access::Read, Lock::Shared) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            locked => Ok(Some(locked?.is_none())),
        }
    }

    fn locked(&self, name: &str, access: Access, lock: Lock) -> Result<Option<LockedFile>> {
        let path = self.place_of(name)?;
        let open = || -> io::Result<Option<LockedFile>> {
            let file = LockedFile(self.storage.open(&path, access)?);
            Ok(file.0.lock(lock)?.then_some(file))
        };
        open().map_err(|error| Error::io("lock", &path, error))
    }

    /// Opens and maps a file of `count` 64-bit words, and creates it if it is missing. A file with
    /// fewer than `least` words is filled with zeros; a file with fewer than `count` words is
    /// extended.
    pub(crate) fn words(&self, name: &str, least: usize, count: usize) -> Result<(Arc<dyn StoredFile>, SharedWords)> {
        assert!(least <= count, "the least length is at most the wanted length");
        let path = self.place_of(name)?;
        let failed = |error| Error::io("open", &path, error);
        let file = self.storage.open(&path, Access::Create).map_err(failed)?;
        let there = file.bytes().map_err(failed)?;
        let kept = if there < (least * 8) as u64 { 0 } else { there };
        fill_with_zeros(&*file, kept, (count * 8) as u64, Fill::Small, &mut |_, _| Ok(())).map_err(failed)?;
        // A copied file may have holes. A store to a hole ends the process when the disk is full.
        file.allocate((count * 8) as u64).map_err(failed)?;
        let words = file.words(count).map_err(failed)?;
        Ok((file, words))
    }
}

/// A locked file or directory. Dropping this value releases the lock.
#[derive(Debug)]
pub(crate) struct LockedFile(Arc<dyn StoredFile>);

impl Drop for LockedFile {
    /// Releases the lock explicitly. Closing the file is not enough: a child process that another
    /// thread just started shares the lock until it executes its own program. Unlocking an unlocked
    /// file has no effect.
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Writes `pieces` one after the other from the beginning of a file.
fn write_pieces(file: &mut Gradual<'_>, pieces: &[&[u8]]) -> io::Result<()> {
    let mut offset = 0;
    for piece in pieces {
        file.write_at(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// The callback after each piece of a file that is being filled. It gets the file and its length so
/// far.
pub(crate) type FillCallback<'g> = dyn FnMut(&dyn StoredFile, u64) -> io::Result<()> + 'g;

fn fill_with_zeros(
    file: &dyn StoredFile,
    from: u64,
    to: u64,
    fill: Fill,
    go_on: &mut FillCallback<'_>,
) -> io::Result<()> {
    let bytes = fill.piece_bytes().min(usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX));
    // The buffer is written before it is read. An untouched zeroed allocation has no pages yet, and
    // the kernel then restarts its copy at each missing page (16 instead of 1 µs for 4 KiB).
    let mut zeros = vec![1; bytes];
    std::hint::black_box(&mut zeros).fill(0);
    let mut at = from;
    while at < to {
        let bytes = zeros.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
        file.write_at(&zeros[..bytes], at)?;
        at += bytes as u64;
        go_on(file, at)?;
    }
    debug_assert!(at >= to, "filled up to {at} of {to}");
    Ok(())
}

/// An open segment file.
#[derive(Debug, Clone)]
pub(crate) struct SegmentFile {
    file: Arc<dyn StoredFile>,
    path: PathBuf,
}

impl SegmentFile {
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.file.bytes().map_err(|error| Error::io("stat", &self.path, error))
    }

    /// Returns the file with its new path after a rename.
    pub(crate) fn named(self, path: PathBuf) -> Self {
        SegmentFile { path, ..self }
    }

    /// Whether disk space is allocated for the first `bytes` bytes, all of which exist. A copied
    /// file may have holes, and a store to a hole ends the process when the disk is full.
    pub(crate) fn is_allocated(&self, bytes: usize) -> bool {
        self.file.allocate(bytes as u64).is_ok()
    }

    /// Extends a truncated file to `bytes` bytes with zeros.
    pub(crate) fn extend(&self, bytes: u64) -> Result<()> {
        let length = self.bytes()?;
        fill_with_zeros(&*self.file, length, bytes, Fill::Small, &mut |_, _| Ok(()))
            .map_err(|error| Error::io("extend", &self.path, error))
    }

    pub(crate) fn map(&self, bytes: u64, settled: usize) -> Result<Appender> {
        let bytes = usize::try_from(bytes).expect("a segment is shorter than 4 GiB");
        self.file.map(bytes, settled).map_err(|error| Error::io("map", &self.path, error))
    }

    /// Writes to the file. Mappings of the file show the bytes.
    pub(crate) fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, offset as u64).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Makes every byte written so far durable, whether written to the file or to a mapping.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Makes at least the first `end` bytes durable. `view` is a mapping of these bytes.
    pub(crate) fn sync_to(&self, view: &View, end: usize) -> Result<()> {
        assert!(end <= view.len(), "byte {end} of a mapping of {} bytes", view.len());
        self.file.sync_data_to(view, end).map_err(|error| Error::io("sync", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_on_a_full_disk_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(Arc::new(crate::storage::Disk), place.path()).unwrap();
        let half = |file: &mut Gradual<'_>| {
            file.write_at(&[7; 1000], 0)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let name = "00000000000000000001.log";
        assert!(matches!(directory.write_whole_in_pieces(name, half), Err(Error::NoSpace { .. })));
        assert_eq!(directory.names().unwrap(), [""; 0]);
    }

    #[test]
    fn a_bare_name_belongs_to_the_current_directory() {
        assert_eq!(folder_of(Path::new("00000000000000000001.log")), Path::new("."));
        assert_eq!(folder_of(Path::new("shard-0000/00000000000000000001.log")), Path::new("shard-0000"));
    }
}
