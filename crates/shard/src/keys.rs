//! The keys of compacted topics: which partitions are due to be looked through, and what is left of their batches.
//!
//! A partition is due once as much was written to it as it holds, so that what looking costs is in proportion to what is
//! written; and when records without a value may go. Nothing of this is stored: who opens the database looks once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use quire_log::{Log, Survival};
use quire_model::{Entry, Position, Timestamp};
use quire_streams::wire::Batch;
use quire_streams::{Command, Compacted, KeyHash, Left, Newest, Remains, Scope, Stored, Streams, Terms, TopicId};

use crate::compression::opened;
use crate::compressor::Compressor;
use crate::error::Error;

/// How many keys are known at a time, of all partitions together, unless it is said: they take at most 52 MiB.
pub const KEYS_MAX: usize = (1 << 21) / 8 * 7;

/// A partition of a topic.
type Of = (TopicId, u32);

/// What was found of the partitions so far.
#[derive(Debug)]
pub(crate) struct KeyLooks {
    /// Distinguishes the hashes of this database from those of others.
    seed: u64,
    keys_max: usize,
    rounds: Mutex<BTreeMap<Of, Round>>,
    /// Held by who looks, until what follows is carried out: the shares of keys are those of one, and so is the room for keys.
    turn: Mutex<()>,
}

/// The last look at a partition.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// How many looks there were before at anything.
    number: u64,
    /// How far the log could be compacted.
    end: Position,
    /// How much had been appended up to there.
    appended_bytes: u64,
    /// How much was left there of that.
    bytes: u64,
    /// When records without a value may go.
    horizon_ms: Option<i64>,
    /// Which share of the keys is next.
    turn: u64,
    /// How many shares the keys take, of which each is to be looked at.
    turns: u64,
    /// How many of these are yet to be looked at.
    turns_left: u64,
}

/// What a look at all that is due found.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) keys: Keys,
    /// What is more than topics keep.
    pub(crate) too_much: Vec<Command<'static>>,
    /// What could not be read: it stays as it is.
    pub(crate) failed: Option<Error>,
}

/// The newest records of the keys of some partitions.
#[derive(Debug)]
pub(crate) struct Keys {
    seed: u64,
    partitions: BTreeMap<Of, (Newest, Terms)>,
    /// The partitions of which batches were rewritten.
    changed: BTreeSet<Of>,
}

/// What it is asked for what is left.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'c> {
    /// To know how much that is; what is about to be told when it may go is as good as gone.
    Plan,
    /// To write it, compressed by this where it was compressed.
    Rewrite(&'c Compressor),
}

impl KeyLooks {
    pub(crate) fn new(seed: u64, keys_max: usize) -> Self {
        KeyLooks { seed, keys_max, rounds: Mutex::default(), turn: Mutex::default() }
    }

    /// Waits for the turn to look.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn to look, unless another thread has it.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Has every partition be due.
    pub(crate) fn forget(&self) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether any of these partitions is due, or a share of its keys.
    pub(crate) fn are_due(&self, compacted: &[Compacted], end: Position, now: Timestamp) -> bool {
        let rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        compacted.iter().any(|compacted| is_due(rounds.get(&of(compacted)), compacted, end, now))
    }

