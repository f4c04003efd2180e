//! What event stores were told to forget, and the log may still hold: its bytes go with the next compaction that can reach them, however
//! little of a segment they are.
//!
//! ```text
//! a commit forgets a tag ─▶ noted ─▶ looked up, before a compaction is planned ─▶ each segment that holds one of its events is rewritten
//! ```
//! Where it stands is looked up in the indexes of the segments; what is found nowhere is looked for no more. Nothing of this is kept in a
//! file: who opens a database looks for all that its stores were ever told to forget, once.

use quire_log::Share;
use quire_model::{Entry, Place};

use crate::error::Result;
use crate::events::{Forgotten, ForgottenTag};
use crate::shard::Shard;

/// Of so many tags it is known that they are to be looked for; of more, all are.
const NOTED_MAX: usize = 1 << 16;

/// What is to be looked for.
#[derive(Debug)]
pub(crate) struct Erasing {
    /// Everything that was ever forgotten.
    all: bool,
    tags: Vec<ForgottenTag>,
}

/// Who has just opened a database knows nothing of it.
impl Default for Erasing {
    fn default() -> Self {
        Erasing { all: true, tags: Vec::new() }
    }
}

impl Erasing {
    /// Notes what an entry that was appended says is forgotten.
    #[inline]
    pub(crate) fn note(&mut self, entry: &Entry<'_>) {
        if let Some(tag) = ForgottenTag::of(entry) {
            self.add(tag);
        }
    }

    fn add(&mut self, tag: ForgottenTag) {
        if self.tags.len() == NOTED_MAX {
            *self = Erasing::default();
        }
        if !self.all {
            self.tags.push(tag);
        }
    }
}

impl Shard {
    /// Marks the segments that hold what was forgotten: they are rewritten in any case.
    pub(crate) fn mark_what_is_erased(&self, shares: &mut [Share]) -> Result<()> {
        let (wanted, stores, rests_on) = {
            let mut state = self.state_mut()?;
            let none = Erasing { all: false, tags: Vec::new() };
            let wanted = std::mem::replace(&mut state.erasing, none);
            (wanted, state.models.events.forgotten(), state.writer.mark().position)
        };
        if stores.is_empty() || (!wanted.all && wanted.tags.is_empty()) {
            return Ok(());
        }
        // What was forgotten may not be published yet, and what is not is not found.
        self.log.wait(rests_on)?;
        let mut left = Vec::new();
        for store in &stores {
            if wanted.all {
                left.extend(store.tags().filter(|tag| self.is_left(store, tag, shares)));
            } else {
                left.extend(
                    wanted.tags.iter().filter(|tag| store.is_of(tag) && self.is_left(store, tag, shares)).cloned(),
                );
            }
        }
        let mut state = self.state_mut()?;
        left.into_iter().for_each(|tag| state.erasing.add(tag));
        Ok(())
    }

    /// Whether the log holds an event that is gone for its tag, or it can't be told, or not before the database is closed; marks the segments that do, as far as they can be
    /// rewritten now.
    fn is_left(&self, store: &Forgotten, tag: &ForgottenTag, shares: &mut [Share]) -> bool {
        if self.duties.are_stopping() {
            return true;
        }
        // Of its own, so that few segments are open at a time.
        let history = self.log.reader();
        let (mut from, mut is_left) = (Place::START, false);
        loop {
            let held = match store.held(&history, tag, from) {
                Ok(Some(held)) => held.position,
                Ok(None) => return is_left,
                // What is damaged can't be rewritten either.
                Err(_) => return true,
            };
            is_left = true;
            let at = shares.partition_point(|share| share.end <= held);
            let Some(share) = shares.get_mut(at).filter(|share| share.first <= held) else { return true };
            share.erases = true;
            from = Place::new(share.end, 0);
        }
    }
}
