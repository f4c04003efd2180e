//! The log as models read it: by place, and along tags in both directions.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;

use crate::{Entry, Place, Sequence, Tag};

/// The log as a model may read it.
///
/// In `decide`, the history ends with the record before the one being decided, durable or not. For
/// a reader it ends at the published tail. Each call is independent of earlier calls, so a scan is
/// a loop that continues from [`Place::after`] of the last entry.
pub trait History {
    /// Returns the entry at this place; `None` when no entry has this place, or when it was
    /// removed.
    ///
    /// # Errors
    /// When the bytes can't be read or their checksum is wrong.
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError>;

    /// The first entry at or after `from` that carries all of `tags`; of no tags, the first entry
    /// at all.
    ///
    /// # Errors
    /// When a candidate can't be read: a search never skips an unreadable entry.
    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError>;

    /// Appends to `found` the entries that successive calls of [`History::next`] would return: at
    /// most `most`, and at least one if there is one. Their memory is fetched together, so this is
    /// faster than single calls.
    ///
    /// # Errors
    /// The errors of [`History::next`] for the first entry. No entry was added then.
    fn next_few<'h>(
        &'h self,
        tags: &[Tag<'_>],
        from: Place,
        most: usize,
        found: &mut Vec<Entry<'h>>,
    ) -> Result<(), ReadError> {
        if most > 0 {
            found.extend(self.next(tags, from)?);
        }
        Ok(())
    }

    /// Passes the entries from `from` on and before `before` that carry all of `tags` to `visit`,
    /// in log order, until `visit` breaks; of no tags, every entry. The entries are those that
    /// successive calls of [`History::next`] would return.
    ///
    /// For many entries, this is faster than single calls: the log reads its segments from front to
    /// back where many entries carry the tags.
    ///
    /// # Errors
    /// The errors of [`History::next`], after the readable entries before. An unreadable entry
    /// outside of the range is no error.
    fn scan<'h>(
        &'h self,
        tags: &[Tag<'_>],
        from: Place,
        before: Place,
        visit: &mut dyn FnMut(&Entry<'h>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let mut from = from;
        loop {
            let entry = match self.next(tags, from) {
                Err(error) if error.place.is_some_and(|place| place >= before) => return Ok(()),
                found => found?,
            };
            match entry {
                Some(entry) if entry.place < before && visit(&entry).is_continue() => from = entry.place.after(),
                _ => return Ok(()),
            }
        }
    }

    /// The last entry before `before` (which is excluded) that carries all of `tags`; of no tags,
    /// the last at all.
    ///
    /// # Errors
    /// The errors of [`History::next`].
    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError>;

    /// Returns the entry of a sequenced tag that has number `sequence`. If that entry was removed,
    /// returns the next one; `None` after the end of the tag's numbers.
    ///
    /// # Errors
    /// The errors of [`History::next`].
    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError>;

    /// Claims steps from the budget of the request that reads this history, for work that grows
    /// with the data. Reads of this history claim their own steps.
    ///
    /// # Errors
    /// [`ReadErrorKind::TooCostly`] and [`ReadErrorKind::Cancelled`]; see [`StepBudget::claim`].
    ///
    /// [`StepBudget::claim`]: crate::StepBudget::claim
    fn claim(&self, _steps: u64) -> Result<(), ReadError> {
        Ok(())
    }

    /// Limits the claims until the next call to one of `among` equal parts of the steps left. `1`
    /// gives all steps left.
    fn share_steps(&self, _among: u64) {}

    /// Whether this history keeps too much memory for entries read. A long reading then continues
    /// with a new one: see [`LongReading`].
    fn holds_too_much(&self) -> bool {
        false
    }

    /// Returns a fresh reader of the same history, without cached reads; `None` when a fresh reader
    /// has no advantage.
    fn fresh(&self) -> Option<Box<dyn History>> {
        None
    }
}

/// A history for a long reading. It releases the memory of entries already read.
pub struct LongReading<'h> {
    history: &'h dyn History,
    fresh: Option<Box<dyn History>>,
}

impl<'h> LongReading<'h> {
    /// Begins to read.
    pub fn new(history: &'h dyn History) -> Self {
        LongReading { history, fresh: None }
    }

    /// The history to read from now.
    pub fn history(&self) -> &dyn History {
        self.fresh.as_deref().unwrap_or(self.history)
    }

    /// Releases the memory of entries read, if it exceeds the limit and no reference to them
    /// remains.
    pub fn let_go(&mut self) {
        if self.history().holds_too_much()
            && let Some(fresh) = self.history().fresh()
        {
            self.fresh = Some(fresh);
        }
    }
}

impl fmt::Debug for LongReading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongReading").field("is_fresh", &self.fresh.is_some()).finish_non_exhaustive()
    }
}

/// Stored bytes that could not be read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// The kind of the error, for the caller's decision.
    pub kind: ReadErrorKind,
    /// The place of the unreadable entry, when it is known.
    pub place: Option<Place>,
    /// The place of the first unreadable entry, when it is known: the entry itself, or the place
    /// where a longer loss begins. Entries before it can be read.
    pub begins: Option<Place>,
    /// The damage found, with file and byte.
    pub message: String,
}

/// The reason why an entry could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// The bytes differ from the bytes that were written. A backup has the original.
    Damaged,
    /// The operating system could not read the bytes. The data may be whole, and the same read may
    /// succeed later.
    Io,
    /// The history before this position was trimmed. Ask for a later position.
    Gone,
    /// The request needs more steps than it may take. Narrow it, or read in parts.
    TooCostly {
        /// The steps of the request's budget.
        steps_max: u64,
        /// The place from which a search along tags continues: at the place when it goes forwards,
        /// and before it when it goes backwards. The search has finished everything between its
        /// start and this place.
        reached: Option<Place>,
    },
    /// The request was cancelled.
    Cancelled,
}

impl ReadError {
    /// Bytes that are not as they were written, of the entry at this place when it is known.
    pub fn damaged(place: Option<Place>, message: impl Into<String>) -> Self {
        ReadError { kind: ReadErrorKind::Damaged, place, begins: place, message: message.into() }
    }

    /// A position before the beginning of the history.
    pub fn gone(message: impl Into<String>) -> Self {
        ReadError { kind: ReadErrorKind::Gone, place: None, begins: None, message: message.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            _ if self.kind == ReadErrorKind::Gone || self.is_of_request() => f.write_str(&self.message),
            Some(place) => write!(f, "entry {place} is unreadable: {}", self.message),
            None => write!(f, "the log is unreadable: {}", self.message),
        }
    }
}

impl core::error::Error for ReadError {}