    /// Looks through the partitions that are due, as long as there is room for their keys. `end` is how far the log can be
    /// compacted.
    pub(crate) fn look(&self, log: &Log, compacted: &[Compacted], end: Position, now: Timestamp) -> Looked {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let there: BTreeSet<Of> = compacted.iter().map(of).collect();
        rounds.retain(|of, _| there.contains(of));
        let mut due: Vec<_> =
            compacted.iter().filter(|of_it| is_due(rounds.get(&of(of_it)), of_it, end, now)).collect();
        // Whoever waits longest comes first.
        let number = |of: Of, rounds: &BTreeMap<Of, Round>| rounds.get(&of).map(|round| round.number);
        due.sort_by_key(|compacted| number(of(compacted), &rounds));
        let mut next_number = rounds.values().map(|round| round.number + 1).max().unwrap_or(0);
        let keys = Keys { seed: self.seed, partitions: BTreeMap::new(), changed: BTreeSet::new() };
        let mut looked = Looked { keys, too_much: Vec::new(), failed: None };
        let mut room = self.keys_max;
        for compacted in due {
            if room == 0 {
                break;
            }
            let before = rounds.get(&of(compacted)).copied();
            let turn = before.map_or(0, |round| round.turn);
            let scope = Scope { end, keys_max: room, turn, now };
            let hash = |key: &[u8]| hash(self.seed, key);
            let open = &mut |batch: &Batch<'_>| opened(batch).ok().map(Cow::into_owned);
            // One for each, so that no more of packed segments is unpacked at a time than a partition has.
            let look = match compacted.look(&log.reader(), scope, open, &hash) {
                Ok(look) => look,
                Err(error) => {
                    looked.failed = looked.failed.or(Some(error.into()));
                    continue;
                }
            };
            if look.newest.shares() > 1 && room < self.keys_max {
                // There is room for all its keys, or for more of them, the next time.
                break;
            }
            room -= look.newest.len();
            let shares = look.newest.shares();
            let (turns, turns_left) = match before {
                // A share that turns out to be too large is divided further, and the rest of it has its turn, too.
                Some(Round { turns, turns_left: left @ 1.., .. }) => {
                    (turns.max(shares), left - 1 + shares.saturating_sub(turns))
                }
                _ => (shares, shares - 1),
            };
            let round = Round {
                number: next_number,
                end,
                appended_bytes: compacted.appended_bytes.saturating_sub(look.bytes_behind),
                bytes: look.bytes,
                horizon_ms: look.horizon_ms,
                turn: turn.wrapping_add(1),
                turns,
                turns_left,
            };
            next_number += 1;
            rounds.insert(of(compacted), round);
            looked.too_much.extend(look.too_much);
            let terms = Terms { now, delete_retention_ms: compacted.delete_retention_ms, unread: None };
            looked.keys.partitions.insert(of(compacted), (look.newest, terms));
        }
        looked
    }

    /// What these keys told was not carried out, or not all of it: each share is looked at again.
    pub(crate) fn not_done(&self, keys: &Keys) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        for of in keys.partitions.keys() {
            if let Some(round) = rounds.get_mut(of) {
                round.turns_left = round.turns;
            }
        }
    }

    /// What these keys told was carried out. Where anything went, records without a value may be alone now: they are told when they
    /// may go, too, and a look finds out when that is.
    pub(crate) fn done(&self, keys: &Keys) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let deleting = |of: &&Of| keys.partitions.get(of).is_some_and(|(newest, _)| newest.has_deletions());
        for of in keys.changed.iter().filter(deleting) {
            if let Some(round) = rounds.get_mut(of) {
                round.turns_left = round.turns;
            }
        }
    }
}

fn of(compacted: &Compacted) -> Of {
    (compacted.topic, compacted.number)
}

fn is_due(round: Option<&Round>, compacted: &Compacted, end: Position, now: Timestamp) -> bool {
    let Some(round) = round else { return true };
    let written = compacted.appended_bytes.saturating_sub(round.appended_bytes);
    let is_dirty = end > round.end && written >= round.bytes.max(1);
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    is_dirty || round.turns_left > 0 || round.horizon_ms.is_some_and(|horizon| horizon <= now_ms)
}

/// 128 bits of SipHash, behind what nobody knows who writes records.
fn hash(seed: u64, key: &[u8]) -> KeyHash {
    [0, 1].map(|half| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write_u8(half);
        hasher.write(key);
        hasher.finish()
    })
}

impl Keys {
    /// Notes what topics keep for groups as of now.
    pub(crate) fn keep_unread(&mut self, streams: &Streams) {
        if self.partitions.is_empty() {
            return;
        }
        let unread = streams.unread();
        for ((topic, number), (_, terms)) in &mut self.partitions {
            terms.unread = unread.from(*topic, *number);
        }
    }

