//! The slots where a decision found its blocks, for applying the entries right after it.
//!
//! It caches the slots of blocks. Invariant: the result does not depend on it. A cached slot is
//! used only after a check that it belongs to the block. So the state is the same without the
//! cache: after a restart, or in another process.

use alloc::vec::Vec;

/// The most entries of a commit whose slots are noted, so that no commit leaves much memory in use.
const NOTED_MAX: usize = 1024;

/// See the module. A caller that commits repeatedly keeps one, to reuse its memory.
#[derive(Debug, Default)]
pub struct SlotLookups {
    found: Vec<NotedSlots>,
    /// The number of notes that were returned.
    asked: usize,
}

#[derive(Debug)]
struct NotedSlots {
    /// The entry's, in its record.
    index: u32,
    slots: [u32; 2],
}

impl SlotLookups {
    /// The next decision begins.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.asked = 0;
    }

    /// Caches the slots of the blocks in the entry with this index. Call it in the order of
    /// entries.
    pub(crate) fn note(&mut self, index: u32, slots: [u32; 2]) {
        if self.found.len() < NOTED_MAX {
            self.found.push(NotedSlots { index, slots });
        }
    }

    /// The cached slots of an entry. Call it in the order of entries.
    pub(crate) fn of(&mut self, index: u32) -> Option<[u32; 2]> {
        let found = self.found.get(self.asked).filter(|found| found.index == index)?;
        self.asked += 1;
        Some(found.slots)
    }
}
