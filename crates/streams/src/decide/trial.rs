//! A command decided for nothing: whether it would be taken now, and what it would be answered.

use alloc::vec::Vec;

use quire_model::{
    At, ClaimRefusal, DecideError, Effects, History, NewEntry, Place, Placement, Position, ResourceClaim, Sequence,
    Timestamp,
};

use super::decide;
use crate::{Command, Refusal, Reply, Streams};

/// Counts the entries, and drops them.
struct NoEffects<'c> {
    entries: u32,
    claim: &'c dyn Fn(ResourceClaim<'_>) -> Result<(), ClaimRefusal>,
}

impl Effects for NoEffects<'_> {
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

    fn claim(&mut self, claim: ResourceClaim<'_>) -> Result<(), ClaimRefusal> {
        (self.claim)(claim)
    }
}

impl Streams {
    /// Decides a command as a commit would, and does nothing. Places, times and offsets in the
    /// answer are not those that the commit would give. `claim` grants what the command takes.
    ///
    /// # Errors
    /// Decides this command as the only one of a commit.
    pub fn would(
        &self,
        history: &dyn History,
        command: Command<'_>,
        claim: &dyn Fn(ResourceClaim<'_>) -> Result<(), ClaimRefusal>,
    ) -> Result<Reply, DecideError<Refusal>> {
        let mut replies = Vec::with_capacity(1);
        decide(self, history, &[command], &mut NoEffects { entries: 0, claim }, &mut replies)?;
        Ok(replies.pop().expect("one command has one answer"))
    }
}
