//! Short lists of ordinals in shared memory, without one allocation each.
//!
//! A run has as many words as the next power of two of its length, from 2 to [`RUN_MAX`]. A
//! released run is the next of its size to be allocated. Memory grows by pages, so that a run moves
//! only when it grows.

/// The most ordinals of a run.
pub(super) const RUN_MAX: usize = 4096;

const PAGE_BITS: u32 = 14;
const PAGE: usize = 1 << PAGE_BITS;
/// A run is at most half a page, so that little memory at the end of a page stays unused.
const _: () = assert!(RUN_MAX * 2 <= PAGE);
const _: () = assert!(RUN_MAX.is_power_of_two());

/// See the module.
#[derive(Debug)]
pub(super) struct RunArena {
    pages: Vec<Box<[u32]>>,
    /// The words of the last page that are allocated.
    taken: usize,
    /// Released runs, by the logarithm of their length.
    free: [Vec<u32>; RUN_MAX.ilog2() as usize + 1],
}

impl RunArena {
    pub(super) fn new() -> Self {
        RunArena { pages: Vec::new(), taken: PAGE, free: Default::default() }
    }

    /// Allocates a run of `length` words, a power of two, and returns its start.
    pub(super) fn take(&mut self, length: usize) -> u32 {
        debug_assert!(length >= 2 && length.is_power_of_two() && length <= RUN_MAX, "{length}");
        if let Some(at) = self.free[length.ilog2() as usize].pop() {
            return at;
        }
        if self.taken + length > PAGE {
            self.pages.push(vec![0; PAGE].into());
            self.taken = 0;
        }
        let at = ((self.pages.len() - 1) << PAGE_BITS) + self.taken;
        debug_assert_eq!(at >> PAGE_BITS, (at + length - 1) >> PAGE_BITS, "a run lies within one page");
        self.taken += length;
        u32::try_from(at).expect("a segment has fewer than four billion tags")
    }

    /// Releases a run of `length` ordinals.
    pub(super) fn give(&mut self, at: u32, length: usize) {
        debug_assert!((2..=RUN_MAX).contains(&length), "{length}");
        debug_assert!((at as usize >> PAGE_BITS) < self.pages.len(), "run {at} lies outside the pages");
        self.free[length.next_power_of_two().ilog2() as usize].push(at);
    }

    /// Makes space for one more ordinal in a run of `length` ordinals, and returns its start.
    #[inline]
    pub(super) fn lengthen(&mut self, at: u32, length: usize) -> u32 {
        if length.is_power_of_two() { self.double(at, length) } else { at }
    }

    fn double(&mut self, at: u32, length: usize) -> u32 {
        let longer = self.take(length * 2);
        for index in 0..length {
            let ordinal = self.get(at, length)[index];
            self.get_mut(longer, length)[index] = ordinal;
        }
        self.give(at, length);
        longer
    }

    #[inline]
    pub(super) fn get(&self, at: u32, length: usize) -> &[u32] {
        let first = at as usize % PAGE;
        &self.pages[(at >> PAGE_BITS) as usize][first..first + length]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32, length: usize) -> &mut [u32] {
        let first = at as usize % PAGE;
        &mut self.pages[(at >> PAGE_BITS) as usize][first..first + length]
    }
}
