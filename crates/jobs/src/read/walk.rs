//! A walk over the log's entries under several tags at once, in the order of the log.

use alloc::vec::Vec;

use quire_model::{Entry, History, Place, ReadError, Tag, TagBuf};

/// The entries under any of some lists of tags; under a list, those that carry all of it.
pub(crate) struct TagWalk<'h> {
    history: &'h dyn History,
    heads: Vec<WalkHead<'h>>,
}

struct WalkHead<'h> {
    tags: Vec<TagBuf>,
    /// The next entry under them.
    next: Option<Entry<'h>>,
}

impl<'h> WalkHead<'h> {
    fn go_on(&mut self, history: &'h dyn History, from: Place) -> Result<(), ReadError> {
        let tags: Vec<Tag<'_>> = self.tags.iter().map(TagBuf::tag).collect();
        self.next = history.next(&tags, from)?;
        Ok(())
    }
}

impl<'h> TagWalk<'h> {
    /// A walk from a place on. No entry is under two of the lists.
    pub(crate) fn begin(
        history: &'h dyn History,
        lists: impl IntoIterator<Item = Vec<TagBuf>>,
        from: Place,
    ) -> Result<Self, ReadError> {
        let mut heads: Vec<_> = lists.into_iter().map(|tags| WalkHead { tags, next: None }).collect();
        heads.iter_mut().try_for_each(|head| head.go_on(history, from))?;
        Ok(TagWalk { history, heads })
    }

    /// The next entry up to a place, that included.
    pub(crate) fn next(&mut self, up_to: Place) -> Result<Option<Entry<'h>>, ReadError> {
        let place = |head: &WalkHead<'_>| head.next.map(|entry| entry.place);
        let first = self.heads.iter_mut().filter(|head| place(head).is_some_and(|place| place <= up_to));
        let Some(head) = first.min_by_key(|head| place(head)) else { return Ok(None) };
        let entry = head.next;
        if let Some(entry) = entry {
            head.go_on(self.history, entry.place.after())?;
        }
        Ok(entry)
    }
}
