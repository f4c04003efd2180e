//! The effects of a dry run: they go to the draft as those of a commit do, and are listed for the
//! caller.

use quire_model::codec::Encoder;
use quire_model::{
    At, BodyChecksum, ClaimRefusal, Creator, Effects, NewEntry, PermissionRefusal, Place, Placement, Release,
    ResourceClaim, Touch,
};

use crate::commands::DraftedEntry;

/// Effects whose entries are listed.
pub(crate) struct ListedEffects<'e> {
    effects: &'e mut dyn Effects,
    entries: &'e mut Vec<DraftedEntry>,
}

impl<'e> ListedEffects<'e> {
    /// Adds each entry that is pushed to `effects` to `entries`.
    pub(crate) fn new(effects: &'e mut dyn Effects, entries: &'e mut Vec<DraftedEntry>) -> Self {
        ListedEffects { effects, entries }
    }

    fn list(&mut self, entry: &NewEntry<'_>) {
        let bytes = entry.body.iter().map(|part| part.len()).sum();
        self.entries.push(DraftedEntry { kind: entry.kind, bytes });
    }
}

impl Effects for ListedEffects<'_> {
    fn at(&self) -> At {
        self.effects.at()
    }

    fn next_place(&self) -> Place {
        self.effects.next_place()
    }

    fn push(&mut self, entry: NewEntry<'_>) -> Placement {
        self.list(&entry);
        self.effects.push(entry)
    }

    fn push_covered(&mut self, entry: NewEntry<'_>, covered: BodyChecksum) -> Placement {
        self.list(&entry);
        self.effects.push_covered(entry, covered)
    }

    fn claim(&mut self, claim: ResourceClaim<'_>) -> Result<(), ClaimRefusal> {
        self.effects.claim(claim)
    }

    fn permit(&self, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        self.effects.permit(touch)
    }

    fn creator(&self) -> Option<Creator> {
        self.effects.creator()
    }

    fn admits(&self, creator: &Creator) -> bool {
        self.effects.admits(creator)
    }

    fn permit_creator(&self, creator: &Creator, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        self.effects.permit_creator(creator, touch)
    }

    fn release(&mut self, release: Release<'_>) {
        self.effects.release(release);
    }

    fn scratch(&mut self) -> Encoder {
        self.effects.scratch()
    }

    fn keep(&mut self, scratch: Encoder) {
        self.effects.keep(scratch);
    }
}
