//! Scans of topics that are compacted by key: which partitions are due, and what survives of their
//! batches.
//!
//! A partition is due once as many bytes were written to it as it holds, so the cost of scans is in
//! proportion to the bytes written. It is also due when records without a value may be removed. No
//! file holds any of this: a process that opens the shard scans once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use quire_log::{Log, Survival};
use quire_model::{Entry, Position, Timestamp};
use quire_streams::wire::Batch;
use quire_streams::{
    BatchRemainder, Command, CompactedPartition, CompactionScope, KeyHash, NewestRecords, Remains, StoredBatch,
    Streams, Terms, TopicId,
};

use crate::compression::opened;
use crate::compressor::Compressor;
use crate::error::Error;

/// Default of the largest number of keys in memory, of all partitions together: they take at most
/// 52 MiB.
pub const KEYS_MAX: usize = (1 << 21) / 8 * 7;

/// A partition of a topic.
type PartitionKey = (TopicId, u32);

/// The scans so far.
#[derive(Debug)]
pub(crate) struct KeyScans {
    /// Seeds the hashes of keys, so that they differ between databases.
    seed: u64,
    keys_max: usize,
    partitions: Mutex<BTreeMap<PartitionKey, PartitionScan>>,
    /// Held during a scan and the compaction that follows: shares of keys and the memory for keys
    /// belong to one compaction.
    turn: Mutex<()>,
}

/// The last scan of a partition.
#[derive(Debug, Clone, Copy)]
struct PartitionScan {
    /// Number of scans of any partition before this one.
    number: u64,
    /// How far the log could be compacted.
    end: Position,
    /// Bytes appended to the partition up to `end`.
    appended_bytes: u64,
    /// Bytes of these that the partition still held.
    bytes: u64,
    /// When records without a value may be removed.
    horizon_ms: Option<i64>,
    /// The share of the keys that is scanned next.
    next_share: u64,
    /// Number of shares that the keys are divided into.
    shares: u64,
    /// Number of shares that are still to be scanned.
    shares_left: u64,
}

/// Result of a scan of all due partitions.
#[derive(Debug)]
pub(super) struct KeyScanResult {
    pub(super) keys: NewestKeys,
    /// Deletions of the records beyond the limits of their topics.
    pub(super) beyond_limits: Vec<Command<'static>>,
    /// The first read error. The partition stays as it is.
    pub(super) failed: Option<Error>,
}

/// The newest record of each key of some partitions.
#[derive(Debug)]
pub(super) struct NewestKeys {
    seed: u64,
    partitions: BTreeMap<PartitionKey, (NewestRecords, Terms)>,
    /// Partitions whose batches were rewritten.
    changed: BTreeSet<PartitionKey>,
}

/// Why survivors are determined.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose<'c> {
    /// To count their bytes. Records that are about to get a removal time count as removed.
    Plan,
    /// To write them, compressed by this compressor if they were compressed.
    Rewrite(&'c Compressor),
}

impl KeyScans {
    pub(super) fn new(seed: u64, keys_max: usize) -> Self {
        KeyScans { seed, keys_max, partitions: Mutex::default(), turn: Mutex::default() }
    }

    /// Waits for the turn to scan.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn to scan, unless another thread has it.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Makes every partition due.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Whether any of these partitions is due, or a share of its keys.
    pub(super) fn are_due(&self, compacted: &[CompactedPartition], end: Position, now: Timestamp) -> bool {
        let partitions = self.lock();
        compacted.iter().any(|compacted| is_due(partitions.get(&key_of(compacted)), compacted, end, now))
    }

