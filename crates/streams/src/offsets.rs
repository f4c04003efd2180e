//! The committed offsets of a group. Each topic has a map of its own, so that a deletion of the
//! topic takes it away in one step, however many partitions it has.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use quire_model::{Sequence, Timestamp};

use crate::TopicId;

/// The most partitions of a topic whose offsets are in one allocation.
const FEW_MAX: usize = 16;

/// The offsets of a topic by partition. Few of them take as much memory as they need: a node of a
/// map takes that of eleven, and most topics have one partition.
#[derive(Debug)]
pub(crate) enum TopicOffsets {
    /// In the order of the partitions.
    Few(Vec<(u32, StoredOffset)>),
    Many(BTreeMap<u32, StoredOffset>),
}

impl Default for TopicOffsets {
    fn default() -> Self {
        TopicOffsets::Few(Vec::new())
    }
}

impl TopicOffsets {
    pub(crate) fn len(&self) -> usize {
        match self {
            TopicOffsets::Few(offsets) => offsets.len(),
            TopicOffsets::Many(offsets) => offsets.len(),
        }
    }

    /// Removes the offset of the last partition.
    pub(crate) fn pop_last(&mut self) -> Option<(u32, StoredOffset)> {
        match self {
            TopicOffsets::Few(offsets) => offsets.pop(),
            TopicOffsets::Many(offsets) => offsets.pop_last(),
        }
    }

    fn get(&self, partition: u32) -> Option<&StoredOffset> {
        match self {
            TopicOffsets::Few(offsets) => place_of(offsets, partition).ok().map(|place| &offsets[place].1),
            TopicOffsets::Many(offsets) => offsets.get(&partition),
        }
    }

    /// The offsets of the partitions after `last`.
    fn after(&self, last: Option<u32>) -> impl Iterator<Item = (u32, &StoredOffset)> {
        let (few, many) = match self {
            TopicOffsets::Few(offsets) => {
                let first = last.map_or(0, |last| offsets.partition_point(|(partition, _)| *partition <= last));
                (&offsets[first..], None)
            }
            TopicOffsets::Many(offsets) => {
                let from = last.map_or(Bound::Unbounded, Bound::Excluded);
                (&[][..], Some(offsets.range((from, Bound::Unbounded))))
            }
        };
        let many = many.into_iter().flatten().map(|(partition, offset)| (*partition, offset));
        few.iter().map(|(partition, offset)| (*partition, offset)).chain(many)
    }

    fn insert(&mut self, partition: u32, offset: StoredOffset) -> Option<StoredOffset> {
        let offsets = match self {
            TopicOffsets::Few(offsets) => offsets,
            TopicOffsets::Many(offsets) => return offsets.insert(partition, offset),
        };
        match place_of(offsets, partition) {
            Ok(place) => return Some(core::mem::replace(&mut offsets[place].1, offset)),
            Err(place) if offsets.len() < FEW_MAX => {
                offsets.reserve_exact(1);
                offsets.insert(place, (partition, offset));
            }
            Err(_) => {
                let few = core::mem::take(offsets).into_iter();
                *self = TopicOffsets::Many(few.chain([(partition, offset)]).collect());
            }
        }
        None
    }

    fn remove(&mut self, partition: u32) -> Option<StoredOffset> {
        match self {
            TopicOffsets::Few(offsets) => place_of(offsets, partition).ok().map(|place| offsets.remove(place).1),
            TopicOffsets::Many(offsets) => offsets.remove(&partition),
        }
    }
}

/// Where a partition is, or belongs.
fn place_of(offsets: &[(u32, StoredOffset)], partition: u32) -> Result<usize, usize> {
    offsets.binary_search_by_key(&partition, |(partition, _)| *partition)
}

/// Bytes of memory that a committed offset takes, about, without its metadata.
const OFFSET_BYTES: u64 = 96;

/// The bytes that an offset with this metadata counts.
pub(crate) fn offset_bytes(metadata: &str) -> u64 {
    OFFSET_BYTES + metadata.len() as u64
}

#[derive(Debug)]
pub(crate) struct StoredOffset {
    /// The committed number; see [`next_of`].
    pub(crate) offset: Sequence,
    pub(crate) leader_epoch: Option<u32>,
    pub(crate) time: Timestamp,
    pub(crate) metadata: Box<str>,
}

impl StoredOffset {
    /// Its memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        offset_bytes(&self.metadata)
    }

    /// The offset of the next record to read.
    pub(crate) fn next(&self) -> Option<Sequence> {
        next_of(self.offset)
    }
}

