//! Reads the statistics page: from any process, at any time, without a lock and without changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_model::{Position, Timestamp};

use super::histogram::{BUCKETS, Histogram};
use super::table::{self, Gauges};
use super::{COUNTS, MAGIC, NAME, VERSION, WORDS, word};
use crate::error::{Error, Result};
use crate::storage::Disk;
use crate::storage::directory::Directory;

/// The maximum number of reads until the gauges are complete. Writing gauges takes some
/// microseconds.
const LOOKS_MAX: u32 = 8;

/// The counts of a log at the time of the read: totals since [`Page::since`], over every process
/// that had the log open.
///
/// ```
/// # use std::sync::Arc;
/// # use quire_log::{Identity, Log, Page, Settings, SystemClock};
/// # use quire_model::{Effects, EntryKind, ModelId, NewEntry};
/// # let directory = tempfile::tempdir()?;
/// # let identity = Identity { database: 7, shard: 0 };
/// let mut opened =
///     Log::open(directory.path(), identity, Settings::default(), Arc::new(SystemClock))?;
/// let before = Page::read(directory.path())?;
/// # let kind = EntryKind { model: ModelId::EVENTS, kind: 1 };
/// let (_, mut draft) = opened.writer.begin()?;
/// draft.push(NewEntry { kind, tags: &[], sequenced: None, body: &[b"an entry"] });
/// draft.append()?;
/// let after = Page::read(directory.path())?;
/// assert_eq!((after.appends - before.appends, after.entries - before.entries), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// When counting began.
    pub since: Timestamp,
    /// Records appended.
    pub appends: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended, headers and padding included.
    pub bytes: u64,
    /// Segments begun.
    pub rolls: u64,
    /// Commits refused.
    pub refusals: u64,
    /// Writes and syncs that failed, and appends that a full disk refused.
    pub errors: u64,
    /// Syncs that ended well.
    pub syncs: u64,
    /// Checkpoints saved.
    pub checkpoints: u64,
    /// The record after which the newest checkpoint was taken.
    pub checkpoint_position: Position,
    /// The durations of appends, from the beginning of the decision. Of many appends in a short
    /// time, only some are timed.
    pub append_ns: Histogram,
    /// The durations of syncs.
    pub sync_ns: Histogram,
    /// The durations of checkpoint writes.
    pub checkpoint_ns: Histogram,
    /// The gauges of the log's user; `None` when none were written, or when a write is incomplete.
    pub gauges: Option<Gauges>,
}

impl Page {
    /// Reads the statistics page in a shard's directory, whether or not the log is open.
    ///
    /// # Errors
    /// [`Error::Io`] when no valid page can be read, or [`Error::NewerFormat`].
    pub fn read(shard: &Path) -> Result<Self> {
        let directory = Directory::open(Arc::new(Disk), shard)?;
        for _ in 1..LOOKS_MAX {
            let page = Page::read_in(&directory)?;
            if page.gauges.is_some() {
                return Ok(page);
            }
        }
        Page::read_in(&directory)
    }

    pub(crate) fn read_in(directory: &Directory) -> Result<Self> {
        let bytes = directory.read_head(NAME, WORDS * 8)?;
        Page::decode(&bytes, directory.path_of(NAME))
    }

    fn decode(bytes: &[u8], path: PathBuf) -> Result<Self> {
        // Words past the end of the file are zero. A truncated page is rejected below.
        let word = |index: usize| {
            let bytes = bytes.get(index * 8..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        if word(0) != MAGIC || (word(1) == VERSION && bytes.len() < COUNTS * 8) {
            // The error is not `Damaged`: no backup holds a page, and nothing else depends on it.
            let message = "invalid statistics page; the next process that opens the database alone recreates it";
            return Err(Error::io("read", &path, io::Error::new(io::ErrorKind::InvalidData, message)));
        }
        if word(1) != VERSION {
            let version = u32::try_from(word(1)).unwrap_or(u32::MAX);
            return Err(Error::NewerFormat { path, version, supported: VERSION as u32 });
        }
        let histogram = |at: usize| Histogram {
            buckets: std::array::from_fn::<_, BUCKETS, _>(|bucket| word(at + 1 + bucket)),
            total_ns: word(at),
        };
        Ok(Page {
            since: Timestamp::from_micros(word(word::SINCE)),
            appends: word(word::APPENDS),
            entries: word(word::ENTRIES),
            bytes: word(word::BYTES),
            rolls: word(word::ROLLS),
            refusals: word(word::REFUSALS),
            errors: word(word::ERRORS),
            syncs: word(word::SYNCS),
            checkpoints: word(word::CHECKPOINTS),
            checkpoint_position: Position::new(word(word::CHECKPOINT_POSITION)),
            append_ns: histogram(word::APPEND_NS),
            sync_ns: histogram(word::SYNC_NS),
            checkpoint_ns: histogram(word::CHECKPOINT_NS),
            gauges: table::read(bytes),
        })
    }
}
