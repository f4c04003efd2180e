//! The number by which entries name an event store.

/// The number of a store within its shard: 0, 1, 2, ... in the order of their creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreNumber(u32);

impl StoreNumber {
    /// The store with this number.
    pub const fn new(number: u32) -> Self {
        StoreNumber(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}
