//! Memory without a file in large pages, given out in parts.
//!
//! Who goes from place to place in gigabytes waits twice at each: for what is there, and before it for where the page is, which the
//! processor remembers of few pages. A page of two megabytes is five hundred of the usual ones; the system makes such pages where it
//! is asked to and has them, and nothing else changes where it has not.
//!
//! A part is a slice like any other, and costs no detour. When it is given back its memory goes back to the system at once, and its
//! addresses when the last one of its slab is.

use std::slice;

#[cfg(target_os = "linux")]
use memmap2::{Advice, UncheckedAdvice};
use memmap2::{MmapMut, MmapRaw};

/// A large page, where the system has them.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// What parts begin at: pages of their own on any machine this runs on.
const PAGE_BYTES: usize = 64 << 10;

/// What parts are taken of, mapped as it is needed.
#[derive(Debug)]
pub struct Slabs {
    slab_bytes: usize,
    /// Parts are taken of the last one.
    slabs: Vec<Slab>,
}

#[derive(Debug)]
struct Slab {
    raw: MmapRaw,
    /// Up to here it was given out. Only moves up.
    given: usize,
    /// The parts that are out: where each begins, and how many words it has.
    parts: Vec<(usize, usize)>,
}

impl Slabs {
    /// None yet. Each will take so much of the address space; of memory it takes what is written to.
    pub const fn new(slab_bytes: usize) -> Self {
        Slabs { slab_bytes, slabs: Vec::new() }
    }

    /// So many words, all zero; `None` when the system has no room for them.
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

    /// Takes back what was taken here.
    ///
    /// # Panics
    /// When it was taken elsewhere, or is only some of what was taken: somebody may have the rest.
    pub fn give(&mut self, part: &'static mut [u32]) {
        let index = self.slabs.iter().position(|slab| slab.has(part)).expect("what is given back was taken here");
        self.slabs[index].give(part);
        if self.slabs[index].parts.is_empty() {
            // Nobody has anything of it (Parts), so it can be unmapped.
            self.slabs.remove(index);
        }
    }

    /// How much of the address space they take.
    pub fn bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.raw.len()).sum()
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        // What is out may be looked at for ever. Nothing is, once all was given back.
        self.slabs.drain(..).for_each(std::mem::forget);
    }
}

impl Slab {
    fn new(bytes: usize) -> Option<Self> {
        // Wherever the mapping begins, so many bytes of it begin at a large page.
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?.checked_add(LARGE_PAGE_BYTES)?;
        let raw = MmapRaw::from(MmapMut::map_anon(bytes).ok()?);
        // Where there are no large pages, it is the usual ones.
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
        // SAFETY: So many words were checked to be in the mapping (Bounds), from a page on, which is aligned for words, and are zeroes.
        // Nobody else has them (Parts), and they stay mapped until they are given back, which is the end of this slice.
        Some(unsafe { slice::from_raw_parts_mut(first, count) })
    }

    /// Whether a part is one of this slab, and the whole of it.
    fn has(&self, part: &[u32]) -> bool {
        self.parts.contains(&self.place_of(part))
    }

    fn place_of(&self, part: &[u32]) -> (usize, usize) {
        ((part.as_ptr() as usize).wrapping_sub(self.raw.as_ptr() as usize), part.len())
    }

    fn give(&mut self, part: &'static mut [u32]) {
        let place = self.place_of(part);
        // Parts without words may be equal, and each is given back on its own.
        let index = self.parts.iter().position(|out| *out == place).expect("what is given back is out");
        self.parts.swap_remove(index);
        #[cfg(target_os = "linux")]
        {
            let begin = place.0;
            let bytes = size_of_val(part) / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: Nobody else has these pages, and nobody has them from here on (Parts): they are whole ones of the part.
            let _ = unsafe { self.raw.unchecked_advise_range(UncheckedAdvice::DontNeed, begin, bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zero_and_each_keeps_what_is_written_to_it_whatever_becomes_of_the_others() {
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
    fn what_was_given_back_takes_no_room_any_more() {
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
    #[should_panic(expected = "what is given back was taken here")]
    fn some_of_what_was_taken_is_not_taken_back() {
        let mut slabs = Slabs::new(1 << 20);
        let (first, rest) = slabs.take(100_000).unwrap().split_at_mut(50_000);
        rest.fill(7);
        slabs.give(first);
    }

    #[test]
    #[should_panic(expected = "what is given back was taken here")]
    fn what_was_taken_elsewhere_is_not_taken_back() {
        let part = Slabs::new(1 << 20).take(1).unwrap();
        Slabs::new(1 << 20).give(part);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_memory_of_a_part_goes_back_with_it_though_its_slab_stays() {
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
