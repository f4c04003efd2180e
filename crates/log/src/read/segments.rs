//! The segments of a log as an immutable list. Every change creates a new list, so a reader with an
//! older list continues to use it.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use quire_model::{Place, Position};

use crate::compaction::SegmentRun;
use crate::sealed::SealedSegment;
use crate::search::{count_while, expected};
use crate::segment::Segment;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    /// Increases with every change, so that the owner of a list can check whether it is still the
    /// newest.
    pub(crate) generation: u64,
    /// The segments with an index file. The list is shared, because it is long and a new segment
    /// does not change it.
    pub(crate) sealed: Arc<Vec<Arc<SealedSegment>>>,
    /// The first position of each sealed segment, in one array: a binary search then has few cache
    /// misses.
    firsts: Arc<[Position]>,
    /// The active segment, preceded by full segments without an index file. Their index is in
    /// memory.
    pub(crate) live: Vec<Arc<Segment>>,
}

/// The index of a segment in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentSlot {
    Sealed(usize),
    Live(usize),
}

impl Segments {
    pub(crate) fn new(sealed: Vec<Arc<SealedSegment>>, live: Vec<Arc<Segment>>) -> Self {
        Segments::of(0, sealed, live)
    }

    fn of(generation: u64, sealed: Vec<Arc<SealedSegment>>, live: Vec<Arc<Segment>>) -> Self {
        debug_assert!(sealed.is_sorted_by(|one, next| one.first() < next.first()), "sealed segments are in order");
        let firsts = sealed.iter().map(|sealed| sealed.first()).collect();
        Segments { generation, sealed: Arc::new(sealed), firsts, live }
    }

    pub(crate) fn len(&self) -> usize {
        self.sealed.len() + self.live.len()
    }

    /// Returns the last segment that begins at or before a position, or else the first segment.
    pub(crate) fn segment_of(&self, position: Position) -> SegmentSlot {
        debug_assert_eq!(self.firsts.len(), self.sealed.len(), "each sealed segment has a first position");
        let live = self.live.partition_point(|segment| segment.first <= position);
        if live > 0 || self.sealed.is_empty() {
            return SegmentSlot::Live(live.saturating_sub(1));
        }
        // Most segments hold a similar number of records.
        let (first, last) = (self.firsts[0].get(), self.firsts[self.firsts.len() - 1].get());
        let guess = expected(position.get(), first, last, self.firsts.len());
        let Ok(begin) = count_while(self.firsts.len(), guess, |at| Ok::<_, Infallible>(self.firsts[at] <= position));
        SegmentSlot::Sealed(begin.saturating_sub(1))
    }

    /// Returns the place where a segment begins; `None` when the list ends before it.
    pub(crate) fn begin_of(&self, slot: SegmentSlot) -> Option<Place> {
        let first = match slot {
            SegmentSlot::Sealed(at) => self.firsts.get(at).copied(),
            SegmentSlot::Live(at) => self.live.get(at).map(|segment| segment.first),
        };
        first.map(|first| Place::new(first, 0))
    }

    /// Returns the slot after a segment, which may be the end of the list.
    pub(crate) fn after(&self, slot: SegmentSlot) -> SegmentSlot {
        match slot {
            SegmentSlot::Sealed(at) if at + 1 < self.sealed.len() => SegmentSlot::Sealed(at + 1),
            SegmentSlot::Sealed(_) => SegmentSlot::Live(0),
            SegmentSlot::Live(at) => SegmentSlot::Live(at + 1),
        }
    }

    /// Returns the range of sealed segments that a run covers. Returns `None` when the run does not
    /// cover whole segments.
    pub(crate) fn whole(&self, run: SegmentRun) -> Option<Range<usize>> {
        let begin = self.sealed.partition_point(|sealed| sealed.first() < run.first);
        let end = self.sealed.partition_point(|sealed| sealed.header.end <= run.end);
        let all = self.sealed.get(begin..end).filter(|all| !all.is_empty())?;
        (all[0].first() == run.first && all[all.len() - 1].header.end == run.end).then_some(begin..end)
    }

    /// Returns the list with a new active segment.
    pub(crate) fn with_active(&self, segment: Arc<Segment>) -> Self {
        debug_assert!(self.live.iter().all(|live| live.first != segment.first), "a segment is listed once");
        let mut live = self.live.clone();
        live.push(segment);
        let (sealed, firsts) = (Arc::clone(&self.sealed), Arc::clone(&self.firsts));
        Segments { generation: self.generation + 1, sealed, firsts, live }
    }

    /// Returns the list that ends with `active`, which replaces the live segment with the same
    /// first position and every later one.
    pub(crate) fn truncated(&self, active: Arc<Segment>) -> Self {
        let mut live: Vec<_> = self.live.iter().filter(|segment| segment.first < active.first).cloned().collect();
        assert!(
            self.live.get(live.len()).is_some_and(|replaced| replaced.first == active.first),
            "a truncation replaces a live segment"
        );
        live.push(active);
        let (sealed, firsts) = (Arc::clone(&self.sealed), Arc::clone(&self.firsts));
        Segments { generation: self.generation + 1, sealed, firsts, live }
    }

    /// Returns the list with `sealed` in place of the segments in `range`.
    pub(crate) fn with_compacted(&self, range: Range<usize>, sealed: Arc<SealedSegment>) -> Self {
        assert_eq!(
            self.sealed[range.start].first(),
            sealed.first(),
            "a compacted segment begins with the first that it replaces"
        );
        assert_eq!(
            self.sealed[range.end - 1].header.end,
            sealed.header.end,
            "a compacted segment ends with the last that it replaces"
        );
        let mut all = Vec::clone(&self.sealed);
        all.splice(range, [sealed]);
        Segments::of(self.generation + 1, all, self.live.clone())
    }

    /// Returns the list with its first live segment sealed.
    pub(crate) fn with_sealed(&self, sealed: Arc<SealedSegment>) -> Self {
        assert_eq!(self.live[0].first, sealed.first(), "the oldest live segment is sealed first");
        assert!(self.live.len() > 1, "the active segment is not sealed");
        debug_assert_eq!(self.live[1].first, sealed.header.end, "a sealed segment ends where the next begins");
        let mut all = Vec::with_capacity(self.sealed.len() + 1);
        all.extend(self.sealed.iter().cloned());
        all.push(sealed);
        Segments::of(self.generation + 1, all, self.live[1..].to_vec())
    }
}
