//! Decides which events are deleted: up to a position, with a tag, after a time.

use quire_model::{Effects, EntryKind, NewEntry};

use super::{Decision, Stop};
use crate::check::{check_label, check_name};
use crate::codec::{FORGOTTEN, RETENTION_SET, Role, TRIMMED, TagList};
use crate::limits::FORGOTTEN_MAX;
use crate::{AppendResult, EventPosition, Refusal, StoreNumber};

impl<'a> Decision<'a> {
    /// Decides on events up to a position, which go.
    pub(super) fn trim(
        &mut self,
        store: &'a str,
        up_to: EventPosition,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
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
        Ok(AppendResult::NOTHING)
    }

    /// Decides on the events with a tag, which go. Those of the same commit stay.
    pub(super) fn forget(
        &mut self,
        store: &'a str,
        tag: &[u8],
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        check_name(store).map_err(Refusal::InvalidName)?;
        check_label(tag).map_err(Refusal::InvalidTag)?;
        let store = self.draft.store(self.state, store).ok_or(Refusal::UnknownStore)?;
        let up_to = self.state.last(store);
        let state = self.state;
        let gone = self.draft.gone.entry(store).or_insert_with(|| state.gone(store).clone());
        if !gone.knows(tag) && gone.forgotten_count() >= FORGOTTEN_MAX {
            return Err(Refusal::TooManyForgotten.into());
        }
        // The memory of the tag counts, and is not claimed: other names must not keep a client from
        // deleting the events of a person.
        gone.forget(tag, up_to);
        gone.changed(self.at.position, up_to);
        push(effects, FORGOTTEN, store, &[&up_to.get().to_le_bytes(), tag]);
        Ok(AppendResult::NOTHING)
    }

    /// Decides on how long events are kept.
    pub(super) fn set_retention(
        &mut self,
        store: &'a str,
        retention_ms: Option<u64>,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        check_name(store).map_err(Refusal::InvalidName)?;
        let known = self.draft.store(self.state, store);
        let store = self.known_or_create(known, store, effects)?;
        push(effects, RETENTION_SET, store, &[&retention_ms.unwrap_or(u64::MAX).to_le_bytes()]);
        Ok(AppendResult::NOTHING)
    }
}

fn push(effects: &mut dyn Effects, kind: EntryKind, store: StoreNumber, body: &[&[u8]]) {
    let tags = TagList::of(Role::Name, store, b"");
    effects.push(NewEntry { kind, tags: &[tags.first()], sequenced: None, body });
}
