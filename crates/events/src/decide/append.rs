//! The decision on an append: is it well formed, is it a repetition, do its conditions hold?
//!
//! The order matters for a client that repeats an append after a lost answer. It gets the first
//! answer, although its own events by now conflict with its conditions.

use alloc::vec::Vec;

use quire_model::{Effects, NewEntry, Place, ReadError, ReadErrorKind, Sequence, SequenceRequest};

use super::{Decision, Stop};
use crate::check::check_append;
use crate::codec::{EVENT_APPENDED, Role, TagList, encode_event_head};
use crate::prepare::LookupResult;
use crate::read::{find_derived, find_given};
use crate::select::place_after;
use crate::{
    Append, AppendResult, Condition, EventId, EventPosition, EventView, NewEvent, Query, Refusal, Selection,
    StoreNumber,
};

/// The match of a condition among the events up to and including `up_to`.
#[derive(Debug, Clone, Copy, Default)]
struct ConditionMatch {
    up_to: EventPosition,
    position: Option<EventPosition>,
}

impl<'a> Decision<'a> {
    /// Decides the next command. The events of the last command are not kept, because no later
    /// command needs them.
    pub(super) fn append(
        &mut self,
        append: &'a Append<'_>,
        lookup: Option<&LookupResult>,
        is_last: bool,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        check_append(append)?;
        check_ids(&append.events)?;
        let known = self.draft.store(self.state, append.store);
        // Look-ups from before a deletion are outdated.
        let is_true = |lookup: &&LookupResult| known.is_some_and(|store| self.gone(store).since == lookup.gone_since);
        let lookup = lookup.filter(is_true);
        if let Some(store) = known
            && let Some(first) = self.repeated(store, &append.events, lookup)?
        {
            return Ok(appended(first, append.events.len(), true));
        }
        for (index, condition) in append.conditions.iter().enumerate() {
            let before = match lookup {
                Some(lookup) => lookup.before(index)?,
                None => ConditionMatch::default(),
            };
            self.check_condition(known, index, condition, before).map_err(|stop| of_condition(index, stop))?;
        }
        if append.events.is_empty() {
            return Ok(AppendResult::NOTHING);
        }
        let store = self.known_or_create(known, append.store, effects)?;
        let first = self.draft.last(self.state, store).next();
        push_events(store, first, &append.events, effects);
        if !is_last {
            self.draft.append(store, first, self.at.time, &append.events);
        }
        Ok(appended(first, append.events.len(), false))
    }

    fn check_condition(
        &self,
        store: Option<StoreNumber>,
        condition: usize,
        asked: &Condition<'_>,
        before: ConditionMatch,
    ) -> Result<(), Stop> {
        let head = store.map_or(EventPosition::ZERO, |store| self.draft.last(self.state, store));
        let met = match asked {
            Condition::FailIfMatches { after, .. } if *after > head => {
                return Err(Refusal::AfterAhead { condition, after: *after, head }.into());
            }
            Condition::FailIfMatches { query, after } => match store {
                Some(store) => self.first_match(store, query, *after, before)?,
                None => None,
            },
            Condition::LastIs { query, position } => {
                let last = match store {
                    Some(store) => self.last_match(store, query, before)?,
                    None => None,
                };
                if last.unwrap_or(EventPosition::ZERO) == *position {
                    return Ok(());
                }
                return Err(Refusal::ConditionFailed { condition, position: last }.into());
            }
        };
        match met {
            None => Ok(()),
            Some(_) => Err(Refusal::ConditionFailed { condition, position: met }.into()),
        }
    }

    /// The first match after `after`. When the store has no event after `after`, the log is not
    /// read.
    fn first_match(
        &self,
        store: StoreNumber,
        query: &Query<'_>,
        after: EventPosition,
        before: ConditionMatch,
    ) -> Result<Option<EventPosition>, ReadError> {
        if before.position.is_some() {
            return Ok(before.position);
        }
        let after = after.max(before.up_to);
        if after < self.state.last(store) {
            let selection = Selection::of(store, self.gone(store).clone(), query);
            if let Some(entry) = selection.first_after(self.history, after)? {
                return Ok(entry.sequence.map(EventPosition::from));
            }
        }
        Ok(self.draft.first_match(store, query, after))
    }

