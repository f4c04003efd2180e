//! The segments of a log, as a value: replaced as a whole when one is begun or sealed, so that whoever holds an older one
//! reads on in it.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use quire_model::Position;

use crate::compaction::Run;
use crate::sealed::Sealed;
use crate::search::{count_while, expected};
use crate::segment::Segment;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    /// Grows with every change: who holds a list can tell whether it is still the newest.
    pub(crate) generation: u64,
    /// Those with an index in a file. Behind an `Arc` of its own, for there are many, and a new segment changes none of them.
    pub(crate) sealed: Arc<Vec<Arc<Sealed>>>,
    /// Where each of those begins, side by side: who looks for one would wait for the memory of each that it looks at.
    firsts: Arc<[Position]>,
    /// The active one, and before it those that are full and have no index in a file yet. Their index is in memory.
    pub(crate) live: Vec<Arc<Segment>>,
}

/// Where a segment stands in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Sealed(usize),
    Live(usize),
}

impl Segments {
    pub(crate) fn new(sealed: Vec<Arc<Sealed>>, live: Vec<Arc<Segment>>) -> Self {
        Segments::of(0, sealed, live)
    }

    fn of(generation: u64, sealed: Vec<Arc<Sealed>>, live: Vec<Arc<Segment>>) -> Self {
        let firsts = sealed.iter().map(|sealed| sealed.first()).collect();
        Segments { generation, sealed: Arc::new(sealed), firsts, live }
    }

    pub(crate) fn len(&self) -> usize {
        self.sealed.len() + self.live.len()
    }

    /// The segment that a position would be in: the last that begins at or before it, or else the first.
    pub(crate) fn segment_of(&self, position: Position) -> At {
        let live = self.live.partition_point(|segment| segment.first <= position);
        if live > 0 || self.sealed.is_empty() {
            return At::Live(live.saturating_sub(1));
        }
        // Most segments hold about as many records as the others.
        let (first, last) = (self.firsts[0].get(), self.firsts[self.firsts.len() - 1].get());
        let guess = expected(position.get(), first, last, self.firsts.len());
        let Ok(begin) = count_while(self.firsts.len(), guess, |at| Ok::<_, Infallible>(self.firsts[at] <= position));
        At::Sealed(begin.saturating_sub(1))
    }

    /// Which sealed segments a run is of, if it is of whole ones.
    pub(crate) fn whole(&self, run: Run) -> Option<Range<usize>> {
        let begin = self.sealed.partition_point(|sealed| sealed.first() < run.first);
        let end = self.sealed.partition_point(|sealed| sealed.header.end <= run.end);
        let all = self.sealed.get(begin..end).filter(|all| !all.is_empty())?;
        (all[0].first() == run.first && all[all.len() - 1].header.end == run.end).then_some(begin..end)
    }

    /// The list with a segment more, which is the active one from now on.
    pub(crate) fn with_active(&self, segment: Arc<Segment>) -> Self {
        let mut live = self.live.clone();
        live.push(segment);
        let (sealed, firsts) = (Arc::clone(&self.sealed), Arc::clone(&self.firsts));
        Segments { generation: self.generation + 1, sealed, firsts, live }
    }

    /// The list that ends with `active`, which replaces the live segment with the same first position and every later one.
    pub(crate) fn truncated(&self, active: Arc<Segment>) -> Self {
        let mut live: Vec<_> = self.live.iter().filter(|segment| segment.first < active.first).cloned().collect();
        debug_assert!(self.live.get(live.len()).is_some_and(|replaced| replaced.first == active.first));
        live.push(active);
        let (sealed, firsts) = (Arc::clone(&self.sealed), Arc::clone(&self.firsts));
        Segments { generation: self.generation + 1, sealed, firsts, live }
    }

    /// The list with another sealed segment in the place of those that it stands for.
    pub(crate) fn with_compacted(&self, range: Range<usize>, sealed: Arc<Sealed>) -> Self {
        let mut all = Vec::clone(&self.sealed);
        all.splice(range, [sealed]);
        Segments::of(self.generation + 1, all, self.live.clone())
    }

    /// The list with its first live segment sealed.
    pub(crate) fn with_sealed(&self, sealed: Arc<Sealed>) -> Self {
        debug_assert_eq!(self.live[0].first, sealed.first());
        let mut all = Vec::with_capacity(self.sealed.len() + 1);
        all.extend(self.sealed.iter().cloned());
        all.push(sealed);
        Segments::of(self.generation + 1, all, self.live[1..].to_vec())
    }
}
