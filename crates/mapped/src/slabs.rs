//! Memory without a file, in large pages, handed out in parts.
//!
//! Random access over gigabytes waits twice at each address: for the data, and before it for the
//! address translation, of which the processor caches few. A page of two megabytes replaces five
//! hundred of the usual size. The system provides large pages on request, if it has them. Without
//! large pages, everything else works the same.
//!
//! A part is an ordinary slice. When it is returned, its memory returns to the system at once. Its
//! addresses return when all parts of its slab have.

use std::slice;

#[cfg(target_os = "linux")]
use memmap2::{Advice, UncheckedAdvice};
use memmap2::{MmapMut, MmapRaw};

/// The size of a large page, where the system has them.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// The alignment of parts: whole pages on every machine this runs on.
const PAGE_BYTES: usize = 64 << 10;

/// The memory that parts are taken from, mapped on demand.
#[derive(Debug)]
pub struct Slabs {
    slab_bytes: usize,
    /// New parts are taken from the last slab.
    slabs: Vec<Slab>,
}

#[derive(Debug)]
struct Slab {
    raw: MmapRaw,
    /// The end of the memory handed out so far. It only increases.
    given: usize,
    /// The parts in use: the start and the number of words of each.
    parts: Vec<(usize, usize)>,
}

impl Slabs {
    /// Creates an empty allocator. Each of its slabs reserves `slab_bytes` of address space, and
    /// uses only the memory that is written to.
    pub const fn new(slab_bytes: usize) -> Self {
        Slabs { slab_bytes, slabs: Vec::new() }
    }

    /// Hands out `count` words, all zero; `None` when the system has no memory for them.
    pub fn take(&mut self, count: usize) -> Option<&'static mut [u32]> {
        if let Some(part) = self.slabs.last_mut().and_then(|slab| slab.take(count)) {
            return Some(part);
        }
        let bytes = count.checked_mul(size_of::<u32>())?;
        let mut slab = Slab::new(bytes.max(self.slab_bytes))?;
        let part = slab.take(count);
        self.slabs.push(slab);
        part
    }

    /// Takes back a part that this allocator handed out.
    ///
    /// # Panics
    /// When the part was taken elsewhere, or is a piece of a part: another owner may have the rest.
    pub fn give(&mut self, part: &'static mut [u32]) {
        let index =
            self.slabs.iter().position(|slab| slab.has(part)).expect("a returned part belongs to this allocator");
        self.slabs[index].give(part);
        if self.slabs[index].parts.is_empty() {
            // No part of the slab is in use (Parts), so it can be unmapped.
            self.slabs.remove(index);
        }
    }

    /// The size of the address space that the slabs reserve.
    pub fn bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.raw.len()).sum()
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        // A part in use may be read at any later time, so its slab stays mapped. A slab without
        // parts is unmapped.
        self.slabs.drain(..).for_each(std::mem::forget);
    }
}

impl Slab {
    fn new(bytes: usize) -> Option<Self> {
        // The mapping may begin within a large page. One more large page makes space to align the
        // `bytes` bytes.
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?.checked_add(LARGE_PAGE_BYTES)?;
        let raw = MmapRaw::from(MmapMut::map_anon(bytes).ok()?);
        // Systems without large pages use ordinary pages.
        #[cfg(target_os = "linux")]
        let _ = raw.advise(Advice::HugePage);
        let given = raw.as_ptr().align_offset(LARGE_PAGE_BYTES).min(LARGE_PAGE_BYTES);
        Some(Slab { raw, given, parts: Vec::new() })
    }

