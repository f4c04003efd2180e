//! The ordinals of one tag in groups: the first of each group for searching, the rest as
//! differences.
//!
//! The list of a tag with sequences (a *numbered* list) also contains the first number of each
//! entry, so that a number is found without reading an entry.

use std::hint::black_box;

use super::blocks::{BadBlock, IndexBlocks};
use super::varint;
use crate::search::{count_while, expected};

/// Ordinals of a group. A search decodes half of a group on average, in about 20 ns.
const GROUP: u32 = 32;

// `touch_number` interpolates between the first and the last group.
const _: () = assert!(SHORT >= 1);

/// Most groups of a short list, which is searched without interpolation.
const SHORT: usize = 4;

/// Appends a list of at least two ordinals, with the number of each if the list is numbered.
pub(super) fn write(out: &mut Vec<u8>, ordinals: &[u32], numbers: Option<&[u64]>) {
    assert!(ordinals.len() >= 2, "a single ordinal is stored in the table of tags");
    assert!(numbers.is_none_or(|numbers| numbers.len() == ordinals.len()), "each ordinal has a number");
    debug_assert!(ordinals.is_sorted_by(|before, after| before < after), "ordinals rise");
    debug_assert!(numbers.is_none_or(|numbers| numbers.is_sorted_by(|before, after| before < after)), "numbers rise");
    let begin = out.len();
    let mut differences = Vec::with_capacity(ordinals.len() * 2);
    for (group, chunk) in ordinals.chunks(GROUP as usize).enumerate() {
        let first = group * GROUP as usize;
        out.extend_from_slice(&chunk[0].to_le_bytes());
        out.extend_from_slice(
            &u32::try_from(differences.len()).expect("a list is shorter than its segment").to_le_bytes(),
        );
        if let Some(numbers) = numbers {
            out.extend_from_slice(&numbers[first].to_le_bytes());
        }
        for at in 1..chunk.len() {
            varint::put(&mut differences, u64::from(chunk[at] - chunk[at - 1]));
            if let Some(numbers) = numbers {
                varint::put(&mut differences, numbers[first + at] - numbers[first + at - 1]);
            }
        }
    }
    let width = if numbers.is_some() { 16 } else { 8 };
    assert_eq!(out.len() - begin, ordinals.len().div_ceil(GROUP as usize) * width, "each group has a fixed part");
    out.extend_from_slice(&differences);
}

/// An ordinal and its number. In a list without numbers, the number is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) ordinal: u32,
    pub(super) number: u64,
}

/// A list in an index. It ends at or before byte `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostingList<'a> {
    pub(super) blocks: &'a IndexBlocks,
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) count: u32,
    pub(super) numbered: bool,
}

