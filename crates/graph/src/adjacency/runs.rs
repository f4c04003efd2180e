//! Runs of elements in shared memory: many short arrays without an allocation each.
//!
//! A run has the capacity of its size class, the least that holds its length; classes are at most a
//! quarter apart, and exact up to eight. A returned run is the next of its class to be taken. The
//! rest of a page that is too small for a run is divided into runs of smaller classes.

use alloc::vec::Vec;

use super::pages::Pages;
use crate::memory::MemorySource;

/// The most elements of a run.
pub(super) const RUN_MAX: usize = 512;

/// The size classes, in elements.
const CLASSES: [u16; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
    384, 448, 512,
];

/// The size class of each length.
const CLASS_OF: [u8; RUN_MAX + 1] = {
    let mut class_of = [0; RUN_MAX + 1];
    let (mut length, mut class) = (1, 0);
    while length <= RUN_MAX {
        if length > CLASSES[class] as usize {
            class += 1;
        }
        class_of[length] = class as u8;
        length += 1;
    }
    class_of
};

/// Elements of `WORDS` numbers each, in runs.
#[derive(Debug)]
pub(super) struct Runs<const WORDS: usize> {
    elements: Pages<WORDS, 15>,
    /// The free runs, by class.
    free: [Vec<u32>; CLASSES.len()],
}

impl<const WORDS: usize> Runs<WORDS> {
    /// Creates an allocator without runs.
    pub(super) fn new(source: MemorySource) -> Self {
        Runs { elements: Pages::new(source), free: Default::default() }
    }

    /// Allocates a run of `length` elements with undefined content, and returns the number of its
    /// first element; 0 for an empty run.
    pub(super) fn take(&mut self, length: usize) -> u32 {
        if length == 0 {
            return 0;
        }
        let class = CLASS_OF[length] as usize;
        if let Some(first) = self.free[class].pop() {
            return first;
        }
        let capacity = CLASSES[class] as usize;
        let mut rest = self.elements.room();
        if rest < capacity {
            while rest > 0 {
                let class = CLASSES.iter().rposition(|class| *class as usize <= rest).expect("one element is a run");
                let first = self.elements.extend(CLASSES[class] as usize);
                self.free[class].push(first);
                rest -= CLASSES[class] as usize;
            }
        }
        self.elements.extend(capacity)
    }

    /// Gives a run of this length back.
    pub(super) fn give(&mut self, first: u32, length: usize) {
        if length > 0 {
            self.free[CLASS_OF[length] as usize].push(first);
        }
    }

    /// Whether runs of these lengths have the same capacity.
    pub(super) fn is_same_class(left: usize, right: usize) -> bool {
        left > 0 && right > 0 && CLASS_OF[left] == CLASS_OF[right]
    }

    /// The elements of a run.
    pub(super) fn get(&self, first: u32, length: usize) -> &[[u32; WORDS]] {
        if length == 0 { &[] } else { self.elements.run(first, length) }
    }

    /// The elements of a run.
    pub(super) fn get_mut(&mut self, first: u32, length: usize) -> &mut [[u32; WORDS]] {
        if length == 0 { &mut [] } else { self.elements.run_mut(first, length) }
    }

    /// Moves a run to one of another length, as much of it as both hold.
    pub(super) fn resize(&mut self, first: u32, length: usize, new_length: usize) -> u32 {
        if Self::is_same_class(length, new_length) {
            return first;
        }
        let new = self.take(new_length);
        if length > 0 && new_length > 0 {
            self.elements.copy(first, new, length.min(new_length));
        }
        self.give(first, length);
        new
    }

    /// Returns the lent bytes of their memory.
    pub(super) fn lent_bytes(&self) -> usize {
        self.elements.lent_bytes()
    }

    /// Returns the bytes of their memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.elements.memory_bytes() + self.free.iter().map(|runs| runs.capacity() * size_of::<u32>()).sum::<usize>()
    }
}
