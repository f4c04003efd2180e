//! A walk over the log's entries under several tags at once, in the order of the log.

use alloc::vec::Vec;

use quire_model::{Entry, History, Place, ReadError, Tag, TagBuf};

/// The entries under any of some lists of tags; under a list, those that carry all of it.
pub(crate) struct TagWalk<'h> {
    history: &'h dyn History,
    heads: Vec<WalkHead<'h>>,
    /// The head whose entry was returned last, and the place of that entry. The head advances with
    /// the next call, so an entry is returned whatever the search after it costs.
    given: Option<(usize, Place)>,
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
    /// A walk from a place on. No entry is in two of the lists.
    pub(crate) fn begin(
        history: &'h dyn History,
        lists: impl IntoIterator<Item = Vec<TagBuf>>,
        from: Place,
    ) -> Result<Self, ReadError> {
        let mut heads: Vec<_> = lists.into_iter().map(|tags| WalkHead { tags, next: None }).collect();
        let is_only = heads.len() == 1;
        let began = heads.iter_mut().try_for_each(|head| head.go_on(history, from));
        // With several lists, another list may have an entry before the place that one list
        // reached.
        began.map_err(|error| if is_only { error } else { error.reached(|| None) })?;
        Ok(TagWalk { history, heads, given: None })
    }

    /// The next entry up to a place, that included.
    pub(crate) fn next(&mut self, up_to: Place) -> Result<Option<Entry<'h>>, ReadError> {
        let place = |head: &WalkHead<'_>| head.next.map(|entry| entry.place);
        if let Some((number, entry)) = self.given.take() {
            let gone_on = self.heads[number].go_on(self.history, entry.after());
            gone_on.map_err(|error| {
                let others = self.heads.iter().enumerate().filter(|(other, _)| *other != number);
                let first = others.filter_map(|(_, head)| place(head)).min();
                let reached = error.reached_place().map(|reached| first.map_or(reached, |first| first.min(reached)));
                error.reached(|| reached)
            })?;
        }
        let heads = self.heads.iter().enumerate();
        let first = heads.filter(|(_, head)| place(head).is_some_and(|place| place <= up_to));
        let Some((number, head)) = first.min_by_key(|(_, head)| place(head)) else { return Ok(None) };
        let entry = head.next;
        self.given = entry.map(|entry| (number, entry.place));
        Ok(entry)
    }
}
