//! A visited block in the memory of a walk: 32 bytes.

use super::tokens::NONE;
use super::{Visit, WalkStep};
use crate::{BlockId, End};

/// A block that was met.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockVisit {
    pub(super) id: BlockId,
    /// The block's slot in memory, while blocks are known by their slots.
    pub(super) slot: u32,
    /// The number of the block before it on the way; [`NONE`] for a start.
    pub(super) from: u32,
    pub(super) depth: u32,
    /// The type of the edge that led to it.
    pub(super) edge_type: u16,
    /// The end of that edge at which the block is.
    pub(super) end: End,
    pub(super) state: VisitState,
}

const _: () = assert!(size_of::<BlockVisit>() == 32);

/// The state of the visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitState {
    /// Seen from another block, and not visited yet.
    Seen,
    /// As `Seen`, and the block does not match the filter.
    SeenOther,
    /// Never visited: the filter stops walks here.
    Barred,
    Visited,
    /// Visited, but not returned.
    VisitedOther,
}

impl BlockVisit {
    pub(super) fn start(id: BlockId, slot: u32) -> Self {
        BlockVisit { id, slot, from: NONE, depth: 0, edge_type: 0, end: End::Target, state: VisitState::Seen }
    }

    pub(super) fn visit(&mut self) {
        self.state = match self.state {
            VisitState::Seen | VisitState::Visited => VisitState::Visited,
            VisitState::SeenOther | VisitState::VisitedOther => VisitState::VisitedOther,
            VisitState::Barred => unreachable!("a barred block is never visited"),
        };
    }

    pub(super) fn is_visited(&self) -> bool {
        matches!(self.state, VisitState::Visited | VisitState::VisitedOther)
    }

    /// Whether the walk gives it.
    pub(super) fn is_given(&self) -> bool {
        self.state == VisitState::Visited
    }
}

/// The block with this number, as a visit.
pub(super) fn visit_of(met: &[BlockVisit], number: u32) -> Visit {
    let visit = &met[number as usize];
    let from = met.get(visit.from as usize);
    let from = from.map(|from| WalkStep { block: from.id, edge_type: visit.edge_type, end: visit.end });
    Visit { block: visit.id, depth: visit.depth as usize, from }
}
