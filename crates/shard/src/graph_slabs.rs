//! The memory of large graphs within their bound: parts of slabs in large pages.
//!
//! A walk, or a look-up among millions of blocks, reads all over the pages of a graph. With pages
//! of the usual size the processor waits nearly as long for the address of each page as for its
//! bytes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use quire_mapped::Slabs;

/// Smallest array, in bytes, that is part of a slab: the pages of a graph that is about to fill its
/// first, and the index of millions of blocks. Smaller arrays stay on the heap, so small graphs
/// have no slab.
const PART_BYTES_MIN: usize = 128 << 10;

/// Bytes of address space of a slab.
const SLAB_BYTES: usize = 32 << 20;

/// Slabs for all graphs of a database.
pub(crate) struct LargePages(Mutex<Slabs>);

impl LargePages {
    pub(crate) fn new() -> Self {
        LargePages(Mutex::new(Slabs::new(SLAB_BYTES)))
    }

    fn slabs(&self) -> MutexGuard<'_, Slabs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl quire_graph::SlabSource for LargePages {
    fn take(&self, words: usize) -> Option<&'static mut [u32]> {
        // An array that the system has no slab for may still fit the heap.
        if words < PART_BYTES_MIN / size_of::<u32>() { None } else { self.slabs().take(words) }
    }

    fn give(&self, words: &'static mut [u32]) {
        self.slabs().give(words);
    }
}
