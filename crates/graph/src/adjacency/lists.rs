//! The edges of each block, seen from it: sorted lists of any length.
//!
//! ```text
//! List { at, length ≤ 512 }  ──▶  one run of elements
//! List { at, length > 512 }  ──▶  chunks: run, run, run ...      each at most 512 elements, none empty
//!
//! element: edge type (16 bits) and the first 48 bits of the far block's id │ far slot │ words of the list's own
//! ```
//!
//! Elements are in order of edge type, then of the far block's id. The first two words nearly
//! always decide; if they are equal, the ids themselves are compared. A new edge moves at most one
//! run, at a block with one edge and at a block with a million alike.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::slice;

use super::runs::{RUN_MAX, Runs};
use crate::BlockId;
use crate::memory::MemorySource;

/// The unit in which memory is fetched, in bytes.
const CACHE_LINE: usize = 64;

/// The edges of one block in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct List {
    at: u32,
    pub(super) length: u32,
}

impl List {
    /// A list without edges.
    pub(super) const NONE: List = List { at: 0, length: 0 };

    pub(super) const fn of(at: u32, length: u32) -> Self {
        List { at, length }
    }

    pub(super) const fn words(self) -> [u32; 2] {
        [self.at, self.length]
    }
}

/// The place of an edge in a list, or the place where it would be inserted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    chunk: usize,
    index: usize,
}

/// The key of an edge: its type and the block at its far end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    key: u64,
    id: BlockId,
}

impl Probe {
    #[inline]
    pub(super) fn new(edge_type: u16, id: BlockId) -> Self {
        let prefix = u64::from_be_bytes(*id.as_bytes().first_chunk().expect("an id has 16 bytes")) >> 16;
        Probe { key: (u64::from(edge_type) << 48) | prefix, id }
    }

    /// The first two words of the edge's element.
    pub(super) fn words(self) -> [u32; 2] {
        [(self.key >> 32) as u32, self.key as u32]
    }
}

/// The type of the edge that an element is.
pub(super) fn edge_type<const WORDS: usize>(element: &[u32; WORDS]) -> u16 {
    (element[0] >> 16) as u16
}

/// The type and the first bytes of the far block's id.
#[inline]
fn key<const WORDS: usize>(element: &[u32; WORDS]) -> u64 {
    (u64::from(element[0]) << 32) | u64::from(element[1])
}

/// Returns the index of the probe's element among these, or the index where it would be inserted.
/// `id_of` returns the id of a slot, and is called only for equal keys.
#[inline]
fn seek_in<const WORDS: usize>(
    run: &[[u32; WORDS]],
    probe: &Probe,
    id_of: &impl Fn(u32) -> BlockId,
) -> Result<usize, usize> {
    let from = run.partition_point(|element| key(element) < probe.key);
    let rest = &run[from..];
    let compare = |element: &[u32; WORDS]| match key(element).cmp(&probe.key) {
        Ordering::Equal => id_of(element[2]).cmp(&probe.id),
        greater => greater,
    };
    // Nearly always, at most one element has the key, and it is the right one.
    match rest.first().map(compare) {
        None | Some(Ordering::Greater) => Err(from),
        Some(Ordering::Equal) => Ok(from),
        Some(Ordering::Less) => match rest.binary_search_by(compare) {
            Ok(index) => Ok(from + index),
            Err(index) => Err(from + index),
        },
    }
}

/// A run that is part of a long list.
#[derive(Debug, Clone, Copy)]
struct ListChunk {
    at: u32,
    length: u32,
}

/// The lists of all blocks of a graph in one direction.
#[derive(Debug)]
pub(super) struct Lists<const WORDS: usize> {
    runs: Runs<WORDS>,
    long: Vec<Vec<ListChunk>>,
    long_free: Vec<u32>,
}

impl<const WORDS: usize> Lists<WORDS> {
    /// Creates lists without elements.
    pub(super) fn new(source: MemorySource) -> Self {
        Lists { runs: Runs::new(source), long: Vec::new(), long_free: Vec::new() }
    }

    fn is_long(list: List) -> bool {
        list.length as usize > RUN_MAX
    }

    fn chunks(&self, list: List) -> &[ListChunk] {
        &self.long[list.at as usize]
    }

