//! What a log stands on: a file system, as a component that is passed in.
//!
//! [`Disk`] is the real one. A simulated one loses what was not synced, fails when it is told to, and so shows what a crash at
//! any step leaves. Every call to a file system that the log makes goes through here; appends do not, where they are stores
//! to a mapping that a file gave out.
//!
//! Paths are opaque to it but for their last part, which is a name in the directory that the rest names.

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

/// A file system. What is made, renamed and removed in a directory survives the loss of power once the directory was synced.
pub trait Storage: fmt::Debug + Send + Sync {
    /// The names in a directory, in any order.
    ///
    /// # Errors
    /// As of the system.
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Makes a directory and those above it that are missing. Gives back those that have to be synced for it to last.
    ///
    /// # Errors
    /// As of the system; a directory that is there is none.
    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// As of the system.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens a file; or a directory, with [`Access::Read`], to be locked and synced.
    ///
    /// # Errors
    /// As of the system.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>>;

    /// Gives a file another name in its directory, in place of the file that had it. Whoever looks sees one or the other.
    ///
    /// # Errors
    /// As of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file its name. Whoever has it open or mapped keeps its bytes.
    ///
    /// # Errors
    /// As of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name as well, so that the disk keeps its bytes once.
    ///
    /// # Errors
    /// As of the system; and where files have one name each.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The number by which the process that uses it is known: whoever finds the log in use is told it.
    fn process_id(&self) -> u32 {
        std::process::id()
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// As of the system.
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
    /// To be read. It must be there.
    Read,
    /// To be read and written. It must be there.
    Write,
    /// To be read and written; made when it is not there.
    Create,
    /// To be read and written; it must not be there.
    CreateNew,
    /// To be written from the beginning; made when it is not there, and emptied when it is.
    CreateEmpty,
}

/// How a file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// For oneself alone, unless somebody has a lock.
    Alone,
    /// With others, unless somebody has it alone.
    Shared,
    /// For oneself alone, once nobody has a lock any more.
    InTurn,
}

/// An open file. What is written survives the loss of power once the file was synced.
pub trait StoredFile: fmt::Debug + Send + Sync {
    /// How many bytes it has.
    ///
    /// # Errors
    /// As of the system.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads what is there from an offset on, as much as fits; says how much.
    ///
    /// # Errors
    /// As of the system.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes, at an offset. Mappings of the file show them.
    ///
    /// # Errors
    /// As of the system: part of the bytes may be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file, or makes it longer with zeros.
    ///
    /// # Errors
    /// As of the system.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Has the disk set aside room for its first `bytes` bytes, all of which it has already: what is there stays as it is. Where that can't be
    /// said beforehand, nothing is done.
    ///
    /// # Errors
    /// As of the system, when there is no room above all.
    fn allocate(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a path leads to it, and not to another that stands there now. Where nothing else can come to stand there, it does.
    ///
    /// # Errors
    /// As of the system, when there is nothing above all.
    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes every byte written so far durable, through the file or a mapping, and how long the file is.
    ///
    /// # Errors
    /// As of the system: then nothing is known of what was written since the last sync, and no later sync of this file
    /// changes that.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes at least the first `end` bytes durable, through the file or a mapping of which `view` is one, and how long the
    /// file is. What lies behind them may be left out.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`].
    fn sync_data_to(&self, _view: &View, _end: usize) -> io::Result<()> {
        self.sync_data()
    }

    /// Has the disk write what was written to some bytes, which makes nothing durable, so that a later sync finds less to do. Where that can't
    /// be said, nothing is done.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`]; a later sync need not tell them again.
    fn write_out(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// As [`StoredFile::sync_data`], with all that is known of the file; of a directory, its names.
    ///
    /// # Errors
    /// As [`StoredFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// Locks the file, or directory, for this opening of it, in place of a lock that it has, and says whether it could. The
    /// lock ends with the process.
    ///
    /// # Errors
    /// As of the system.
    fn lock(&self, lock: Lock) -> io::Result<bool>;

    /// Ends the lock, if there is one.
    fn unlock(&self);

    /// Maps its first `bytes` bytes, of which `settled` never change.
    ///
    /// # Errors
    /// When the file is shorter than that, or the system refuses the mapping.
    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender>;

    /// Maps its first `bytes` bytes, none of which ever change, to be read only.
    ///
    /// # Errors
    /// As [`StoredFile::map`].
    fn map_settled(&self, bytes: usize) -> io::Result<View>;

    /// Maps its first words.
    ///
    /// # Errors
    /// As [`StoredFile::map`].
    fn words(&self, count: usize) -> io::Result<SharedWords>;
}
