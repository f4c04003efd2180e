//! Ordered maps for keys that mostly arrive in order: job ids, times and turns.
//!
//! A map is a list of chunks of at most [`CHUNK`] entries. The entries of a chunk are in order in
//! one piece of memory.
//!
//! Entries that arrive in order are added after the last entry and removed from the front, without
//! a search and without an allocation for each. Consecutive ids are found by their distance from
//! the first. A tree of single entries takes several times as long.
//!
//! An entry in any other place moves at most a chunk. A nearly empty chunk is joined with its
//! neighbour, so the memory follows the number of entries.

use alloc::collections::vec_deque::{self, VecDeque};
use alloc::collections::{BTreeMap, btree_map};
use core::iter::Map;
use core::mem;
use core::ops::Bound;

/// The most entries of a chunk.
const CHUNK: usize = 64;

/// The most entries of two chunks that are joined. It is more than half of a chunk, so that few
/// entries do not keep many chunks. It is less than a whole chunk, so that the next entries do not
/// divide it again.
const JOINED: usize = CHUNK * 3 / 4;

/// An emptied map keeps the memory of this many entries for later ones.
const KEPT: usize = 16;

/// The key by which a map is ordered.
pub(crate) trait OrderedKey: Ord + Copy {
    /// Guesses the index of this key in a chunk whose first key is `first`. The guess is right for
    /// consecutive keys. A wrong guess costs a search. When `first` is greater, any guess is valid.
    fn ahead_of(&self, first: &Self) -> usize {
        let _ = first;
        0
    }
}

type Chunk<K, V> = VecDeque<(K, V)>;

/// See the module.
#[derive(Debug)]
pub(crate) struct OrderedMap<K, V = ()> {
    /// All chunks but the last, under bounds: no key of a chunk is less than its bound, and every
    /// one before it is.
    before: BTreeMap<K, Chunk<K, V>>,
    /// The bound of the last chunk; `None` when it is the only one.
    bound: Option<K>,
    last: Chunk<K, V>,
    count: usize,
}

impl<K, V> OrderedMap<K, V> {
    pub(crate) const fn new() -> Self {
        OrderedMap { before: BTreeMap::new(), bound: None, last: VecDeque::new(), count: 0 }
    }
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        OrderedMap::new()
    }
}

impl<K: OrderedKey, V: PartialEq> PartialEq for OrderedMap<K, V> {
    /// Two maps are equal when their entries are, however the chunks divide them.
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<K: OrderedKey, V: Eq> Eq for OrderedMap<K, V> {}

/// Returns the index of a key in a chunk, or the index where it would be inserted.
#[inline]
fn find<K: OrderedKey, V>(chunk: &Chunk<K, V>, key: &K) -> Result<usize, usize> {
    let Some((first, _)) = chunk.front() else { return Err(0) };
    // The guess finds most keys of the chunk, and its first key.
    let guess = key.ahead_of(first);
    match chunk.get(guess) {
        Some((own, _)) if own == key => Ok(guess),
        _ => search(chunk, key),
    }
}

#[inline(never)]
fn search<K: OrderedKey, V>(chunk: &Chunk<K, V>, key: &K) -> Result<usize, usize> {
    match chunk.back() {
        Some((last, _)) if last < key => Err(chunk.len()),
        _ => chunk.binary_search_by(|(own, _)| own.cmp(key)),
    }
}

#[inline]
fn take<K, V>(chunk: &mut Chunk<K, V>, at: usize) -> V {
    let taken = if at == 0 { chunk.pop_front() } else { chunk.remove(at) };
    taken.expect("a found entry exists").1
}

impl<K: OrderedKey, V> OrderedMap<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn is_before(&self, key: &K) -> bool {
        self.bound.as_ref().is_some_and(|bound| key < bound)
    }