    /// Prefetches the first `count` elements of a list; the returned value has no meaning.
    #[inline]
    pub(super) fn touch(&self, list: List, count: usize) -> u32 {
        let (at, length) = match Self::is_long(list) {
            true => (self.chunks(list)[0].at, self.chunks(list)[0].length),
            false => (list.at, list.length),
        };
        let run = self.runs.get(at, count.min(length as usize));
        // The first and the last word, and between them one in each line.
        let lines =
            run.iter().step_by(CACHE_LINE / size_of::<[u32; WORDS]>()).fold(0, |touched, element| touched ^ element[0]);
        lines ^ run.last().map_or(0, |last| last[WORDS - 1])
    }

    /// Returns the spot of an edge, or the spot where it would be inserted.
    #[inline]
    pub(super) fn seek(&self, list: List, probe: &Probe, id_of: impl Fn(u32) -> BlockId) -> Result<Spot, Spot> {
        let (chunk, run) = if Self::is_long(list) {
            let chunk = self.chunk_of(list, probe, &id_of);
            let ListChunk { at, length } = self.chunks(list)[chunk];
            (chunk, self.runs.get(at, length as usize))
        } else {
            (0, self.runs.get(list.at, list.length as usize))
        };
        match seek_in(run, probe, &id_of) {
            Ok(index) => Ok(Spot { chunk, index }),
            Err(index) => Err(Spot { chunk, index }),
        }
    }

    /// Returns the chunk of a long list that contains an edge, or would contain it.
    fn chunk_of(&self, list: List, probe: &Probe, id_of: &impl Fn(u32) -> BlockId) -> usize {
        let begins_before =
            |chunk: &ListChunk| seek_in(self.runs.get(chunk.at, 1), probe, id_of).map_or_else(|at| at == 1, |_| true);
        self.chunks(list).partition_point(begins_before).saturating_sub(1)
    }

    /// The element at an occupied spot.
    #[inline]
    pub(super) fn element(&self, list: List, spot: Spot) -> &[u32; WORDS] {
        let at = if Self::is_long(list) { self.chunks(list)[spot.chunk].at } else { list.at };
        &self.runs.get(at, spot.index + 1)[spot.index]
    }

    /// Replaces the element at an occupied spot.
    pub(super) fn replace(&mut self, list: List, spot: Spot, element: [u32; WORDS]) {
        let at = if Self::is_long(list) { self.chunks(list)[spot.chunk].at } else { list.at };
        self.runs.get_mut(at, spot.index + 1)[spot.index] = element;
    }

    /// Returns the number of elements before a spot.
    pub(super) fn rank(&self, list: List, spot: Spot) -> usize {
        let chunks = if Self::is_long(list) { &self.chunks(list)[..spot.chunk] } else { &[] };
        chunks.iter().map(|chunk| chunk.length as usize).sum::<usize>() + spot.index
    }

