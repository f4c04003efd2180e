//! The numbers by which topics, groups, producers and members are known. None is ever used again.

use core::fmt;

/// The id of a topic: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(u32);

impl TopicId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        TopicId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The id under which groups commit offsets of the event store with this number. No topic ever
    /// has this id.
    ///
    /// # Panics
    /// When the number has more than 31 bits.
    pub const fn outside(number: u32) -> Self {
        assert!(number < OUTSIDE, "numbers of outside topics have 31 bits");
        TopicId(OUTSIDE | number)
    }

    /// The number of the event store; `None` for a topic's id.
    pub const fn as_outside(self) -> Option<u32> {
        if self.0 & OUTSIDE == 0 { None } else { Some(self.0 & !OUTSIDE) }
    }
}

/// The bit that topics' ids do not have.
const OUTSIDE: u32 = 1 << 31;

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a consumer group: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

impl GroupId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        GroupId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The id of an idempotent producer: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(u64);

impl ProducerId {
    /// The id with this number.
    pub const fn new(number: u64) -> Self {
        ProducerId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a group's membership. It increases with every change, and fences earlier members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(u32);

impl Generation {
    /// The generation with this number.
    pub const fn new(number: u32) -> Self {
        Generation(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a member that joined a group by a lease: dense, from 0, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemberId(u64);

impl MemberId {
    /// The id with this number.
    pub const fn new(number: u64) -> Self {
        MemberId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The term of a partition's owner. It grows each time the partition gets another owner, so a
/// member that lost the partition and got it back has a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerEpoch(u64);

impl OwnerEpoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Self {
        OwnerEpoch(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
