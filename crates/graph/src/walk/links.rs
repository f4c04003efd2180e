//! The edges that a walk noted, by the block that they leave: what the analyses of a walk look at.
//!
//! They work on what the walk copied out, so nothing is locked while they run, and none of them
//! recurses.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Link, Walk};
use crate::{Direction, End};

/// An edge, seen from the block that it is followed from.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowedEdge {
    pub(super) to: u32,
    pub(super) edge_type: u16,
    /// The end of the edge at which `to` is.
    pub(super) end: End,
}

/// Edges by the number of the block that they are followed from, in the order in which the walk
/// noted them.
#[derive(Debug)]
pub(super) struct Links {
    begins: Vec<u32>,
    onward: Vec<FollowedEdge>,
}

impl Links {
    /// The edges of a walk, followed in this direction.
    pub(super) fn of(walk: &Walk, direction: Direction) -> Self {
        let ends = direction.ends();
        let seen = |link: &Link| {
            let Link { source, edge_type, target } = *link;
            let followed = move |end: &End| match end {
                End::Target => (source, FollowedEdge { to: target, edge_type, end: *end }),
                End::Source => (target, FollowedEdge { to: source, edge_type, end: *end }),
            };
            ends.iter().map(followed)
        };
        // A counting sort, which keeps the order among the edges of a block.
        let mut begins = alloc::vec![0u32; walk.met.len() + 1];
        for (from, _) in walk.edges.iter().flat_map(seen) {
            begins[from as usize + 1] += 1;
        }
        for number in 1..begins.len() {
            begins[number] += begins[number - 1];
        }
        let mut next = begins.clone();
        let nowhere = FollowedEdge { to: 0, edge_type: 0, end: End::Target };
        let mut onward = alloc::vec![nowhere; *begins.last().expect("one more than there are blocks") as usize];
        for (from, edge) in walk.edges.iter().flat_map(seen) {
            onward[next[from as usize] as usize] = edge;
            next[from as usize] += 1;
        }
        Links { begins, onward }
    }

    /// The edges that are followed from a block.
    pub(super) fn from(&self, number: u32) -> &[FollowedEdge] {
        let Range { start, end } = self.numbers_from(number);
        &self.onward[start as usize..end as usize]
    }

    /// The numbers of these edges.
    pub(super) fn numbers_from(&self, number: u32) -> Range<u32> {
        self.begins[number as usize]..self.begins[number as usize + 1]
    }

    /// The edge with this number.
    pub(super) fn edge(&self, number: u32) -> FollowedEdge {
        self.onward[number as usize]
    }
}
