//! Reading the log: by place, and along tags, across its segments.
//!
//! A reader is a fixed list of segments and a limit: it sees the log as it stood when it was made, however long it
//! lives, and keeps the segments it needs alive.

use std::sync::Arc;

use quire_model::{Entry, History, Place, Position, ReadError, Sequence, Tag};

use crate::segment::{Segment, TagHash};

/// A view of the log up to a position.
#[derive(Debug, Clone)]
pub struct Reader {
    segments: Arc<Vec<Arc<Segment>>>,
    limit: Position,
    seed: u64,
}

impl Reader {
    pub(crate) fn new(segments: Arc<Vec<Arc<Segment>>>, limit: Position, seed: u64) -> Self {
        Reader { segments, limit, seed }
    }

    /// The last position it sees; [`Position::MAX`] for the writer's own.
    pub fn limit(&self) -> Position {
        self.limit
    }

    /// The entries of the record at a position, in order; `None` when it is not there, or beyond the limit.
    pub fn record(&self, position: Position) -> Option<impl Iterator<Item = Entry<'_>>> {
        if position > self.limit {
            return None;
        }
        self.segments.get(self.segment_of(position))?.record(position)
    }

    /// Whether this segment is the last it reads.
    pub(crate) fn reads(&self, segment: &Arc<Segment>) -> bool {
        self.segments.last().is_some_and(|last| Arc::ptr_eq(last, segment))
    }

    /// The index of the segment that a position would be in.
    fn segment_of(&self, position: Position) -> usize {
        self.segments.partition_point(|segment| segment.first <= position).saturating_sub(1)
    }

    fn with_hashes<R>(&self, tags: &[Tag<'_>], search: impl FnOnce(&[TagHash]) -> R) -> R {
        let mut few = [TagHash::NONE; 8];
        if tags.len() <= few.len() {
            for (hash, tag) in few.iter_mut().zip(tags) {
                *hash = TagHash::of(*tag, self.seed);
            }
            search(&few[..tags.len()])
        } else {
            search(&tags.iter().map(|tag| TagHash::of(*tag, self.seed)).collect::<Vec<_>>())
        }
    }

    fn next_by_hash(&self, tags: &[Tag<'_>], hashes: &[TagHash], from: Place) -> Option<Entry<'_>> {
        let begin = self.segment_of(from.position);
        for (number, segment) in self.segments.iter().enumerate().skip(begin) {
            let mut ordinal = if number == begin { segment.index().ordinal_at(from) } else { 0 };
            loop {
                let located = {
                    let index = segment.index();
                    let Some(found) = index.next(hashes, ordinal) else { break };
                    ordinal = found + 1;
                    index.locate(found).expect("a posting is the ordinal of an entry")
                };
                if located.place.position > self.limit {
                    return None;
                }
                let entry = segment.entry(located);
                if carries(&entry, tags) {
                    return Some(entry);
                }
            }
        }
        None
    }

    fn previous_by_hash(&self, tags: &[Tag<'_>], hashes: &[TagHash], before: Place) -> Option<Entry<'_>> {
        let before = match self.limit {
            Position::MAX => before,
            limit => before.min(Place::new(limit.next(), 0)),
        };
        let end = self.segment_of(before.position);
        for (number, segment) in self.segments.iter().enumerate().take(end + 1).rev() {
            let mut ordinal = if number == end { segment.index().ordinal_at(before) } else { u32::MAX };
            loop {
                let located = {
                    let index = segment.index();
                    let Some(found) = index.previous(hashes, ordinal) else { break };
                    ordinal = found;
                    index.locate(found).expect("a posting is the ordinal of an entry")
                };
                let entry = segment.entry(located);
                if carries(&entry, tags) {
                    return Some(entry);
                }
            }
        }
        None
    }

    fn seek_by_hash(&self, tag: Tag<'_>, hash: TagHash, sequence: Sequence) -> Option<Entry<'_>> {
        let mut after: Option<Entry<'_>> = None;
        for segment in self.segments.iter().rev() {
            let index = segment.index();
            let at = |ordinal: u32| segment.entry(index.locate(ordinal).expect("a posting is the ordinal of an entry"));
            let postings = index.postings(hash);
            let Some(first) = postings.first() else { continue };
            let mut foreign = !numbers(&at(*first), tag);
            let mut holds = postings.partition_point(|ordinal| {
                let entry = at(*ordinal);
                foreign |= !numbers(&entry, tag);
                !foreign && entry.next_sequence() <= sequence
            });
            let own: Vec<u32>;
            let mut postings = postings;
            if foreign {
                // Another tag with the same hash is in between: look at each, once in a very long while.
                own = postings.iter().copied().filter(|ordinal| numbers(&at(*ordinal), tag)).collect();
                holds = own.iter().take_while(|ordinal| at(**ordinal).next_sequence() <= sequence).count();
                postings = &own;
            }
            let Some(first) = postings.first() else { continue };
            let first = at(*first);
            if first.sequence > Some(sequence) {
                after = Some(first);
                continue;
            }
            return postings.get(holds).map(|ordinal| at(*ordinal)).or(after);
        }
        after
    }
}

impl History for Reader {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        if place.position > self.limit {
            return Ok(None);
        }
        Ok(self.segments.get(self.segment_of(place.position)).and_then(|segment| segment.entry_at(place)))
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self.with_hashes(tags, |hashes| self.next_by_hash(tags, hashes, from)))
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(self.with_hashes(tags, |hashes| self.previous_by_hash(tags, hashes, before)))
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        let found = self.seek_by_hash(tag, TagHash::of(tag, self.seed), sequence);
        Ok(found.filter(|entry| entry.place.position <= self.limit))
    }
}

/// Whether an entry found by hashes carries the tags themselves.
fn carries(entry: &Entry<'_>, tags: &[Tag<'_>]) -> bool {
    tags.iter().all(|tag| entry.tags.contains(*tag))
}

/// Whether an entry takes numbers of this tag.
fn numbers(entry: &Entry<'_>, tag: Tag<'_>) -> bool {
    entry.sequence.is_some() && entry.tags.first() == Some(tag)
}