    /// The least key, and its value.
    #[inline]
    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        let first = if self.bound.is_none() { None } else { self.before.first_key_value().map(|(_, chunk)| chunk) };
        first.unwrap_or(&self.last).front().map(|(key, value)| (key, value))
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let chunk = if self.is_before(key) { self.before.range(..=*key).next_back()?.1 } else { &self.last };
        find(chunk, key).ok().map(|at| &chunk[at].1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let is_before = self.is_before(key);
        let chunk = if is_before { self.before.range_mut(..=*key).next_back()?.1 } else { &mut self.last };
        find(chunk, key).ok().map(|at| &mut chunk[at].1)
    }

    #[inline]
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts a value under a key, and returns the earlier value.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let is_last = self.last.back().map_or(self.bound.is_none(), |(last, _)| *last < key);
        if is_last && self.last.len() < CHUNK {
            if self.last.len() == self.last.capacity() {
                self.make_room();
            }
            self.count += 1;
            self.last.push_back((key, value));
            return None;
        }
        self.insert_anywhere(key, value)
    }

    /// Reserves four times the current length in the last chunk: a chunk in use is soon full.
    #[cold]
    fn make_room(&mut self) {
        let held = self.last.len();
        self.last.reserve_exact((held * 4).clamp(4, CHUNK) - held);
    }

    #[inline(never)]
    fn insert_anywhere(&mut self, key: K, value: V) -> Option<V> {
        if self.is_before(&key) {
            return self.insert_before(key, value);
        }
        match find(&self.last, &key) {
            Ok(at) => Some(mem::replace(&mut self.last[at].1, value)),
            Err(at) if self.last.len() < CHUNK => {
                self.count += 1;
                self.last.insert(at, (key, value));
                None
            }
            Err(at) => {
                // Entries in order fill their chunks.
                let rest = if at == CHUNK { VecDeque::with_capacity(CHUNK) } else { self.last.split_off(CHUNK / 2) };
                let full = mem::replace(&mut self.last, rest);
                let bound = self.bound.unwrap_or(full[0].0);
                self.before.insert(bound, full);
                self.bound = Some(self.last.front().map_or(key, |(first, _)| *first));
                self.insert_anywhere(key, value)
            }
        }
    }

    #[inline(never)]
    fn insert_before(&mut self, key: K, value: V) -> Option<V> {
        let Some((_, chunk)) = self.before.range_mut(..=key).next_back() else {
            let (_, first) = self.before.pop_first().expect("there are chunks before a last one that has a bound");
            self.before.insert(key, first);
            return self.insert_before(key, value);
        };
        match find(chunk, &key) {
            Ok(at) => Some(mem::replace(&mut chunk[at].1, value)),
            Err(at) if chunk.len() < CHUNK => {
                chunk.insert(at, (key, value));
                self.count += 1;
                None
            }
            Err(_) => {
                let upper = chunk.split_off(CHUNK / 2);
                self.before.insert(upper[0].0, upper);
                self.insert_before(key, value)
            }
        }
    }

    /// Takes a key out, and gives its value.
    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.is_before(key) {
            return self.remove_before(key);
        }
        let at = find(&self.last, key).ok()?;
        self.count -= 1;
        let taken = take(&mut self.last, at);
        if self.last.is_empty() && self.last.capacity() > KEPT {
            self.last = VecDeque::with_capacity(KEPT);
        }
        Some(taken)
    }

    #[inline(never)]
    fn remove_before(&mut self, key: &K) -> Option<V> {
        let (bound, chunk) = self.before.range_mut(..=*key).next_back()?;
        let at = find(chunk, key).ok()?;
        let taken = take(chunk, at);
        let (bound, left) = (*bound, chunk.len());
        self.count -= 1;
        // Looked at now and then, for it takes a while.
        if left == 0 || left <= JOINED / 2 && left.is_power_of_two() {
            self.join(bound, left);
        }
        Some(taken)
    }

    /// Joins a chunk that has few entries left with a neighbour that also has few; removes an empty
    /// chunk.
    fn join(&mut self, bound: K, left: usize) {
        if left == 0 {
            self.before.remove(&bound);
            if self.before.is_empty() {
                self.bound = None;
            }
            return;
        }
        let has_few = |(bound, chunk): (&K, &Chunk<K, V>)| (left + chunk.len() <= JOINED).then_some(*bound);
        let next = self.before.range((Bound::Excluded(bound), Bound::Unbounded)).next().and_then(has_few);
        let previous = || self.before.range(..bound).next_back().and_then(has_few);
        let Some((into, from)) = next.map(|next| (bound, next)).or_else(|| Some((previous()?, bound))) else { return };
        let mut joined = self.before.remove(&from).expect("it was found");
        self.before.get_mut(&into).expect("it was found").append(&mut joined);
    }

    /// All entries, in order.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        if self.bound.is_none() {
            return Iter { chunk: self.last.iter(), before: btree_map::Range::default(), last: None };
        }
        Iter { chunk: vec_deque::Iter::default(), before: self.before.range(..), last: Some(&self.last) }
    }

    /// All keys, in order.
    #[inline]
    pub(crate) fn keys(&self) -> OrderedKeys<'_, K, V> {
        self.iter().map(|(key, _)| key)
    }

    /// The entries after a key, or from it on, in order.
    pub(crate) fn entries_from(&self, from: Bound<K>) -> Iter<'_, K, V> {
        let (Bound::Included(key) | Bound::Excluded(key)) = from else { return self.iter() };
        let behind = |chunk: &Chunk<K, V>| match (find(chunk, &key), from) {
            (Ok(at), Bound::Excluded(_)) => at + 1,
            (Ok(at) | Err(at), _) => at,
        };
        if !self.is_before(&key) {
            let chunk = self.last.range(behind(&self.last)..);
            return Iter { chunk, before: btree_map::Range::default(), last: None };
        }
        let (chunk, before) = match self.before.range(..=key).next_back() {
            None => (vec_deque::Iter::default(), self.before.range(..)),
            Some((bound, chunk)) => {
                (chunk.range(behind(chunk)..), self.before.range((Bound::Excluded(*bound), Bound::Unbounded)))
            }
        };
        Iter { chunk, before, last: Some(&self.last) }
    }

    /// All values, in the order of their keys.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.before.values_mut().flatten().chain(&mut self.last).map(|(_, value)| value)
    }
}

