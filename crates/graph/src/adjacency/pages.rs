//! A vector of elements of a few words each, that grows a page at a time.
//!
//! A plain vector of gigabytes copies all elements when it grows, and needs twice the memory for
//! that time: a writer would wait for a second. Here only the first page moves its elements. It
//! doubles until it is full, so that a small graph stays small.

use alloc::vec::Vec;

use crate::memory::{MemorySource, Words};

/// Elements by number, of `WORDS` words each, in pages of `1 << BITS`.
#[derive(Debug)]
pub(super) struct Pages<const WORDS: usize, const BITS: u32> {
    pages: Vec<Words>,
    length: u32,
    source: MemorySource,
}

impl<const WORDS: usize, const BITS: u32> Pages<WORDS, BITS> {
    /// The number of elements of a page.
    pub(super) const PAGE: usize = 1 << BITS;

    /// Creates pages without elements.
    pub(super) fn new(source: MemorySource) -> Self {
        Pages { pages: Vec::new(), length: 0, source }
    }

    /// Returns the number of elements.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.length
    }

    /// Returns the number of elements that still fit into the last page; 0 when a new page must be
    /// begun.
    pub(super) fn room(&self) -> usize {
        self.pages.len() * Self::PAGE - self.length as usize
    }

    /// Adds `count` zero elements in one page, and returns the number of the first.
    ///
    /// # Panics
    /// When the current page has some [`room`](Pages::room), but less than `count`.
    pub(super) fn extend(&mut self, count: usize) -> u32 {
        if self.room() == 0 {
            let elements = if self.pages.is_empty() { count.next_power_of_two().max(4) } else { Self::PAGE };
            self.pages.push(Words::new(elements * WORDS, &self.source));
        }
        assert!(count <= self.room(), "a run lies in one page");
        let first = self.length;
        self.length += count as u32;
        if self.pages.len() == 1 {
            self.grow_first();
        }
        first
    }

    /// Grows the first page to the number of elements.
    fn grow_first(&mut self) {
        let (length, page) = (self.length as usize * WORDS, &self.pages[0]);
        let has = page.get().len();
        if has < length {
            let mut larger = Words::new((has * 2).max(length).min(Self::PAGE * WORDS), &self.source);
            larger.get_mut()[..has].copy_from_slice(page.get());
            self.pages[0] = larger;
        }
    }

    /// The element with this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[u32; WORDS] {
        let at = (number as usize & (Self::PAGE - 1)) * WORDS;
        self.pages[(number >> BITS) as usize].get()[at..].first_chunk().expect("an existing element")
    }

    /// The element with this number.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut [u32; WORDS] {
        &mut self.run_mut(number, 1)[0]
    }

    /// `count` elements from `first` on. All must be in one page.
    #[inline]
    pub(super) fn run(&self, first: u32, count: usize) -> &[[u32; WORDS]] {
        let from = (first as usize & (Self::PAGE - 1)) * WORDS;
        self.pages[(first >> BITS) as usize].get()[from..from + count * WORDS].as_chunks().0
    }

    /// `count` elements from `first` on, for writing. All must be in one page.
    #[inline]
    pub(super) fn run_mut(&mut self, first: u32, count: usize) -> &mut [[u32; WORDS]] {
        let from = (first as usize & (Self::PAGE - 1)) * WORDS;
        self.pages[(first >> BITS) as usize].get_mut()[from..from + count * WORDS].as_chunks_mut().0
    }

    /// Copies `count` elements. Both source and target must each be in one page.
    pub(super) fn copy(&mut self, from: u32, to: u32, count: usize) {
        let (source, target) = ((from >> BITS) as usize, (to >> BITS) as usize);
        let words = |first: u32| {
            let at = (first as usize & (Self::PAGE - 1)) * WORDS;
            at..at + count * WORDS
        };
        if source == target {
            self.pages[source].get_mut().copy_within(words(from), words(to).start);
        } else {
            let [source, target] = self.pages.get_disjoint_mut([source, target]).expect("two existing pages");
            target.get_mut()[words(to)].copy_from_slice(&source.get()[words(from)]);
        }
    }

    /// The source of their memory.
    pub(super) fn source(&self) -> &MemorySource {
        &self.source
    }

    /// Returns the lent bytes of their memory.
    pub(super) fn lent_bytes(&self) -> usize {
        self.pages.iter().map(Words::lent_bytes).sum()
    }

    /// Returns the bytes of their memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(Words::bytes).sum();
        pages + self.pages.capacity() * size_of::<Words>()
    }
}
