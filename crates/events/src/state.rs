//! The state: which stores there are, and the last position that each gave.
//!
//! It is a few bytes a store, whatever the stores hold: events and their index are the log's. The last positions are
//! for decisions, which see every appended record; what a reader may know of the head comes from its own history
//! ([`Reading::head`](crate::Reading::head)).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Place, Position, Timestamp};

use crate::codec::{
    EVENT_APPENDED, FORGOTTEN, PROJECTION_DROPPED, PROJECTION_SAVED, RETENTION_SET, Role, STORE_CREATED,
    SUBSCRIPTION_DROPPED, SUBSCRIPTION_MOVED, SUBSCRIPTION_PUT, TRIMMED, TagList, UPSTREAM_READ, label_of, store_of,
};
use crate::decide::Decision;
use crate::gone::Gone;
use crate::saved::{Saved, named_in, saved_in};
use crate::{Appended, Command, EventPosition, Prepared, Refusal, SavedProjection, Subscription, subscription};

/// The number of a store within its shard: 0, 1, 2, ... in the order of their creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreNumber(u32);

impl StoreNumber {
    /// The store with this number.
    pub const fn new(number: u32) -> Self {
        StoreNumber(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The bytes of the tag that the store's creation, what it lets go of, and for how long it keeps events stand under: to wait
    /// on for that.
    pub fn changes_tag(self) -> Box<[u8]> {
        TagList::of(Role::Name, self, b"").first().as_bytes().into()
    }
}

/// The event stores of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// By number.
    stores: Vec<Store>,
    by_name: BTreeMap<String, StoreNumber>,
    subscriptions: BTreeMap<String, Subscription>,
    /// The last record by which events of any store went.
    gone_since: Position,
    /// Of a store that is only being created.
    nothing_gone: Gone,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Store {
    name: String,
    /// The position of its last event, also when that event is gone by now.
    last: EventPosition,
    /// How far each source was read.
    upstreams: BTreeMap<String, u64>,
    projections: Saved,
    gone: Gone,
    /// How long its events are kept, in milliseconds.
    retention_ms: Option<u64>,
}

/// The version of the checkpoint.
const VERSION: u8 = 5;

impl Events {
    /// The stores by name, in the order of their names.
    pub fn stores(&self) -> impl Iterator<Item = (&str, StoreNumber)> {
        self.by_name.iter().map(|(name, number)| (name.as_str(), *number))
    }

    /// The number of the store with this name, or `None` when nothing was appended to it yet.
    pub fn store(&self, name: &str) -> Option<StoreNumber> {
        self.by_name.get(name).copied()
    }

    /// How many stores there are; also the number of the next one.
    pub(crate) fn store_count(&self) -> u32 {
        u32::try_from(self.stores.len()).expect("memory ends before the numbers of stores")
    }

    /// The position of the last event appended to the store; zero for one that is only being created.
    pub(crate) fn last(&self, store: StoreNumber) -> EventPosition {
        self.stores.get(store.0 as usize).map_or(EventPosition::ZERO, |store| store.last)
    }

    /// [`Model::decide`], with what was looked up before: the same answer, with less to walk through.
    ///
    /// # Errors
    /// As [`Model::decide`].
    pub fn decide_prepared(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        prepared: &Prepared,
        effects: &mut dyn Effects,
        replies: &mut Vec<Appended>,
    ) -> Result<(), Denied<Refusal>> {
        let mut decision = Decision::new(self, history, at);
        for (index, command) in commands.iter().enumerate() {
            let is_last = index + 1 == commands.len();
            let appended = match command {
                Command::Append(append) => decision.append(append, prepared.of(index), is_last, effects),
                Command::Upstream(upstream) => decision.upstream(upstream, effects),
                Command::Trim { store, up_to } => decision.trim(store, *up_to, effects),
                Command::Forget { store, tag } => decision.forget(store, tag, effects),
                Command::SetRetention { store, retention_ms } => decision.set_retention(store, *retention_ms, effects),
                Command::PutSubscription(put) => decision.put_subscription(put, effects),
                Command::MoveSubscription(moved) => decision.move_subscription(moved, effects),
                Command::DropSubscription { name } => decision.drop_subscription(name, effects),
                Command::SaveProjection(save) => decision.save_projection(save, effects),
                Command::DropProjection { store, name } => decision.drop_projection(store, name, effects),
            };
            replies.push(appended.map_err(|stop| stop.denied(index))?);
        }
        Ok(())
    }

    /// How far a store has read a source; `None` when it never has. See [`Upstream`](crate::Upstream).
    pub fn upstream(&self, store: &str, source: &str) -> Option<u64> {
        self.upstream_of(self.store(store)?, source)
    }

    /// The sources that a store reads from, by name, each with how far.
    pub fn sources(&self, store: StoreNumber) -> impl Iterator<Item = (&str, u64)> {
        let store = self.stores.get(store.0 as usize);
        store
            .into_iter()
            .flat_map(|store| store.upstreams.iter().map(|(source, position)| (source.as_str(), *position)))
    }

    /// The name of a store; `None` when there is none of this number.
    pub fn store_name(&self, store: StoreNumber) -> Option<&str> {
        Some(&self.stores.get(store.0 as usize)?.name)
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
        static NONE: Saved = Saved::new();
        let saved = self.stores.get(store.0 as usize).map_or(&NONE, |store| &store.projections);
        saved.iter().map(|(name, saved)| (name.as_str(), *saved))
    }

    /// The saved projection of this name in a store.
    pub fn projection(&self, store: &str, name: &str) -> Option<SavedProjection> {
        self.projection_of(self.store(store)?, name)
    }

    pub(crate) fn projection_of(&self, store: StoreNumber, name: &str) -> Option<SavedProjection> {
        self.stores.get(store.0 as usize)?.projections.get(name).copied()
    }

    /// How long the events of a store are kept, in milliseconds; `None` for ever.
    pub fn retention_ms(&self, store: StoreNumber) -> Option<u64> {
        self.stores.get(store.0 as usize)?.retention_ms
    }

    /// The position up to which events of a store were let go of.
    pub fn trimmed(&self, store: StoreNumber) -> EventPosition {
        self.gone(store).trimmed
    }

    pub(crate) fn gone(&self, store: StoreNumber) -> &Gone {
        self.stores.get(store.0 as usize).map_or(&self.nothing_gone, |store| &store.gone)
    }

    /// How many tags a store was told to forget.
    pub fn forgotten_count(&self, store: StoreNumber) -> usize {
        self.gone(store).forgotten_count()
    }

    /// The last record by which events went: a reading that was selected here may be told of only when that is kept, for otherwise they
    /// might come back.
    pub const fn gone_since(&self) -> Position {
        self.gone_since
    }

    /// The position of the last event that was appended to a store, published or not: for who decides whether there is anything to read.
    pub fn last_appended(&self, store: StoreNumber) -> EventPosition {
        self.last(store)
    }

    pub(crate) fn upstream_of(&self, store: StoreNumber, source: &str) -> Option<u64> {
        self.stores.get(store.0 as usize)?.upstreams.get(source).copied()
    }

    /// The store that an entry under its name is about, and what it says.
    fn store_in<'e>(&mut self, entry: &Entry<'e>) -> (&mut Store, &'e [u8]) {
        let store = entry.tags.first().and_then(store_of).expect("it stands under its store's name");
        (self.stores.get_mut(store.0 as usize).expect("a store is created first"), entry.body)
    }

    fn create(&mut self, name: String, last: EventPosition) {
        let number = StoreNumber(self.store_count());
        let before = self.by_name.insert(name.clone(), number);
        assert!(before.is_none(), "store {name} is created once");
        self.stores.push(Store { name, last, ..Store::default() });
    }
}

impl Model for Events {
    const ID: ModelId = ModelId::EVENTS;
    type Command<'c> = Command<'c>;
    type Reply = Appended;
    type Refusal = Refusal;

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Appended>,
    ) -> Result<(), Denied<Refusal>> {
        self.decide_prepared(history, at, commands, &Prepared::default(), effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            STORE_CREATED => {
                let name = core::str::from_utf8(entry.body).expect("a store's name is text");
                self.create(String::from(name), EventPosition::ZERO);
            }
            EVENT_APPENDED => {
                let store = entry.tags.first().and_then(store_of).expect("an event's first tag is its store's");
                let store = self.stores.get_mut(store.0 as usize).expect("a store is created before its events");
                store.last = entry.sequence.expect("an event takes a number of its store").into();
            }
            UPSTREAM_READ => {
                let (store, source, position) = upstream_in(entry);
                let store = self.stores.get_mut(store.0 as usize).expect("a store is created before it reads a source");
                store.upstreams.insert(String::from(source), position);
            }
            TRIMMED => {
                let (store, body) = self.store_in(entry);
                let position = body.try_into().map(u64::from_le_bytes).expect("its body is a position");
                store.gone.trim(EventPosition::new(position));
                store.gone.changed(entry.place.position, store.last);
                self.gone_since = entry.place.position;
            }
            FORGOTTEN => {
                let (store, body) = self.store_in(entry);
                let (up_to, tag) = body.split_first_chunk().expect("its body begins with a position");
                store.gone.forget(tag, EventPosition::new(u64::from_le_bytes(*up_to)));
                store.gone.changed(entry.place.position, store.last);
                self.gone_since = entry.place.position;
            }
            RETENTION_SET => {
                let (store, body) = self.store_in(entry);
                let ms = body.try_into().map(u64::from_le_bytes).expect("its body is a number");
                store.retention_ms = (ms != u64::MAX).then_some(ms);
            }
            SUBSCRIPTION_PUT => {
                let (store, name) = subscription_in(entry);
                let subscription = subscription::decode(store, &mut Decoder::new(entry.body));
                self.subscriptions
                    .insert(String::from(name), subscription.expect("the log verified the body of a subscription"));
            }
            SUBSCRIPTION_MOVED => {
                let (_, name) = subscription_in(entry);
                let position = entry.body.try_into().map(u64::from_le_bytes).expect("its body is a position");
                let subscription = self.subscriptions.get_mut(name).expect("a subscription is put before it moves");
                subscription.position = EventPosition::new(position);
            }
            SUBSCRIPTION_DROPPED => {
                let (_, name) = subscription_in(entry);
                self.subscriptions.remove(name).expect("a subscription is put before it is dropped");
            }
            PROJECTION_SAVED => {
                let (store, name, saved) = saved_in(entry).expect("the log verified the body of a projection");
                let store = self.stores.get_mut(store.0 as usize).expect("a store is created before its projections");
                store.projections.insert(String::from(name), saved);
            }
            PROJECTION_DROPPED => {
                let (store, name) = named_in(entry);
                let store = self.stores.get_mut(store.0 as usize).expect("a store is created before its projections");
                store.projections.remove(name).expect("a projection is saved before it is dropped");
            }
            kind => panic!("an events entry of the unknown kind {}", kind.kind),
        }
    }

