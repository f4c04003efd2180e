//! The words that a walk knows blocks by: a number for every slot of the graph, gone to at random.
//!
//! They lie in large pages where the graph does, but are the walk's: they do not count as the
//! graph's memory.

use alloc::boxed::Box;
use core::fmt;

use crate::memory::MemorySource;

/// See the module. All zero at first.
pub(super) struct Scratch {
    store: ScratchStore,
    source: MemorySource,
}

enum ScratchStore {
    Heap(Box<[u32]>),
    Slab(&'static mut [u32]),
}

impl Scratch {
    /// Creates `count` words from the memory of the graph.
    pub(super) fn new(count: usize, source: &MemorySource) -> Self {
        let slabs = source.as_ref().and_then(|memory| memory.slabs.as_ref());
        let store = match slabs.and_then(|slabs| slabs.take(count)) {
            Some(words) => ScratchStore::Slab(words),
            None => ScratchStore::Heap(alloc::vec![0; count].into_boxed_slice()),
        };
        Scratch { store, source: source.clone() }
    }

    /// Grows to at least `count` words, which begin with the current ones.
    pub(super) fn grow(&mut self, count: usize) {
        let mut larger = Scratch::new(count.max(self.get().len() * 2), &self.source);
        larger.get_mut()[..self.get().len()].copy_from_slice(self.get());
        *self = larger;
    }

    /// The words.
    #[inline]
    pub(super) fn get(&self) -> &[u32] {
        match &self.store {
            ScratchStore::Heap(words) => words,
            ScratchStore::Slab(words) => words,
        }
    }

    /// The words, to be written.
    #[inline]
    pub(super) fn get_mut(&mut self) -> &mut [u32] {
        match &mut self.store {
            ScratchStore::Heap(words) => words,
            ScratchStore::Slab(words) => words,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let slabs = self.source.as_ref().and_then(|memory| memory.slabs.as_ref());
        if let (ScratchStore::Slab(words), Some(slabs)) = (&mut self.store, slabs) {
            slabs.give(core::mem::take(words));
        }
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("words", &self.get().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memory::{Memory, SlabSource};

    /// Counts what is out.
    struct Counted(Arc<AtomicUsize>);

    impl SlabSource for Counted {
        fn take(&self, words: usize) -> Option<&'static mut [u32]> {
            self.0.fetch_add(words, Ordering::Relaxed);
            Some(Box::leak(alloc::vec![0; words].into_boxed_slice()))
        }

        fn give(&self, words: &'static mut [u32]) {
            self.0.fetch_sub(words.len(), Ordering::Relaxed);
        }
    }

    #[test]
    fn words_are_kept_as_they_become_more_and_all_are_given_back() {
        let out = Arc::new(AtomicUsize::new(0));
        let memory = Memory::bounded(0, Box::new(|_| None)).with_slabs(Box::new(Counted(Arc::clone(&out))));
        for source in [Some(Arc::new(memory)), None] {
            let mut scratch = Scratch::new(3, &source);
            scratch.get_mut().copy_from_slice(&[1, 2, 3]);
            scratch.grow(4);
            assert_eq!(scratch.get(), [1, 2, 3, 0, 0, 0]);
            assert_eq!(out.load(Ordering::Relaxed), if source.is_some() { 6 } else { 0 });
            scratch.grow(20);
            assert_eq!((scratch.get().len(), &scratch.get()[..4]), (20, &[1, 2, 3, 0][..]));
            drop(scratch);
            assert_eq!(out.load(Ordering::Relaxed), 0);
        }
    }
}
