//! The changes that earlier commands of a commit have made, visible to later ones only.
//!
//! It borrows the commands' events rather than copying them. It keeps no index: a condition scans
//! every pending event of its store, and a commit has few.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::Timestamp;

use crate::gone::DeletedEvents;
use crate::{EventId, EventPosition, Events, NewEvent, Query, StoreNumber};

/// The new stores and events of the commit up to now.
#[derive(Debug, Default)]
pub(crate) struct Draft<'a> {
    created: Vec<(&'a str, StoreNumber)>,
    runs: Vec<EventRun<'a>>,
    by_id: BTreeMap<(StoreNumber, EventId), EventPosition>,
    upstreams: BTreeMap<(StoreNumber, &'a str), u64>,
    /// The deleted events of stores in which this commit deletes some.
    pub(crate) gone: BTreeMap<StoreNumber, DeletedEvents>,
    /// The store and the position of each changed subscription; `None` for a deleted one.
    pub(crate) subscriptions: BTreeMap<&'a str, Option<(StoreNumber, EventPosition)>>,
    /// The memory of each subscription that the commit puts.
    pub(crate) put_bytes: BTreeMap<&'a str, u64>,
    /// The version and the position of each changed projection; `None` for a dropped one.
    projections: BTreeMap<(StoreNumber, &'a str), Option<(u32, EventPosition)>>,
    /// The number of projections of stores whose projections this commit changes.
    projection_counts: BTreeMap<StoreNumber, usize>,
}

/// Events that one command appended.
#[derive(Debug, Clone, Copy)]
struct EventRun<'a> {
    store: StoreNumber,
    first: EventPosition,
    events: &'a [NewEvent<'a>],
}

impl<'a> Draft<'a> {
    /// The number of a store, created before the commit or in it.
    pub(crate) fn store(&self, state: &Events, name: &str) -> Option<StoreNumber> {
        let created = || self.created.iter().find(|(own, _)| *own == name).map(|(_, number)| *number);
        state.store(name).or_else(created)
    }

    /// Gives a store its number.
    pub(crate) fn create(&mut self, state: &Events, name: &'a str) -> StoreNumber {
        let pending = u32::try_from(self.created.len()).expect("a commit creates few stores");
        let number = StoreNumber::new(state.store_count() + pending);
        self.created.push((name, number));
        number
    }

    /// Returns the position up to which a source was read, this commit included.
    pub(crate) fn upstream(&self, state: &Events, store: StoreNumber, source: &'a str) -> Option<u64> {
        self.upstreams.get(&(store, source)).copied().or_else(|| state.upstream_of(store, source))
    }

    /// Returns the number of sources of the store.
    pub(crate) fn source_count(&self, state: &Events, store: StoreNumber) -> usize {
        let own =
            self.upstreams.keys().filter(|(own, source)| *own == store && state.upstream_of(store, source).is_none());
        state.sources(store).count() + own.count()
    }

    /// Notes the position up to which a source was read.
    pub(crate) fn read_upstream(&mut self, store: StoreNumber, source: &'a str, position: u64) {
        self.upstreams.insert((store, source), position);
    }

    /// Returns the store and the position of a subscription, this commit included.
    pub(crate) fn subscription(&self, state: &Events, name: &str) -> Option<(StoreNumber, EventPosition)> {
        match self.subscriptions.get(name) {
            Some(known) => *known,
            None => state.subscription(name).map(|found| (found.store, found.position)),
        }
    }

    /// Returns the memory of a subscription, this commit included; zero when there is none.
    pub(crate) fn subscription_bytes(&self, state: &Events, name: &str) -> u64 {
        if self.subscription(state, name).is_none() {
            return 0;
        }
        let stored = || state.subscription(name).map_or(0, |stored| stored.memory(name));
        self.put_bytes.get(name).copied().unwrap_or_else(stored)
    }

    /// Returns the number of subscriptions.
    pub(crate) fn subscription_count(&self, state: &Events) -> usize {
        let there = |name: &str| state.subscription(name).is_some();
        let came = self.subscriptions.iter().filter(|(name, known)| known.is_some() && !there(name)).count();
        let went = self.subscriptions.iter().filter(|(name, known)| known.is_none() && there(name)).count();
        state.subscriptions().len() + came - went
    }

    /// Returns the version of a projection's state, and the position up to which it was folded,
    /// this commit included.
    pub(crate) fn projection(&self, state: &Events, store: StoreNumber, name: &'a str) -> Option<(u32, EventPosition)> {
        match self.projections.get(&(store, name)) {
            Some(known) => *known,
            None => state.projection_of(store, name).map(|saved| (saved.version, saved.position)),
        }
    }

    /// Returns the number of projections of a store.
    pub(crate) fn projection_count(&self, state: &Events, store: StoreNumber) -> usize {
        self.projection_counts.get(&store).copied().unwrap_or_else(|| state.projections(store).len())
    }

    /// Notes a saved or dropped projection.
    pub(crate) fn keep_projection(
        &mut self,
        state: &Events,
        store: StoreNumber,
        name: &'a str,
        kept: Option<(u32, EventPosition)>,
    ) {
        let (was, is) = (self.projection(state, store, name).is_some(), kept.is_some());
        let count = self.projection_count(state, store) + usize::from(is) - usize::from(was);
        self.projection_counts.insert(store, count);
        self.projections.insert((store, name), kept);
    }

    /// Notes the events that a command appended.
    pub(crate) fn append(
        &mut self,
        store: StoreNumber,
        first: EventPosition,
        time: Timestamp,
        events: &'a [NewEvent<'a>],
    ) {
        for (index, event) in events.iter().enumerate() {
            let position = first.plus(index);
            let id = event.id.unwrap_or_else(|| EventId::derived(store, position, time));
            self.by_id.insert((store, id), position);
        }
        self.runs.push(EventRun { store, first, events });
    }

    /// The last position of the store, including pending events.
    pub(crate) fn last(&self, state: &Events, store: StoreNumber) -> EventPosition {
        let run = self.runs.iter().rev().find(|run| run.store == store);
        run.map_or_else(|| state.last(store), |run| EventPosition::new(run.first.get() - 1).plus(run.events.len()))
    }

    /// Returns the position of the pending event with this id.
    pub(crate) fn position_of(&self, store: StoreNumber, id: EventId) -> Option<EventPosition> {
        self.by_id.get(&(store, id)).copied()
    }

    /// The pending events of a store, in order.
    pub(crate) fn events(
        &self,
        store: StoreNumber,
    ) -> impl DoubleEndedIterator<Item = (EventPosition, &'a NewEvent<'a>)> {
        let of_store = self.runs.iter().filter(move |run| run.store == store);
        of_store.flat_map(|run| {
            let first = run.first;
            run.events.iter().enumerate().map(move |(index, event)| (first.plus(index), event))
        })
    }

    /// The first pending match after `after`.
    pub(crate) fn first_match(
        &self,
        store: StoreNumber,
        query: &Query<'_>,
        after: EventPosition,
    ) -> Option<EventPosition> {
        let found = |(position, event): &(EventPosition, &NewEvent<'_>)| *position > after && query.matches_new(event);
        self.events(store).find(found).map(|(position, _)| position)
    }

    /// The last pending match.
    pub(crate) fn last_match(&self, store: StoreNumber, query: &Query<'_>) -> Option<EventPosition> {
        self.events(store).rev().find(|(_, event)| query.matches_new(event)).map(|(position, _)| position)
    }
}