impl<K: OrderedKey> OrderedMap<K> {
    /// Adds a key; returns whether it is new.
    #[inline]
    pub(crate) fn add(&mut self, key: K) -> bool {
        self.insert(key, ()).is_none()
    }

    /// Removes a key; returns whether it existed.
    #[inline]
    pub(crate) fn take(&mut self, key: &K) -> bool {
        self.remove(key).is_some()
    }
}

/// The keys of a map, in order.
pub(crate) type OrderedKeys<'a, K, V = ()> = Map<Iter<'a, K, V>, fn((&'a K, &'a V)) -> &'a K>;

/// The entries of a map, in order.
#[derive(Debug)]
pub(crate) struct Iter<'a, K, V> {
    /// The rest of the chunk that was begun.
    chunk: vec_deque::Iter<'a, (K, V)>,
    before: btree_map::Range<'a, K, Chunk<K, V>>,
    last: Option<&'a Chunk<K, V>>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.chunk.next() {
                return Some((key, value));
            }
            self.chunk = match self.before.next() {
                Some((_, chunk)) => chunk.iter(),
                None => self.last.take()?.iter(),
            };
        }
    }
}

impl<'a, K: OrderedKey, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        /// Appends this number of keys in order, after all others.
        Append(u32),
        /// Removes this number of keys from the front.
        Drain(usize),
        /// Removes keys at a stride of this number.
        Thin(usize),
        Put(u32),
        Take(u32),
        Look(u32),
    }

    fn act() -> impl Strategy<Value = Act> {
        let key = 0..2_000u32;
        prop_oneof![
            (0..300u32).prop_map(Act::Append),
            (0..300usize).prop_map(Act::Drain),
            (2..40usize).prop_map(Act::Thin),
            key.clone().prop_map(Act::Put),
            key.clone().prop_map(Act::Put),
            key.clone().prop_map(Act::Take),
            key.prop_map(Act::Look),
        ]
    }

    impl OrderedKey for u32 {
        fn ahead_of(&self, first: &Self) -> usize {
            self.wrapping_sub(*first) as usize
        }
    }

    /// The invariants of the chunks.
    fn check(map: &OrderedMap<u32, u32>, expected: &BTreeMap<u32, u32>) {
        assert!(map.iter().eq(expected), "{map:?} is not {expected:?}");
        assert_eq!((map.len(), map.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!(map.first(), expected.first_key_value());
        assert!(map.before.values().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
        let bounds: Vec<u32> = map.before.keys().copied().chain(map.bound).collect();
        let chunks = map.before.values().chain([&map.last]);
        for (number, chunk) in chunks.enumerate().filter(|_| !bounds.is_empty()) {
            assert!(chunk.iter().all(|(key, _)| *key >= bounds[number]));
            assert!(bounds.get(number + 1).is_none_or(|next| chunk.iter().all(|(key, _)| key < next)));
        }
        assert_eq!(map.bound.is_none(), map.before.is_empty());
    }

    proptest! {
        #[test]
        fn an_ordered_map_is_a_map_however_its_keys_come(acts in proptest::collection::vec(act(), 0..60)) {
            let (mut map, mut expected) = (OrderedMap::default(), BTreeMap::new());
            for (number, act) in (0u32..).zip(acts) {
                match act {
                    Act::Append(count) => {
                        let from = expected.last_key_value().map_or(0, |(key, _)| key + 1);
                        for key in from..from + count {
                            assert_eq!(map.insert(key, number), expected.insert(key, number));
                        }
                    }
                    Act::Drain(count) => {
                        for _ in 0..count {
                            let Some((key, value)) = expected.pop_first() else { break };
                            assert_eq!(map.remove(&key), Some(value));
                        }
                    }
                    Act::Thin(stride) => {
                        let keys: Vec<u32> = expected.keys().copied().collect();
                        for key in keys.into_iter().enumerate().filter(|(at, _)| at % stride != 0).map(|(_, key)| key) {
                            assert_eq!(map.remove(&key), expected.remove(&key));
                        }
                    }
                    Act::Put(key) => assert_eq!(map.insert(key, number), expected.insert(key, number)),
                    Act::Take(key) => assert_eq!(map.remove(&key), expected.remove(&key)),
                    Act::Look(key) => {
                        assert_eq!(map.get(&key), expected.get(&key));
                        assert_eq!(map.contains_key(&key), expected.contains_key(&key));
                        if let Some(value) = map.get_mut(&key) {
                            *value += 1;
                        }
                        expected.get_mut(&key).into_iter().for_each(|value| *value += 1);
                        for from in [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded] {
                            assert!(map.entries_from(from).eq(expected.range((from, Bound::Unbounded))));
                        }
                        map.values_mut().for_each(|value| *value += 1);
                        expected.values_mut().for_each(|value| *value += 1);
                    }
                }
                check(&map, &expected);
                let mut other = OrderedMap::default();
                expected.iter().rev().for_each(|(key, value)| assert_eq!(other.insert(*key, *value), None));
                assert_eq!(&map, &other);
            }
        }
    }

    #[test]
    fn ordered_inserts_fill_chunks_and_the_rest_of_many_entries_uses_few_chunks() {
        let mut map = OrderedMap::default();
        (0..100_000u32).for_each(|key| assert!(map.add(key)));
        assert_eq!(map.before.len(), 100_000 / CHUNK);
        for key in (0..100_000).filter(|key| key % 50 != 0) {
            assert!(map.take(&key));
        }
        assert_eq!(map.len(), 2_000);
        assert!(map.before.len() <= 2_000 / (CHUNK / 8), "2,000 keys in {} chunks", map.before.len());
        for key in (0..100_000).filter(|key| key % 50 == 0) {
            assert!(map.take(&key));
        }
        assert!(map.before.is_empty() && map.last.capacity() <= KEPT);
    }
}
