//! Retention: the stores that delete events after a time, and the positions up to which they do.

use quire_model::{History, ReadError, Timestamp};

use crate::codec::{Role, TagList};
use crate::{EventPosition, Events, StoreNumber};

/// A store that keeps its events for a time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedStore {
    /// Which.
    pub store: StoreNumber,
    /// Events up to this position are already deleted.
    trimmed: EventPosition,
    /// The last event that it had.
    last: EventPosition,
    /// Events before this time go.
    keep_from: Timestamp,
}

impl Events {
    /// The stores that keep their events for a time only.
    pub fn retained(&self, now: Timestamp) -> impl Iterator<Item = RetainedStore> {
        self.stores().filter_map(move |(_, store)| {
            let kept_micros = self.retention_ms(store)?.saturating_mul(1_000);
            let keep_from = Timestamp::from_micros(now.as_micros().saturating_sub(kept_micros));
            Some(RetainedStore { store, trimmed: self.trimmed(store), last: self.last(store), keep_from })
        })
    }
}

impl RetainedStore {
    /// Returns the position up to which the store must be trimmed; `None` when all events stay.
    /// Times rise with positions, so a binary search finds the position.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn plan(&self, history: &dyn History) -> Result<Option<EventPosition>, ReadError> {
        let tags = TagList::of(Role::Store, self.store, b"");
        let (mut gone, mut kept) = (self.trimmed.get(), self.last.get() + 1);
        while kept - gone > 1 {
            let middle = gone + (kept - gone) / 2;
            // The first event from a place on. In a range with deleted events, it may lie after the
            // middle.
            match history.seek(tags.first(), EventPosition::new(middle).sequence())? {
                Some(event) if event.time < self.keep_from => {
                    gone = event.sequence.map_or(middle, |sequence| sequence.get()).max(middle);
                }
                _ => kept = middle,
            }
        }
        let up_to = EventPosition::new(gone);
        Ok((up_to > self.trimmed).then_some(up_to))
    }
}
