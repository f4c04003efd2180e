//! Entries into the state.

use alloc::string::String;

use quire_model::Entry;

use crate::codec::{
    EVENT_APPENDED, FORGOTTEN, PROJECTION_DROPPED, PROJECTION_SAVED, RETENTION_SET, Role, STORE_CREATED,
    SUBSCRIPTION_DROPPED, SUBSCRIPTION_MOVED, SUBSCRIPTION_PUT, TRIMMED, UPSTREAM_READ, label_of, store_of,
};
use crate::memory::{forgotten_memory, projection_memory, source_memory};
use crate::saved::{named_in, saved_in};
use crate::state::Store;
use crate::{EventPosition, Events, StoreNumber, subscription};

impl Events {
    pub(crate) fn apply_entry(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            STORE_CREATED => {
                let name = core::str::from_utf8(entry.body).expect("a store's name is text");
                self.create(String::from(name), EventPosition::ZERO);
            }
            EVENT_APPENDED => {
                let store = entry.tags.first().and_then(store_of).expect("an event's first tag is its store's");
                let store = self.stores.get_mut(store.get() as usize).expect("a store is created before its events");
                store.last = entry.sequence.expect("an event takes a number of its store").into();
            }
            UPSTREAM_READ => {
                let (store, source, position) = upstream_in(entry);
                let store =
                    self.stores.get_mut(store.get() as usize).expect("a store is created before it reads a source");
                if store.upstreams.insert(String::from(source), position).is_none() {
                    self.named_bytes += source_memory(source);
                }
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
                let more = if store.gone.knows(tag) { 0 } else { forgotten_memory(tag) };
                store.gone.forget(tag, EventPosition::new(u64::from_le_bytes(*up_to)));
                store.gone.changed(entry.place.position, store.last);
                self.gone_since = entry.place.position;
                self.named_bytes += more;
            }
            RETENTION_SET => {
                let (store, body) = self.store_in(entry);
                let ms = body.try_into().map(u64::from_le_bytes).expect("its body is a number");
                store.retention_ms = (ms != u64::MAX).then_some(ms);
            }
            SUBSCRIPTION_PUT => {
                let (store, name) = subscription_in(entry);
                let subscription = subscription::decode_entry(store, entry.body);
                let subscription = subscription.expect("the log verified the body of a subscription");
                self.named_bytes += subscription.memory(name);
                if let Some(before) = self.subscriptions.insert(String::from(name), subscription) {
                    self.named_bytes -= before.memory(name);
                }
            }
            SUBSCRIPTION_MOVED => {
                let (_, name) = subscription_in(entry);
                let position = entry.body.try_into().map(u64::from_le_bytes).expect("its body is a position");
                let subscription = self.subscriptions.get_mut(name).expect("a subscription is put before it moves");
                subscription.position = EventPosition::new(position);
            }
            SUBSCRIPTION_DROPPED => {
                let (_, name) = subscription_in(entry);
                let dropped = self.subscriptions.remove(name).expect("a subscription is put before it is dropped");
                self.named_bytes -= dropped.memory(name);
            }
            PROJECTION_SAVED => {
                let (store, name, saved) = saved_in(entry).expect("the log verified the body of a projection");
                let store =
                    self.stores.get_mut(store.get() as usize).expect("a store is created before its projections");
                if store.projections.insert(String::from(name), saved).is_none() {
                    self.named_bytes += projection_memory(name);
                }
            }
            PROJECTION_DROPPED => {
                let (store, name) = named_in(entry);
                let store =
                    self.stores.get_mut(store.get() as usize).expect("a store is created before its projections");
                store.projections.remove(name).expect("a projection is saved before it is dropped");
                self.named_bytes -= projection_memory(name);
            }
            kind => panic!("an events entry of the unknown kind {}", kind.kind),
        }
    }

    /// The store and the text of an entry under a name: of a subscription, a source or a
    /// projection.
    fn store_in<'e>(&mut self, entry: &Entry<'e>) -> (&mut Store, &'e [u8]) {
        let store = entry.tags.first().and_then(store_of).expect("its tag is its store's name");
        (self.stores.get_mut(store.get() as usize).expect("a store is created first"), entry.body)
    }
}

/// Reads how far a source was read from an entry.
pub(crate) fn upstream_in<'e>(entry: &Entry<'e>) -> (StoreNumber, &'e str, u64) {
    let tag = entry.tags.first().expect("its tag is its source's");
    let source = label_of(tag, Role::Source).and_then(|source| core::str::from_utf8(source).ok());
    let position = entry.body.try_into().map(u64::from_le_bytes).expect("its body is a position");
    let store = store_of(tag).expect("its tag is its source's");
    (store, source.expect("a source's name is text"), position)
}

/// The subscription that an entry is about.
fn subscription_in<'e>(entry: &Entry<'e>) -> (StoreNumber, &'e str) {
    let tag = entry.tags.first().expect("its tag is its subscription's");
    let name = label_of(tag, Role::Subscription).and_then(|name| core::str::from_utf8(name).ok());
    (store_of(tag).expect("its tag is its subscription's"), name.expect("a subscription's name is text"))
}
