//! Short lists of ordinals in shared memory, without an allocation each.
//!
//! A run has as many words as the next power of two of its length, from 2 to [`RUN_MAX`]. One that is given back is the next of its size
//! to be taken. Memory is taken a page at a time, so that no run ever moves but to grow.

/// The most ordinals of a run.
pub(super) const RUN_MAX: usize = 4096;

const PAGE_BITS: u32 = 14;
const PAGE: usize = 1 << PAGE_BITS;
/// A run is never longer than half a page, so that little is left over.
const _: () = assert!(RUN_MAX * 2 <= PAGE);

/// See the module.
#[derive(Debug)]
pub(super) struct Runs {
    pages: Vec<Box<[u32]>>,
    /// How many words of the last page are taken.
    taken: usize,
    /// By the logarithm of their length.
    free: [Vec<u32>; RUN_MAX.ilog2() as usize + 1],
}

impl Runs {
    pub(super) fn new() -> Self {
        Runs { pages: Vec::new(), taken: PAGE, free: Default::default() }
    }

    /// A run of this length, a power of two: where it begins.
    pub(super) fn take(&mut self, length: usize) -> u32 {
        debug_assert!(length.is_power_of_two() && length <= RUN_MAX);
        if let Some(at) = self.free[length.ilog2() as usize].pop() {
            return at;
        }
        if self.taken + length > PAGE {
            self.pages.push(vec![0; PAGE].into());
            self.taken = 0;
        }
        let at = ((self.pages.len() - 1) << PAGE_BITS) + self.taken;
        self.taken += length;
        u32::try_from(at).expect("a segment has fewer than four billion tags")
    }

    /// Gives back a run of so many ordinals.
    pub(super) fn give(&mut self, at: u32, length: usize) {
        self.free[length.next_power_of_two().ilog2() as usize].push(at);
    }

    /// A run of so many ordinals, with room for one more.
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
