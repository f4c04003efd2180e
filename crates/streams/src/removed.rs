//! The memory of deleted topics and groups, which later entries free in steps.
//!
//! A deletion takes whole maps out of the state, so its time does not depend on how much they hold.
//! To free 1.9 million offsets takes seconds, and the entry that deletes them holds the turn of
//! commits. So each later entry frees a few. Nothing reads the removed maps, and no checkpoint has
//! them.
//!
//! A topic has one map in each group that reads it. To take out the maps of 19 groups with 100,000
//! offsets each took 0.07 ms, and those of 190,000 groups with 10 offsets each 225 ms (November
//! 2026, a busy machine with 2 cores).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::offsets::TopicOffsets;
use crate::state::PartitionState;

/// The values that one entry frees at most.
const FREED_BY_ENTRY: usize = 128;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RemovedMaps {
    offsets: Vec<TopicOffsets>,
    partitions: Vec<BTreeMap<u32, PartitionState>>,
}

impl RemovedMaps {
    pub(crate) fn add_offsets(&mut self, offsets: TopicOffsets) {
        self.offsets.push(offsets);
    }

    pub(crate) fn add_partitions(&mut self, partitions: BTreeMap<u32, PartitionState>) {
        self.partitions.push(partitions);
    }

    /// The values that are not freed yet.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let offsets = self.offsets.iter().map(TopicOffsets::len);
        offsets.chain(self.partitions.iter().map(BTreeMap::len)).sum()
    }

    /// Frees some values. Returns their number.
    pub(crate) fn free_some(&mut self) -> usize {
        let freed = free(&mut self.offsets, FREED_BY_ENTRY, |offsets| offsets.pop_last().is_some());
        let left = FREED_BY_ENTRY - freed;
        freed + free(&mut self.partitions, left, |partitions| partitions.pop_last().is_some())
    }
}

/// Frees values of the last maps by `pop`, which says whether there was one. An empty map counts as
/// a value.
fn free<M>(maps: &mut Vec<M>, max: usize, pop: impl Fn(&mut M) -> bool) -> usize {
    let mut freed = 0;
    while freed < max
        && let Some(map) = maps.last_mut()
    {
        if !pop(map) {
            maps.pop();
        }
        freed += 1;
    }
    freed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_frees_a_few_values_and_the_steps_free_all() {
        let mut removed = RemovedMaps::default();
        let partitions = |count: u32| (0..count).map(|partition| (partition, PartitionState::default())).collect();
        removed.add_partitions(partitions(1_000));
        removed.add_partitions(partitions(0));
        removed.add_partitions(partitions(3));
        let steps: Vec<usize> = core::iter::from_fn(|| Some(removed.free_some()).filter(|freed| *freed > 0)).collect();
        assert_eq!(steps.iter().sum::<usize>(), 1_003 + 3);
        assert!(steps.iter().all(|freed| *freed <= FREED_BY_ENTRY), "{steps:?}");
        assert!(removed.partitions.is_empty());
    }
}
