//! The records of a topic that compaction removes: records whose key has a newer record, and, after
//! a time, records without a value.
//!
//! ```text
//! each batch of a partition, in order ─▶ NewestRecords: per key the newest offset, and whether an older record is there still
//!                            each batch once more ─▶ BatchRemainder: all of it, nothing, or the records that stay, at their offsets
//! ```
//!
//! A record without a value is removed after it was found to be the only one of its key and the
//! topic's time for it has passed. Consumers that had read an older record of the key then had that
//! time to see the deletion. Its batch has the time of removal (KIP-534).
//!
//! Memory is bounded: if the keys do not fit, a scan handles a share of them, by their hashes, and
//! the next scan another share. Records of unknown keys stay. See
//! `docs/decisions/0014-key-compaction-of-topics.md`.

use alloc::vec::Vec;

use hashbrown::HashTable;
use quire_model::{Sequence, Timestamp};

use crate::wire::{Batch, BatchRecord, RecordError};

/// The hash of a key, of 128 bits that producers cannot predict. Two keys with one hash count as
/// one key.
pub type KeyHash = [u64; 2];

/// The newest record of each key of a partition, or of a share of its keys.
#[derive(Debug)]
pub struct NewestRecords {
    keys: HashTable<KeyEntry>,
    keys_max: usize,
    /// The number of shares of the keys, of which one is known: a power of two.
    shares: u64,
    /// The known share of the keys, modulo the number of shares.
    turn: u64,
    /// Whether the keys of every batch could be read.
    has_read_all: bool,
    /// Whether there was a record without a value.
    has_deletions: bool,
    /// The records before it are deleted.
    start: Sequence,
    /// The end of the scanned part.
    end: Sequence,
}

#[derive(Debug, Clone, Copy)]
struct KeyEntry {
    hash: KeyHash,
    /// The offset of the newest record, times two, plus one if the key has an older record.
    newest: u64,
}

/// What a compaction does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    /// Without a value, and the only one of its key.
    Alone,
    /// Without a value, and not known to be the only one of its key.
    Accompanied,
}

/// When records without a value are removed, and which records stay whatever their key.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The time.
    pub now: Timestamp,
    /// See [`TopicSettings::delete_retention_ms`](crate::TopicSettings::delete_retention_ms).
    pub delete_retention_ms: u64,
    /// The first record that the topic keeps for a group that has not read it. This record and all
    /// later ones stay.
    pub unread: Option<Sequence>,
}

/// The rest of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchRemainder {
    /// All of it, as it is.
    All,
    /// No record remains.
    Nothing,
    /// Another batch in its place.
    Some(Remains),
}

/// A batch that replaces one which has lost records, or got a time of removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// The batch, not compressed and without a checksum.
    pub bytes: Vec<u8>,
    /// The number of records.
    pub records: u32,
    /// The number of records without a value that may be removed after the time that this batch
    /// sets, and no earlier batch set.
    pub waiting: u32,
}

impl NewestRecords {
    /// No keys yet, for a partition that begins at `start` and whose batches up to `end` follow. At
    /// most `keys_max` keys are known at a time; with more keys, a share of them.
    pub fn new((start, end): (Sequence, Sequence), keys_max: usize, turn: u64) -> Self {
        NewestRecords {
            keys: HashTable::new(),
            keys_max,
            shares: 1,
            turn,
            has_read_all: true,
            has_deletions: false,
            start,
            end,
        }
    }

    /// Adds the records of the next batch, which begins at `base_offset`.
    pub fn add(&mut self, base_offset: Sequence, batch: &Batch<'_>, opened: &[u8], hash: &dyn Fn(&[u8]) -> KeyHash) {
        for record in batch.records_from(opened) {
            let Ok(record) = record else { return self.skip() };
            let offset = base_offset.get() + u64::from(record.offset_delta);
            if let Some(key) = record.key
                && offset >= self.start.get()
            {
                self.has_deletions |= record.value.is_none();
                self.add_key(hash(key), offset);
            }
        }
    }

    /// The next batch can't be read. It may have an older record of any key.
    pub fn skip(&mut self) {
        self.has_read_all = false;
    }

