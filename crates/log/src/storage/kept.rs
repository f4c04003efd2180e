//! A file that is kept as it is, whatever becomes of its name: others may remove it, or put another in its place.
//!
//! It is kept by a mapping and not by a handle, of which a process has few.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quire_mapped::{Appender, View};

use super::{Access, Storage, StoredFile};

/// So many bytes tell a file from any that takes its place: its header, which says what it is of and has a checksum.
const HEAD_BYTES: usize = 128;

/// See the module.
#[derive(Debug)]
pub(super) struct Kept {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    head: Vec<u8>,
    bytes: View,
}

impl Kept {
    /// Keeps a file that never changes.
    ///
    /// # Errors
    /// As of the system.
    pub(super) fn of(storage: &Arc<dyn Storage>, path: PathBuf, file: &dyn StoredFile) -> io::Result<Self> {
        let mut head = vec![0; HEAD_BYTES];
        let read = file.read_at(&mut head, 0)?;
        head.truncate(read);
        let bytes = usize::try_from(file.bytes()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Kept { storage: Arc::clone(storage), path, head, bytes: file.map_settled(bytes)? })
    }

    /// The file, if it still has its name: what the disk can't give is then an error, and not the end of the process.
    fn by_name(&self) -> Option<Arc<dyn StoredFile>> {
        let file = self.storage.open(&self.path, Access::Read).ok()?;
        let mut head = vec![0; self.head.len()];
        let same = match (file.bytes(), file.read_at(&mut head, 0)) {
            (Ok(bytes), Ok(read)) => bytes == self.bytes.len() as u64 && read == head.len() && head == self.head,
            // Whoever reads on is told.
            _ => true,
        };
        same.then_some(file)
    }

    fn all(&self) -> &[u8] {
        self.bytes.bytes(0..self.bytes.len()).expect("all of it is settled")
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// See [`StoredFile::read_at`].
    ///
    /// # Errors
    /// As of the system.
    pub(super) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let in_head = usize::try_from(offset).ok().and_then(|from| self.head.get(from..from.checked_add(into.len())?));
        if let Some(there) = in_head {
            into.copy_from_slice(there);
            return Ok(there.len());
        }
        if let Some(file) = self.by_name() {
            return file.read_at(into, offset);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let there = &self.all()[from..];
        let read = there.len().min(into.len());
        into[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    /// See [`StoredFile::map_settled`].
    ///
    /// # Errors
    /// As there.
    pub(super) fn map_settled(&self, bytes: usize) -> io::Result<View> {
        if bytes == self.bytes.len() {
            return Ok(self.bytes.clone());
        }
        // The beginning of one that has another length than it should: seldom, and looked at once.
        let there = self.all().get(..bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut copy = Appender::in_memory(bytes)?;
        copy.bytes_mut(0..bytes).copy_from_slice(there);
        copy.settle(bytes);
        Ok(copy.view())
    }
}
