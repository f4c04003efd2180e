//! The steps by which files become durable. Tests let a process die at each of them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The steps that change a directory of an export.
pub(super) trait ExportDisk {
    /// Creates a directory, and those above it, unless it exists.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Writes a file, in the place of an existing one, and syncs it.
    fn write(&self, path: &Path, write: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()>;

    /// Renames a file or a directory.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Syncs the names in a directory.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The disk.
#[derive(Debug)]
pub(super) struct SystemDisk;

impl ExportDisk for SystemDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&self, path: &Path, write: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        let file = File::create(path)?;
        write(&file)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
