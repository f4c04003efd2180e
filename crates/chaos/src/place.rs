//! The place of a round: a directory on the disk, or a small filesystem that can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// The size of the small filesystem.
const SMALL_BYTES: u64 = 192 << 20;
const BALLAST: &str = "ballast";

/// The prefix of the directory's name.
const PREFIX: &str = "quire-chaos-";
/// A file in the directory that is locked during the round. A directory without it is kept for
/// inspection.
const RUNNING: &str = "running";

/// The place of a round; see the module. It is deleted when it is dropped, unless it is kept.
pub(crate) struct RoundPlace {
    folder: Option<TempDir>,
    is_small: bool,
    /// A locked file; the system releases the lock when the process ends.
    _running: File,
}

impl RoundPlace {
    /// Creates a directory on the disk.
    pub(crate) fn on_disk() -> Result<Self, String> {
        RoundPlace::of(folder()?, false)
    }

    /// Mounts a filesystem in memory, if the system permits it: mounting takes a privilege.
    pub(crate) fn small() -> Result<Self, String> {
        let folder = folder()?;
        let size = std::ffi::CString::new(format!("size={SMALL_BYTES}")).expect("no zero in it");
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), size.as_c_str())
            .map_err(|error| format!("can't mount a small filesystem: {error}"))?;
        RoundPlace::of(folder, true)
    }

    fn of(folder: TempDir, is_small: bool) -> Result<Self, String> {
        let running = File::create(folder.path().join(RUNNING)).and_then(|running| running.lock().map(|()| running));
        let running = running.map_err(|error| format!("can't lock {RUNNING}: {error}"))?;
        Ok(RoundPlace { folder: Some(folder), is_small, _running: running })
    }

    /// Whether it can be filled.
    pub(crate) fn is_small(&self) -> bool {
        self.is_small
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("the directory exists until it is dropped").path()
    }

    /// Uses up all the space.
    pub(crate) fn fill(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("can't fill the filesystem: {error}");
        let mut ballast = File::create(self.path().join(BALLAST)).map_err(failed)?;
        let block = vec![1; 64 << 10];
        loop {
            match ballast.write_all(&block) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Frees the space.
    pub(crate) fn free(&self) -> Result<(), String> {
        fs::remove_file(self.path().join(BALLAST)).map_err(|error| format!("can't free the filesystem: {error}"))
    }

    /// Returns the free bytes.
    pub(crate) fn free_bytes(&self) -> Result<u64, String> {
        let found = statvfs(self.path()).map_err(|error| format!("can't read the state of the filesystem: {error}"))?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// Keeps the place for inspection; returns its path.
    pub(crate) fn keep(mut self) -> PathBuf {
        // If this fails, the next run deletes it.
        let _ = fs::remove_file(self.path().join(RUNNING));
        self.folder.take().expect("the directory exists until it is dropped").keep()
    }
}

impl Drop for RoundPlace {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.is_small) {
            // A process that has a file open there keeps the filesystem until it closes it.
            let _ = unmount(folder.path(), UnmountFlags::DETACH);
        }
    }
}

/// Deletes the places of earlier runs that were killed.
pub(crate) fn remove_left() {
    let below = std::env::temp_dir();
    for entry in fs::read_dir(&below).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_named_so && File::open(path.join(RUNNING)).is_ok_and(|running| running.try_lock().is_ok()) {
            // It may not be a mount point, and a mount of another user stays.
            let _ = unmount(&path, UnmountFlags::DETACH);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn folder() -> Result<TempDir, String> {
    tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir()
        .map_err(|error| format!("can't create a temporary directory: {error}"))
}
