//! What an event store holds and keeps, in numbers.

use crate::View;
use crate::events::EventPosition;
use crate::handles::events::EventStore;
use crate::{Error, ErrorKind, Result};

/// See [`EventStore::statistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// The position of the last event, also when that one is gone.
    pub head: EventPosition,
    /// Events up to this position are gone, by a trim or by the retention.
    pub trimmed: EventPosition,
    /// Number of forgotten tags; at most [`FORGOTTEN_MAX`](crate::events::FORGOTTEN_MAX).
    pub forgotten: usize,
    /// How long its events are kept, in milliseconds; `None` for ever.
    pub retention_ms: Option<u64>,
    /// How many sources it reads from.
    pub sources: usize,
    /// How many named subscriptions read from it.
    pub subscriptions: usize,
    /// How many states of projections it keeps.
    pub projections: usize,
}

impl EventStore {
    /// What the store holds and keeps, once that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it is not there; [`ErrorKind::Failed`].
    pub fn statistics(&self) -> Result<StoreStatistics> {
        let look = |view: &View<'_>| {
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
        let not_found = || Error::new(ErrorKind::NotFound, format!("there is no event store {:?}", self.name()));
        self.database().read(look)?.wait()?.ok_or_else(not_found)
    }
}
