//! The memory of graphs beyond what they may have on the heap: mapped files that have no name.
//!
//! The kernel keeps of a mapped file what is used, as it has room, and takes it back when others need it: so a graph that is
//! larger than memory works, at the speed of the disk for what is not there. Such a file is no part of the database. It loses its
//! name before anything is written to it, so whatever becomes of the process, nothing is left of it but, at worst, the empty file
//! that the next one to open the database removes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_graph::{Memory, Piece};
use quire_log::{Access, Disk, Storage};
use quire_mapped::Appender;

use crate::graph_slabs::LargePages;

/// What bounds the memory of graphs where nothing of the database's folder is to change.
#[derive(Debug, Clone)]
pub struct GraphMemory {
    /// How many bytes of blocks and edges are kept on the heap, of all graphs together.
    pub heap_bytes_max: u64,
    /// Where the rest is kept, in mapped files without a name: a folder of the machine's file system that may be written to. When no file can
    /// be made there the heap is gone on with.
    pub folder: PathBuf,
}

/// How the files' names begin, for as long as they have some.
const PREFIX: &str = "graph-memory-";

/// How many zeros are written at once.
const ZEROS: usize = 256 << 10;

/// From which bound on graphs take slabs, which are mapped whole: a graph that may have little takes what it needs from the heap.
const SLABS_FROM: u64 = 256 << 20;

/// Graphs keep everything in memory.
pub fn unbounded() -> Memory {
    Memory::bounded(usize::MAX, Box::new(|_| None)).with_slabs(Box::new(LargePages::new()))
}

/// Graphs keep so many bytes on the heap, and what is beyond in files that are made in this folder.
pub fn bounded(storage: Arc<dyn Storage>, folder: &Path, heap_bytes_max: u64) -> Memory {
    remove_left_over(&*storage, folder);
    lent(storage, folder.join(format!("{PREFIX}{}", std::process::id())), heap_bytes_max)
}

/// The same in a folder that is shared with programs that know nothing of Quire: no file in it is removed but one's own.
pub fn bounded_elsewhere(bound: &GraphMemory) -> Memory {
    // As processes in containers may have the same number and share a folder.
    let stem = format!("quire-{PREFIX}{}", uuid::Uuid::new_v4());
    lent(Arc::new(Disk), bound.folder.join(stem), bound.heap_bytes_max)
}

/// As bounded, with files whose names begin with `stem`.
fn lent(storage: Arc<dyn Storage>, stem: PathBuf, heap_bytes_max: u64) -> Memory {
    let made = AtomicU64::new(0);
    let lend = move |words: usize| {
        let number = made.fetch_add(1, Ordering::Relaxed);
        // Without a piece the heap is gone on with: what was appended has to be taken in.
        let piece = Mapped::new(&*storage, &stem, number, words).ok()?;
        Some(Box::new(piece) as Box<dyn Piece>)
    };
    let memory = Memory::bounded(usize::try_from(heap_bytes_max).unwrap_or(usize::MAX), Box::new(lend));
    if heap_bytes_max < SLABS_FROM { memory } else { memory.with_slabs(Box::new(LargePages::new())) }
}

/// Removes what a process has left that ended between making a file and removing its name. One that does so just now finds its file
/// without a name, as it would have it.
fn remove_left_over(storage: &dyn Storage, folder: &Path) {
    for name in storage.list(folder).unwrap_or_default() {
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            // It takes no space; whoever opens the database next tries again.
            let _ = storage.remove(&folder.join(name));
        }
    }
}

/// A mapped file of words.
struct Mapped(Appender);

impl Mapped {
    fn new(storage: &dyn Storage, stem: &Path, number: u64, words: usize) -> io::Result<Self> {
        let path = PathBuf::from(format!("{}-{number}", stem.display()));
        let file = storage.open(&path, Access::CreateNew)?;
        match storage.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let bytes = words * size_of::<u32>();
        // Its space is its own from here on: no later store finds the disk full, which would end the process.
        let zeros = vec![0; ZEROS.min(bytes)];
        for at in (0..bytes).step_by(ZEROS) {
            file.write_at(&zeros[..ZEROS.min(bytes - at)], at as u64)?;
        }
        Ok(Mapped(file.map(bytes, 0)?))
    }
}

impl Piece for Mapped {
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
    fn what_is_lent_is_zero_is_kept_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph-memory-1-0"), "").unwrap();
        let _ = bounded(Arc::new(Disk), folder.path(), 0);
        let stem = folder.path().join("memory");
        let mut pieces: Vec<Mapped> =
            (0..3).map(|number| Mapped::new(&Disk, &stem, number, 300_000).unwrap()).collect();
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
