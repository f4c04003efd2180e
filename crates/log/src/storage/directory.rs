//! The directory of a shard and its files: every use of the file system that the log makes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quire_mapped::{Appender, SharedWords, View};

use crate::error::{Error, Result};
use crate::storage::{Access, Gradual, Lock, Storage, StoredFile};

/// How a segment is filled with zeros before its first record. The kernel caches a file in pieces as large as its writes, and
/// protects, dirties and writes back a piece of a mapping as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// In small pieces, and synced: records go through the file, and a sync of them has no metadata to write.
    Written,
    /// In small pieces, not synced: records go through the mapping, few enough at a time that a background sync is to write
    /// little beside them. The first store to a piece after a sync costs 2 µs a page (Linux 6.18, ext4).
    Small,
    /// In pieces of a huge page, not synced: records go through the mapping, more than a piece between two syncs. The kernel
    /// maps a piece as one page, so that the first store after a sync costs 0.1 µs for each 4 KiB of it.
    Huge,
}

impl Fill {
    /// The bytes of a piece.
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
    /// Whether files that are written whole are written out a little at a time.
    gradual: AtomicBool,
}

/// The folder that a file is in; of a bare name, the one that the process is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Directory {
    /// Opens a directory that is there.
    pub(crate) fn open(storage: Arc<dyn Storage>, path: &Path) -> Result<Self> {
        let handle = storage.open(path, Access::Read).map_err(|error| {
            let gone = "there is no such folder: if it was moved, put it back; if its log is lost, restore a backup";
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            Error::io("open", path, if is_gone { io::Error::new(error.kind(), gone) } else { error })
        })?;
        Ok(Directory { storage, path: path.to_owned(), handle, gradual: AtomicBool::new(false) })
    }

    /// From now on files that are written whole are written out a little at a time: commits wait for syncs of their own meanwhile.
    pub(crate) fn write_gradually(&self) {
        self.gradual.store(true, Ordering::Relaxed);
    }

    /// See [`Storage::process_id`].
    pub(crate) fn process_id(&self) -> u32 {
        self.storage.process_id()
    }

    /// Itself, for what needs any file.
    #[cfg(all(test, loom))]
    pub(crate) fn handle(&self) -> Arc<dyn StoredFile> {
        Arc::clone(&self.handle)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// That its path leads to it. Files are found by their paths: where the folder was moved away, or removed, another database may stand by
    /// now, whose files have the same names.
    pub(crate) fn check_place(&self) -> Result<()> {
        match self.handle.is_at(&self.path) {
            Ok(true) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("find", &self.path, error)),
            Ok(false) | Err(_) => {}
        }
        let moved = "the folder that was opened here was moved or removed: put it back, or close this database and open it where it is now";
        // Not that a file is not there: such an error says so of a file that may be whole, where the folder is now.
        Err(Error::io("use", &self.path, io::Error::other(moved)))
    }

    /// The path of a file in it, to be used now: of a folder that is moved between this and the use, nothing is noticed.
    fn place_of(&self, name: &str) -> Result<PathBuf> {
        self.check_place()?;
        Ok(self.path_of(name))
    }

    /// The names in the directory that are text, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.check_place()?;
        let listed = self.storage.list(&self.path).map_err(|error| Error::io("list", &self.path, error))?;
        let mut names: Vec<_> = listed.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Makes what was created, renamed and removed in the directory durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.handle.sync_all().map_err(|error| Error::io("sync", &self.path, error))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
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

    /// The bytes of a file, unless it has more than so many; then, how many.
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

    /// The bytes of a file that nobody writes to any more, mapped.
    pub(crate) fn map_whole(&self, name: &str, bytes: u64) -> Result<View> {
        let path = self.place_of(name)?;
        let map = || -> io::Result<View> {
            let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
            self.storage.open(&path, Access::Read)?.map_settled(bytes)
        };
        map().map_err(|error| Error::io("map", &path, error))
    }

    /// The first bytes of a file, fewer when it is shorter.
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

    /// As [`Directory::read_head`]; `None` when there is no such file.
    pub(crate) fn try_read_head(&self, name: &str, bytes: usize) -> Result<Option<Vec<u8>>> {
        match self.read_head(name, bytes) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            head => head.map(Some),
        }
    }

    /// How long a file is.
    pub(crate) fn bytes_of(&self, name: &str) -> Result<u64> {
        let path = self.place_of(name)?;
        let bytes = self.storage.open(&path, Access::Read).and_then(|file| file.bytes());
        bytes.map_err(|error| Error::io("stat", &path, error))
    }

    /// Writes a file of its own, whole and durable before it has its name.
    pub(crate) fn write_whole(&self, name: &str, pieces: &[&[u8]]) -> Result<()> {
        self.write_whole_in_pieces(name, |file| write_pieces(file, pieces))
    }

    /// The same, of what `fill` writes into the file.
    pub(crate) fn write_whole_in_pieces(
        &self,
        name: &str,
        fill: impl FnOnce(&mut Gradual<'_>) -> io::Result<()>,
    ) -> Result<()> {
        self.put_whole(name, fill)?;
        self.sync()
    }

    /// Writes a file of its own, whole and durable before it has its name; but a power failure may take the name, and the file with it. For what
    /// is made anew where it is missing.
    pub(crate) fn write_derived(&self, name: &str, pieces: &[&[u8]]) -> Result<()> {
        self.put_whole(name, |file| write_pieces(file, pieces))
    }

    fn put_whole(&self, name: &str, fill: impl FnOnce(&mut Gradual<'_>) -> io::Result<()>) -> Result<()> {
        let beside = format!("{name}.new");
        let path = self.place_of(&beside)?;
        let write = || -> io::Result<()> {
            let file = self.storage.open(&path, Access::CreateEmpty)?;
            let gradual = self.gradual.load(Ordering::Relaxed);
            fill(&mut if gradual { Gradual::of(&*file) } else { Gradual::at_once(&*file) })?;
            file.sync_all()
        };
        let put = write().map_err(|error| Error::io("write", &path, error)).and_then(|()| {
            // Commit point: the name stands for the whole file from here on, or for nothing.
            self.rename(&beside, name)
        });
        // What was taken of a full disk is given back; the first error is the one to tell.
        put.inspect_err(|_| drop(self.remove(&beside)))
    }

    /// Removes what a crash left of files that were being written whole.
    pub(crate) fn remove_unfinished(&self) -> Result<()> {
        let unfinished =
            |name: &String| name.ends_with(".new") && name.bytes().take(20).all(|byte| byte.is_ascii_digit());
        self.names()?.iter().filter(|name| unfinished(name)).try_for_each(|name| self.remove(name))
    }

    /// Makes a segment file of zeros. The space it takes is its own: no later write finds the disk full. `go_on` is called after each piece
    /// with the file and how many bytes it has; should it fail, so does this.
    pub(crate) fn create_segment(
        &self,
        name: &str,
        bytes: u64,
        fill: Fill,
        go_on: &mut GoOn<'_>,
    ) -> Result<SegmentFile> {
        let path = self.place_of(name)?;
        // One that is left over goes; whoever still has it mapped keeps its bytes.
        self.remove(name)?;
        let mut create = || -> io::Result<Arc<dyn StoredFile>> {
            let file = self.storage.open(&path, Access::CreateNew)?;
            if fill != Fill::Written {
                // Its length is on the disk before its first record, although its bytes are not.
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
                // What was taken of a full disk is given back; the first error is the one to tell.
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

    /// A copy of a file in memory, with zeros for what it is shorter than `bytes`.
    pub(crate) fn read_padded(&self, name: &str, bytes: u64) -> Result<Appender> {
        let content = self.read(name)?;
        let bytes = usize::try_from(bytes).expect("a segment is shorter than 4 GiB");
        let mut copy = Appender::in_memory(bytes).map_err(|error| Error::io("map", &self.path_of(name), error))?;
        let there = content.len().min(bytes);
        copy.bytes_mut(0..there).copy_from_slice(&content[..there]);
        Ok(copy)
    }

    /// Locks the directory for as long as the log is open, and says whether nobody else has it open. The lock is on the
    /// directory itself, so that no file in it is the one that must not be removed. `None` when somebody has it `exclusive`ly,
    /// or has it open and this one wants it so. To be called by one process at a time.
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

    /// The same, for who is alone once everyone has left who has it locked now: waits for that.
    pub(crate) fn lock_open_in_turn(&self, exclusive: bool) -> Result<LockedFile> {
        let failed = |error| Error::io("lock", &self.path, error);
        let lock = LockedFile(Arc::clone(&self.handle));
        lock.0.lock(Lock::InTurn).map_err(failed)?;
        if !exclusive {
            lock.0.lock(Lock::Shared).map_err(failed)?;
        }
        Ok(lock)
    }

    /// Makes a file when there is none, and locks it; `None` when somebody has it locked.
    pub(crate) fn lock_file(&self, name: &str) -> Result<Option<LockedFile>> {
        self.locked(name, Access::Create, Lock::Alone)
    }

    /// Makes a file when there is none, and locks it; waits while somebody has it locked.
    pub(crate) fn lock_file_in_turn(&self, name: &str) -> Result<LockedFile> {
        let locked = self.locked(name, Access::Create, Lock::InTurn)?;
        Ok(locked.expect("who waits for a lock gets it"))
    }

    /// Whether somebody has a file locked; `None` when it is not there.
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

    /// Opens a file of words and maps them; makes it when it is not there, or has fewer than `least`, and one with fewer than `count`
    /// longer.
    pub(crate) fn words(&self, name: &str, least: usize, count: usize) -> Result<(Arc<dyn StoredFile>, SharedWords)> {
        let path = self.place_of(name)?;
        let failed = |error| Error::io("open", &path, error);
        let file = self.storage.open(&path, Access::Create).map_err(failed)?;
        let there = file.bytes().map_err(failed)?;
        let kept = if there < (least * 8) as u64 { 0 } else { there };
        fill_with_zeros(&*file, kept, (count * 8) as u64, Fill::Small, &mut |_, _| Ok(())).map_err(failed)?;
        // A copy of it may have holes, and a store to one that the disk has no room for ends the process.
        file.allocate((count * 8) as u64).map_err(failed)?;
        let words = file.words(count).map_err(failed)?;
        Ok((file, words))
    }
}

/// A file, or directory, that is locked for this process until this is dropped.
#[derive(Debug)]
pub(crate) struct LockedFile(Arc<dyn StoredFile>);

impl Drop for LockedFile {
    /// To close the file is not enough: a process that another thread is just starting has it open, too, and the lock with
    /// it, until it runs its own program. One that was not locked has nothing to lose.
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Writes these, one behind the other, from the beginning of a file on.
fn write_pieces(file: &mut Gradual<'_>, pieces: &[&[u8]]) -> io::Result<()> {
    let mut offset = 0;
    for piece in pieces {
        file.write_at(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// What is done after each piece of a file that is being filled, of which so many bytes are.
pub(crate) type GoOn<'g> = dyn FnMut(&dyn StoredFile, u64) -> io::Result<()> + 'g;

fn fill_with_zeros(file: &dyn StoredFile, from: u64, to: u64, fill: Fill, go_on: &mut GoOn<'_>) -> io::Result<()> {
    let bytes = fill.piece_bytes().min(usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX));
    // Written to before it is read, and not by an allocator that gives out zeros nobody has touched: the kernel copies a piece
    // at once, and begins anew at each page that is not there (16 instead of 1 µs for 4 KiB).
    let mut zeros = vec![1; bytes];
    std::hint::black_box(&mut zeros).fill(0);
    let mut at = from;
    while at < to {
        let bytes = zeros.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
        file.write_at(&zeros[..bytes], at)?;
        at += bytes as u64;
        go_on(file, at)?;
    }
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

    /// The same, by the name that it has now.
    pub(crate) fn named(self, path: PathBuf) -> Self {
        SegmentFile { path, ..self }
    }

    /// Whether the disk has room for its first bytes, all of which it has: a copy may have holes, and a store to one that there is no room for
    /// ends the process.
    pub(crate) fn is_allocated(&self, bytes: usize) -> bool {
        self.file.allocate(bytes as u64).is_ok()
    }

    /// Makes a file that lost its end as long as it was, with zeros.
    pub(crate) fn extend(&self, bytes: u64) -> Result<()> {
        let length = self.bytes()?;
        fill_with_zeros(&*self.file, length, bytes, Fill::Small, &mut |_, _| Ok(()))
            .map_err(|error| Error::io("extend", &self.path, error))
    }

    pub(crate) fn map(&self, bytes: u64, settled: usize) -> Result<Appender> {
        let bytes = usize::try_from(bytes).expect("a segment is shorter than 4 GiB");
        self.file.map(bytes, settled).map_err(|error| Error::io("map", &self.path, error))
    }

    /// Writes through the file; mappings of it show the same bytes.
    pub(crate) fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, offset as u64).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Makes every byte written so far durable, through the file or a mapping.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Makes at least the first `end` bytes durable, which `view` shows.
    pub(crate) fn sync_to(&self, view: &View, end: usize) -> Result<()> {
        self.file.sync_data_to(view, end).map_err(|error| Error::io("sync", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_was_no_room_to_write_whole_takes_none() {
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
    fn a_bare_name_is_of_the_folder_that_the_process_is_in() {
        assert_eq!(folder_of(Path::new("00000000000000000001.log")), Path::new("."));
        assert_eq!(folder_of(Path::new("shard-0000/00000000000000000001.log")), Path::new("shard-0000"));
    }
}
