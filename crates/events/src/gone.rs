//! Events that are gone: those up to a position, and those that carried a tag up to one.
//!
//! They are gone for every read and every decision as soon as the commit that says so is; their bytes go with the compaction of their segment.
//! Nothing that is gone comes back: positions only grow.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Entry, History, Place, ReadError, Tag};

use crate::EventPosition;
use crate::codec::{Role, label_of};

/// Which events of a store are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Events up to here.
    pub(crate) trimmed: EventPosition,
    /// Events with such a tag, up to there.
    forgotten: Arc<BTreeMap<Vec<u8>, EventPosition>>,
    /// How often this was changed: what was looked up before a change is of no use behind it.
    pub(crate) changes: u64,
}

impl Gone {
    /// Events up to this position are gone.
    pub(crate) fn trim(&mut self, position: EventPosition) {
        self.trimmed = self.trimmed.max(position);
        self.changes += 1;
    }

    /// Events with this tag up to this position are gone.
    pub(crate) fn forget(&mut self, tag: &[u8], up_to: EventPosition) {
        Arc::make_mut(&mut self.forgotten).insert(Vec::from(tag), up_to);
        self.changes += 1;
    }

    /// How many tags were forgotten.
    pub(crate) fn forgotten_count(&self) -> usize {
        self.forgotten.len()
    }

    /// Whether this tag was forgotten before.
    pub(crate) fn knows(&self, tag: &[u8]) -> bool {
        self.forgotten.contains_key(tag)
    }

    /// Whether the event in this entry is gone.
    pub(crate) fn has(&self, entry: &Entry<'_>) -> bool {
        let Some(position) = entry.sequence.map(EventPosition::from) else { return false };
        if position <= self.trimmed {
            return true;
        }
        let is_forgotten = |tag: &[u8]| self.forgotten.get(tag).is_some_and(|up_to| position <= *up_to);
        !self.forgotten.is_empty() && entry.tags.iter().filter_map(|tag| label_of(tag, Role::Tag)).any(is_forgotten)
    }

    /// [`History::next`], past what is gone.
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

    /// [`History::previous`], past what is gone.
    pub(crate) fn previous<'h>(
        &self,
        history: &'h dyn History,
        tags: &[Tag<'_>],
        mut before: Place,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        loop {
            match history.previous(tags, before)? {
                // Behind it there is nothing that is not.
                Some(entry) if entry.sequence.is_some_and(|sequence| EventPosition::from(sequence) <= self.trimmed) => {
                    return Ok(None);
                }
                Some(entry) if self.has(&entry) => before = entry.place,
                found => return Ok(found),
            }
        }
    }

    /// `| trimmed | changes | n, n × (tag, up to) |`, numbers as varints.
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.trimmed.get()).varint(self.changes).varint(self.forgotten.len() as u64);
        for (tag, up_to) in &*self.forgotten {
            out.bytes(tag).varint(up_to.get());
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let (trimmed, changes) = (EventPosition::new(from.varint()?), from.varint()?);
        let mut forgotten = BTreeMap::new();
        for _ in 0..from.varint()? {
            forgotten.insert(Vec::from(from.bytes()?), EventPosition::new(from.varint()?));
        }
        Ok(Gone { trimmed, forgotten: Arc::new(forgotten), changes })
    }
}