    /// Scans the due partitions for their newest keys, while memory for keys is left. The log can
    /// be compacted up to `end`.
    pub(super) fn scan(
        &self,
        log: &Log,
        compacted: &[CompactedPartition],
        end: Position,
        now: Timestamp,
    ) -> KeyScanResult {
        let mut partitions = self.lock();
        let existing: BTreeSet<PartitionKey> = compacted.iter().map(key_of).collect();
        partitions.retain(|key, _| existing.contains(key));
        let mut due: Vec<_> = compacted
            .iter()
            .filter(|compacted| is_due(partitions.get(&key_of(compacted)), compacted, end, now))
            .collect();
        // The partition that has waited longest comes first.
        due.sort_by_key(|compacted| partitions.get(&key_of(compacted)).map(|scan| scan.number));
        let mut next_number = partitions.values().map(|scan| scan.number + 1).max().unwrap_or(0);
        let keys = NewestKeys { seed: self.seed, partitions: BTreeMap::new(), changed: BTreeSet::new() };
        let mut scanned = KeyScanResult { keys, beyond_limits: Vec::new(), failed: None };
        let mut keys_left = self.keys_max;
        for compacted in due {
            if keys_left == 0 {
                break;
            }
            let key = key_of(compacted);
            let before = partitions.get(&key).copied();
            let share = before.map_or(0, |scan| scan.next_share);
            let scope = CompactionScope { end, keys_max: keys_left, turn: share, now };
            let hash = |key: &[u8]| hash(self.seed, key);
            let open = &mut |batch: &Batch<'_>| opened(batch).ok().map(Cow::into_owned);
            // One reader for each partition, so that only one partition's packed segments are
            // unpacked at a time.
            let look = match compacted.look(&log.reader(), scope, open, &hash) {
                Ok(look) => look,
                Err(error) => {
                    scanned.failed = scanned.failed.or(Some(error.into()));
                    continue;
                }
            };
            if look.newest.shares() > 1 && keys_left < self.keys_max {
                // The next scan has memory for all its keys, or for more of them.
                break;
            }
            assert!(look.newest.len() <= keys_left, "a scan keeps to the memory for keys");
            keys_left -= look.newest.len();
            let (shares, shares_left) = shares_after(before, look.newest.shares());
            let scan = PartitionScan {
                number: next_number,
                end,
                appended_bytes: compacted.appended_bytes.saturating_sub(look.bytes_behind),
                bytes: look.bytes,
                horizon_ms: look.horizon_ms,
                next_share: share.wrapping_add(1),
                shares,
                shares_left,
            };
            next_number += 1;
            partitions.insert(key, scan);
            scanned.beyond_limits.extend(look.too_much);
            let terms = Terms { now, delete_retention_ms: compacted.delete_retention_ms, unread: None };
            scanned.keys.partitions.insert(key, (look.newest, terms));
        }
        scanned
    }

    /// Notes that the compaction by these keys was not carried out, or only in part: each share is
    /// scanned again.
    pub(super) fn not_done(&self, keys: &NewestKeys) {
        let mut partitions = self.lock();
        for key in keys.partitions.keys() {
            if let Some(scan) = partitions.get_mut(key) {
                scan.shares_left = scan.shares;
            }
        }
    }