    fn take(&mut self, count: usize) -> Option<&'static mut [u32]> {
        let bytes = count.checked_mul(size_of::<u32>())?.checked_next_multiple_of(PAGE_BYTES)?;
        let (begin, end) = (self.given, self.given.checked_add(bytes)?);
        if end > self.raw.len() {
            return None;
        }
        self.given = end;
        self.parts.push((begin, count));
        let first = self.raw.as_mut_ptr().wrapping_add(begin).cast();
        // SAFETY: The range was checked to be within the mapping (Bounds). It begins at a page,
        // which is aligned for words, and is zeroed. No other slice has it (Parts), and it stays
        // mapped until it is returned, which ends this slice.
        Some(unsafe { slice::from_raw_parts_mut(first, count) })
    }

    /// Whether a part is one of this slab, and all of it.
    fn has(&self, part: &[u32]) -> bool {
        self.parts.contains(&self.place_of(part))
    }

    fn place_of(&self, part: &[u32]) -> (usize, usize) {
        ((part.as_ptr() as usize).wrapping_sub(self.raw.as_ptr() as usize), part.len())
    }

    fn give(&mut self, part: &'static mut [u32]) {
        let place = self.place_of(part);
        // Empty parts may be equal; each is returned separately.
        let index = self.parts.iter().position(|out| *out == place).expect("a returned part is in use");
        self.parts.swap_remove(index);
        #[cfg(target_os = "linux")]
        {
            let begin = place.0;
            let bytes = size_of_val(part) / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: No other slice has these pages, and none gets them from now on (Parts): they
            // are whole pages of the part.
            let _ = unsafe { self.raw.unchecked_advise_range(UncheckedAdvice::DontNeed, begin, bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_zeroed_and_each_keeps_its_content_when_others_are_returned() {
        let mut slabs = Slabs::new(1 << 20);
        let counts = [1, 16 << 10, (16 << 10) + 1, 100_000, 1_000_000, 300_000];
        let mut parts: Vec<&'static mut [u32]> = counts.iter().map(|count| slabs.take(*count).unwrap()).collect();
        for ((part, count), number) in parts.iter_mut().zip(counts).zip(1..) {
            assert_eq!((part.len(), part.as_ptr() as usize % PAGE_BYTES), (count, 0));
            assert!(part.iter().all(|word| *word == 0));
            part.fill(number);
        }
        for given in [4, 2, 0] {
            slabs.give(parts.remove(given));
        }
        let more = slabs.take(2_000_000).unwrap();
        assert!(more.iter().all(|word| *word == 0));
        more.fill(7);
        drop(slabs);
        for (part, number) in parts.iter().zip([2, 4, 6]) {
            assert!(part.iter().all(|word| *word == number));
        }
    }

    #[test]
    fn returned_parts_use_no_memory() {
        let mut slabs = Slabs::new(1 << 20);
        for _ in 0..100 {
            let parts: Vec<&'static mut [u32]> = (0..40).map(|_| slabs.take(40_000).unwrap()).collect();
            assert!(slabs.bytes() < 3 * (40 * 40_000 * 4));
            parts.into_iter().for_each(|part| slabs.give(part));
            assert_eq!(slabs.bytes(), 0);
        }
        assert!(slabs.take(usize::MAX).is_none() && slabs.take(usize::MAX / 4).is_none());
    }

    #[test]
    fn parts_without_words_are_given_back_each_on_its_own() {
        let mut slabs = Slabs::new(1 << 20);
        for part in [slabs.take(0).unwrap(), slabs.take(0).unwrap()] {
            slabs.give(part);
        }
        assert_eq!(slabs.bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "a returned part belongs to this allocator")]
    fn some_of_what_was_taken_is_not_taken_back() {
        let mut slabs = Slabs::new(1 << 20);
        let (first, rest) = slabs.take(100_000).unwrap().split_at_mut(50_000);
        rest.fill(7);
        slabs.give(first);
    }

    #[test]
    #[should_panic(expected = "a returned part belongs to this allocator")]
    fn a_part_of_other_slabs_is_refused() {
        let part = Slabs::new(1 << 20).take(1).unwrap();
        Slabs::new(1 << 20).give(part);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_memory_of_a_returned_part_is_freed_while_its_slab_stays() {
        let resident = || -> usize {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let mut slabs = Slabs::new(600 << 20);
        let (first, stays) = (slabs.take(128 << 20).unwrap(), slabs.take(1).unwrap());
        first.fill(1);
        stays[0] = 7;
        let full = resident();
        slabs.give(first);
        let left = resident();
        assert!(left + (256 << 20) < full, "of {full} bytes {left} are left");
        assert_eq!((stays[0], slabs.bytes() > 600 << 20), (7, true));
    }
}
