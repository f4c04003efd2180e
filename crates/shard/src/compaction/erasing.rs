//! Erasure of forgotten events: the next compaction that reaches their bytes rewrites the segment,
//! however few they are.
//!
//! ```text
//! a commit forgets a tag ─▶ ForgottenTags::note ─▶ mark, before a compaction is planned
//!                                               ─▶ segments with such an event are rewritten
//! ```
//! The indexes of the segments say where such events are; a tag without any is dropped from the
//! list. No file holds the list: a process that opens the shard searches once for every tag that
//! its stores ever forgot.

use quire_log::SegmentShare;
use quire_model::{Entry, Place};

use crate::error::{Error, Result};
use crate::events::{Forgotten, ForgottenTag};
use crate::logged_state::LoggedState;

/// Largest number of tags in the list. With more, every forgotten tag is searched for.
const TAGS_MAX: usize = 1 << 16;

/// Forgotten tags whose events may still be in the log.
#[derive(Debug)]
pub(crate) struct ForgottenTags {
    /// Whether every tag that was ever forgotten is searched for; `tags` is then empty.
    all: bool,
    tags: Vec<ForgottenTag>,
}

/// All tags: a shard that was just opened knows none.
impl Default for ForgottenTags {
    fn default() -> Self {
        ForgottenTags { all: true, tags: Vec::new() }
    }
}

impl ForgottenTags {
    /// Adds the tag of an appended entry that forgets one.
    #[inline]
    pub(crate) fn note(&mut self, entry: &Entry<'_>) {
        if let Some(tag) = ForgottenTag::of(entry) {
            self.add(tag);
        }
    }

    fn add(&mut self, tag: ForgottenTag) {
        if self.tags.len() == TAGS_MAX {
            *self = ForgottenTags::default();
        }
        if !self.all {
            self.tags.push(tag);
        }
        assert!(!self.all || self.tags.is_empty(), "a list of all forgotten tags has no tags of its own");
    }

    /// Adds the tags of another list.
    fn join(&mut self, other: ForgottenTags) {
        match other {
            ForgottenTags { all: true, .. } => *self = ForgottenTags::default(),
            ForgottenTags { tags, .. } => tags.into_iter().for_each(|tag| self.add(tag)),
        }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.tags.is_empty()
    }
}

/// Marks the segments that hold forgotten events, so that the compaction rewrites them in any case.
pub(super) fn mark(shard: &LoggedState, shares: &mut [SegmentShare]) -> Result<()> {
    let (wanted, stores, rests_on) = {
        let mut state = shard.write()?;
        let none = ForgottenTags { all: false, tags: Vec::new() };
        let wanted = std::mem::replace(&mut state.forgotten, none);
        (wanted, state.models.events.forgotten(), state.writer.basis())
    };
    if stores.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    // The search below reads the published log, which may end before the commit that forgot a tag.
    let waits_for_others = shard.office.is_member() && shard.log.published() < rests_on.position();
    let is_published = if waits_for_others { Ok(false) } else { shard.log.wait(rests_on).map(|()| true) };
    if !matches!(is_published, Ok(true)) {
        // A later compaction searches for these tags.
        shard.write()?.forgotten.join(wanted);
        return is_published.map(drop).map_err(Error::from);
    }
    let mut left = Vec::new();
    for store in &stores {
        if wanted.all {
            left.extend(store.tags().filter(|tag| mark_tag(shard, store, tag, shares)));
        } else {
            let of_store = wanted.tags.iter().filter(|tag| store.is_of(tag));
            left.extend(of_store.filter(|tag| mark_tag(shard, store, tag, shares)).cloned());
        }
    }
    let mut state = shard.write()?;
    left.into_iter().for_each(|tag| state.forgotten.add(tag));
    Ok(())
}

/// Marks the segments with events of a forgotten tag that can be rewritten now. Returns whether the
/// tag stays on the list: the log holds such an event, or the search failed, or the shard is
/// closing.
fn mark_tag(shard: &LoggedState, store: &Forgotten, tag: &ForgottenTag, shares: &mut [SegmentShare]) -> bool {
    if shard.schedule.is_stopping() {
        return true;
    }
    // One reader for each tag, so that few segments are open at a time.
    let history = shard.log.reader();
    let (mut from, mut is_left) = (Place::START, false);
    loop {
        let held = match store.held(&history, tag, from) {
            Ok(Some(held)) => held.position,
            Ok(None) => return is_left,
            // A damaged segment can't be rewritten either.
            Err(_) => return true,
        };
        is_left = true;
        let at = shares.partition_point(|share| share.end <= held);
        let Some(share) = shares.get_mut(at).filter(|share| share.first <= held) else { return true };
        share.erases = true;
        from = Place::new(share.end, 0);
    }
}
