//! The blocks of a walk, by their numbers in the walk.
//!
//! A walk counts the blocks that it meets, and knows them by that number. The blocks themselves it
//! knows by their slots, as long as slots stay with their blocks; in a hash table while it has met
//! few, in an array once they are many. When a slot was freed behind the walk's back it knows them
//! by their ids from then on.

use hashbrown::HashTable;

use super::met::BlockVisit;
use super::scratch::Scratch;
use crate::BlockId;
use crate::adjacency::Adjacency;

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// The most slots for which the array is made at the start, which takes a microsecond.
const SMALL: u32 = 1 << 14;

/// See the module.
#[derive(Debug)]
pub(super) enum Tokens {
    /// (slot, number).
    Few(HashTable<(u32, u32)>),
    /// Numbers by slot, each one more than it is; zero is none.
    Many(Scratch),
    /// Numbers, by the id of the block.
    ById(HashTable<u32>),
}

impl Tokens {
    pub(super) fn new(adjacency: &Adjacency) -> Self {
        let slots = adjacency.slots();
        if slots <= SMALL {
            Tokens::Many(Scratch::new(slots as usize, adjacency.source()))
        } else {
            Tokens::Few(HashTable::new())
        }
    }

    /// None, of no graph.
    pub(super) fn none() -> Self {
        Tokens::Few(HashTable::new())
    }

    /// The memory in bytes. A table has a byte for each place besides the entries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Tokens::Few(table) => table.capacity() * (1 + size_of::<(u32, u32)>()),
            Tokens::Many(numbers) => size_of_val(numbers.get()),
            Tokens::ById(table) => table.capacity() * (1 + size_of::<u32>()),
        }
    }

    /// Whether blocks are known by their slots.
    pub(super) fn is_by_slot(&self) -> bool {
        !matches!(self, Tokens::ById(_))
    }

    /// The number of the block in a slot.
    #[inline]
    pub(super) fn of_slot(&self, slot: u32) -> Option<u32> {
        match self {
            Tokens::Few(table) => table.find(hash(slot), |entry| entry.0 == slot).map(|entry| entry.1),
            Tokens::Many(numbers) => numbers.get().get(slot as usize).and_then(|number| number.checked_sub(1)),
            Tokens::ById(_) => None,
        }
    }

    /// Prefetches the data of a slot; the returned value has no meaning.
    #[inline]
    pub(super) fn touch(&self, slot: u32) -> u32 {
        match self {
            Tokens::Many(numbers) => numbers.get().get(slot as usize).copied().unwrap_or(NONE),
            Tokens::Few(_) | Tokens::ById(_) => NONE,
        }
    }

    /// The number of the block with this id, when blocks are known by their ids.
    pub(super) fn of_id(&self, id: BlockId, met: &[BlockVisit], adjacency: &Adjacency) -> Option<u32> {
        match self {
            Tokens::ById(table) => table.find(adjacency.hash(id), |number| met[*number as usize].id == id).copied(),
            _ => None,
        }
    }

    /// Notes the last block that was met.
    #[inline]
    pub(super) fn add(&mut self, met: &[BlockVisit], adjacency: &Adjacency) {
        let number = (met.len() - 1) as u32;
        let BlockVisit { id, slot, .. } = met[number as usize];
        match self {
            Tokens::Few(table) => {
                table.insert_unique(hash(slot), (slot, number), |entry| hash(entry.0));
                if met.len() > adjacency.slots() as usize / 16 {
                    let mut numbers = Scratch::new(adjacency.slots() as usize, adjacency.source());
                    for (slot, number) in table.iter() {
                        numbers.get_mut()[*slot as usize] = *number + 1;
                    }
                    *self = Tokens::Many(numbers);
                }
            }
            Tokens::Many(numbers) => {
                if numbers.get().len() <= slot as usize {
                    numbers.grow(adjacency.slots() as usize);
                }
                numbers.get_mut()[slot as usize] = number + 1;
            }
            Tokens::ById(table) => {
                table.insert_unique(adjacency.hash(id), number, |number| adjacency.hash(met[*number as usize].id));
            }
        }
    }

    /// Knows the blocks by their ids from now on.
    pub(super) fn by_id(&mut self, met: &[BlockVisit], adjacency: &Adjacency) {
        let mut table = HashTable::with_capacity(met.len());
        let hash = |number: &u32| adjacency.hash(met[*number as usize].id);
        for number in 0..met.len() as u32 {
            table.insert_unique(hash(&number), number, hash);
        }
        *self = Tokens::ById(table);
    }
}

/// Slots are small numbers that no client chooses: one multiplication spreads them.
fn hash(slot: u32) -> u64 {
    u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}
