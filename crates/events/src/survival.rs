//! The entries that still count.

use quire_model::Entry;

use crate::Events;
use crate::apply::upstream_in;
use crate::codec::{
    EVENT_APPENDED, FORGOTTEN, PROJECTION_DROPPED, PROJECTION_SAVED, RETENTION_SET, SUBSCRIPTION_DROPPED,
    SUBSCRIPTION_MOVED, SUBSCRIPTION_PUT, TRIMMED, UPSTREAM_READ, store_of,
};
use crate::saved::named_in;

impl Events {
    /// Events are kept until they are deleted. Of an upstream position and of a projection, only
    /// the last entry counts. Subscription positions and drops are in the checkpoint, and no reader
    /// needs their entries.
    pub(crate) fn still_counts(&self, entry: &Entry<'_>) -> bool {
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
}
