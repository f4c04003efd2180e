//! A vector that grows a page at a time.
//!
//! A plain vector of gigabytes copies them all when it grows, and needs twice the memory meanwhile: a writer would stand
//! still for a second. Here no element ever moves but within the first page, which grows as a vector does, so that a small
//! one stays small.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Elements by number, in pages of `1 << BITS`.
#[derive(Debug, Clone)]
pub(super) struct Pages<T, const BITS: u32> {
    pages: Vec<Vec<T>>,
}

impl<T, const BITS: u32> Default for Pages<T, BITS> {
    fn default() -> Self {
        Pages { pages: Vec::new() }
    }
}

impl<T: Clone, const BITS: u32> Pages<T, BITS> {
    /// How many elements a page has.
    pub(super) const PAGE: usize = 1 << BITS;

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        let full = self.pages.len().saturating_sub(1) * Self::PAGE;
        (full + self.pages.last().map_or(0, Vec::len)) as u32
    }

    /// How many the last page can still take; 0 when a new page has to be begun.
    pub(super) fn room(&self) -> usize {
        self.pages.last().map_or(0, |page| Self::PAGE - page.len())
    }

    /// Adds as many copies of an element as stand together in one page, and says the number of the first.
    ///
    /// # Panics
    /// When the page has no [`room`](Pages::room) for them, and is not full.
    pub(super) fn extend(&mut self, element: T, count: usize) -> u32 {
        if self.room() == 0 {
            let capacity = if self.pages.is_empty() { 0 } else { Self::PAGE };
            self.pages.push(Vec::with_capacity(capacity));
        }
        assert!(count <= self.room(), "a run stands in one page");
        let first = self.len();
        let page = self.pages.last_mut().expect("there is one");
        page.resize(page.len() + count, element);
        first
    }

    /// The elements from `first` on, all in one page.
    pub(super) fn run(&self, first: u32, count: usize) -> &[T] {
        let from = first as usize & (Self::PAGE - 1);
        &self.pages[(first >> BITS) as usize][from..from + count]
    }

    /// The elements from `first` on, all in one page.
    pub(super) fn run_mut(&mut self, first: u32, count: usize) -> &mut [T] {
        let from = first as usize & (Self::PAGE - 1);
        &mut self.pages[(first >> BITS) as usize][from..from + count]
    }

    /// Every element, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// How much memory they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.capacity() * size_of::<T>()).sum();
        pages + self.pages.capacity() * size_of::<Vec<T>>()
    }
}

impl<T, const BITS: u32> Index<u32> for Pages<T, BITS> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.pages[(number >> BITS) as usize][number as usize & ((1 << BITS) - 1)]
    }
}

impl<T, const BITS: u32> IndexMut<u32> for Pages<T, BITS> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pages[(number >> BITS) as usize][number as usize & ((1 << BITS) - 1)]
    }
}
