//! The statistics page: counts of a log in a small mapped file that any process can read at any
//! time.
//!
//! ```text
//! append · roll · sync · checkpoint ─▶ Counters ─▶ shard-0000/statistics ─▶ Page::read,
//!          Log::tell_gauges ─▶ table ─▶     after the counts                 without a lock
//! ```
//!
//! Nothing depends on the page. A lost or damaged page restarts at zero, and a crash can lose
//! counts since the kernel last wrote the file. Counts are totals since the page was created, over
//! every process that opened the log, so monitoring takes differences. The layout is drawn in
//! `docs/file-format.md`.

mod counters;
mod histogram;
mod page;
mod table;

pub(crate) use counters::Counters;
pub use histogram::Histogram;
pub use page::Page;
pub use table::{Gauge, Gauges};

/// The file's name.
const NAME: &str = "statistics";
const MAGIC: u64 = u64::from_le_bytes(*b"QUIRESTA");
const VERSION: u64 = 1;
const WORDS: usize = 2048;
/// The number of words before the gauges. A page of this length has no gauges yet.
const COUNTS: usize = 512;

/// The layout of the page, in words. Words with different writers are on different cache lines.
mod word {
    pub(super) const DATABASE: usize = 2;
    pub(super) const SHARD: usize = 4;
    pub(super) const SINCE: usize = 5;
    pub(super) const APPENDS: usize = 8;
    pub(super) const ENTRIES: usize = 9;
    pub(super) const BYTES: usize = 10;
    pub(super) const ROLLS: usize = 11;
    pub(super) const REFUSALS: usize = 16;
    pub(super) const ERRORS: usize = 17;
    pub(super) const SYNCS: usize = 24;
    pub(super) const CHECKPOINTS: usize = 25;
    pub(super) const CHECKPOINT_POSITION: usize = 26;
    pub(super) const APPEND_NS: usize = 64;
    pub(super) const SYNC_NS: usize = 128;
    pub(super) const CHECKPOINT_NS: usize = 192;
}

// The layout: words of different writers are on different cache lines of 8 words, and the
// histograms, each after its total, fit before the gauges.
const _: () = {
    assert!(word::SINCE < word::APPENDS && word::ROLLS / 8 < word::REFUSALS / 8);
    assert!(word::ERRORS / 8 < word::SYNCS / 8 && word::CHECKPOINT_POSITION / 8 < word::APPEND_NS / 8);
    assert!(word::APPEND_NS + 1 + histogram::BUCKETS <= word::SYNC_NS);
    assert!(word::SYNC_NS + 1 + histogram::BUCKETS <= word::CHECKPOINT_NS);
    assert!(word::CHECKPOINT_NS + 1 + histogram::BUCKETS <= COUNTS);
    assert!(COUNTS < WORDS);
};