/// The offset of the next record to read, of a committed number. A client of Kafka may commit a
/// negative number, which means something to itself only.
pub(crate) fn next_of(number: Sequence) -> Option<Sequence> {
    (number.get().cast_signed() >= 0).then_some(number)
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CommittedOffsets {
    topics: BTreeMap<TopicId, CountedOffsets>,
    len: usize,
}

#[derive(Debug, Default)]
struct CountedOffsets {
    partitions: TopicOffsets,
    bytes: u64,
}

impl CommittedOffsets {
    /// The number of partitions with an offset.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The memory of all offsets.
    pub(crate) fn bytes(&self) -> u64 {
        self.topics.values().map(|topic| topic.bytes).sum()
    }

    pub(crate) fn get(&self, topic: TopicId, partition: u32) -> Option<&StoredOffset> {
        self.topics.get(&topic)?.partitions.get(partition)
    }

    pub(crate) fn has_topic(&self, topic: TopicId) -> bool {
        self.topics.contains_key(&topic)
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = TopicId> {
        self.topics.keys().copied()
    }

    /// All offsets in the order of topics and partitions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ((TopicId, u32), &StoredOffset)> {
        self.after(None)
    }

    /// The offsets after this topic and partition.
    pub(crate) fn after(&self, last: Option<(TopicId, u32)>) -> impl Iterator<Item = ((TopicId, u32), &StoredOffset)> {
        let topics =
            self.topics.range((last.map_or(Bound::Unbounded, |(topic, _)| Bound::Included(topic)), Bound::Unbounded));
        topics.flat_map(move |(topic, offsets)| {
            let last = last.filter(|(last, _)| last == topic).map(|(_, last)| last);
            offsets.partitions.after(last).map(|(partition, offset)| ((*topic, partition), offset))
        })
    }

    /// Stores an offset. Returns the memory of the replaced offset, and of the new one.
    pub(crate) fn insert(&mut self, topic: TopicId, partition: u32, offset: StoredOffset) -> (Option<u64>, u64) {
        let offsets = self.topics.entry(topic).or_default();
        let bytes = offset.bytes();
        let before = offsets.partitions.insert(partition, offset).map(|before| before.bytes());
        offsets.bytes = offsets.bytes - before.unwrap_or(0) + bytes;
        self.len += usize::from(before.is_none());
        (before, bytes)
    }

    /// Removes an offset. Returns its memory; 0 if there was none.
    pub(crate) fn remove(&mut self, topic: TopicId, partition: u32) -> u64 {
        let Some(offsets) = self.topics.get_mut(&topic) else { return 0 };
        let Some(removed) = offsets.partitions.remove(partition) else { return 0 };
        let bytes = removed.bytes();
        offsets.bytes -= bytes;
        self.len -= 1;
        if offsets.partitions.len() == 0 {
            self.topics.remove(&topic);
        }
        bytes
    }

    /// Removes all offsets of a topic. Returns them, and their memory.
    pub(crate) fn remove_topic(&mut self, topic: TopicId) -> Option<(TopicOffsets, u64)> {
        let removed = self.topics.remove(&topic)?;
        self.len -= removed.partitions.len();
        Some((removed.partitions, removed.bytes))
    }

    /// The offsets of each topic, when the group is deleted.
    pub(crate) fn into_topics(self) -> impl Iterator<Item = TopicOffsets> {
        self.topics.into_values().map(|topic| topic.partitions)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;

    fn offset(number: u64, metadata: usize) -> StoredOffset {
        let metadata: String = core::iter::repeat_n('m', metadata).collect();
        StoredOffset {
            offset: Sequence::new(number),
            leader_epoch: None,
            time: Timestamp::ZERO,
            metadata: Box::from(metadata),
        }
    }

    proptest! {
        #[test]
        fn the_offsets_and_their_counts_equal_those_of_one_flat_map(
            steps in proptest::collection::vec((0..16_u8, 0..3_u32, 0..24_u32, 0..5_usize), 0..150),
        ) {
            let (mut offsets, mut flat) = (CommittedOffsets::default(), BTreeMap::new());
            for (number, (step, topic, partition, metadata)) in steps.into_iter().enumerate() {
                let topic = TopicId::new(topic);
                match step {
                    0 => {
                        let bytes = offsets.remove(topic, partition);
                        let removed = flat.remove(&(topic, partition));
                        prop_assert_eq!(bytes, removed.map_or(0, |(_, metadata)| 96 + metadata as u64));
                    }
                    1 => {
                        let removed = offsets.remove_topic(topic).unwrap_or_default();
                        let of_topic: Vec<_> = flat.extract_if((topic, 0)..=(topic, u32::MAX), |_, _| true).collect();
                        prop_assert_eq!(removed.0.len(), of_topic.len());
                        prop_assert_eq!(removed.1, of_topic.iter().map(|(_, (_, metadata))| 96 + *metadata as u64).sum());
                    }
                    _ => {
                        let (before, bytes) = offsets.insert(topic, partition, offset(number as u64, metadata));
                        let replaced = flat.insert((topic, partition), (number as u64, metadata));
                        prop_assert_eq!(before, replaced.map(|(_, metadata)| 96 + metadata as u64));
                        prop_assert_eq!(bytes, 96 + metadata as u64);
                    }
                }
                let all: Vec<_> = offsets.iter().map(|(key, offset)| (key, offset.offset.get())).collect();
                let expected: Vec<_> = flat.iter().map(|(key, (number, _))| (*key, *number)).collect();
                prop_assert_eq!(&all, &expected);
                prop_assert_eq!(offsets.len(), expected.len());
                prop_assert_eq!(offsets.bytes(), flat.values().map(|(_, metadata)| 96 + *metadata as u64).sum::<u64>());
                for (at, (key, _)) in expected.iter().enumerate() {
                    prop_assert_eq!(offsets.after(Some(*key)).count(), expected.len() - at - 1);
                    prop_assert!(offsets.get(key.0, key.1).is_some() && offsets.has_topic(key.0));
                }
                let topics: Vec<_> = offsets.topics().collect();
                prop_assert!(topics.iter().all(|topic| expected.iter().any(|((of, _), _)| of == topic)));
            }
        }
    }
}
