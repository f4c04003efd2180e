//! The writing side of the page.
//!
//! What only the one who appends counts is loaded and stored; the rest is added atomically, for others may count it at the
//! same time. All of it is relaxed: no number waits for another.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use quire_mapped::SharedWords;
use quire_model::{Position, Timestamp};
use quire_threads::AtomicU64;

use super::histogram::bucket_of;
use super::{COUNTS, MAGIC, NAME, VERSION, WORDS, table, word};
use crate::error::Result;
use crate::identity::Identity;
use crate::storage::directory::Directory;
use crate::time::clock::Clock;

/// At most one append in so many microseconds is timed: to look at the clock twice costs as much as a small append.
const MICROS_BETWEEN_TIMED_APPENDS: u64 = 64;

/// Something that takes time.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// From the beginning of a decision to the end of its append.
    Append,
    /// A sync of what was appended.
    Sync,
    /// Writing a checkpoint.
    Checkpoint,
}

/// The mapped page.
#[derive(Debug)]
pub(crate) struct Counters {
    words: SharedWords,
    clock: Arc<dyn Clock>,
    /// What the counts were when the log was opened here.
    at_opening: Counts,
    /// When an append was last timed, in microseconds.
    timed_at: AtomicU64,
    /// Held by whoever tells gauges.
    telling: Mutex<()>,
}

/// The counts that a log tells of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) appends: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Counters {
    /// Maps the page of a log, and begins a new one where there is none that is right.
    pub(crate) fn open(directory: &Directory, identity: Identity, clock: Arc<dyn Clock>) -> Result<Self> {
        let (_, words) = directory.words(NAME, COUNTS, WORDS)?;
        let mut counters = Counters::of(words, clock);
        let expected =
            [MAGIC, VERSION, identity.database as u64, (identity.database >> 64) as u64, identity.shard.into()];
        debug_assert_eq!((word::DATABASE, word::SHARD), (2, expected.len() - 1));
        if (0..expected.len()).any(|index| counters.word(index).load(Relaxed) != expected[index]) {
            (0..WORDS).for_each(|index| counters.word(index).store(0, Relaxed));
            counters.word(word::SINCE).store(counters.clock.now().as_micros(), Relaxed);
            for (index, value) in expected.into_iter().enumerate().rev() {
                counters.word(index).store(value, Relaxed);
            }
        }
        counters.at_opening = counters.counts();
        Ok(counters)
    }

    /// A page whose words a model checker explores.
    #[cfg(all(test, loom))]
    pub(crate) fn explored(clock: Arc<dyn Clock>) -> Self {
        let single = [word::APPENDS, word::ENTRIES, word::BYTES, word::ERRORS, word::SYNCS];
        // Syncs of a few nanoseconds.
        let words = SharedWords::in_memory(single.into_iter().chain(word::SYNC_NS..word::SYNC_NS + 8));
        Counters::of(words, clock)
    }

    fn of(words: SharedWords, clock: Arc<dyn Clock>) -> Self {
        let (at_opening, timed_at) = (Counts::default(), AtomicU64::new(0));
        Counters { words, clock, at_opening, timed_at, telling: Mutex::default() }
    }

    /// An append begins, at this time. Gives back when, on the clock that measures, if this one is to be timed.
    #[inline]
    pub(crate) fn begin_append(&self, now: Timestamp) -> Option<u64> {
        let now = now.as_micros();
        let last = self.timed_at.load(Relaxed);
        (now.saturating_sub(last) >= MICROS_BETWEEN_TIMED_APPENDS).then(|| {
            self.timed_at.store(now, Relaxed);
            self.clock.monotonic_ns()
        })
    }

    /// A record was appended. To be called by whoever has the turn to append.
    #[inline]
    pub(crate) fn append(&self, entries: u32, bytes: usize, begun: Option<u64>) {
        let add = |index: usize, more: u64| {
            let word = self.word(index);
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        };
        add(word::APPENDS, 1);
        add(word::ENTRIES, entries.into());
        add(word::BYTES, bytes as u64);
        if let Some(begun) = begun {
            self.took(Stage::Append, begun);
        }
    }

    /// How many bytes were appended, by anyone.
    pub(crate) fn bytes(&self) -> u64 {
        self.word(word::BYTES).load(Relaxed)
    }

    /// A segment was begun.
    pub(crate) fn roll(&self) {
        self.add(word::ROLLS, 1);
    }

    /// A commit was refused.
    pub(crate) fn refusal(&self) {
        self.add(word::REFUSALS, 1);
    }

    /// Something failed that an owner should look at: a write, a sync, a disk that is full.
    pub(crate) fn error(&self) {
        self.add(word::ERRORS, 1);
    }

    /// A checkpoint was saved.
    pub(crate) fn checkpoint(&self, position: Position, begun: u64) {
        self.add(word::CHECKPOINTS, 1);
        self.word(word::CHECKPOINT_POSITION).fetch_max(position.get(), Relaxed);
        self.took(Stage::Checkpoint, begun);
    }

    /// A sync has ended well; says how many nanoseconds it took.
    pub(crate) fn sync(&self, begun: u64) -> u64 {
        self.add(word::SYNCS, 1);
        self.took(Stage::Sync, begun)
    }

    /// Puts these in the place of the gauges that were told before. Of several processes, one at a time may do so.
    pub(crate) fn tell_gauges(&self, position: Position, time: Timestamp, gauges: &[(String, u64)]) {
        let _one_at_a_time = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        table::write(&self.words, position, time, gauges);
    }

    /// The position of which gauges were told last, by anyone, and how many; `None` when none were, or only half of them.
    pub(crate) fn gauges_told(&self) -> Option<(Position, u64)> {
        table::told(&self.words)
    }

    /// The time on the clock that measures, for a stage that begins.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// What was counted since the log was opened here.
    pub(crate) fn since_opening(&self) -> Counts {
        let (now, then) = (self.counts(), self.at_opening);
        Counts {
            appends: now.appends.wrapping_sub(then.appends),
            entries: now.entries.wrapping_sub(then.entries),
            bytes: now.bytes.wrapping_sub(then.bytes),
        }
    }

    fn counts(&self) -> Counts {
        let count = |index: usize| self.word(index).load(Relaxed);
        Counts { appends: count(word::APPENDS), entries: count(word::ENTRIES), bytes: count(word::BYTES) }
    }

    fn took(&self, stage: Stage, begun: u64) -> u64 {
        let ns = self.clock.monotonic_ns().saturating_sub(begun);
        let at = match stage {
            Stage::Append => word::APPEND_NS,
            Stage::Sync => word::SYNC_NS,
            Stage::Checkpoint => word::CHECKPOINT_NS,
        };
        self.add(at, ns);
        self.add(at + 1 + bucket_of(ns), 1);
        ns
    }

    fn add(&self, index: usize, more: u64) {
        self.word(index).fetch_add(more, Relaxed);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.words.word(index)
    }
}
