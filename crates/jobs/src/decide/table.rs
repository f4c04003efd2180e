//! Hash tables over numbers that the log gave: those of queues and groups.
//!
//! No user chooses these numbers, so a multiplication is a sufficient hash (Fibonacci hashing:
//! Knuth, The Art of Computer Programming, volume 3, 6.4). Most commits concern one group of one
//! queue, so the first entry needs no table and no memory of its own. Nothing may depend on the
//! order of a table.

use core::hash::{BuildHasherDefault, Hash, Hasher};

/// 2^64 divided by the golden ratio, made odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    first: Option<(K, V)>,
    others: hashbrown::HashMap<K, V, BuildHasherDefault<NumberHasher>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { first: None, others: hashbrown::HashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        match &self.first {
            Some((first, value)) if *first == key => Some(value),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&key),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        match &mut self.first {
            Some((first, value)) if *first == key => Some(value),
            _ if self.others.is_empty() => None,
            _ => self.others.get_mut(&key),
        }
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key; inserted when missing.
    #[inline]
    pub(crate) fn get_or(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.first.as_ref().is_none_or(|(first, _)| *first == key) {
            return &mut self.first.get_or_insert_with(|| (key, make())).1;
        }
        self.others.entry(key).or_insert_with(make)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.first.iter_mut().map(|(_, value)| value).chain(self.others.values_mut())
    }
}

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(FACTOR);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    /// The table uses the lowest and the highest bits; a product mixes upwards.
    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use core::hash::BuildHasher;

    use super::*;
    use crate::id::QueueId;

    #[test]
    fn numbers_that_follow_each_other_spread_over_a_table() {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        let mut buckets = [0; 1 << 12];
        (0..1 << 12).for_each(|number| buckets[hasher.hash_one(QueueId(number)) as usize % (1 << 12)] += 1);
        assert!(
            buckets.iter().all(|count| *count <= 10),
            "4,096 numbers in as many buckets: {:?}",
            buckets.iter().max()
        );
    }

    #[test]
    fn a_table_is_a_map_however_many_it_holds() {
        let mut table = Table::default();
        let mut map = BTreeMap::new();
        for number in [7u32, 3, 7, 9, 3, 11, 7] {
            assert_eq!(table.get(number), map.get(&number));
            *table.get_or(number, || number) += 3;
            *map.entry(number).or_insert(number) += 3;
            *table.get_or(number + 100, || 1) += 1;
            *map.entry(number + 100).or_insert(1) += 1;
            table.get_mut(9).into_iter().for_each(|value| *value += 1);
            map.get_mut(&9).into_iter().for_each(|value| *value += 1);
            table.values_mut().for_each(|value| *value += 1);
            map.values_mut().for_each(|value| *value += 1);
            assert!(map.iter().all(|(key, value)| table.get(*key) == Some(value)));
            assert_eq!(table.values_mut().count(), map.len());
            assert!(!table.contains(1) && table.contains(number));
        }
    }
}