    /// Says of those entries that are batches of these partitions, and survive so far, what is left of them.
    pub(crate) fn leave(&mut self, entries: &[Entry<'_>], answers: &mut [Survival], purpose: Purpose<'_>) {
        if self.partitions.is_empty() {
            return;
        }
        for (entry, answer) in entries.iter().zip(answers).filter(|(_, answer)| **answer == Survival::Whole) {
            let Some((topic, number, stored)) = Stored::of(entry) else { continue };
            let Some((newest, terms)) = self.partitions.get(&(topic, number)) else { continue };
            let Some(left) = left(newest, *terms, self.seed, &stored, purpose) else { continue };
            *answer = left;
            if let Purpose::Rewrite(_) = purpose {
                self.changed.insert((topic, number));
            }
        }
    }
}

/// What is left of a batch, when that is not all of it. What can't be read stays.
fn left(newest: &Newest, terms: Terms, seed: u64, stored: &Stored<'_>, purpose: Purpose<'_>) -> Option<Survival> {
    let opened = opened(&stored.batch).ok()?;
    let hash = |key: &[u8]| hash(seed, key);
    match newest.left(stored.base_offset, &stored.batch, &opened, &hash, terms).ok()? {
        Left::All => None,
        Left::Nothing => Some(Survival::Nothing),
        Left::Some(remains) => Some(match purpose {
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

/// About as many bytes as will be left: by the share of the records that stay, compressed as well as the batch was.
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
    use crate::decide::Commands;
    use crate::duty::Duty;
    use crate::shard::Shard;
    use crate::streams::{Cleanup, TopicSettings};
    use crate::testing;

    /// The number of the last look at the only partition that compacts.
    fn last_look(shard: &Shard) -> u64 {
        shard.keys.rounds.lock().expect("no panic").values().next().expect("a look").number
    }

    /// Has everything so far lie where it can be compacted.
    fn fill(shard: &Shard) {
        for _ in 0..2 {
            for _ in 0..40 {
                testing::produce(shard, "other", None, Some(&[7; 4000]));
            }
            testing::seal(shard);
            shard.checkpoint().expect("saved");
        }
    }

    /// How many records the partition of a topic holds.
    fn records(shard: &Shard, topic: &str) -> u32 {
        let partition = shard.read_published(|view| {
            let topic = view.streams.topic_named(topic).expect("a topic");
            view.streams.partition(topic.id, 0).expect("a partition")
        });
        let mut records = 0;
        let mut count = |stored: Stored<'_>| {
            records += stored.batch.record_count();
            ControlFlow::Continue(())
        };
        let read = partition.expect("readable").fetch(&shard.log.reader(), Sequence::new(0), 1000, &mut count);
        read.expect("readable");
        records
    }

    #[test]
    fn what_may_go_and_is_not_worth_rewriting_has_a_partition_looked_at_once() {
        const TOLD_MS: u64 = 1000;
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        // Nothing less than a whole segment is worth it.
        let shard = testing::open(directory.path(), 100, clock.clone());
        let settings =
            TopicSettings { cleanup: Cleanup::Compact, delete_retention_ms: TOLD_MS, ..TopicSettings::default() };
        let create = Command::CreateTopic { name: "t", partitions: 1, settings };
        testing::commit(&shard, &Commands { streams: &[create], ..Commands::default() });
        testing::produce(&shard, "t", Some(b"there"), Some(b"stays"));
        testing::produce(&shard, "t", Some(b"gone"), None);
        testing::produce(&shard, "t", Some(b"last"), Some(b"stays"));
        fill(&shard);
        // Whatever is of no use goes: the record that tells of the end of its key is told when it may go.
        shard.compact_whole().expect("compacted");
        let compact_in_time = |after_ms: u64| {
            clock.set(Timestamp::from_millis(1_000_000 + after_ms));
            assert!(shard.carry_out(Duty::Compact).expect("carried out"));
            last_look(&shard)
        };
        let mut settled = 0;
        for interval in 1..10 {
            settled = compact_in_time(interval * 60_000);
        }
        assert_eq!(records(&shard, "t"), 3);
        for interval in 10..20 {
            assert_eq!(compact_in_time(interval * 60_000), settled, "nothing has come, and nothing has become due");
        }
    }
}
