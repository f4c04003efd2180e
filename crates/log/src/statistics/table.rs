//! The table of gauges after the counts: named numbers from the user of the log.
//!
//! The writer updates the table in place, under a checksum of the whole table. The table is invalid
//! until the next write in three cases: a write is in progress, its writer died, or a power failure
//! kept only a part. The log does not interpret the names.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use quire_mapped::SharedWords;
use quire_model::{Position, Timestamp};
use quire_threads::fence;

use super::{COUNTS, WORDS};
use crate::checksum::crc32c;

/// The layout, in words from the beginning of the page. The checksum covers all words after it.
const CHECKSUM: usize = COUNTS;
const POSITION: usize = COUNTS + 1;
const TIME: usize = COUNTS + 2;
const COUNT: usize = COUNTS + 3;
const ENTRIES: usize = COUNTS + 16;

/// The words of an entry: the value, the length of the name in bytes, and the name, truncated to
/// the rest of the entry.
const ENTRY_WORDS: usize = 16;
const NAME_BYTES: usize = (ENTRY_WORDS - 2) * 8;
const ENTRIES_MAX: usize = (WORDS - ENTRIES) / ENTRY_WORDS;

/// A bit above the checksum, so that the checksum word is never 0. The word is 0 during a write and
/// before the first write.
const IS_WHOLE: u64 = 1 << 32;

const _: () = assert!(ENTRIES + ENTRIES_MAX * ENTRY_WORDS == WORDS);

/// The gauges that the user of a log has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauges {
    /// The last record that the gauges reflect.
    pub position: Position,
    /// The time of the write.
    pub time: Timestamp,
    /// The number of gauges written.
    pub count: u64,
    /// The first gauges in the order of the write, at most 95.
    pub first: Vec<Gauge>,
}

/// A named number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauge {
    /// The name, truncated to 112 bytes.
    pub name: String,
    /// Whether the name was truncated.
    pub is_cut: bool,
    /// The value.
    pub value: u64,
}

/// Replaces the table.
pub(super) fn write(words: &SharedWords, position: Position, time: Timestamp, gauges: &[(String, u64)]) {
    let mut table = vec![0; ENTRIES - POSITION];
    table[0] = position.get();
    table[TIME - POSITION] = time.as_micros();
    table[COUNT - POSITION] = gauges.len() as u64;
    for (name, value) in gauges.iter().take(ENTRIES_MAX) {
        let mut kept = [0; NAME_BYTES];
        let bytes = name.floor_char_boundary(NAME_BYTES);
        kept[..bytes].copy_from_slice(&name.as_bytes()[..bytes]);
        table.extend([*value, name.len() as u64]);
        table.extend(kept.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))));
    }
    let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    words.word(CHECKSUM).store(0, Relaxed);
    // A writer that dies after this point leaves an invalid table.
    fence(Release);
    for (index, word) in table.iter().enumerate() {
        words.word(POSITION + index).store(*word, Relaxed);
    }
    // Commit point: the table is valid from here on.
    words.word(CHECKSUM).store(IS_WHOLE | u64::from(crc32c(&bytes)), Release);
}

/// Returns the position and number of the current gauges. Returns `None` during a write, or when
/// the last writer died.
pub(super) fn told(words: &SharedWords) -> Option<(Position, u64)> {
    let word = |index| words.word(index).load(Relaxed);
    (words.word(CHECKSUM).load(Acquire) != 0).then(|| (Position::new(word(POSITION)), word(COUNT)))
}

/// Decodes the table of a page. Returns `None` when its checksum does not match.
pub(super) fn read(page: &[u8]) -> Option<Gauges> {
    let word = |index: usize| Some(u64::from_le_bytes(*page.get(index * 8..)?.first_chunk()?));
    let count = word(COUNT)?;
    let entries = usize::try_from(count).unwrap_or(usize::MAX).min(ENTRIES_MAX);
    let end = ENTRIES + entries * ENTRY_WORDS;
    let covered = page.get(POSITION * 8..end * 8)?;
    if word(CHECKSUM)? != IS_WHOLE | u64::from(crc32c(covered)) {
        return None;
    }
    let entry = |index: usize| {
        let at = ENTRIES + index * ENTRY_WORDS;
        let bytes = usize::try_from(word(at + 1)?).unwrap_or(usize::MAX);
        let kept = page.get((at + 2) * 8..)?.get(..bytes.min(NAME_BYTES))?;
        // A truncated name ends before its last whole character, and zeros fill the rest of the
        // space.
        let kept = std::str::from_utf8(kept).ok()?;
        let name = if bytes > NAME_BYTES { kept.trim_end_matches('\0') } else { kept };
        Some(Gauge { name: name.to_owned(), is_cut: bytes > NAME_BYTES, value: word(at)? })
    };
    let first = (0..entries).map(entry).collect::<Option<Vec<_>>>()?;
    Some(Gauges { position: Position::new(word(POSITION)?), time: Timestamp::from_micros(word(TIME)?), count, first })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_words_under_a_right_checksum_are_gauges_or_none(
            words in proptest::collection::vec(proptest::num::u64::ANY, WORDS - POSITION),
            count in 0..200_u64,
            name_bytes in 0..200_u64,
        ) {
            let mut page = vec![0; POSITION];
            page.extend(words);
            (page[COUNT], page[ENTRIES + 1]) = (count, name_bytes);
            let mut page: Vec<u8> = page.into_iter().flat_map(u64::to_le_bytes).collect();
            let end = ENTRIES + (count as usize).min(ENTRIES_MAX) * ENTRY_WORDS;
            let checksum = IS_WHOLE | u64::from(crc32c(&page[POSITION * 8..end * 8]));
            page[CHECKSUM * 8..POSITION * 8].copy_from_slice(&checksum.to_le_bytes());
            let told = read(&page);
            proptest::prop_assert!(count > 0 || told.is_some_and(|told| told.first.is_empty()));
            for bytes in [0, CHECKSUM * 8, POSITION * 8, ENTRIES * 8 - 1] {
                proptest::prop_assert_eq!(read(&page[..bytes]), None);
            }
        }
    }
}
