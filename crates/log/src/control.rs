//! The control file: what is known of how far the log reached, beyond what the log itself shows.
//!
//! Numbers that count are sealed: 48 bits of number and 16 bits of checksum in one word, so that a single atomic store
//! changes both and a damaged word is noticed. The layout is drawn in `docs/file-format.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quire_mapped::SharedWords;
use quire_model::Position;

use crate::directory::{Directory, LockedFile};
use crate::error::{Error, Result};
use crate::log::Identity;
use crate::storage::StoredFile;

const WORDS: usize = 512;
const NAME: &str = "control";
const MAGIC: u64 = u64::from_le_bytes(*b"QUIRECTL");
const VERSION: u64 = 1;

const DATABASE: usize = 2;
const SHARD: usize = 4;
const TAIL: usize = 8;
const DURABLE: usize = 16;
const OWNER: usize = 24;

/// The mapped control file, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Control {
    words: SharedWords,
    file: Arc<dyn StoredFile>,
    /// Keeps the shard for this process.
    _lock: LockedFile,
}

/// What the control file said when the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// The last record that was appended, when it is known.
    pub(crate) tail: Option<Position>,
    /// The last record that was synced, when it is known.
    pub(crate) durable: Option<Position>,
}

impl Known {
    /// How many records the last run had appended from this position on, when it is known that there were some.
    pub(crate) fn appended_from(self, position: Position) -> Option<u64> {
        let tail = self.tail.filter(|tail| *tail >= position)?;
        Some(tail.get() - position.get() + 1)
    }
}

impl Control {
    /// Locks the shard for this process and says what was known of it.
    ///
    /// # Errors
    /// [`Error::InUse`] when another process has it.
    pub(crate) fn open(directory: &Directory, identity: Identity) -> Result<(Self, Known)> {
        let lock = match directory.lock() {
            Err(Error::InUse { directory: path, .. }) => {
                return Err(Error::InUse { directory: path, process: owner(directory) });
            }
            lock => lock?,
        };
        let (file, words) = directory.words(NAME, WORDS)?;
        let control = Control { words, file, _lock: lock };
        let expected =
            [MAGIC, seal(VERSION), identity.database as u64, (identity.database >> 64) as u64, identity.shard.into()];
        let word = |index: usize| control.words.words()[index].load(Ordering::Acquire);
        if let (MAGIC, Some(version)) = (word(0), unseal(word(1)).filter(|version| *version > VERSION)) {
            let version = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(Error::NewerFormat { path: directory.path_of(NAME), version, supported: VERSION as u32 });
        }
        debug_assert_eq!((DATABASE, SHARD), (2, expected.len() - 1));
        let known = if (0..expected.len()).all(|index| word(index) == expected[index]) {
            Known { tail: unseal(word(TAIL)).map(Position::new), durable: unseal(word(DURABLE)).map(Position::new) }
        } else {
            Known::default()
        };
        for (index, value) in expected.into_iter().enumerate() {
            control.words.words()[index].store(value, Ordering::Release);
        }
        control.words.words()[OWNER].store(std::process::id().into(), Ordering::Release);
        Ok((control, known))
    }

    /// Notes the last record appended.
    pub(crate) fn set_tail(&self, position: Position) {
        self.word(TAIL).store(seal(position.get()), Ordering::Release);
    }

    /// Notes the last record synced.
    pub(crate) fn set_durable(&self, position: Position) {
        self.word(DURABLE).store(seal(position.get()), Ordering::Release);
    }

    /// Makes what was noted so far durable. Nothing depends on it but how sharply damage is told from a torn tail.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words.words()[index]
    }
}

/// The process that has the shard, when it said so.
fn owner(directory: &Directory) -> Option<u64> {
    let bytes = directory.read_head(NAME, (OWNER + 1) * 8).ok()?;
    let word = bytes.get(OWNER * 8..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word)).filter(|process| *process != 0)
}

/// The finalizer of MurmurHash3 (fmix64, by Austin Appleby), of which the lowest 16 bits are the check: every append seals a
/// number, and this takes a nanosecond.
fn check(number: u64) -> u64 {
    // Salted, so that the zeros of a file made anew are not a number.
    let mut hash = number ^ u64::from_le_bytes(*b"QUIRECTL");
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash ^ (hash >> 33)) << 48
}

fn seal(number: u64) -> u64 {
    assert!(number < 1 << 48, "a sealed number has 48 bits");
    number | check(number)
}

fn unseal(word: u64) -> Option<u64> {
    let number = word & ((1 << 48) - 1);
    (word == number | check(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_word_comes_back_and_no_flipped_bit_is_taken_for_one() {
        for number in [0, 1, 77, 48_213, (1 << 48) - 1] {
            let sealed = seal(number);
            assert_eq!(unseal(sealed), Some(number));
            for bit in 0..64 {
                assert_eq!(unseal(sealed ^ (1 << bit)), None, "bit {bit} of {number}");
            }
        }
    }
}
