//! Letting go of events: by position, by tag, and by time.

use quire_model::{Effects, EntryKind, History, NewEntry, ReadError, Timestamp};

use crate::codec::{FORGOTTEN, RETENTION_SET, Role, TRIMMED, TagList};
use crate::decide::{Decision, Stop};
use crate::limits::{FORGOTTEN_MAX, check_label, check_name};
use crate::{Appended, EventPosition, Events, Refusal, StoreNumber};

/// A store that keeps its events for a time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedStore {
    /// Which.
    pub store: StoreNumber,
    /// Events up to here are gone already.
    trimmed: EventPosition,
    /// The last event that it had.
    last: EventPosition,
    /// Events before this time go.
    keep_from: Timestamp,
}

impl Events {
    /// The stores that keep their events for a time only.
    pub fn retained(&self, now: Timestamp) -> impl Iterator<Item = RetainedStore> {
        self.stores().filter_map(move |(_, store)| {
            let kept_micros = self.retention_ms(store)?.saturating_mul(1_000);
            let keep_from = Timestamp::from_micros(now.as_micros().saturating_sub(kept_micros));
            Some(RetainedStore { store, trimmed: self.trimmed(store), last: self.last(store), keep_from })
        })
    }
}

impl RetainedStore {
    /// Up to where the store is to be trimmed; `None` when everything stays. Times follow positions, so it is found by halving.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn plan(&self, history: &dyn History) -> Result<Option<EventPosition>, ReadError> {
        let tags = TagList::of(Role::Store, self.store, b"");
        let (mut gone, mut kept) = (self.trimmed.get(), self.last.get() + 1);
        while kept - gone > 1 {
            let middle = gone + (kept - gone) / 2;
            // The first event from there on: where some are gone, it stands behind the middle.
            match history.seek(tags.first(), EventPosition::new(middle).sequence())? {
                Some(event) if event.time < self.keep_from => {
                    gone = event.sequence.map_or(middle, |sequence| sequence.get()).max(middle);
                }
                _ => kept = middle,
            }
        }
        let up_to = EventPosition::new(gone);
        Ok((up_to > self.trimmed).then_some(up_to))
    }
}

impl<'a> Decision<'a> {
    /// Decides on events up to a position, which go.
    pub(crate) fn trim(
        &mut self,
        store: &'a str,
        up_to: EventPosition,
        effects: &mut dyn Effects,
    ) -> Result<Appended, Stop> {
        check_name(store).map_err(Refusal::InvalidName)?;
        let store = self.draft.store(self.state, store).ok_or(Refusal::UnknownStore)?;
        let head = self.state.last(store);
        if up_to > head {
            return Err(Refusal::AheadOfStore { position: up_to, head }.into());
        }
        let mut gone = self.gone(store).clone();
        if up_to > gone.trimmed {
            gone.trim(up_to);
            gone.changed(self.at.position, head);
            self.draft.gone.insert(store, gone);
            push(effects, TRIMMED, store, &[&up_to.get().to_le_bytes()]);
        }
        Ok(Appended::NOTHING)
    }

    /// Decides on the events with a tag, which go. Those of the same commit stay.
    pub(crate) fn forget(&mut self, store: &'a str, tag: &[u8], effects: &mut dyn Effects) -> Result<Appended, Stop> {
        check_name(store).map_err(Refusal::InvalidName)?;
        check_label(tag).map_err(Refusal::InvalidTag)?;
        let store = self.draft.store(self.state, store).ok_or(Refusal::UnknownStore)?;
        let up_to = self.state.last(store);
        let state = self.state;
        let gone = self.draft.gone.entry(store).or_insert_with(|| state.gone(store).clone());
        if !gone.knows(tag) && gone.forgotten_count() >= FORGOTTEN_MAX {
            return Err(Refusal::TooManyForgotten.into());
        }
        gone.forget(tag, up_to);
        gone.changed(self.at.position, up_to);
        push(effects, FORGOTTEN, store, &[&up_to.get().to_le_bytes(), tag]);
        Ok(Appended::NOTHING)
    }

    /// Decides on how long events are kept.
    pub(crate) fn set_retention(
        &mut self,
        store: &'a str,
        retention_ms: Option<u64>,
        effects: &mut dyn Effects,
    ) -> Result<Appended, Stop> {
        check_name(store).map_err(Refusal::InvalidName)?;
        let known = self.draft.store(self.state, store);
        let store = known.unwrap_or_else(|| self.create(store, effects));
        push(effects, RETENTION_SET, store, &[&retention_ms.unwrap_or(u64::MAX).to_le_bytes()]);
        Ok(Appended::NOTHING)
    }
}

fn push(effects: &mut dyn Effects, kind: EntryKind, store: StoreNumber, body: &[&[u8]]) {
    let tags = TagList::of(Role::Name, store, b"");
    effects.push(NewEntry { kind, tags: &[tags.first()], sequenced: None, body });
}
