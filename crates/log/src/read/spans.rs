//! The sealed segments that hold the numbers of a tag, where a search for a number begins.
//!
//! For each tag with numbers, at most [`SAMPLES_MAX`] segments are stored, evenly spread over the
//! segments that hold the tag. So memory depends on the number of tags, not on the length of the
//! log. Samples are positions, which stay valid when segments are trimmed or compacted.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashTable;
use quire_model::{Position, Sequence, Tag};

use crate::sealed::TagNumbers;
use crate::segment::TagHash;

/// The maximum number of samples of a tag.
const SAMPLES_MAX: usize = 128;

/// See the module.
#[derive(Debug)]
pub(crate) struct Spans {
    seed: u64,
    table: RwLock<HashTable<Span>>,
}

#[derive(Debug)]
struct Span {
    hash: u64,
    tag: Box<[u8]>,
    /// The first number of the tag in a segment, and the position of its entry.
    samples: Vec<(Sequence, Position)>,
    /// One in `stride` segments is sampled.
    stride: u64,
    segments: u64,
    /// The next number after the last one in a sealed segment.
    next: Sequence,
}

impl Spans {
    pub(crate) fn new(seed: u64) -> Self {
        Spans { seed, table: RwLock::default() }
    }

    /// Adds the numbers of a segment, which lies after all segments added before.
    pub(crate) fn take_in(&self, all: &[TagNumbers<'_>]) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for numbered in all {
            let (hash, tag) = (TagHash::of(numbered.tag, self.seed).get(), numbered.tag.as_bytes());
            let sample = (numbered.first, numbered.position);
            match table.find_mut(hash, |span| *span.tag == *tag) {
                Some(span) => span.add(sample, numbered.next),
                None => {
                    let samples = vec![sample];
                    let span = Span { hash, tag: tag.into(), samples, stride: 1, segments: 1, next: numbered.next };
                    table.insert_unique(hash, span, |span| span.hash);
                }
            }
        }
    }

    /// Returns a position at or shortly before the first entry whose numbers reach beyond
    /// `sequence`. Returns `None` when the sealed segments have no such entry.
    pub(crate) fn begin(&self, tag: Tag<'_>, hash: TagHash, sequence: Sequence) -> Option<Position> {
        let table = self.lock();
        let span = table.find(hash.get(), |span| *span.tag == *tag.as_bytes())?;
        if sequence >= span.next {
            return None;
        }
        let behind = span.samples.partition_point(|(first, _)| *first <= sequence);
        Some(span.samples[behind.saturating_sub(1)].1)
    }

    fn lock(&self) -> RwLockReadGuard<'_, HashTable<Span>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Span {
    fn add(&mut self, sample: (Sequence, Position), next: Sequence) {
        self.next = next;
        if self.segments.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES_MAX {
                let mut number = 0;
                self.samples.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.stride *= 2;
            }
            if self.segments.is_multiple_of(self.stride) {
                assert!(self.samples.len() < SAMPLES_MAX, "a full list of samples is thinned out first");
                self.samples.push(sample);
            }
        }
        self.segments += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_begins_shortly_before_its_result() {
        let spans = Spans::new(3);
        let (tag, other) = (Tag::new(b"numbers"), Tag::new(b"other"));
        let hash = TagHash::of(tag, 3);
        for segment in 0..10_000_u64 {
            let (first, next) = (Sequence::new(segment * 10), Sequence::new(segment * 10 + 10));
            let position = Position::new(1 + segment * 100);
            spans.take_in(&[TagNumbers { tag, first, next, position }]);
            assert_eq!(spans.begin(tag, hash, next), None);
            assert_eq!(spans.begin(other, TagHash::of(other, 3), first), None);
            for asked in (0..=segment).step_by(1 + segment as usize / 50) {
                let begin = spans.begin(tag, hash, Sequence::new(asked * 10 + 3)).unwrap().get() / 100;
                assert!(begin <= asked && asked - begin <= segment / (SAMPLES_MAX as u64 / 2), "{begin}, {asked}");
            }
        }
        assert!(spans.lock().iter().all(|span| span.samples.len() <= SAMPLES_MAX));
    }
}
