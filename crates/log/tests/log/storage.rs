//! A disk that fails for good after a number of changes: what a crash at that moment leaves is then in the directory.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quire_log::{Access, Disk, Lock, Storage, StoredFile};
use quire_mapped::{Appender, SharedWords};

/// See the module.
#[derive(Debug)]
pub(crate) struct Dying {
    pub(crate) disk: Disk,
    /// How many changes there may still be.
    pub(crate) left: Arc<AtomicI64>,
}

#[derive(Debug)]
struct DyingFile {
    file: Arc<dyn StoredFile>,
    left: Arc<AtomicI64>,
}

fn change(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(io::Error::other("the disk has died")) }
}

impl Storage for Dying {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(directory)
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        change(&self.left)?;
        self.disk.create_directories(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        change(&self.left)?;
        self.disk.remove_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        if !matches!(access, Access::Read | Access::Write) {
            change(&self.left)?;
        }
        Ok(Arc::new(DyingFile { file: self.disk.open(path, access)?, left: Arc::clone(&self.left) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        change(&self.left)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        change(&self.left)?;
        self.disk.remove(path)
    }
}

impl StoredFile for DyingFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = change(&self.left) {
            // A part of it reaches the disk.
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.file.write_at(bytes, offset)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        change(&self.left)?;
        self.file.set_bytes(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        change(&self.left)?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        change(&self.left)?;
        self.file.sync_all()
    }

    fn lock(&self, lock: Lock) -> io::Result<bool> {
        self.file.lock(lock)
    }

    fn unlock(&self) {
        self.file.unlock();
    }

    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender> {
        self.file.map(bytes, settled)
    }

    fn words(&self, count: usize) -> io::Result<SharedWords> {
        self.file.words(count)
    }
}
