//! The file system of a log, as a replaceable component.
//!
//! [`Disk`] is the file system of the machine. A simulated file system loses unsynced data and
//! fails on request, and so shows the state after a crash at any step. All file-system calls of the
//! log use this interface. An append into a mapping is a store and makes no call.
//!
//! An implementation may treat a path as opaque, except for its last component: a name in the
//! directory that the rest names.

pub(crate) mod directory;
mod disk;
mod gradual;
mod kept;
mod snapshot;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_mapped::{Appender, SharedWords, View};

pub use disk::Disk;
pub use gradual::Gradual;
pub(crate) use gradual::PIECE_BYTES;
pub use snapshot::Snapshot;

/// A file system. A created, renamed or removed name survives a loss of power once its directory is
/// synced.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Lists the names in a directory, in any order.
    ///
    /// # Errors
    /// The errors of the system.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Creates a directory and its missing ancestors. Returns the directories that must be synced
    /// to make the new names durable.
    ///
    /// # Errors
    /// The errors of the system. An existing directory is no error.
    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The errors of the system.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens a file. With [`Access::Read`], a directory can be opened too, to lock and sync it.
    ///
    /// # Errors
    /// The errors of the system.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>>;

    /// Renames a file within its directory and replaces an existing file atomically.
    ///
    /// # Errors
    /// The errors of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles and mappings keep its bytes.
    ///
    /// # Errors
    /// The errors of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the bytes of free space of the file system that an unprivileged process may use.
    ///
    /// # Errors
    /// The errors of the system; [`io::ErrorKind::Unsupported`] for a storage without a limit.
    fn free_bytes(&self, _directory: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a hard link, so that the disk stores the bytes once.
    ///
    /// # Errors
    /// The errors of the system. A file system without hard links returns
    /// [`io::ErrorKind::Unsupported`].
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The id of this process, which the log reports to other processes that find the log in use.
    fn process_id(&self) -> u32 {
        std::process::id()
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// The errors of the system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, Access::Read)?;
        let mut bytes = vec![0; usize::try_from(file.bytes()?).unwrap_or(usize::MAX)];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    Write,
    /// Read and write a file, and create it if it is missing.
    Create,
    /// Create a file, which must not exist, to read and write it.
    CreateNew,
    /// Create a file, or truncate an existing one, to read and write it.
    CreateEmpty,
}

/// How a file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Exclusive. Fails at once if another opening has a lock.
    Alone,
    /// Shared. Fails at once if another opening has an exclusive lock.
    Shared,
    /// Exclusive. Waits until no other opening has a lock.
    InTurn,
}

/// An open file. Written data survives a loss of power once the file is synced.
pub trait StoredFile: fmt::Debug + Send + Sync {
    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// The errors of the system.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads bytes from an offset until `into` is full or the file ends. Returns the number of
    /// bytes read.
    ///
    /// # Errors
    /// The errors of the system.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset. Mappings of the file show the bytes.
    ///
    /// # Errors
    /// The errors of the system. After an error, a part of the bytes may be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Sets the length of the file: truncates it, or extends it with zeros.
    ///
    /// # Errors
    /// The errors of the system.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Allocates disk space for the first `bytes` bytes of the file, which must have that length.
    /// The content stays the same. A file system without allocation does nothing.
    ///
    /// # Errors
    /// The errors of the system, above all when the disk is full.
    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a path names this file, and not another file that replaced it. Returns true where a
    /// file cannot be replaced.
    ///
    /// # Errors
    /// The errors of the system, above all when the path does not exist.
    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes every byte written so far durable, whether written through the file or a mapping, and
    /// the length of the file.
    ///
    /// # Errors
    /// The errors of the system. After an error, the state of all data written since the last sync
    /// is unknown, and no later sync of this file changes that.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes at least the first `end` bytes and the file's length durable. The sync uses the file
    /// or a mapping, of which `view` is one. It may leave out the bytes after `end`.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`].
    fn sync_data_to(&self, _view: &View, _end: usize) -> io::Result<()> {
        self.sync_data()
    }

    /// Starts writing a range of the file to the disk, so that a later sync has less to do. This
    /// makes nothing durable. A file system without this operation does nothing.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`]. A later sync may not report the same error again.
    fn write_out(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// As [`StoredFile::sync_data`], with all metadata of the file. For a directory, the sync makes
    /// its names durable.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// Locks the file or directory for this opening, replacing any lock that the opening has.
    /// Returns whether the lock was taken. The lock ends with the process.
    ///
    /// # Errors
    /// The errors of the system.
    fn lock(&self, lock: Lock) -> io::Result<bool>;

    /// Releases the lock, if the opening has one.
    fn unlock(&self);

    /// Maps the first `bytes` bytes, of which the first `settled` never change.
    ///
    /// # Errors
    /// When the file is shorter than `bytes`, or the system refuses the mapping.
    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender>;

    /// Maps the first `bytes` bytes read-only. The bytes must never change.
    ///
    /// # Errors
    /// As [`StoredFile::map`].
    fn map_settled(&self, bytes: usize) -> io::Result<View>;

    /// Maps the first `count` 64-bit words.
    ///
    /// # Errors
    /// As [`StoredFile::map`].
    fn words(&self, count: usize) -> io::Result<SharedWords>;
}
