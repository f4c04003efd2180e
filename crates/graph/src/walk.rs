//! Walks along edges from a block, breadth first, within bounds.
//!
//! Invariant: every block is visited once, at its least distance from the start. The order is defined: by distance; at
//! the same distance by when the block before it on the way was visited; then in the order of that block's neighbours.
//! The list of visits is the queue, so a walk of any length needs no stack. Other kinds of walk are not offered.

use alloc::vec::Vec;

use hashbrown::HashSet;

use crate::id::BuildIdHasher;
use crate::{BlockId, Direction, Graph};

/// Where a walk goes, and where it ends.
#[derive(Debug, Clone, Copy)]
pub struct WalkPlan<'p> {
    /// Which way to follow edges.
    pub direction: Direction,
    /// Only along edges of these types; none at all means of every type.
    pub edge_types: &'p [&'p str],
    /// How many edges away from the start to go at most.
    pub depth_max: usize,
    /// How many blocks to visit at most, the start included. It bounds the memory of a walk.
    pub visited_max: usize,
}

impl Default for WalkPlan<'_> {
    /// Outgoing edges of every type, 10 edges away and 10,000 blocks at most.
    fn default() -> Self {
        WalkPlan { direction: Direction::Outgoing, edge_types: &[], depth_max: 10, visited_max: 10_000 }
    }
}

/// What a walk visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The blocks, in the order of the visits: first the start.
    pub visits: Vec<Visit>,
    /// The bound that kept the walk from a block that it would have visited; `None` when it saw all there is.
    pub bound: Option<Bound>,
}

/// A block that a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The block. It may be missing when an edge to it was put with `allow_missing`.
    pub block: BlockId,
    /// How many edges it is away from the start.
    pub depth: usize,
    /// The block before it on the way; `None` for the start.
    pub from: Option<BlockId>,
}

/// What ended a walk before it had seen all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// [`WalkPlan::depth_max`]: everything within it was visited, and there is more behind it.
    Depth,
    /// [`WalkPlan::visited_max`]: the walk stopped at that many.
    Visited,
}

impl Graph {
    /// Walks breadth first from a block; `None` when it is not there.
    pub fn walk(&self, start: BlockId, plan: WalkPlan<'_>) -> Option<Walk> {
        if !self.contains(start) {
            return None;
        }
        if plan.visited_max == 0 {
            return Some(Walk { visits: Vec::new(), bound: Some(Bound::Visited) });
        }
        let types = self.type_ranges(plan.edge_types);
        let mut seen: HashSet<BlockId, BuildIdHasher> = HashSet::default();
        let mut visits = Vec::new();
        seen.insert(start);
        visits.push(Visit { block: start, depth: 0, from: None });
        let mut next = 0;
        while let Some(&Visit { block, depth, .. }) = visits.get(next) {
            next += 1;
            let ends = plan.direction.ends().iter();
            let hops = ends.flat_map(|end| types.iter().flat_map(|types| self.hops(block, *end, *types, None)));
            for key in hops {
                if seen.contains(&key.far) {
                    continue;
                }
                // All within `depth` edges are seen by now, so what is not is truly behind the bound.
                if depth == plan.depth_max {
                    return Some(Walk { visits, bound: Some(Bound::Depth) });
                }
                if visits.len() == plan.visited_max {
                    return Some(Walk { visits, bound: Some(Bound::Visited) });
                }
                seen.insert(key.far);
                visits.push(Visit { block: key.far, depth: depth + 1, from: Some(block) });
            }
        }
        Some(Walk { visits, bound: None })
    }
}
