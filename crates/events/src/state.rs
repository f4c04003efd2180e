//! The state: which stores there are, and the last position that each gave.
//!
//! It takes a few bytes for each store, whatever its size: the log has the events and their index.
//! The last positions are for decisions, which see every appended record. A reader takes the head
//! from its own history ([`SelectedEvents::head`](crate::SelectedEvents::head)).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use quire_model::{DottedNames, Position, Sequence, Tag};

use crate::codec::{Role, TagList, label_of, store_of};
use crate::gone::DeletedEvents;
use crate::saved::ProjectionMap;
use crate::{EventPosition, SavedProjection, StoreNumber, Subscription};

/// The event stores of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// By number.
    pub(crate) stores: Vec<Store>,
    pub(crate) by_name: BTreeMap<String, StoreNumber>,
    pub(crate) dotted: DottedNames,
    pub(crate) subscriptions: BTreeMap<String, Subscription>,
    /// The last record by which events of any store went.
    pub(crate) gone_since: Position,
    /// The memory of all sources, projections, forgotten tags and subscriptions.
    pub(crate) named_bytes: u64,
    /// The deleted events of a store that this commit creates: none.
    pub(crate) nothing_gone: DeletedEvents,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) name: String,
    /// The position of its last event, deleted or not.
    pub(crate) last: EventPosition,
    /// The position up to which each source was read.
    pub(crate) upstreams: BTreeMap<String, u64>,
    pub(crate) projections: ProjectionMap,
    pub(crate) gone: DeletedEvents,
    /// The time that events are kept, in milliseconds.
    pub(crate) retention_ms: Option<u64>,
}

impl Events {
    /// The stores by name, in the order of their names.
    pub fn stores(&self) -> impl Iterator<Item = (&str, StoreNumber)> {
        self.by_name.iter().map(|(name, number)| (name.as_str(), *number))
    }

    /// The stores from `name` on, which need not exist. Callers that list many stores ask for a few
    /// at a time.
    pub fn stores_from(&self, name: &str) -> impl Iterator<Item = (&str, StoreNumber)> {
        let from = self.by_name.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        from.map(|(name, number)| (name.as_str(), *number))
    }

    /// The number of the store with this name, or `None` when nothing was appended to it yet.
    pub fn store(&self, name: &str) -> Option<StoreNumber> {
        self.by_name.get(name).copied()
    }

    /// The stores whose names have this dotted form (`air.flights` for `air/flights`), in the order
    /// of their names.
    pub fn stores_dotted(&self, form: &str) -> impl Iterator<Item = (&str, StoreNumber)> {
        // A name is less than each other name of which it is the form.
        let own = self.by_name.get_key_value(form).map(|(name, _)| name.as_str()).filter(|name| !name.contains('/'));
        let names = own.into_iter().chain(self.dotted.of(form));
        names.filter_map(|name| Some((name, self.store(name)?)))
    }

    /// The number of stores.
    pub fn count(&self) -> u64 {
        self.stores.len() as u64
    }

    /// Returns the number of stores, which is also the number of the next one.
    pub(crate) fn store_count(&self) -> u32 {
        u32::try_from(self.stores.len()).expect("fewer than four billion stores")
    }

    /// The position of the last event appended to the store; zero for one that is only being
    /// created.
    pub(crate) fn last(&self, store: StoreNumber) -> EventPosition {
        self.stores.get(store.get() as usize).map_or(EventPosition::ZERO, |store| store.last)
    }

    /// Returns the position up to which a store has read a source; `None` when it never has. See
    /// [`Upstream`](crate::Upstream).
    pub fn upstream(&self, store: &str, source: &str) -> Option<u64> {
        self.upstream_of(self.store(store)?, source)
    }

    /// The sources that a store reads from, by name, each with how far.
    pub fn sources(&self, store: StoreNumber) -> impl Iterator<Item = (&str, u64)> {
        let store = self.stores.get(store.get() as usize);
        store
            .into_iter()
            .flat_map(|store| store.upstreams.iter().map(|(source, position)| (source.as_str(), *position)))
    }

    /// The name of the store with this number; `None` when no store has it.
    pub fn store_name(&self, store: StoreNumber) -> Option<&str> {
        Some(&self.stores.get(store.get() as usize)?.name)
    }

