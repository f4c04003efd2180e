//! Statistics of an event store: its contents and its limits.

use quire_model::Operation;

use crate::ReadView;
use crate::events::EventPosition;
use crate::handles::events::EventStore;
use crate::{Error, ErrorKind, Result};

/// Statistics of an event store. See [`EventStore::statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// The position of the last event, even if that event was deleted.
    pub head: EventPosition,
    /// The last position deleted by a trim or by the retention.
    pub trimmed: EventPosition,
    /// Number of forgotten tags; at most [`FORGOTTEN_MAX`](crate::events::FORGOTTEN_MAX).
    pub forgotten: usize,
    /// How long the store keeps its events, in milliseconds; `None` means forever.
    pub retention_ms: Option<u64>,
    /// Number of sources that the store reads from.
    pub sources: usize,
    /// Number of named subscriptions that read from the store.
    pub subscriptions: usize,
    /// Number of saved projection states.
    pub projections: usize,
}

impl EventStore {
    /// Returns the store's statistics, once they are durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the store does not exist; [`ErrorKind::Failed`].
    pub fn statistics(&self) -> Result<StoreStatistics> {
        let look = |view: &ReadView<'_>| {
            let store = view.events.store(self.name())?;
            let subscriptions = view.events.subscriptions().filter(|(_, found)| found.store == store);
            Some(StoreStatistics {
                head: view.events.last_appended(store),
                trimmed: view.events.trimmed(store),
                forgotten: view.events.forgotten_count(store),
                retention_ms: view.events.retention_ms(store),
                sources: view.events.sources(store).count(),
                subscriptions: subscriptions.count(),
                projections: view.events.projections(store).len(),
            })
        };
        let not_found = || Error::new(ErrorKind::NotFound, format!("unknown event store {:?}", self.name()));
        self.database().read_for(self.resource(), Operation::Describe, look)?.wait()?.ok_or_else(not_found)
    }
}