    fn last_match(
        &self,
        store: StoreNumber,
        query: &Query<'_>,
        before: ConditionMatch,
    ) -> Result<Option<EventPosition>, ReadError> {
        if let Some(position) = self.draft.last_match(store, query) {
            return Ok(Some(position));
        }
        if self.state.last(store) <= before.up_to {
            return Ok(before.position);
        }
        let selection = Selection::of(store, self.gone(store).clone(), query);
        // Without a new match, a backward scan would read everything.
        if before.up_to > EventPosition::ZERO && selection.first_after(self.history, before.up_to)?.is_none() {
            return Ok(before.position);
        }
        let last = selection.last(self.history)?;
        Ok(last.and_then(|entry| entry.sequence).map(EventPosition::from))
    }

    /// The position of the first of these events if all of them are in the store already, as one
    /// run. An id that another event has is no repetition, but a mistake that would lose an event
    /// if it passed for one.
    fn repeated(
        &self,
        store: StoreNumber,
        events: &[NewEvent<'_>],
        lookup: Option<&LookupResult>,
    ) -> Result<Option<EventPosition>, Stop> {
        let unknown_up_to = lookup.filter(|lookup| !lookup.knows_id).map_or(EventPosition::ZERO, |lookup| lookup.up_to);
        for (index, event) in events.iter().enumerate() {
            let Some(id) = event.id else { continue };
            let pending = self.draft.position_of(store, id);
            let found = match pending {
                Some(position) => Some(position),
                None => self.position_of(store, id, unknown_up_to)?,
            };
            let Some(position) = found else { continue };
            let first = position.get().checked_sub(index as u64).filter(|first| *first > 0).map(EventPosition::new);
            if let Some(first) = first {
                let same = match pending {
                    Some(_) => self.is_pending_run(store, first, events),
                    None => self.is_stored_run(store, first, events)?,
                };
                if same {
                    return Ok(Some(first));
                }
            }
            return Err(Refusal::DuplicateEvent { event: index, id, position }.into());
        }
        Ok(None)
    }

    /// Returns the position of the event with this id. `unknown_up_to` is a position up to which no
    /// event has the id.
    fn position_of(
        &self,
        store: StoreNumber,
        id: EventId,
        unknown_up_to: EventPosition,
    ) -> Result<Option<EventPosition>, ReadError> {
        let found = if unknown_up_to == EventPosition::ZERO {
            find_given(self.history, store, self.gone(store), id, Place::START)?
        } else if unknown_up_to < self.state.last(store) {
            let from = place_after(self.history, store, unknown_up_to)?;
            from.map_or(Ok(None), |from| find_given(self.history, store, self.gone(store), id, from))?
        } else {
            None
        };
        let found = match found {
            Some(event) => Some(event),
            None => find_derived(self.history, store, self.gone(store), id)?,
        };
        Ok(found.map(|event| event.position))
    }

    /// One of the events is pending in this commit, so its position fixes the run.
    fn is_pending_run(&self, store: StoreNumber, first: EventPosition, events: &[NewEvent<'_>]) -> bool {
        let mut stored = self.draft.events(store).skip_while(|(position, _)| *position < first);
        events.iter().all(|event| {
            stored.next().is_some_and(|(position, stored)| match event.id {
                Some(id) => {
                    self.draft.position_of(store, id) == Some(position)
                        && is_same(event, &stored.event_type, stored.tags.iter().map(|tag| &**tag), &stored.data)
                }
                None => {
                    stored.id.is_none()
                        && stored.metadata == event.metadata
                        && is_same(event, &stored.event_type, stored.tags.iter().map(|tag| &**tag), &stored.data)
                }
            })
        })
    }

    fn is_stored_run(
        &self,
        store: StoreNumber,
        first: EventPosition,
        events: &[NewEvent<'_>],
    ) -> Result<bool, ReadError> {
        let tags = TagList::of(Role::Store, store, b"");
        let mut from = match self.history.seek(tags.first(), first.sequence())? {
            Some(entry) => entry.place,
            None => return Ok(false),
        };
        let (record, gone) = (from.position, self.gone(store));
        for (index, event) in events.iter().enumerate() {
            // Skips deleted events, so the result does not depend on whether compaction has removed
            // them yet.
            let Some(entry) = gone.next(self.history, &[tags.first()], from)? else { return Ok(false) };
            let stored = EventView::of(&entry).expect("only events carry a store's tag");
            let is_known = match event.id {
                Some(id) => stored.id() == id,
                None => stored.given_id.is_none() && *stored.metadata == *event.metadata,
            };
            let same = is_known && is_same(event, stored.event_type, stored.tags(), stored.data);
            if !same || stored.position != first.plus(index) || stored.place.position != record {
                return Ok(false);
            }
            from = Place::after(entry.place);
        }
        Ok(true)
    }
}

impl LookupResult {
    /// The result for a condition.
    ///
    /// # Errors
    /// When the look-up ended at this condition.
    fn before(&self, condition: usize) -> Result<ConditionMatch, Refusal> {
        match (self.met.get(condition), self.exceeded) {
            (Some(position), _) => Ok(ConditionMatch { up_to: self.up_to, position: *position }),
            (None, Some(steps_max)) => Err(Refusal::TooCostly { condition, steps_max }),
            (None, None) => unreachable!("every condition was looked up, or one exceeded the budget"),
        }
    }
}

/// Names the condition that exceeded the budget of the request.
fn of_condition(condition: usize, stop: Stop) -> Stop {
    match stop {
        Stop::Unreadable(ReadError { kind: ReadErrorKind::TooCostly { steps_max, .. }, .. }) => {
            Refusal::TooCostly { condition, steps_max }.into()
        }
        stop => stop,
    }
}

/// Whether an event has the same content as this one. Metadata is compared only for events without
/// ids, which have no other distinction. A client that repeats an append with its ids may give each
/// try other metadata, for tracing.
fn is_same<'t>(event: &NewEvent<'_>, event_type: &str, tags: impl Iterator<Item = &'t [u8]>, data: &[u8]) -> bool {
    let distinct = |tags: &mut Vec<&[u8]>| {
        tags.sort_unstable();
        tags.dedup();
    };
    let mut own: Vec<&[u8]> = event.tags.iter().map(|tag| &**tag).collect();
    let mut others: Vec<&[u8]> = tags.collect();
    distinct(&mut own);
    distinct(&mut others);
    event.event_type == event_type && *event.data == *data && own == others
}

fn appended(first: EventPosition, count: usize, duplicate: bool) -> AppendResult {
    AppendResult { first: Some(first), last: Some(first.plus(count - 1)), duplicate }
}

fn check_ids(events: &[NewEvent<'_>]) -> Result<(), Refusal> {
    let mut ids: Vec<EventId> = events.iter().filter_map(|event| event.id).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refusal::RepeatedId(pair[0])),
        None => Ok(()),
    }
}

/// Besides its own tags, an event has the tags of its store, its type and its id.
const TAGS_OF_EVERY_EVENT: usize = 3;

fn push_events(store: StoreNumber, first: EventPosition, events: &[NewEvent<'_>], effects: &mut dyn Effects) {
    let label_bytes = |event: &NewEvent<'_>| {
        event.event_type.len() + event.tags.iter().map(|tag| tag.len()).sum::<usize>() + size_of::<EventId>()
    };
    let mut list = events.first().map_or_else(TagList::default, |event| {
        TagList::with_room(event.tags.len() + TAGS_OF_EVERY_EVENT, label_bytes(event))
    });
    for (index, event) in events.iter().enumerate() {
        list.clear();
        list.push(Role::Store, store, b"");
        list.push(Role::Type, store, event.event_type.as_bytes());
        for tag in &event.tags {
            list.push(Role::Tag, store, tag);
        }
        if let Some(id) = event.id {
            list.push(Role::Id, store, id.as_bytes());
        }
        let head = encode_event_head(event.id, &event.metadata);
        let placed = list.with_slice(|tags| {
            effects.push(NewEntry {
                kind: EVENT_APPENDED,
                tags,
                sequenced: Some(SequenceRequest { origin: Sequence::new(1), count: 1 }),
                body: &[head.as_slice(), &event.metadata, &event.data],
            })
        });
        let expected = first.plus(index).sequence();
        assert_eq!(placed.sequence, Some(expected), "the log and the state agree on a store's last position");
    }
}
