//! The facts of an entry about its store, for readers that show whole commits.

use quire_model::Entry;

use crate::codec::{self, Role};
use crate::{EventView, Events};

/// An entry of the model. See [`Events::store_entry`].
#[derive(Debug, Clone, Copy)]
pub struct StoreEntry<'s, 'h> {
    /// The name of the store; `None` for an unknown store.
    pub store: Option<&'s str>,
    /// The event, when the entry is one. `None` for a deleted event, whose bytes the log may still
    /// have.
    pub event: Option<EventView<'h>>,
    /// The name of the subscription, the projection or the source that the entry changes.
    pub label: Option<&'h str>,
}

impl Events {
    /// Returns the facts of an entry of this model.
    pub fn store_entry<'s, 'h>(&'s self, entry: &Entry<'h>) -> StoreEntry<'s, 'h> {
        let tag = entry.tags.first();
        let label = tag.and_then(|tag| {
            let roles = [Role::Subscription, Role::Projection, Role::Source];
            roles.into_iter().find_map(|role| codec::label_of(tag, role))
        });
        let store = tag.and_then(codec::store_of);
        let is_deleted = store.is_some_and(|store| self.gone(store).has(entry));
        StoreEntry {
            store: store.and_then(|store| self.store_name(store)),
            event: EventView::of(entry).filter(|_| !is_deleted),
            label: label.and_then(|label| core::str::from_utf8(label).ok()),
        }
    }
}
