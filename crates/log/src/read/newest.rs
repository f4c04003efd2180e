//! The newest list of segments, and what is published of it: who appends, seals or compacts puts another list in its place, and who
//! reads takes it as it is.

use std::sync::{Arc, PoisonError};

use quire_model::Position;
use quire_threads::{AtomicU64, Ordering, RwLock};

use crate::durable::gate::Gate;
use crate::read::segments::Segments;

/// See the module.
#[derive(Debug)]
pub(crate) struct Newest {
    segments: RwLock<Arc<Segments>>,
    /// That of the list; to be looked at without the lock.
    generation: AtomicU64,
}

impl Newest {
    pub(crate) fn new(segments: Segments) -> Self {
        Newest { generation: AtomicU64::new(segments.generation), segments: RwLock::new(Arc::new(segments)) }
    }

    /// The list.
    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last record that is published, and a list that holds it.
    pub(crate) fn published(&self, gate: &Gate) -> (Position, Arc<Segments>) {
        // The position first: a segment that comes later holds nothing below it.
        let position = gate.position();
        (position, self.segments())
    }

    /// The generation of the list: one that was had before is the newest for as long as it has the same.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Puts another list in its place.
    pub(crate) fn change(&self, change: impl FnOnce(&Segments) -> Segments) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        *segments = Arc::new(change(&segments));
        self.generation.store(segments.generation, Ordering::Release);
    }
}
