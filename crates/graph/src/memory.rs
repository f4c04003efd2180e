//! The memory of the large arrays of graphs: the heap up to a bound, and beyond it pieces from a
//! lender. The opener of the database supplies both; within the bound it may also supply memory
//! that is faster than the heap.
//!
//! Invariant: all states that share a [`Memory`] together keep at most its bound on the heap, as
//! long as its lender has pieces. When the lender has none (a full disk), the heap is used, because
//! appended entries must be applied.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Words outside of the heap, such as a mapped file.
pub trait Piece: Send + Sync {
    /// The words.
    fn words(&self) -> &[u32];
    /// The words, for writing.
    fn words_mut(&mut self) -> &mut [u32];
}

/// Lends pieces of exactly `words` words, all zero; `None` when it has no such piece.
pub type Lender = dyn Fn(usize) -> Option<Box<dyn Piece>> + Send + Sync;

/// Memory for large arrays, tried before the heap.
pub trait SlabSource: Send + Sync {
    /// Lends `words` words, all zero, until they are given back; `None` when the heap must be used.
    fn take(&self, words: usize) -> Option<&'static mut [u32]>;
    /// Returns words that [`take`](SlabSource::take) lent.
    fn give(&self, words: &'static mut [u32]);
}

/// A bound on the heap memory of graphs, and the memory to use beyond it. See the module.
pub struct Memory {
    heap_bytes_max: usize,
    heap_bytes: AtomicUsize,
    lent_bytes: AtomicUsize,
    /// Within the bound.
    pub(crate) slabs: Option<Box<dyn SlabSource>>,
    lender: Box<Lender>,
}

impl Memory {
    /// At most this many bytes on the heap, and pieces of this lender beyond.
    pub fn bounded(heap_bytes_max: usize, lender: Box<Lender>) -> Self {
        let (heap_bytes, lent_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Memory { heap_bytes_max, heap_bytes, lent_bytes, slabs: None, lender }
    }

    /// Asks these slabs before the heap, within the same bound: their memory counts as heap memory.
    #[must_use]
    pub fn with_slabs(self, slabs: Box<dyn SlabSource>) -> Self {
        Memory { slabs: Some(slabs), ..self }
    }

    /// Returns the bytes of arrays on the heap, or of slabs.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of lent pieces.
    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("heap_bytes_max", &self.heap_bytes_max)
            .field("heap_bytes", &self.heap_bytes)
            .field("lent_bytes", &self.lent_bytes)
            .finish_non_exhaustive()
    }
}

/// The source of memory. Without a [`Memory`], no bound holds.
pub(crate) type MemorySource = Option<Arc<Memory>>;

/// An array of words, initially zero, on the heap or in lent memory.
pub(crate) struct Words {
    store: WordStorage,
    /// The memory to return the piece to.
    source: MemorySource,
}

enum WordStorage {
    Heap(Box<[u32]>),
    Slab(&'static mut [u32]),
    Lent(Box<dyn Piece>),
}

impl Words {
    /// Creates `count` words.
    pub(crate) fn new(count: usize, source: &MemorySource) -> Self {
        let heap = || WordStorage::Heap(alloc::vec![0; count].into_boxed_slice());
        let Some(memory) = source else { return Words { store: heap(), source: None } };
        let bytes = count * size_of::<u32>();
        let before = memory.heap_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= memory.heap_bytes_max {
            let part = memory.slabs.as_ref().and_then(|slabs| slabs.take(count));
            assert!(part.as_ref().is_none_or(|part| part.len() == count), "a part has the requested number of words");
            let store = part.map_or_else(heap, WordStorage::Slab);
            return Words { store, source: Some(Arc::clone(memory)) };
        }
        let store = match (memory.lender)(count) {
            Some(piece) => {
                assert_eq!(piece.words().len(), count, "a piece has the requested number of words");
                memory.heap_bytes.fetch_sub(bytes, Ordering::Relaxed);
                memory.lent_bytes.fetch_add(bytes, Ordering::Relaxed);
                WordStorage::Lent(piece)
            }
            None => heap(),
        };
        Words { store, source: Some(Arc::clone(memory)) }
    }

    /// The words.
    #[inline]
    pub(crate) fn get(&self) -> &[u32] {
        match &self.store {
            WordStorage::Heap(words) => words,
            WordStorage::Slab(words) => words,
            WordStorage::Lent(piece) => piece.words(),
        }
    }

    /// The words, for writing.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut [u32] {
        match &mut self.store {
            WordStorage::Heap(words) => words,
            WordStorage::Slab(words) => words,
            WordStorage::Lent(piece) => piece.words_mut(),
        }
    }

    /// Returns the bytes of their memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.get())
    }

    /// Returns the lent bytes of their memory.
    pub(crate) fn lent_bytes(&self) -> usize {
        if matches!(self.store, WordStorage::Lent(_)) { self.bytes() } else { 0 }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let Some(memory) = &self.source else { return };
        let counter = match &self.store {
            WordStorage::Heap(_) | WordStorage::Slab(_) => &memory.heap_bytes,
            WordStorage::Lent(_) => &memory.lent_bytes,
        };
        counter.fetch_sub(self.bytes(), Ordering::Relaxed);
        if let (WordStorage::Slab(words), Some(slabs)) = (&mut self.store, &memory.slabs) {
            slabs.give(core::mem::take(words));
        }
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.store {
            WordStorage::Heap(_) => "heap",
            WordStorage::Slab(_) => "slab",
            WordStorage::Lent(_) => "lent",
        };
        f.debug_struct("Words").field("bytes", &self.bytes()).field("place", &place).finish()
    }
}
