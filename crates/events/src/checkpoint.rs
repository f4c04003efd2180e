//! The state as bytes.

use alloc::collections::BTreeMap;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position};

use crate::gone::DeletedEvents;
use crate::memory::{forgotten_memory, projection_memory, source_memory};
use crate::saved::ProjectionMap;
use crate::{EventPosition, Events, SavedProjection, StoreNumber, subscription};

/// The version of the checkpoint.
const VERSION: u8 = 6;

impl Events {
    /// Version 6, then the stores in the order of their numbers, then the subscriptions:
    ///
    /// ```text
    /// 6 │ n, n × (name, last position, m, m × (source, position in it), retention, gone, m, m × (projection, version, position, place 8 + 4))
    ///   │ n, n × (name, store 4, as in an entry without its creator, creator u8, creator if 1)
    /// ```
    pub(crate) fn save_to(&self, out: &mut Encoder) {
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

    pub(crate) fn load_from(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        if from.u8()? != VERSION {
            return Err(unlike("version 6 of the event stores", from));
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
            let gone = DeletedEvents::load(from)?;
            let mut projections = ProjectionMap::new();
            for _ in 0..from.varint()? {
                let (name, version, position) =
                    (from.string()?, from.varint_u32()?, EventPosition::new(from.varint()?));
                let place = Place::new(Position::new(from.u64()?), from.u32()?);
                if projections.insert(name, SavedProjection { version, position, place }).is_some() {
                    return Err(unlike("the name of another projection", from));
                }
            }
            events.gone_since = events.gone_since.max(gone.since);
            events.named_bytes += upstreams.keys().map(|source| source_memory(source)).sum::<u64>()
                + gone.forgotten().map(forgotten_memory).sum::<u64>()
                + projections.keys().map(|name| projection_memory(name)).sum::<u64>();
            let store = events.stores.last_mut().expect("it was just created");
            (store.upstreams, store.projections) = (upstreams, projections);
            (store.gone, store.retention_ms) = (gone, retention_ms);
        }
        for _ in 0..from.varint()? {
            let (name, store) = (from.string()?, StoreNumber::new(from.u32()?));
            if store.get() >= events.store_count() {
                return Err(unlike("the number of a store", from));
            }
            let subscription = subscription::load(store, from)?;
            events.named_bytes += subscription.memory(&name);
            if events.subscriptions.insert(name, subscription).is_some() {
                return Err(unlike("the name of another subscription", from));
            }
        }
        Ok(events)
    }
}

fn unlike(expected: &'static str, from: &Decoder<'_>) -> CodecError {
    CodecError { expected, bytes_left: from.clone().rest().len() }
}
