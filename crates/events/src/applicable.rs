//! Whether the state holds everything that an entry refers to: after records were lost, it may not.

use quire_model::{Entry, EntryKind};

use crate::codec::{
    EVENT_APPENDED, FORGOTTEN, PROJECTION_DROPPED, PROJECTION_SAVED, RETENTION_SET, Role, STORE_CREATED,
    SUBSCRIPTION_DROPPED, SUBSCRIPTION_MOVED, SUBSCRIPTION_PUT, TRIMMED, UPSTREAM_READ, label_of, store_of,
};
use crate::state::Store;
use crate::{Events, subscription};

/// The message for a body or tag that does not decode.
const UNREADABLE: &str = "this program can't read the entry";

const NUMBER_BYTES: usize = size_of::<u64>();

impl Events {
    /// See [`Model::check_applicable`](quire_model::Model::check_applicable).
    pub(crate) fn applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let tag = entry.tags.first().ok_or(UNREADABLE)?;
        let number = store_of(tag).ok_or(UNREADABLE)?;
        if entry.kind == STORE_CREATED {
            let name = core::str::from_utf8(entry.body).map_err(|_| UNREADABLE)?;
            return match (number.get() == self.store_count(), self.store(name)) {
                (true, None) => Ok(()),
                (false, None) => Err("the creation of a store before it is lost"),
                (_, Some(_)) => Err("a store of this name exists"),
            };
        }
        let store = self.stores.get(number.get() as usize).ok_or("its store is unknown")?;
        match entry.kind {
            EVENT_APPENDED => {
                let number = entry.sequence.ok_or(UNREADABLE)?;
                (store.last < number.into()).then_some(()).ok_or("a later event of its store exists")
            }
            UPSTREAM_READ => {
                label(entry, Role::Source)?;
                has_bytes(entry, NUMBER_BYTES)
            }
            TRIMMED | RETENTION_SET => has_bytes(entry, NUMBER_BYTES),
            FORGOTTEN => (entry.body.len() >= NUMBER_BYTES).then_some(()).ok_or(UNREADABLE),
            SUBSCRIPTION_PUT => {
                label(entry, Role::Subscription)?;
                subscription::decode_entry(number, entry.body).map_or(Err(UNREADABLE), |_| Ok(()))
            }
            SUBSCRIPTION_MOVED | SUBSCRIPTION_DROPPED => {
                let name = label(entry, Role::Subscription)?;
                if entry.kind == SUBSCRIPTION_MOVED {
                    has_bytes(entry, NUMBER_BYTES)?;
                }
                self.subscription(name).map_or(Err("its subscription is unknown"), |_| Ok(()))
            }
            kind => projection_applicable(store, entry, kind),
        }
    }
}

fn projection_applicable(store: &Store, entry: &Entry<'_>, kind: EntryKind) -> Result<(), &'static str> {
    let name = label(entry, Role::Projection)?;
    match kind {
        PROJECTION_SAVED => crate::saved::saved_in(entry).map_or(Err(UNREADABLE), |_| Ok(())),
        PROJECTION_DROPPED if store.projections.contains_key(name) => Ok(()),
        PROJECTION_DROPPED => Err("its projection is unknown"),
        _ => Err(UNREADABLE),
    }
}

fn label<'e>(entry: &Entry<'e>, role: Role) -> Result<&'e str, &'static str> {
    let label = entry.tags.first().and_then(|tag| label_of(tag, role));
    label.and_then(|label| core::str::from_utf8(label).ok()).ok_or(UNREADABLE)
}

fn has_bytes(entry: &Entry<'_>, bytes: usize) -> Result<(), &'static str> {
    (entry.body.len() == bytes).then_some(()).ok_or(UNREADABLE)
}
