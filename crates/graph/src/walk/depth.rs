//! Depth first, in the order in which a recursion would visit, without one.
//!
//! A visit puts all edges of the block on the stack, the first on top. A block that is visited by
//! the time its turn comes is skipped, however short the path that leads to it again. So each block
//! is expanded once, each edge is read once from either end, and a visit never changes, whatever
//! bound ends the walk.

use quire_model::ReadError;

use super::met::VisitState;
use super::tokens::NONE;
use super::{WalkBound, WalkInput, Walker};
use crate::End;

/// A block to be visited.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenEdge {
    number: u32,
    from: u32,
    depth: u32,
    edge_type: u16,
    end: End,
}

impl OpenEdge {
    pub(super) fn start(number: u32) -> Self {
        OpenEdge { number, from: NONE, depth: 0, edge_type: 0, end: End::Target }
    }
}

impl Walker<'_> {
    /// Continues for about `edges` edges; returns whether the walk is finished.
    pub(super) fn depth_first(&mut self, ground: WalkInput<'_>, left: &mut usize) -> Result<bool, ReadError> {
        while let Some(pending) = self.stack.pop() {
            if self.is_closed {
                return Ok(true);
            }
            let met = &mut self.met[pending.number as usize];
            if met.is_visited() {
                continue;
            }
            let bound = if self.visited >= self.plan.visited_max {
                Some(WalkBound::Visited)
            } else if met.state == VisitState::Seen && self.given >= self.plan.results_max {
                Some(WalkBound::Results)
            } else {
                None
            };
            if let Some(bound) = bound {
                self.stop(bound);
                return Ok(true);
            }
            met.depth = pending.depth;
            (met.from, met.edge_type, met.end) = (pending.from, pending.edge_type, pending.end);
            self.visit(pending.number);
            self.order.push(pending.number);
            if self.is_closed {
                return Ok(true);
            }
            let bottom = self.stack.len();
            // All of a block's edges at once: half of them on the stack would be in no order.
            let mut all = usize::MAX;
            let number = pending.number;
            self.expand(number, ground, &mut all, |this, far| {
                let (number, _) = this.meet_far(pending.number, far, ground)?;
                let depth = pending.depth.saturating_add(1);
                let met = &this.met[number as usize];
                let is_within = depth as usize <= this.plan.depth_max;
                if met.state != VisitState::Barred && is_within && !met.is_visited() {
                    let OpenEdge { number: from, .. } = pending;
                    this.stack.push(OpenEdge { number, from, depth, edge_type: far.edge_type, end: far.end });
                }
                Ok(true)
            })?;
            self.stack[bottom..].reverse();
            *left = left.saturating_sub(self.stack.len() - bottom + 1);
            if *left == 0 {
                return Ok(self.stack.is_empty());
            }
        }
        Ok(true)
    }
}
