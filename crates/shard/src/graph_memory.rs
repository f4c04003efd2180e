//! The memory of graphs beyond their bound on the heap: mapped files without a name.
//!
//! The kernel keeps the used pages of a mapped file while it has memory, and takes them back for
//! others. So a graph larger than memory works, at the speed of the disk for missing pages. Such a
//! file is no part of the database. It loses its name before anything is written to it. After a
//! crash at most an empty file is left, which the next process to open the database removes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_graph::{Memory, Piece};
use quire_log::{Access, Disk, Storage};
use quire_mapped::Appender;

use crate::graph_slabs::LargePages;

/// Bound of the memory of graphs for operations that must not change the database's directory.
#[derive(Debug, Clone)]
pub struct GraphMemory {
    /// Bytes of blocks and edges on the heap, of all graphs together.
    pub heap_bytes_max: u64,
    /// Directory of the machine's file system for the rest, in mapped files without a name. Must be
    /// writable. If no file can be created there, graphs stay on the heap.
    pub folder: PathBuf,
}

/// Prefix of the files' names, until the names are removed.
const PREFIX: &str = "graph-memory-";

/// Zeros that are written at once.
const ZEROS: usize = 256 << 10;

/// Smallest bound for which graphs use slabs, which are mapped whole. With a smaller bound they use
/// the heap.
const SLABS_FROM: u64 = 256 << 20;

/// No bound: graphs keep everything in memory.
pub fn unbounded() -> Memory {
    Memory::bounded(usize::MAX, Box::new(|_| None)).with_slabs(Box::new(LargePages::new()))
}

/// Graphs keep `heap_bytes_max` bytes on the heap, and the rest in files that are created in
/// `folder`.
pub fn bounded(storage: Arc<dyn Storage>, folder: &Path, heap_bytes_max: u64) -> Memory {
    remove_left_over(&*storage, folder);
    lent(storage, folder.join(format!("{PREFIX}{}", std::process::id())), heap_bytes_max)
}

/// Like [`bounded`], in a directory that is shared with other programs: only own files are removed
/// from it.
pub fn bounded_elsewhere(bound: &GraphMemory) -> Memory {
    // Random, because processes in containers may share a process id and a directory.
    let stem = format!("quire-{PREFIX}{}", uuid::Uuid::new_v4());
    lent(Arc::new(Disk), bound.folder.join(stem), bound.heap_bytes_max)
}

/// Like [`bounded`], with files whose names begin with `stem`.
fn lent(storage: Arc<dyn Storage>, stem: PathBuf, heap_bytes_max: u64) -> Memory {
    let made = AtomicU64::new(0);
    let lend = move |words: usize| {
        let number = made.fetch_add(1, Ordering::Relaxed);
        // Without a piece the graph grows on the heap: appended records must be applied.
        let piece = MappedPiece::new(&*storage, &stem, number, words).ok()?;
        Some(Box::new(piece) as Box<dyn Piece>)
    };
    let memory = Memory::bounded(usize::try_from(heap_bytes_max).unwrap_or(usize::MAX), Box::new(lend));
    if heap_bytes_max < SLABS_FROM { memory } else { memory.with_slabs(Box::new(LargePages::new())) }
}

/// Removes files of processes that died between creating a file and removing its name. A living
/// process between the two finds its file without a name, as it wants it.
fn remove_left_over(storage: &dyn Storage, folder: &Path) {
    for name in storage.list(folder).unwrap_or_default() {
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            // The file takes no space, and the next opening tries again.
            let _ = storage.remove(&folder.join(name));
        }
    }
}

/// A mapped file of words.
struct MappedPiece(Appender);

impl MappedPiece {
    fn new(storage: &dyn Storage, stem: &Path, number: u64, words: usize) -> io::Result<Self> {
        let path = PathBuf::from(format!("{}-{number}", stem.display()));
        let file = storage.open(&path, Access::CreateNew)?;
        match storage.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let bytes = words * size_of::<u32>();
        // This reserves the space: a later store can't find the disk full, which would end the
        // process.
        let zeros = vec![0; ZEROS.min(bytes)];
        for at in (0..bytes).step_by(ZEROS) {
            file.write_at(&zeros[..ZEROS.min(bytes - at)], at as u64)?;
        }
        Ok(MappedPiece(file.map(bytes, 0)?))
    }
}

impl Piece for MappedPiece {
    fn words(&self) -> &[u32] {
        self.0.words()
    }

    fn words_mut(&mut self) -> &mut [u32] {
        self.0.words_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_keep_their_words_and_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph-memory-1-0"), "").unwrap();
        let _ = bounded(Arc::new(Disk), folder.path(), 0);
        let stem = folder.path().join("memory");
        let mut pieces: Vec<MappedPiece> =
            (0..3).map(|number| MappedPiece::new(&Disk, &stem, number, 300_000).unwrap()).collect();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for (number, piece) in (0..).zip(&mut pieces) {
            assert_eq!(piece.words().len(), 300_000);
            assert!(piece.words().iter().all(|word| *word == 0));
            piece.words_mut().fill(number);
        }
        for (number, piece) in (0..).zip(&pieces) {
            assert!(piece.words().iter().all(|word| *word == number));
        }
    }
}
