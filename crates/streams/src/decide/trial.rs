//! A trial decision: whether a command would be accepted now, and with which reply.

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
    /// Decides a command as a commit would, and changes nothing. Places, times and offsets in the
    /// reply differ from those of a later commit. `claim` grants every claim of the command.
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