    /// Events are kept until they are gone; of how far a source was read and of a projection, the last word counts. Where a subscription is, and that
    /// something was dropped, nobody reads from the log: the checkpoint has it.
    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        match entry.kind {
            UPSTREAM_READ => {
                let (store, source, position) = upstream_in(entry);
                self.upstream_of(store, source) == Some(position)
            }
            PROJECTION_SAVED => {
                let (store, name) = named_in(entry);
                self.projection_of(store, name).is_some_and(|saved| saved.place == entry.place)
            }
            SUBSCRIPTION_PUT | SUBSCRIPTION_MOVED | SUBSCRIPTION_DROPPED | PROJECTION_DROPPED => false,
            TRIMMED | FORGOTTEN | RETENTION_SET => false,
            EVENT_APPENDED => {
                let store = entry.tags.first().and_then(store_of).expect("an event's first tag is its store's");
                !self.gone(store).has(entry)
            }
            _ => true,
        }
    }

    /// Version 5, then the stores in the order of their numbers, then the subscriptions:
    ///
    /// ```text
    /// 5 │ n, n × (name, last position, m, m × (source, position in it), retention, gone, m, m × (projection, version, position, place 8 + 4))
    ///   │ n, n × (name, store 4, as in an entry)
    /// ```
    fn save(&self, out: &mut Encoder) {
        out.u8(VERSION).varint(self.stores.len() as u64);
        for store in &self.stores {
            out.str(&store.name).varint(store.last.get()).varint(store.upstreams.len() as u64);
            for (source, position) in &store.upstreams {
                out.str(source).varint(*position);
            }
            out.varint(store.retention_ms.map_or(0, |ms| ms.saturating_add(1)));
            store.gone.save(out);
            out.varint(store.projections.len() as u64);
            for (name, saved) in &store.projections {
                out.str(name).varint(u64::from(saved.version)).varint(saved.position.get());
                out.u64(saved.place.position.get()).u32(saved.place.index);
            }
        }
        subscription::save(&self.subscriptions, out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        if from.u8()? != VERSION {
            return Err(unlike("version 5 of the event stores", from));
        }
        let mut events = Events::default();
        for _ in 0..from.varint_u32()? {
            let name = from.string()?;
            if events.by_name.contains_key(&name) {
                return Err(unlike("the name of another store", from));
            }
            let last = EventPosition::new(from.varint()?);
            events.create(name, last);
            let mut upstreams = BTreeMap::new();
            for _ in 0..from.varint()? {
                if upstreams.insert(from.string()?, from.varint()?).is_some() {
                    return Err(unlike("the name of another source", from));
                }
            }
            let retention_ms = from.varint()?.checked_sub(1);
            let gone = Gone::load(from)?;
            let mut projections = Saved::new();
            for _ in 0..from.varint()? {
                let (name, version, position) =
                    (from.string()?, from.varint_u32()?, EventPosition::new(from.varint()?));
                let place = Place::new(Position::new(from.u64()?), from.u32()?);
                if projections.insert(name, SavedProjection { version, position, place }).is_some() {
                    return Err(unlike("the name of another projection", from));
                }
            }
            events.gone_since = events.gone_since.max(gone.since);
            let store = events.stores.last_mut().expect("it was just created");
            (store.upstreams, store.projections) = (upstreams, projections);
            (store.gone, store.retention_ms) = (gone, retention_ms);
        }
        for _ in 0..from.varint()? {
            let (name, store) = (from.string()?, StoreNumber(from.u32()?));
            if store.0 >= events.store_count() {
                return Err(unlike("the number of a store", from));
            }
            if events.subscriptions.insert(name, subscription::decode(store, from)?).is_some() {
                return Err(unlike("the name of another subscription", from));
            }
        }
        Ok(events)
    }
}

/// What an entry says of how far a source was read.
fn upstream_in<'e>(entry: &Entry<'e>) -> (StoreNumber, &'e str, u64) {
    let tag = entry.tags.first().expect("it stands under its source's tag");
    let source = label_of(tag, Role::Source).and_then(|source| core::str::from_utf8(source).ok());
    let position = entry.body.try_into().map(u64::from_le_bytes).expect("its body is a position");
    let store = store_of(tag).expect("it stands under its source's tag");
    (store, source.expect("a source's name is text"), position)
}

/// The subscription that an entry is about.
fn subscription_in<'e>(entry: &Entry<'e>) -> (StoreNumber, &'e str) {
    let tag = entry.tags.first().expect("it stands under its subscription's tag");
    let name = label_of(tag, Role::Subscription).and_then(|name| core::str::from_utf8(name).ok());
    (store_of(tag).expect("it stands under its subscription's tag"), name.expect("a subscription's name is text"))
}

fn unlike(expected: &'static str, from: &Decoder<'_>) -> CodecError {
    CodecError { expected, bytes_left: from.clone().rest().len() }
}
