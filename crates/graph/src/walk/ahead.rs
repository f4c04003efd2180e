//! Memory that a walk breadth first will look at soon is fetched ahead, for many blocks at once.
//!
//! The blocks of a large graph are spread over memory. One after the other, each access waits for
//! memory. A processor that gets several independent accesses waits for all of them about as long
//! as for one.
//!
//! So the next blocks are touched in rounds: their nodes, then their edges, then the nodes at the
//! other ends, then the ids of new blocks. Within a round no access depends on another one of the
//! round: a wrong branch prediction would cost the whole wait. No result is kept, and no result
//! depends on it.

use core::hint::black_box;

use super::{WalkInput, Walker};

/// The number of blocks that are touched at once.
const BLOCKS: usize = 32;

/// The number of edges of a block that are touched at once. The next ones are touched while these
/// are followed.
const EDGES: usize = 16;

/// Graphs of fewer slots stay in the processor's own memory.
const SLOTS_MIN: u32 = 1 << 15;

impl Walker<'_> {
    /// Touches what the next blocks to be expanded need, when that was not done yet.
    pub(super) fn fetch_ahead(&mut self, ground: WalkInput<'_>) {
        let adjacency = &ground.graph.adjacency;
        if self.next < self.fetched || adjacency.slots() < SLOTS_MIN || !self.tokens.is_by_slot() {
            return;
        }
        let first = self.next as usize;
        let last = self.met.len().min(first + BLOCKS);
        self.fetched = last as u32;
        let slots = || self.met[first..last].iter().filter(|met| met.is_visited()).map(|met| met.slot);
        let ends = self.plan.direction.ends();
        let mut touched = 0;
        for slot in slots() {
            touched ^= adjacency.touch_lists(slot);
        }
        for end in ends {
            for slot in slots() {
                touched ^= adjacency.touch_edges(slot, *end, EDGES);
            }
            let mut far = [0; BLOCKS * EDGES];
            let mut count = 0;
            for slot in slots() {
                for hop in adjacency.hops(slot, *end, (u16::MIN, u16::MAX), None).take(EDGES) {
                    far[count] = hop.far;
                    count += 1;
                    touched ^= self.tokens.touch(hop.far);
                }
            }
            for slot in &far[..count] {
                if self.tokens.of_slot(*slot).is_none() {
                    touched ^= adjacency.touch_id(*slot);
                }
            }
        }
        black_box(touched);
    }
}
