//! The file system of the machine, a [`Storage`].
//!
//! Only the user of the process can read what it creates. It opens regular files and directories
//! and nothing else: a name that leads to a pipe, a device or another file's name is refused before
//! a byte is read or written.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_mapped::{Appender, SharedWords, View};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Access, Lock, Storage, StoredFile};

/// The unit of `st_blocks` on every file system: stat(3type).
const BLOCK_BYTES: u64 = 512;

/// The permissions of new files and directories, of which the process's mask may remove some.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The file system of the machine, a [`Storage`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Storage for Disk {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let path = std::path::absolute(path)?;
        // The parent is synced even when no ancestor is missing: another process may have just
        // created it.
        let missing = path.ancestors().take_while(|ancestor| !ancestor.exists()).count().max(1);
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&path)?;
        Ok(path.ancestors().skip(1).take(missing).map(Path::to_owned).collect())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let mut options = File::options();
        // An opening neither follows a link nor waits for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(FILE_MODE).custom_flags(flags.bits() as i32);
        match access {
            Access::Read => options.read(true),
            Access::Write => options.read(true).write(true),
            Access::Create => options.read(true).write(true).create(true).truncate(false),
            Access::CreateNew => options.read(true).write(true).create_new(true),
            Access::CreateEmpty => options.read(true).write(true).create(true).truncate(true),
        };
        let file = match options.open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => linked_directory(path, access)?,
            opened => opened?,
        };
        let kind = file.metadata()?.file_type();
        if kind.is_file() || (kind.is_dir() && access == Access::Read) {
            Ok(Arc::new(file))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(directory)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
}

/// Opens the directory that a link leads to: a database may stand on another disk. No other link is
/// followed.
fn linked_directory(path: &Path, access: Access) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link, and links are not followed");
    if access != Access::Read {
        return Err(refused());
    }
    let directory = (OFlags::DIRECTORY | OFlags::NONBLOCK).bits() as i32;
    File::options().read(true).custom_flags(directory).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => refused(),
        _ => error,
    })
}

impl StoredFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match FileExt::read_at(self, &mut into[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::retry_on_intr;
            // Some file systems require free space for the whole range, even where it is already
            // allocated.
            if self.metadata()?.blocks().saturating_mul(BLOCK_BYTES) >= bytes {
                return Ok(());
            }
            match retry_on_intr(|| fallocate(self, FallocateFlags::empty(), 0, bytes)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = bytes;
            Ok(())
        }
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let (own, there) = (self.metadata()?, fs::metadata(path)?);
        Ok((own.dev(), own.ino()) == (there.dev(), there.ino()))
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_data_to(&self, view: &View, end: usize) -> io::Result<()> {
        view.sync_to(end)
    }

    fn write_out(&self, offset: u64, bytes: u64) -> io::Result<()> {
        quire_mapped::write_out(self, offset, bytes)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn lock(&self, lock: Lock) -> io::Result<bool> {
        let tried = match lock {
            Lock::Alone => self.try_lock(),
            Lock::Shared => self.try_lock_shared(),
            Lock::InTurn => return File::lock(self).map(|()| true),
        };
        match tried {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) {
        let _ = File::unlock(self);
    }

    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender> {
        Appender::of_file(self, bytes, settled)
    }

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        View::of_file(self, bytes)
    }

    fn words(&self, count: usize) -> io::Result<SharedWords> {
        SharedWords::of_file(self, count)
    }
}
