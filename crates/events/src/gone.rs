//! Deleted events: all up to a position, and those with a tag up to a position.
//!
//! The commit that deletes events hides them from every later read and decision; compaction of
//! their segment later removes their bytes. A deleted event never returns, because positions only
//! grow.
//!
//! Forgotten tags are in a persistent map: a copy is one reference, and a changed copy shares all
//! but one path with the original. So a decision and a reader can hold the map, however many tags
//! it has.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Entry, History, Place, Position, ReadError, Tag};
use rpds::RedBlackTreeMapSync;

use crate::EventPosition;
use crate::codec::{Role, label_of};

/// The deleted events of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeletedEvents {
    /// Events up to here.
    pub(crate) trimmed: EventPosition,
    /// Events with such a tag, up to there.
    forgotten: RedBlackTreeMapSync<Vec<u8>, EventPosition>,
    /// The last record that changed this. Look-ups from before this record are outdated, and
    /// answers that depend on it must wait until it is durable.
    pub(crate) since: Position,
    /// The last position of the store at that record. The log may no longer have the events up to
    /// it.
    pub(crate) head: EventPosition,
}

impl DeletedEvents {
    /// Events up to this position are deleted.
    pub(crate) fn trim(&mut self, up_to: EventPosition) {
        self.trimmed = self.trimmed.max(up_to);
    }

    /// Events with this tag up to this position are deleted.
    pub(crate) fn forget(&mut self, tag: &[u8], up_to: EventPosition) {
        self.forgotten.insert_mut(Vec::from(tag), up_to);
    }

    /// Notes that the record at `since` deleted events, when `head` was the last position of the
    /// store.
    pub(crate) fn changed(&mut self, since: Position, head: EventPosition) {
        (self.since, self.head) = (since, head);
    }

    /// Returns the number of forgotten tags.
    pub(crate) fn forgotten_count(&self) -> usize {
        self.forgotten.size()
    }

    /// The tags that were forgotten.
    pub(crate) fn forgotten(&self) -> impl Iterator<Item = &[u8]> {
        self.forgotten.keys().map(Vec::as_slice)
    }

    /// The tags that were forgotten, each with the last position whose events are deleted.
    pub(crate) fn forgotten_up_to_each(&self) -> impl Iterator<Item = (&[u8], EventPosition)> {
        self.forgotten.iter().map(|(tag, up_to)| (tag.as_slice(), *up_to))
    }

    /// Returns the last position whose events with this tag are deleted; `None` for a tag that was
    /// not forgotten.
    pub(crate) fn forgotten_up_to(&self, tag: &[u8]) -> Option<EventPosition> {
        self.forgotten.get(tag).copied()
    }

    /// Whether this tag was forgotten before.
    pub(crate) fn knows(&self, tag: &[u8]) -> bool {
        self.forgotten.contains_key(tag)
    }

    /// Whether the event in this entry is deleted.
    pub(crate) fn has(&self, entry: &Entry<'_>) -> bool {
        let Some(position) = entry.sequence.map(EventPosition::from) else { return false };
        if position <= self.trimmed {
            return true;
        }
        let is_forgotten = |tag: &[u8]| self.forgotten.get(tag).is_some_and(|up_to| position <= *up_to);
        !self.forgotten.is_empty() && entry.tags.iter().filter_map(|tag| label_of(tag, Role::Tag)).any(is_forgotten)
    }

    /// Like [`History::next`], but skips deleted events.
    pub(crate) fn next<'h>(
        &self,
        history: &'h dyn History,
        tags: &[Tag<'_>],
        mut from: Place,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        loop {
            match history.next(tags, from)? {
                Some(entry) if self.has(&entry) => from = entry.place.after(),
                found => return Ok(found),
            }
        }
    }

    /// Like [`History::previous`], but skips deleted events.
    pub(crate) fn previous<'h>(
        &self,
        history: &'h dyn History,
        tags: &[Tag<'_>],
        mut before: Place,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        loop {
            match history.previous(tags, before)? {
                // Every later event is kept.
                Some(entry) if entry.sequence.is_some_and(|sequence| EventPosition::from(sequence) <= self.trimmed) => {
                    return Ok(None);
                }
                Some(entry) if self.has(&entry) => before = entry.place,
                found => return Ok(found),
            }
        }
    }

    /// `| trimmed | record of the last change 8 | head at that record | n, n × (tag, up to) |`,
    /// other numbers as varints.
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.trimmed.get()).u64(self.since.get()).varint(self.head.get());
        out.varint(self.forgotten.size() as u64);
        for (tag, up_to) in &self.forgotten {
            out.bytes(tag).varint(up_to.get());
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let trimmed = EventPosition::new(from.varint()?);
        let (since, head) = (Position::new(from.u64()?), EventPosition::new(from.varint()?));
        let mut gone = DeletedEvents { trimmed, since, head, ..DeletedEvents::default() };
        for _ in 0..from.varint()? {
            gone.forgotten.insert_mut(Vec::from(from.bytes()?), EventPosition::new(from.varint()?));
        }
        Ok(gone)
    }
}
