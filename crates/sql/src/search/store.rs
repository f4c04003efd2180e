//! The event store of a text index: its end, and its deletions.

use quire::events::{EventPosition, EventView};
use quire::{Database, Operation, ReadView, Resource, ResourceKind, Result};

use super::index_file::IndexStamp;

/// The end of a store, and its last deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StoreMarks {
    /// The last position.
    pub(super) head: u64,
    /// The last position that was trimmed.
    pub(super) trimmed: u64,
    /// The last record that deleted events.
    pub(super) deleted_since: u64,
}

impl StoreMarks {
    /// Reads the marks of a store. All are zero for an unknown store.
    pub(super) fn of(database: &Database, store: &str) -> Result<Self> {
        read(database, store, |view| {
            let Some(number) = view.events.store(store) else { return Ok(StoreMarks::default()) };
            let head = view.events.head(view.history, store)?.get();
            let (trimmed, deleted) = (view.events.trimmed(number), view.events.deleted_since(number));
            Ok(StoreMarks { head, trimmed: trimmed.get(), deleted_since: deleted.get() })
        })
    }

    /// Returns whether an index with this stamp has all events, and no deleted ones.
    pub(super) fn is_covered_by(&self, stamp: &IndexStamp) -> bool {
        self.head == stamp.covered && self.are_erased_from(stamp)
    }

    /// Returns whether an index with this stamp has no deleted events.
    pub(super) fn are_erased_from(&self, stamp: &IndexStamp) -> bool {
        (self.trimmed, self.deleted_since) == (stamp.trimmed, stamp.deleted_since)
    }
}

/// Returns the forgotten tags of a store that delete events at a position or later, each with the
/// last one. These are all tags that were forgotten when the store had reached that position.
pub(super) fn forgotten_from(database: &Database, store: &str, from: u64) -> Result<Vec<(Vec<u8>, u64)>> {
    read(database, store, |view| {
        let number = view.events.store(store);
        let tags = number.into_iter().flat_map(|number| view.events.forgotten_tags(number));
        let tags = tags.filter(|(_, up_to)| up_to.get() >= from);
        Ok(tags.map(|(tag, up_to)| (tag.to_vec(), up_to.get())).collect())
    })
}

/// Passes those events of the positions that exist to `visit`.
pub(super) fn look_up(
    database: &Database,
    store: &str,
    positions: impl IntoIterator<Item = u64>,
    mut visit: impl FnMut(&EventView<'_>),
) -> Result<()> {
    read(database, store, |view| {
        for position in positions {
            if let Some(event) = view.events.event_at(view.history, store, EventPosition::new(position))? {
                visit(&event);
            }
        }
        Ok(())
    })
}

fn read<T>(database: &Database, store: &str, look: impl FnOnce(&ReadView<'_>) -> Result<T>) -> Result<T> {
    database.read_published_for(Resource::new(ResourceKind::Store, store), Operation::Read, look)?
}
