//! Where a round takes place: a folder on the disk, or a small filesystem that can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// How large the small filesystem is.
const SMALL_BYTES: u64 = 192 << 20;
const BALLAST: &str = "ballast";

/// What the name of a folder begins with.
const PREFIX: &str = "quire-chaos-";
/// In the folder: locked for as long as the round goes on. What has none is kept, to be looked at.
const RUNNING: &str = "running";

/// See the module. It goes when it is dropped, unless it is kept.
pub(crate) struct Place {
    folder: Option<TempDir>,
    is_small: bool,
    /// Locked, which the system ends with the process however that ends.
    _running: File,
}

impl Place {
    /// A folder on the disk.
    pub(crate) fn on_disk() -> Result<Self, String> {
        Place::of(folder()?, false)
    }

    /// A filesystem in memory of its own, if the system lets us mount one: that takes a privilege.
    pub(crate) fn small() -> Result<Self, String> {
        let folder = folder()?;
        let size = std::ffi::CString::new(format!("size={SMALL_BYTES}")).expect("no zero in it");
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), size.as_c_str())
            .map_err(|error| format!("can't mount a small filesystem: {error}"))?;
        Place::of(folder, true)
    }

    fn of(folder: TempDir, is_small: bool) -> Result<Self, String> {
        let running = File::create(folder.path().join(RUNNING)).and_then(|running| running.lock().map(|()| running));
        let running = running.map_err(|error| format!("can't lock {RUNNING}: {error}"))?;
        Ok(Place { folder: Some(folder), is_small, _running: running })
    }

    /// Whether it can be filled.
    pub(crate) fn is_small(&self) -> bool {
        self.is_small
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("it is there until it is dropped").path()
    }

    /// Takes all the space that there is.
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

    /// Gives it back.
    pub(crate) fn free(&self) -> Result<(), String> {
        fs::remove_file(self.path().join(BALLAST)).map_err(|error| format!("can't free the filesystem: {error}"))
    }

    /// How many bytes there is room for.
    pub(crate) fn room(&self) -> Result<u64, String> {
        let found = statvfs(self.path()).map_err(|error| format!("can't look at the filesystem: {error}"))?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// It stays, to be looked at; says where it is.
    pub(crate) fn keep(mut self) -> PathBuf {
        // Where that fails the next run does away with it.
        let _ = fs::remove_file(self.path().join(RUNNING));
        self.folder.take().expect("it is there until it is dropped").keep()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.is_small) {
            // Whoever has a file open there keeps it until then.
            let _ = unmount(folder.path(), UnmountFlags::DETACH);
        }
    }
}

/// Does away with what runs have left that were killed.
pub(crate) fn remove_left() {
    let below = std::env::temp_dir();
    for entry in fs::read_dir(&below).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_named_so && File::open(path.join(RUNNING)).is_ok_and(|running| running.try_lock().is_ok()) {
            // It need not be a filesystem of its own; and somebody else's stays.
            let _ = unmount(&path, UnmountFlags::DETACH);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn folder() -> Result<TempDir, String> {
    tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(|error| format!("no temporary folder: {error}"))
}
