//! The position of an event in its store.
//!
//! Positions of one store are dense from 1 and order as the log does, so no reader ever sees a
//! lower one appear later.

use core::fmt;

use quire_model::Sequence;

/// The number of an event within its store: 1, 2, 3, ...
///
/// [`EventPosition::ZERO`] precedes the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventPosition(u64);

impl EventPosition {
    /// Before the first event.
    pub const ZERO: EventPosition = EventPosition(0);

    /// The position with this number.
    pub const fn new(number: u64) -> Self {
        EventPosition(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next position; the largest position has none and returns itself.
    #[must_use]
    pub const fn next(self) -> Self {
        EventPosition(self.0.saturating_add(1))
    }

    /// The position `count` after this one.
    pub(crate) fn plus(self, count: usize) -> Self {
        EventPosition(self.0.saturating_add(count as u64))
    }

    pub(crate) const fn sequence(self) -> Sequence {
        Sequence::new(self.0)
    }
}

impl From<Sequence> for EventPosition {
    fn from(sequence: Sequence) -> Self {
        EventPosition(sequence.get())
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