impl PostingList<'_> {
    /// The first posting with at least this ordinal.
    pub(super) fn next(&self, ordinal: u32) -> Result<Option<Posting>, BadBlock> {
        let group = self.groups_while(u64::from(ordinal), by_ordinal, |first| first.ordinal < ordinal)?;
        if let Some(before) = group.checked_sub(1)
            && let Some(found) = self.scan(before, |posting| posting.ordinal < ordinal)?.1
        {
            return Ok(Some(found));
        }
        if group < self.groups() { Ok(Some(self.first_of(group)?)) } else { Ok(None) }
    }

    /// The last posting with at most this ordinal.
    pub(super) fn previous(&self, ordinal: u32) -> Result<Option<Posting>, BadBlock> {
        let found = self.last_while(u64::from(ordinal), by_ordinal, |posting| posting.ordinal <= ordinal)?;
        Ok(found.map(|(posting, _)| posting))
    }

    /// The last posting of a numbered list with at most this number, and whether it is the last of
    /// all.
    pub(super) fn numbered_at_most(&self, number: u64) -> Result<Option<(Posting, bool)>, BadBlock> {
        debug_assert!(self.numbered);
        self.last_while(number, |posting| posting.number, |posting| posting.number <= number)
    }

    /// Estimates the ordinal of a number by interpolation, and prefetches the memory that the
    /// search reads. `None` for a short or damaged list, and for a list without numbers.
    pub(super) fn touch_number(&self, number: u64) -> Option<u32> {
        let groups = self.groups() as usize;
        if groups <= SHORT || !self.numbered {
            return None;
        }
        let last_at = self.at + (groups - 1) * self.width();
        let (first, last) = (self.first_of(0).ok()?, self.first_of(groups as u32 - 1).ok()?);
        let differences = self.blocks.u32(last_at + 4).ok()? as usize;
        let group = expected(number, first.number, last.number, groups).min(groups - 1);
        let begin = self.at + groups * self.width() + group * differences / (groups - 1);
        let touch = |at: usize| self.blocks.touch(at);
        black_box(touch(self.at + group * self.width()) ^ touch(begin) ^ touch(begin + 64));
        let ordinals = last.ordinal.checked_sub(first.ordinal)?;
        let above = expected(number, first.number, last.number, ordinals as usize + 1).min(ordinals as usize);
        first.ordinal.checked_add(u32::try_from(above).ok()?)
    }

    /// The last posting for which `holds` is true, and whether it is the last of all; see
    /// [`PostingList::groups_while`].
    fn last_while(
        &self,
        value: u64,
        by: impl Fn(Posting) -> u64,
        holds: impl Fn(Posting) -> bool,
    ) -> Result<Option<(Posting, bool)>, BadBlock> {
        let Some(group) = self.groups_while(value, by, &holds)?.checked_sub(1) else { return Ok(None) };
        let (last, following) = self.scan(group, holds)?;
        Ok(Some((last, following.is_none() && group + 1 == self.groups())))
    }

    fn groups(&self) -> u32 {
        self.count.div_ceil(GROUP)
    }

    fn width(&self) -> usize {
        if self.numbered { 16 } else { 8 }
    }

    /// The count of groups, from the first on, whose first posting satisfies `holds`: it lies
    /// before `value` in the order of `by`.
    fn groups_while(
        &self,
        value: u64,
        by: impl Fn(Posting) -> u64,
        holds: impl Fn(Posting) -> bool,
    ) -> Result<u32, BadBlock> {
        let groups = self.groups();
        let guess = if groups as usize > SHORT {
            let (first, last) = (self.first_of(0)?, self.first_of(groups - 1)?);
            expected(value, by(first), by(last), groups as usize)
        } else {
            0
        };
        let found = count_while(groups as usize, guess, |group| Ok(holds(self.first_of(group as u32)?)))?;
        Ok(found as u32)
    }

    fn first_of(&self, group: u32) -> Result<Posting, BadBlock> {
        let at = self.at + group as usize * self.width();
        let number = if self.numbered { self.blocks.u64(at + 8)? } else { 0 };
        Ok(Posting { ordinal: self.blocks.u32(at)?, number })
    }

    /// The last posting of a group for which `holds` is true, and the next posting in the group.
    /// `holds` is true for the first posting.
    fn scan(&self, group: u32, holds: impl Fn(Posting) -> bool) -> Result<(Posting, Option<Posting>), BadBlock> {
        let differences_at = self.at + self.groups() as usize * self.width();
        let begin_of = |group: u32| -> Result<usize, BadBlock> {
            Ok(differences_at + self.blocks.u32(self.at + group as usize * self.width() + 4)? as usize)
        };
        let begin = begin_of(group)?;
        // The end of the last group is not stored. The widest encoding bounds its length.
        let end =
            if group + 1 < self.groups() { begin_of(group + 1)? } else { self.end.min(begin + GROUP as usize * 15) };
        let mut bytes = self.blocks.bytes(begin..end)?;
        let mut last = self.first_of(group)?;
        for _ in 1..GROUP.min(self.count - group * GROUP) {
            let mut next = || varint::take(&mut bytes).ok_or_else(|| self.bad(begin));
            let difference = u32::try_from(next()?).map_err(|_| self.bad(begin))?;
            let ordinal = last.ordinal.checked_add(difference).ok_or_else(|| self.bad(begin))?;
            let number =
                if self.numbered { last.number.checked_add(next()?).ok_or_else(|| self.bad(begin))? } else { 0 };
            let posting = Posting { ordinal, number };
            if !holds(posting) {
                return Ok((last, Some(posting)));
            }
            last = posting;
        }
        Ok((last, None))
    }

    fn bad(&self, at: usize) -> BadBlock {
        self.blocks.bad(at, "invalid list of entries")
    }
}

fn by_ordinal(posting: Posting) -> u64 {
    u64::from(posting.ordinal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quire_mapped::Appender;

    use super::*;
    use crate::sealed::blocks::checksums;

    fn blocks(body: &[u8]) -> IndexBlocks {
        let mut file = Appender::in_memory(body.len()).unwrap();
        file.bytes_mut(0..body.len()).copy_from_slice(body);
        file.settle(body.len());
        IndexBlocks::new(file.view(), 0, body.len(), checksums(body).collect())
    }

    proptest! {
        #[test]
        fn a_list_finds_what_a_linear_search_finds(
            steps in proptest::collection::vec((1..5000_u32, 1..300_u64), 2..200),
            numbered: bool,
            asked in proptest::collection::vec((0..600_000_u32, 0..40_000_u64), 1..20),
        ) {
            let (mut ordinals, mut numbers) = (Vec::new(), Vec::new());
            for (ordinal, number) in steps {
                ordinals.push(ordinals.last().unwrap_or(&0) + ordinal);
                numbers.push(numbers.last().unwrap_or(&0) + number);
            }
            let mut body = vec![7; 3];
            write(&mut body, &ordinals, numbered.then_some(&numbers));
            let end = body.len();
            // Another list follows.
            body.extend_from_slice(&[9; 40]);
            let blocks = blocks(&body);
            let list = PostingList { blocks: &blocks, at: 3, end, count: ordinals.len() as u32, numbered };
            for (ordinal, number) in asked {
                let next = ordinals.iter().find(|own| **own >= ordinal).copied();
                prop_assert_eq!(list.next(ordinal).unwrap().map(|posting| posting.ordinal), next);
                let previous = ordinals.iter().rfind(|own| **own <= ordinal).copied();
                prop_assert_eq!(list.previous(ordinal).unwrap().map(|posting| posting.ordinal), previous);
                if numbered {
                    let found = list.numbered_at_most(number).unwrap();
                    let found = found.map(|(posting, is_last)| (posting.ordinal, posting.number, is_last));
                    let expected = numbers.iter().rposition(|own| *own <= number);
                    let last = numbers.len() - 1;
                    prop_assert_eq!(found, expected.map(|at| (ordinals[at], numbers[at], at == last)));
                }
            }
        }
    }
}