    /// The elements from a spot on; all elements for `None`.
    #[inline]
    pub(super) fn iter(&self, list: List, from: Option<Spot>) -> Elements<'_, WORDS> {
        let (chunk, index) = from.map_or((0, 0), |spot| (spot.chunk, spot.index));
        if !Self::is_long(list) {
            let run = &self.runs.get(list.at, list.length as usize)[index..];
            return Elements { run: run.iter(), chunks: [].iter(), runs: &self.runs };
        }
        let (first, rest) = self.chunks(list)[chunk..].split_first().expect("a spot is in a chunk");
        let run = &self.runs.get(first.at, first.length as usize)[index..];
        Elements { run: run.iter(), chunks: rest.iter(), runs: &self.runs }
    }

    /// Inserts an element at the spot where [`seek`](Lists::seek) did not find it.
    pub(super) fn insert(&mut self, list: List, spot: Spot, element: [u32; WORDS]) -> List {
        let length = list.length as usize;
        if length < RUN_MAX {
            let at = self.insert_in_run(list.at, length, spot.index, element);
            return List { at, length: list.length + 1 };
        }
        let (number, spot) = if length == RUN_MAX {
            let chunks = alloc::vec![ListChunk { at: list.at, length: list.length }];
            let number = match self.long_free.pop() {
                Some(number) => {
                    self.long[number as usize] = chunks;
                    number
                }
                None => {
                    self.long.push(chunks);
                    (self.long.len() - 1) as u32
                }
            };
            (number, Spot { chunk: 0, index: spot.index })
        } else {
            (list.at, spot)
        };
        self.insert_in_chunk(number as usize, spot, element);
        List { at: number, length: list.length + 1 }
    }

    fn insert_in_chunk(&mut self, number: usize, mut spot: Spot, element: [u32; WORDS]) {
        let chunk = self.long[number][spot.chunk];
        if chunk.length as usize == RUN_MAX {
            // Edges often arrive in order, and splitting in the middle would then leave every chunk
            // half full.
            let is_at_end = spot.index == RUN_MAX && spot.chunk + 1 == self.long[number].len();
            let kept = if is_at_end { RUN_MAX } else { RUN_MAX / 2 };
            let upper = self.runs.take(RUN_MAX - kept);
            for index in kept..RUN_MAX {
                let moved = self.runs.get(chunk.at, RUN_MAX)[index];
                self.runs.get_mut(upper, RUN_MAX - kept)[index - kept] = moved;
            }
            let lower = self.runs.resize(chunk.at, RUN_MAX, kept);
            self.long[number][spot.chunk] = ListChunk { at: lower, length: kept as u32 };
            let upper = ListChunk { at: upper, length: (RUN_MAX - kept) as u32 };
            self.long[number].insert(spot.chunk + 1, upper);
            if spot.index > kept || is_at_end {
                spot = Spot { chunk: spot.chunk + 1, index: spot.index - kept };
            }
        }
        let chunk = self.long[number][spot.chunk];
        let at = self.insert_in_run(chunk.at, chunk.length as usize, spot.index, element);
        self.long[number][spot.chunk] = ListChunk { at, length: chunk.length + 1 };
    }

    fn insert_in_run(&mut self, at: u32, length: usize, index: usize, element: [u32; WORDS]) -> u32 {
        let at = self.runs.resize(at, length, length + 1);
        let run = self.runs.get_mut(at, length + 1);
        run.copy_within(index..length, index + 1);
        run[index] = element;
        at
    }

    /// Removes the element at an occupied spot.
    pub(super) fn remove(&mut self, list: List, spot: Spot) -> List {
        let length = list.length - 1;
        if !Self::is_long(list) {
            return List { at: self.remove_in_run(list.at, list.length as usize, spot.index), length };
        }
        let number = list.at as usize;
        let chunk = self.long[number][spot.chunk];
        let at = self.remove_in_run(chunk.at, chunk.length as usize, spot.index);
        if chunk.length == 1 {
            self.long[number].remove(spot.chunk);
        } else {
            self.long[number][spot.chunk] = ListChunk { at, length: chunk.length - 1 };
        }
        if length as usize > RUN_MAX { List { at: list.at, length } } else { self.shortened(number, length) }
    }

    fn remove_in_run(&mut self, at: u32, length: usize, index: usize) -> u32 {
        self.runs.get_mut(at, length).copy_within(index + 1.., index);
        self.runs.resize(at, length, length - 1)
    }

    /// The long list with this number as one run.
    fn shortened(&mut self, number: usize, length: u32) -> List {
        let chunks = core::mem::take(&mut self.long[number]);
        self.long_free.push(number as u32);
        let at = self.runs.take(length as usize);
        let mut filled = 0;
        for chunk in chunks {
            for index in 0..chunk.length as usize {
                let element = self.runs.get(chunk.at, chunk.length as usize)[index];
                self.runs.get_mut(at, length as usize)[filled] = element;
                filled += 1;
            }
            self.runs.give(chunk.at, chunk.length as usize);
        }
        List { at, length }
    }

    /// Gives a whole list back.
    pub(super) fn clear(&mut self, List { at, length }: List) {
        if length as usize <= RUN_MAX {
            self.runs.give(at, length as usize);
            return;
        }
        for chunk in core::mem::take(&mut self.long[at as usize]) {
            self.runs.give(chunk.at, chunk.length as usize);
        }
        self.long_free.push(at);
    }

    /// Makes a list of elements that are in order.
    pub(super) fn fill(&mut self, length: u32, mut elements: impl Iterator<Item = [u32; WORDS]>) -> List {
        let mut run = |length: usize, runs: &mut Runs<WORDS>| {
            let at = runs.take(length);
            for (element, next) in runs.get_mut(at, length).iter_mut().zip(&mut elements) {
                *element = next;
            }
            at
        };
        if length as usize <= RUN_MAX {
            return List { at: run(length as usize, &mut self.runs), length };
        }
        let mut chunks = Vec::with_capacity(length as usize / RUN_MAX + 1);
        let mut left = length as usize;
        while left > 0 {
            let length = left.min(RUN_MAX);
            chunks.push(ListChunk { at: run(length, &mut self.runs), length: length as u32 });
            left -= length;
        }
        self.long.push(chunks);
        List { at: (self.long.len() - 1) as u32, length }
    }

    /// Returns the lent bytes of their memory.
    pub(super) fn lent_bytes(&self) -> usize {
        self.runs.lent_bytes()
    }

    /// Returns the bytes of their memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let long: usize = self.long.iter().map(|chunks| chunks.capacity() * size_of::<ListChunk>()).sum();
        self.runs.memory_bytes() + long + self.long.capacity() * size_of::<Vec<ListChunk>>()
    }
}

