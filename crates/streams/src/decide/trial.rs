//! A command decided for nothing: whether it would be taken now, and what it would be answered.

use alloc::vec::Vec;

use quire_model::{At, DecideError, Effects, History, NewEntry, Place, Placement, Position, Sequence, Timestamp};

use super::decide;
use crate::{Command, Refusal, Reply, Streams};

/// Counts the entries, and lets them go.
struct NoEffects {
    entries: u32,
}

impl Effects for NoEffects {
    fn at(&self) -> At {
        At { position: Position::ZERO, time: Timestamp::ZERO }
    }

    fn next_place(&self) -> Place {
        Place::new(Position::ZERO, self.entries)
    }

    fn push(&mut self, entry: NewEntry<'_>) -> Placement {
        let place = self.next_place();
        self.entries += 1;
        Placement { place, sequence: entry.sequenced.map(|_| Sequence::new(0)) }
    }
}

impl Streams {
    /// Decides a command as a commit would, and does nothing. Places, times and offsets in the
    /// answer are not those that the commit would give.
    ///
    /// # Errors
    /// As the commit of this command alone.
    pub fn would(&self, history: &dyn History, command: Command<'_>) -> Result<Reply, DecideError<Refusal>> {
        let mut replies = Vec::with_capacity(1);
        decide(self, history, &[command], &mut NoEffects { entries: 0 }, &mut replies)?;
        Ok(replies.pop().expect("one command has one answer"))
    }
}
