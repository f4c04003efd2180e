//! A file whose content stays available after other processes remove or replace it.
//!
//! A mapping keeps the content, not a handle, because a process has few handles.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quire_mapped::{Appender, View};

use super::{Access, Storage, StoredFile};

/// The length of the header, which tells a file from any replacement: the header names the content
/// and has a checksum.
const HEAD_BYTES: usize = 128;

/// See the module.
#[derive(Debug)]
pub(super) struct KeptFile {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    head: Vec<u8>,
    bytes: View,
}

impl KeptFile {
    /// Keeps the content of an immutable file.
    ///
    /// # Errors
    /// The errors of the system.
    pub(super) fn of(storage: &Arc<dyn Storage>, path: PathBuf, file: &dyn StoredFile) -> io::Result<Self> {
        let mut head = vec![0; HEAD_BYTES];
        let read = file.read_at(&mut head, 0)?;
        assert!(read <= HEAD_BYTES, "{read} bytes read into {HEAD_BYTES}");
        head.truncate(read);
        let bytes = usize::try_from(file.bytes()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(KeptFile { storage: Arc::clone(storage), path, head, bytes: file.map_settled(bytes)? })
    }

    /// Returns the file if its name still leads to it. A read error is then an error instead of a
    /// signal that ends the process.
    fn by_name(&self) -> Option<Arc<dyn StoredFile>> {
        let file = self.storage.open(&self.path, Access::Read).ok()?;
        let mut head = vec![0; self.head.len()];
        let same = match (file.bytes(), file.read_at(&mut head, 0)) {
            (Ok(bytes), Ok(read)) => bytes == self.bytes.len() as u64 && read == head.len() && head == self.head,
            // The read that follows reports the error.
            _ => true,
        };
        same.then_some(file)
    }

    fn all(&self) -> &[u8] {
        self.bytes.bytes(0..self.bytes.len()).expect("the whole mapping is settled")
    }

    /// Returns the length of the file in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// See [`StoredFile::read_at`].
    ///
    /// # Errors
    /// The errors of the system.
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
        debug_assert!(from <= self.bytes.len(), "offset {from} of {}", self.bytes.len());
        let there = &self.all()[from..];
        let read = there.len().min(into.len());
        into[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    /// See [`StoredFile::map_settled`].
    ///
    /// # Errors
    /// As [`StoredFile::map_settled`].
    pub(super) fn map_settled(&self, bytes: usize) -> io::Result<View> {
        if bytes == self.bytes.len() {
            return Ok(self.bytes.clone());
        }
        // The length differs from the expected one. This is rare, and the copy is read once.
        let there = self.all().get(..bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut copy = Appender::in_memory(bytes)?;
        copy.bytes_mut(0..bytes).copy_from_slice(there);
        copy.settle(bytes);
        Ok(copy.view())
    }
}
