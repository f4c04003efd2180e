//! A file system with locks and a count of durable records only. A sync makes the records written
//! before it durable.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use quire_mapped::{Appender, SharedWords, View};
use quire_threads::{AtomicBool, AtomicU64, Condvar, Ordering};

use crate::storage::{Access, Lock, Storage, StoredFile};

/// A simulated device.
#[derive(Debug)]
pub(super) struct Volume {
    directory: PathBuf,
    /// A lock for each name, visible to the model checker.
    locks: Mutex<BTreeMap<PathBuf, Arc<quire_threads::Mutex<bool>>>>,
    /// The number of written and of durable records. The accesses are relaxed: a sync must see the
    /// records through other synchronization.
    written: AtomicU64,
    kept: AtomicU64,
    fails: AtomicBool,
    /// The number of records that a running sync waits for.
    missing: quire_threads::Mutex<u64>,
    grown: Condvar,
}

impl Volume {
    pub(super) fn new(directory: &Path) -> Self {
        let [written, kept] = [(); 2].map(|()| AtomicU64::new(0));
        let (directory, locks) = (directory.to_owned(), Mutex::default());
        Volume {
            directory,
            locks,
            written,
            kept,
            fails: AtomicBool::new(false),
            missing: quire_threads::Mutex::default(),
            grown: Condvar::new(),
        }
    }

    /// Writes records up to number `records`.
    pub(super) fn write(&self, records: u64) {
        let mut missing = self.missing.lock().unwrap();
        *missing = missing.saturating_sub(1);
        self.grown.notify_all();
        drop(missing);
        // After the release of the lock, which would otherwise order the store before a sync.
        self.written.store(records, Ordering::Relaxed);
    }

    /// Makes a sync wait until `records` more records are written.
    pub(super) fn sync_takes(&self, records: u64) {
        *self.missing.lock().unwrap() = records;
    }

    /// Returns the number of durable records.
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Makes every later sync fail.
    pub(super) fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// Releases the lock of a name, as the kernel does for a dead process.
    pub(super) fn unlock(&self, path: &Path) {
        let lock = self.lock_of(path).expect("it was locked");
        *lock.lock().unwrap() = false;
    }

    fn lock_of(&self, path: &Path) -> Option<Arc<quire_threads::Mutex<bool>>> {
        self.locks.lock().unwrap().get(path).map(Arc::clone)
    }

    fn sync(&self) -> io::Result<()> {
        drop(self.grown.wait_while(self.missing.lock().unwrap(), |missing| *missing > 0));
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.kept.fetch_max(self.written.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }
}

/// The volume, as a process sees it.
#[derive(Debug)]
pub(super) struct Files(pub(super) Arc<Volume>);

/// An open name. The directory has no lock, because any number of openings share it.
#[derive(Debug)]
struct Named {
    volume: Arc<Volume>,
    lock: Option<Arc<quire_threads::Mutex<bool>>>,
    has_locked: Mutex<bool>,
}

fn holds_nothing<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Storage for Files {
    fn list(&self, _directory: &Path) -> io::Result<Vec<OsString>> {
        holds_nothing()
    }

    fn create_directories(&self, _path: &Path) -> io::Result<Vec<PathBuf>> {
        holds_nothing()
    }

    fn remove_directory(&self, _path: &Path) -> io::Result<()> {
        holds_nothing()
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let volume = Arc::clone(&self.0);
        let lock = match access {
            _ if path == volume.directory => None,
            Access::Read => Some(volume.lock_of(path).ok_or(io::ErrorKind::NotFound)?),
            _ => Some(Arc::clone(volume.locks.lock().unwrap().entry(path.to_owned()).or_default())),
        };
        Ok(Arc::new(Named { volume, lock, has_locked: Mutex::default() }))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        holds_nothing()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        holds_nothing()
    }
}

impl StoredFile for Named {
    fn bytes(&self) -> io::Result<u64> {
        holds_nothing()
    }

    fn read_at(&self, _into: &mut [u8], _offset: u64) -> io::Result<usize> {
        holds_nothing()
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        holds_nothing()
    }

    fn set_bytes(&self, _bytes: u64) -> io::Result<()> {
        holds_nothing()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.volume.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.volume.sync()
    }

    fn lock(&self, lock: Lock) -> io::Result<bool> {
        let Some(of) = &self.lock else { return Ok(true) };
        let mut locked = of.lock().unwrap();
        let is_free = !*locked;
        // A shared lock is only tested and released at once.
        let takes = is_free && lock != Lock::Shared;
        *locked |= takes;
        *self.has_locked.lock().unwrap() = takes;
        Ok(is_free)
    }

    fn unlock(&self) {
        if let (Some(of), true) = (&self.lock, mem::take(&mut *self.has_locked.lock().unwrap())) {
            *of.lock().unwrap() = false;
        }
    }

    fn map(&self, _bytes: usize, _settled: usize) -> io::Result<Appender> {
        holds_nothing()
    }

    fn map_settled(&self, _bytes: usize) -> io::Result<View> {
        holds_nothing()
    }

    fn words(&self, _count: usize) -> io::Result<SharedWords> {
        holds_nothing()
    }
}