    /// Notes that the compaction by these keys was carried out. A record without a value may now be
    /// the only one of its key: the partition is scanned again to date the record's removal.
    pub(super) fn done(&self, keys: &NewestKeys) {
        let mut partitions = self.lock();
        let deleting = |key: &&PartitionKey| keys.partitions.get(key).is_some_and(|(newest, _)| newest.has_deletions());
        for key in keys.changed.iter().filter(deleting) {
            if let Some(scan) = partitions.get_mut(key) {
                scan.shares_left = scan.shares;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionKey, PartitionScan>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last scan of the only partition.
    #[cfg(test)]
    pub(super) fn last_scan(&self) -> u64 {
        self.lock().values().next().expect("a scan").number
    }
}

fn key_of(compacted: &CompactedPartition) -> PartitionKey {
    (compacted.topic, compacted.number)
}

fn is_due(scan: Option<&PartitionScan>, compacted: &CompactedPartition, end: Position, now: Timestamp) -> bool {
    let Some(scan) = scan else { return true };
    let written = compacted.appended_bytes.saturating_sub(scan.appended_bytes);
    let is_dirty = end > scan.end && written >= scan.bytes.max(1);
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    is_dirty || scan.shares_left > 0 || scan.horizon_ms.is_some_and(|horizon| horizon <= now_ms)
}

/// The number of shares of a partition's keys, and of those still to be scanned, after a scan that
/// divided them into `shares`.
fn shares_after(before: Option<PartitionScan>, shares: u64) -> (u64, u64) {
    let (all, left) = match before {
        // A share that is too large is divided further, and the rest of it is scanned later, too.
        Some(PartitionScan { shares: known, shares_left: left @ 1.., .. }) => {
            (known.max(shares), left - 1 + shares.saturating_sub(known))
        }
        _ => (shares, shares - 1),
    };
    assert!(left < all, "one of the shares was scanned");
    (all, left)
}

/// 128 bits of SipHash with a seed that no producer knows.
fn hash(seed: u64, key: &[u8]) -> KeyHash {
    [0, 1].map(|half| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write_u8(half);
        hasher.write(key);
        hasher.finish()
    })
}

impl NewestKeys {
    /// Notes which records topics keep for groups that have not read them.
    pub(super) fn keep_unread(&mut self, streams: &Streams) {
        if self.partitions.is_empty() {
            return;
        }
        let unread = streams.unread();
        for ((topic, number), (_, terms)) in &mut self.partitions {
            terms.unread = unread.from(*topic, *number);
        }
    }

    /// Refines the answers for batches of these partitions that survive: each becomes the surviving
    /// part of its batch.
    pub(super) fn leave(&mut self, entries: &[Entry<'_>], answers: &mut [Survival], purpose: Purpose<'_>) {
        if self.partitions.is_empty() {
            return;
        }
        for (entry, answer) in entries.iter().zip(answers).filter(|(_, answer)| **answer == Survival::Whole) {
            let Some((topic, number, stored)) = StoredBatch::of(entry) else { continue };
            let Some((newest, terms)) = self.partitions.get(&(topic, number)) else { continue };
            let Some(left) = left(newest, *terms, self.seed, &stored, purpose) else { continue };
            *answer = left;
            if let Purpose::Rewrite(_) = purpose {
                self.changed.insert((topic, number));
            }
        }
    }
}

/// Returns the surviving part of a batch; `None` if the whole batch survives. An unreadable batch
/// survives.
fn left(
    newest: &NewestRecords,
    terms: Terms,
    seed: u64,
    stored: &StoredBatch<'_>,
    purpose: Purpose<'_>,
) -> Option<Survival> {
    let opened = opened(&stored.batch).ok()?;
    let hash = |key: &[u8]| hash(seed, key);
    match newest.left(stored.base_offset, &stored.batch, &opened, &hash, terms).ok()? {
        BatchRemainder::All => None,
        BatchRemainder::Nothing => Some(Survival::Nothing),
        BatchRemainder::Some(remains) => Some(match purpose {
            Purpose::Plan => planned(&stored.batch, opened.len(), remains),
            Purpose::Rewrite(compressor) => {
                let batch = Batch::stored(&remains.bytes);
                let smaller = compressor.compressed(batch, stored.batch.codec()).ok()?;
                let batch = smaller.as_deref().map_or(batch, Batch::stored);
                Survival::Body(batch.sealed_bytes())
            }
        }),
    }
}

/// Estimates the bytes that will survive: the share of the records that stay, compressed as well as
/// the batch was.
fn planned(batch: &Batch<'_>, opened_bytes: usize, remains: Remains) -> Survival {
    let Remains { mut bytes, records, waiting } = remains;
    if waiting == records {
        return Survival::Nothing;
    }
    let staying = bytes.len() as u64 * u64::from(records - waiting) / u64::from(records);
    let stored = staying * batch.records_bytes().len() as u64 / opened_bytes.max(1) as u64;
    bytes.truncate(stored as usize);
    Survival::Body(bytes)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use quire_log::ManualClock;
    use quire_model::Sequence;

    use super::*;
    use crate::commands::Commands;
    use crate::duties::Duty;
    use crate::shard::Shard;
    use crate::streams::{Cleanup, TopicSettings};
    use crate::testing;

    /// Appends and saves until everything before can be compacted.
    fn fill(shard: &Shard) {
        for _ in 0..2 {
            for _ in 0..40 {
                testing::produce(shard, "other", None, Some(&[7; 4000]));
            }
            testing::seal(shard);
            shard.checkpoint().expect("saved");
        }
    }

    /// Number of records in the partition of a topic.
    fn records(shard: &Shard, topic: &str) -> u32 {
        let partition = shard.read_published(None, |view| {
            let topic = view.streams.topic_named(topic).expect("a topic");
            view.streams.partition(topic.id, 0).expect("a partition")
        });
        let mut records = 0;
        let mut count = |stored: StoredBatch<'_>| {
            records += stored.batch.record_count();
            ControlFlow::Continue(())
        };
        let read = partition.expect("readable").fetch(&shard.log().reader(), Sequence::new(0), 1000, &mut count);
        read.expect("readable");
        records
    }

    #[test]
    fn a_partition_whose_removable_records_are_not_worth_rewriting_is_scanned_once() {
        const DELETE_RETENTION_MS: u64 = 1000;
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        // Only a segment of which nothing counts is worth rewriting.
        let shard = testing::open(directory.path(), 100, clock.clone());
        let settings = TopicSettings {
            cleanup: Cleanup::Compact,
            delete_retention_ms: DELETE_RETENTION_MS,
            ..TopicSettings::default()
        };
        let create = Command::CreateTopic { name: "t", partitions: 1, settings };
        testing::commit(&shard, &Commands { streams: &[create], ..Commands::default() });
        testing::produce(&shard, "t", Some(b"there"), Some(b"stays"));
        testing::produce(&shard, "t", Some(b"gone"), None);
        testing::produce(&shard, "t", Some(b"last"), Some(b"stays"));
        fill(&shard);
        // Everything that no longer counts is removed; the record without a value gets its removal
        // time.
        shard.compact_whole().expect("compacted");
        let compact_in_time = |after_ms: u64| {
            clock.set(Timestamp::from_millis(1_000_000 + after_ms));
            assert!(shard.carry_out(Duty::Compact).expect("carried out"));
            shard.last_key_scan()
        };
        let mut settled = 0;
        for interval in 1..10 {
            settled = compact_in_time(interval * 60_000);
        }
        assert_eq!(records(&shard, "t"), 3);
        for interval in 10..20 {
            assert_eq!(compact_in_time(interval * 60_000), settled, "no record was appended, and none became due");
        }
    }
}
