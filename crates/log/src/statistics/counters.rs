//! Writes the statistics page.
//!
//! Counts that only the writer changes are loaded and stored. All other counts are added
//! atomically, because several processes change them. All accesses are relaxed, because no count
//! depends on another.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use quire_mapped::SharedWords;
use quire_model::{Position, Timestamp};
use quire_threads::AtomicU64;

use super::histogram::{Histogram, bucket_of};
use super::{COUNTS, MAGIC, NAME, VERSION, WORDS, table, word};
use crate::error::Result;
use crate::identity::Identity;
use crate::storage::directory::Directory;
use crate::time::clock::Clock;

/// The minimum time between two timed appends. Reading the clock twice costs as much as a small
/// append.
const MICROS_BETWEEN_TIMED_APPENDS: u64 = 64;

/// A timed operation.
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
    /// The counts when this process opened the log.
    at_opening: Counts,
    /// The time of the last timed append, in microseconds.
    timed_at: AtomicU64,
    /// The longest sync since it was last taken, in nanoseconds. No decision of the log depends on
    /// it, so a model checker does not explore it.
    slowest_sync_ns: std::sync::atomic::AtomicU64,
    /// Held while gauges are written.
    telling: Mutex<()>,
}

/// The counts of appends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) appends: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Counters {
    /// Maps the statistics page of a log. Creates or resets the page if it is missing or invalid.
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

    /// Creates a page whose words a model checker explores.
    #[cfg(all(test, loom))]
    pub(crate) fn explored(clock: Arc<dyn Clock>) -> Self {
        let single = [word::APPENDS, word::ENTRIES, word::BYTES, word::ERRORS, word::SYNCS];
        // The buckets for syncs of a few nanoseconds.
        let words = SharedWords::in_memory(single.into_iter().chain(word::SYNC_NS..word::SYNC_NS + 8));
        Counters::of(words, clock)
    }

    fn of(words: SharedWords, clock: Arc<dyn Clock>) -> Self {
        let (at_opening, timed_at) = (Counts::default(), AtomicU64::new(0));
        let slowest_sync_ns = std::sync::atomic::AtomicU64::new(0);
        Counters { words, clock, at_opening, timed_at, slowest_sync_ns, telling: Mutex::default() }
    }

    /// Begins an append at `now`. Returns the monotonic time in nanoseconds if this append is
    /// timed.
    #[inline]
    pub(crate) fn begin_append(&self, now: Timestamp) -> Option<u64> {
        let now = now.as_micros();
        let last = self.timed_at.load(Relaxed);
        (now.saturating_sub(last) >= MICROS_BETWEEN_TIMED_APPENDS).then(|| {
            self.timed_at.store(now, Relaxed);
            self.clock.monotonic_ns()
        })
    }

    /// Counts an appended record. The caller holds the turn.
    #[inline]
    pub(crate) fn append(&self, entries: u32, bytes: usize, begun: Option<u64>) {
        let add = |index: usize, more: u64| {
            let word = self.word(index);
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        };
        debug_assert!(entries > 0, "a record has entries");
        add(word::APPENDS, 1);
        add(word::ENTRIES, entries.into());
        add(word::BYTES, bytes as u64);
        if let Some(begun) = begun {
            self.took(Stage::Append, begun);
        }
    }

    /// Returns the number of bytes appended by all processes.
    pub(crate) fn bytes(&self) -> u64 {
        self.word(word::BYTES).load(Relaxed)
    }

    /// Counts a new segment.
    pub(crate) fn roll(&self) {
        self.add(word::ROLLS, 1);
    }

    /// Counts a refused commit.
    pub(crate) fn refusal(&self) {
        self.add(word::REFUSALS, 1);
    }

    /// Counts a failure that needs attention: a failed write, a failed sync, a full disk.
    pub(crate) fn error(&self) {
        self.add(word::ERRORS, 1);
    }

    /// Counts a saved checkpoint.
    pub(crate) fn checkpoint(&self, position: Position, begun: u64) {
        self.add(word::CHECKPOINTS, 1);
        self.word(word::CHECKPOINT_POSITION).fetch_max(position.get(), Relaxed);
        self.took(Stage::Checkpoint, begun);
    }

    /// Counts a successful sync. Returns its duration in nanoseconds.
    pub(crate) fn sync(&self, begun: u64) -> u64 {
        self.add(word::SYNCS, 1);
        let ns = self.took(Stage::Sync, begun);
        self.slowest_sync_ns.fetch_max(ns, Relaxed);
        ns
    }

    /// Returns the longest sync since the last call, in nanoseconds.
    pub(crate) fn take_slowest_sync_ns(&self) -> u64 {
        self.slowest_sync_ns.swap(0, Relaxed)
    }

    /// Replaces the gauges. Only one process at a time may call this.
    pub(crate) fn tell_gauges(&self, position: Position, time: Timestamp, gauges: &[(String, u64)]) {
        let _one_at_a_time = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        table::write(&self.words, position, time, gauges);
    }

    /// Returns the position and number of the last gauges of any process. Returns `None` when there
    /// are none, or when they are incomplete.
    pub(crate) fn gauges_told(&self) -> Option<(Position, u64)> {
        table::told(&self.words)
    }

    /// Returns the monotonic time in nanoseconds, for the beginning of a timed operation.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Returns the position of the newest noted checkpoint.
    pub(crate) fn checkpointed(&self) -> Position {
        Position::new(self.word(word::CHECKPOINT_POSITION).load(Relaxed))
    }

    /// Returns the durations of syncs and of checkpoint writes.
    pub(crate) fn durations(&self) -> (Histogram, Histogram) {
        (self.histogram(word::SYNC_NS), self.histogram(word::CHECKPOINT_NS))
    }

    fn histogram(&self, at: usize) -> Histogram {
        let word = |index: usize| self.word(index).load(Relaxed);
        Histogram { buckets: std::array::from_fn(|bucket| word(at + 1 + bucket)), total_ns: word(at) }
    }

    /// Returns the counts since this process opened the log.
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
