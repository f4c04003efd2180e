//! A disk with injected failures, on request. It fails permanently after a number of changes, and
//! so leaves the state after a crash. It refuses to open files, to allocate space for new files and
//! holes, or to write data out. It also records the control file as a power failure would leave it,
//! and the largest delay of a sync by background writes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quire_log::{Access, Disk, Lock, Storage, StoredFile};
use quire_mapped::{Appender, SharedWords, View};

/// "Input/output error" on Linux.
const EIO: i32 = 5;

/// See the module.
#[derive(Debug)]
pub(crate) struct DyingDisk {
    pub(crate) disk: Disk,
    /// The number of remaining changes.
    pub(crate) left: Arc<AtomicI64>,
    /// Whether opening a file fails.
    pub(crate) blind: Arc<AtomicBool>,
    /// Whether the disk has no space for new files and for holes in segments.
    pub(crate) full: Arc<AtomicBool>,
    /// The control file at its last sync.
    pub(crate) control: Arc<Mutex<Vec<u8>>>,
    /// Whether writing data out fails.
    pub(crate) stuck: Arc<AtomicBool>,
    /// The largest number of written bytes of a file that were neither written out nor synced.
    pub(crate) most_behind: Arc<AtomicU64>,
}

impl DyingDisk {
    /// Creates a disk with `changes` remaining changes that opens every file.
    pub(crate) fn after(left: Arc<AtomicI64>) -> Self {
        DyingDisk {
            disk: Disk,
            left,
            blind: Arc::default(),
            full: Arc::default(),
            control: Arc::default(),
            stuck: Arc::default(),
            most_behind: Arc::default(),
        }
    }
}

#[derive(Debug)]
struct DyingFile {
    file: Arc<dyn StoredFile>,
    left: Arc<AtomicI64>,
    /// For a segment, whether the disk has no space for its holes.
    full: Option<Arc<AtomicBool>>,
    /// For the control file, its state at the last sync.
    control: Option<Arc<Mutex<Vec<u8>>>>,
    stuck: Arc<AtomicBool>,
    behind: AtomicU64,
    most_behind: Arc<AtomicU64>,
}

fn change(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(io::Error::other("the disk has died")) }
}

fn room(full: &AtomicBool) -> io::Result<()> {
    if full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

impl Storage for DyingDisk {
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
        if self.blind.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if !matches!(access, Access::Read | Access::Write) {
            change(&self.left)?;
        }
        if access == Access::CreateNew {
            room(&self.full)?;
        }
        let control = path.ends_with("control").then(|| Arc::clone(&self.control));
        let is_segment = path.extension().is_some_and(|extension| extension == "log");
        let full = is_segment.then(|| Arc::clone(&self.full));
        Ok(Arc::new(DyingFile {
            file: self.disk.open(path, access)?,
            left: Arc::clone(&self.left),
            full,
            control,
            stuck: Arc::clone(&self.stuck),
            behind: AtomicU64::new(0),
            most_behind: Arc::clone(&self.most_behind),
        }))
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
            // A part of the data reaches the disk.
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        let behind = self.behind.fetch_add(bytes.len() as u64, Ordering::SeqCst) + bytes.len() as u64;
        self.most_behind.fetch_max(behind, Ordering::SeqCst);
        self.file.write_at(bytes, offset)
    }

    fn write_out(&self, offset: u64, bytes: u64) -> io::Result<()> {
        change(&self.left)?;
        if self.stuck.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        // A hole in the range was not written.
        let behind = self.behind.load(Ordering::SeqCst);
        self.behind.store(behind.saturating_sub(bytes), Ordering::SeqCst);
        self.file.write_out(offset, bytes)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        change(&self.left)?;
        self.file.set_bytes(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.full.as_deref().map_or(Ok(()), room)?;
        self.file.allocate(bytes)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn sync_data(&self) -> io::Result<()> {
        change(&self.left)?;
        if let Some(control) = &self.control {
            let mut bytes = vec![0; self.file.bytes()? as usize];
            self.file.read_at(&mut bytes, 0)?;
            *control.lock().unwrap() = bytes;
        }
        self.behind.store(0, Ordering::SeqCst);
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        change(&self.left)?;
        self.behind.store(0, Ordering::SeqCst);
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

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        self.file.map_settled(bytes)
    }

    fn words(&self, count: usize) -> io::Result<SharedWords> {
        self.file.words(count)
    }
}