    /// The named subscriptions, by name.
    pub fn subscriptions(&self) -> impl ExactSizeIterator<Item = (&str, &Subscription)> {
        self.subscriptions.iter().map(|(name, subscription)| (name.as_str(), subscription))
    }

    /// The subscription of this name.
    pub fn subscription(&self, name: &str) -> Option<&Subscription> {
        self.subscriptions.get(name)
    }

    /// The saved projections of a store, by name.
    pub fn projections(&self, store: StoreNumber) -> impl ExactSizeIterator<Item = (&str, SavedProjection)> {
        static NONE: ProjectionMap = ProjectionMap::new();
        let saved = self.stores.get(store.get() as usize).map_or(&NONE, |store| &store.projections);
        saved.iter().map(|(name, saved)| (name.as_str(), *saved))
    }

    /// The saved projection of this name in a store.
    pub fn projection(&self, store: &str, name: &str) -> Option<SavedProjection> {
        self.projection_of(self.store(store)?, name)
    }

    pub(crate) fn projection_of(&self, store: StoreNumber, name: &str) -> Option<SavedProjection> {
        self.stores.get(store.get() as usize)?.projections.get(name).copied()
    }

    /// Returns the time that a store keeps its events, in milliseconds; `None` means forever.
    pub fn retention_ms(&self, store: StoreNumber) -> Option<u64> {
        self.stores.get(store.get() as usize)?.retention_ms
    }

    /// The position up to which events of a store were trimmed.
    pub fn trimmed(&self, store: StoreNumber) -> EventPosition {
        self.gone(store).trimmed
    }

    pub(crate) fn gone(&self, store: StoreNumber) -> &DeletedEvents {
        self.stores.get(store.get() as usize).map_or(&self.nothing_gone, |store| &store.gone)
    }

    /// The number of forgotten tags of a store.
    pub fn forgotten_count(&self, store: StoreNumber) -> usize {
        self.gone(store).forgotten_count()
    }

    /// The forgotten tags of a store, each with the last position whose events it deletes.
    pub fn forgotten_tags(&self, store: StoreNumber) -> impl Iterator<Item = (&[u8], EventPosition)> {
        self.gone(store).forgotten_up_to_each()
    }

    /// The last record that deleted events of a store; zero for none.
    pub fn deleted_since(&self, store: StoreNumber) -> Position {
        self.gone(store).since
    }

    /// The last record that deleted events. An answer from a selection made here must wait until
    /// that record is durable, because a crash could bring the events back.
    pub const fn gone_since(&self) -> Position {
        self.gone_since
    }

    /// The position of the last event appended to a store, published or not: to check whether there
    /// is anything to read.
    pub fn last_appended(&self, store: StoreNumber) -> EventPosition {
        self.last(store)
    }

    /// The tag of each store, and the number that its next event gets.
    pub fn numbers_reached(&self) -> impl Iterator<Item = (Box<[u8]>, Sequence)> {
        let all = (0..).map(StoreNumber::new).zip(&self.stores);
        all.map(|(number, store)| {
            let tags = TagList::of(Role::Store, number, b"");
            (tags.first().as_bytes().into(), Sequence::new(store.last.get() + 1))
        })
    }

    /// Adopts the number `next` that a log gives to the next event of this tag after records were
    /// lost, if the tag is a store's. A store's last position and its tag's numbers must agree.
    /// Returns the number that the log must give instead: the first, when the store itself is
    /// lost.
    pub fn settle_number(&mut self, tag: Tag<'_>, next: Sequence) -> Option<Sequence> {
        label_of(tag, Role::Store)?;
        match self.stores.get_mut(store_of(tag)?.get() as usize) {
            Some(store) => {
                store.last = store.last.max(EventPosition::new(next.get().saturating_sub(1)));
                None
            }
            None => Some(Sequence::new(1)),
        }
    }

    pub(crate) fn upstream_of(&self, store: StoreNumber, source: &str) -> Option<u64> {
        self.stores.get(store.get() as usize)?.upstreams.get(source).copied()
    }

    pub(crate) fn create(&mut self, name: String, last: EventPosition) {
        let number = StoreNumber::new(self.store_count());
        let before = self.by_name.insert(name.clone(), number);
        assert!(before.is_none(), "store {name} is created once");
        self.dotted.add(&Arc::from(name.as_str()));
        self.stores.push(Store { name, last, ..Store::default() });
    }
}