    fn add_key(&mut self, hash: KeyHash, offset: u64) {
        if !is_of_share(hash, self.shares, self.turn) {
            return;
        }
        if let Some(known) = self.keys.find_mut(hash[0], |known| known.hash == hash) {
            known.newest = offset * 2 + 1;
            return;
        }
        if self.keys.len() == self.keys_max {
            self.shares *= 2;
            let (shares, turn) = (self.shares, self.turn);
            self.keys.retain(|known| is_of_share(known.hash, shares, turn));
            return self.add_key(hash, offset);
        }
        self.keys.insert_unique(hash[0], KeyEntry { hash, newest: offset * 2 }, |known| known.hash[0]);
    }

    /// Returns the number of known keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there was a record without a value.
    pub fn has_deletions(&self) -> bool {
        self.has_deletions
    }

    /// One of how many shares of the keys is known.
    pub fn shares(&self) -> u64 {
        self.shares
    }

    /// Returns the remainder of a batch with this base offset.
    ///
    /// # Errors
    /// When the batch's records can't be read.
    pub fn left(
        &self,
        base_offset: Sequence,
        batch: &Batch<'_>,
        opened: &[u8],
        hash: &dyn Fn(&[u8]) -> KeyHash,
        terms: Terms,
    ) -> Result<BatchRemainder, RecordError> {
        let next = base_offset.get() + u64::from(batch.last_offset_delta()) + 1;
        // The last batch marks the end of the partition, and later records are unknown.
        if next >= self.end.get() {
            return Ok(BatchRemainder::All);
        }
        let now_ms = i64::try_from(terms.now.as_millis()).unwrap_or(i64::MAX);
        let horizon = batch.delete_horizon_ms();
        let is_over = horizon.is_some_and(|horizon| horizon <= now_ms);
        let unread = terms.unread.map_or(u64::MAX, Sequence::get);
        let fate = |record: &BatchRecord<'_>| self.fate(base_offset, record, hash, unread);
        let (mut going, mut staying, mut alone, mut accompanied) = (0u32, 0u32, 0u32, 0u32);
        for record in batch.records_from(opened) {
            match fate(&record?) {
                Fate::Goes => going += 1,
                Fate::Alone if is_over => going += 1,
                Fate::Alone => alone += 1,
                Fate::Accompanied => accompanied += 1,
                Fate::Stays => staying += 1,
            }
        }
        let is_marked = horizon.is_none() && alone > 0 && accompanied == 0;
        if going == 0 && !is_marked {
            return Ok(BatchRemainder::All);
        }
        if staying + alone + accompanied == 0 {
            return Ok(BatchRemainder::Nothing);
        }
        let mark = is_marked.then(|| now_ms.saturating_add_unsigned(terms.delete_retention_ms));
        let stays = &mut |record: &BatchRecord<'_>| match fate(record) {
            Fate::Goes => false,
            Fate::Alone => !is_over,
            Fate::Accompanied | Fate::Stays => true,
        };
        let bytes = batch.remains(opened, mark, stays)?.expect("a record stays");
        let waiting = if is_marked { alone } else { 0 };
        Ok(BatchRemainder::Some(Remains { bytes, records: staying + alone + accompanied, waiting }))
    }

    fn fate(
        &self,
        base_offset: Sequence,
        record: &BatchRecord<'_>,
        hash: &dyn Fn(&[u8]) -> KeyHash,
        unread: u64,
    ) -> Fate {
        let offset = base_offset.get() + u64::from(record.offset_delta);
        if offset < self.start.get() {
            return Fate::Goes;
        }
        if offset >= unread {
            return Fate::Stays;
        }
        let Some(key) = record.key else { return Fate::Stays };
        let hash = hash(key);
        let known = self.keys.find(hash[0], |known| known.hash == hash);
        match (known, record.value) {
            (Some(known), _) if known.newest / 2 > offset => Fate::Goes,
            (_, Some(_)) => Fate::Stays,
            (Some(known), None) if known.newest == offset * 2 && self.has_read_all => Fate::Alone,
            (_, None) => Fate::Accompanied,
        }
    }
}

fn is_of_share(hash: KeyHash, shares: u64, turn: u64) -> bool {
    (hash[1] ^ turn) & (shares - 1) == 0
}
