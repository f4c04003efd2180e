//! The reading side of the page: by any process, at any time, without a lock and without changing anything.

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

/// So often a page is read at most until it has whole gauges: to write them takes some microseconds.
const LOOKS_MAX: u32 = 8;

/// The counts of a log as they stood when the page was read: totals since [`Page::since`], over every process that had it
/// open.
///
/// ```
/// # use std::sync::Arc;
/// # use quire_log::{Identity, Log, Page, Settings, SystemClock};
/// # use quire_model::{Effects, EntryKind, ModelId, NewEntry};
/// # let directory = tempfile::tempdir()?;
/// # let identity = Identity { database: 7, shard: 0 };
/// let mut opened = Log::open(directory.path(), identity, Settings::default(), Arc::new(SystemClock))?;
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
    /// The record after which the newest of them was taken.
    pub checkpoint_position: Position,
    /// How long appends took, from the beginning of the decision. Of many in a short time, not every one is timed.
    pub append_ns: Histogram,
    /// How long syncs took.
    pub sync_ns: Histogram,
    /// How long it took to write checkpoints.
    pub checkpoint_ns: Histogram,
    /// What whoever uses the log has told; `None` when nothing was, or it was cut off in the middle of that.
    pub gauges: Option<Gauges>,
}

impl Page {
    /// Reads the page of the log in a shard's directory, whether anyone has it open or not.
    ///
    /// # Errors
    /// [`Error::Io`] when there is none that can be read, [`Error::Damaged`] when it is none, [`Error::NewerFormat`].
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
        // Of one that is cut off, zeros would be told.
        let word = |index: usize| {
            let bytes = bytes.get(index * 8..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        if word(0) != MAGIC || (word(1) == VERSION && bytes.len() < COUNTS * 8) {
            // No backup holds one, and nothing else depends on it.
            let message = "it is not a whole statistics page; it is begun anew by who next opens the database alone";
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