/// Elements of a list, in order.
#[derive(Debug)]
pub(super) struct Elements<'a, const WORDS: usize> {
    run: slice::Iter<'a, [u32; WORDS]>,
    chunks: slice::Iter<'a, ListChunk>,
    runs: &'a Runs<WORDS>,
}

impl<'a, const WORDS: usize> Iterator for Elements<'a, WORDS> {
    type Item = &'a [u32; WORDS];

    fn next(&mut self) -> Option<&'a [u32; WORDS]> {
        loop {
            if let Some(element) = self.run.next() {
                return Some(element);
            }
            let chunk = self.chunks.next()?;
            self.run = self.runs.get(chunk.at, chunk.length as usize).iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Ids by slot: every fourth prefix is shared, so that the ids themselves have to be compared.
    fn id_of(slot: u32) -> BlockId {
        BlockId::new(
            u128::from(slot.wrapping_mul(0x9e37_79b9) % 1_000_003)
                .rotate_left(if slot.is_multiple_of(4) { 0 } else { 100 })
                .to_be_bytes(),
        )
    }

    fn check(lists: &Lists<3>, list: List, naive: &BTreeMap<(u16, BlockId), u32>) {
        assert_eq!(list.length as usize, naive.len());
        let elements: Vec<(u16, u32)> =
            lists.iter(list, None).map(|element| (edge_type(element), element[2])).collect();
        let expected: Vec<(u16, u32)> = naive.iter().map(|((edge_type, _), slot)| (*edge_type, *slot)).collect();
        assert_eq!(elements, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn a_list_that_grows_and_shrinks_is_the_sorted_map_of_its_edges(
            steps in proptest::collection::vec((0u16..3, 0u32..3000), 1..6000),
            shrink_from in 500usize..6000,
        ) {
            let (mut lists, mut list, mut naive) = (Lists::<3>::new(None), List::NONE, BTreeMap::new());
            for (step, (edge_type, slot)) in steps.iter().enumerate() {
                let probe = Probe::new(*edge_type, id_of(*slot));
                let found = lists.seek(list, &probe, id_of);
                prop_assert_eq!(found.is_ok(), naive.contains_key(&(*edge_type, id_of(*slot))));
                let rank = naive.range(..(*edge_type, id_of(*slot))).count();
                match found {
                    Ok(spot) => {
                        prop_assert_eq!(lists.rank(list, spot), rank);
                        list = lists.remove(list, spot);
                        naive.remove(&(*edge_type, id_of(*slot)));
                    }
                    Err(spot) if step < shrink_from => {
                        prop_assert_eq!(lists.rank(list, spot), rank);
                        let [key, prefix] = probe.words();
                        list = lists.insert(list, spot, [key, prefix, *slot]);
                        naive.insert((*edge_type, id_of(*slot)), *slot);
                    }
                    Err(_) => {}
                }
            }
            check(&lists, list, &naive);
            let copied: Vec<[u32; 3]> = lists.iter(list, None).copied().collect();
            let filled = lists.fill(list.length, copied.into_iter());
            check(&lists, filled, &naive);
            lists.clear(list);
            check(&lists, filled, &naive);
        }
    }

    #[test]
    fn a_list_in_order_fills_its_runs() {
        let (mut lists, mut list) = (Lists::<3>::new(None), List::NONE);
        for number in 0..1_000_000u32 {
            let probe = Probe::new(0, BlockId::new((u128::from(number) << 80).to_be_bytes()));
            let [key, prefix] = probe.words();
            let spot = lists.seek(list, &probe, |_| BlockId::MIN).expect_err("it is new");
            list = lists.insert(list, spot, [key, prefix, number]);
        }
        assert!(lists.memory_bytes() < 1_000_000 * 12 * 11 / 10, "{}", lists.memory_bytes());
    }
}
