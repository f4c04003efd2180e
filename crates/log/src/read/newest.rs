//! The newest list of segments. A thread that appends, seals or compacts replaces the list; a
//! reader takes the current list.

use std::sync::{Arc, PoisonError};

use quire_model::Position;
use quire_threads::{AtomicU64, Ordering, RwLock};

use crate::durable::gate::Gate;
use crate::read::segments::Segments;

/// See the module.
#[derive(Debug)]
pub(crate) struct NewestSegments {
    segments: RwLock<Arc<Segments>>,
    /// The generation of the list, readable without the lock.
    generation: AtomicU64,
}

impl NewestSegments {
    pub(crate) fn new(segments: Segments) -> Self {
        NewestSegments { generation: AtomicU64::new(segments.generation), segments: RwLock::new(Arc::new(segments)) }
    }

    /// Returns the newest list.
    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the published position and a list that holds its record.
    pub(crate) fn published(&self, gate: &Gate) -> (Position, Arc<Segments>) {
        // The position is read first: later segments hold only later records.
        let position = gate.position();
        (position, self.segments())
    }

    /// Returns the generation of the newest list. A list with the same generation is still the
    /// newest.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the list by the result of `change`.
    pub(crate) fn change(&self, change: impl FnOnce(&Segments) -> Segments) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&segments);
        assert!(changed.generation > segments.generation, "every change raises the generation of the list");
        *segments = Arc::new(changed);
        self.generation.store(segments.generation, Ordering::Release);
    }
}
