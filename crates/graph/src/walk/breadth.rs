//! Breadth first: blocks are visited as they are met, so the list of those that were met is the
//! queue.

use quire_model::ReadError;

use super::met::VisitState;
use super::{WalkBound, WalkInput, Walker};

impl Walker<'_> {
    /// Continues for about `edges` edges; returns whether the walk is finished.
    pub(super) fn breadth_first(&mut self, ground: WalkInput<'_>, left: &mut usize) -> Result<bool, ReadError> {
        while (self.next as usize) < self.met.len() {
            // When no new block is left, edges between visited blocks are still searched, unless
            // the walk was stopped.
            if self.is_closed && (!self.plan.with_edges || self.bound.is_some_and(WalkBound::is_a_stop)) {
                return Ok(true);
            }
            self.fetch_ahead(ground);
            let number = self.next;
            let met = self.met[number as usize];
            if met.is_visited() {
                let is_last = met.depth as usize >= self.plan.depth_max;
                let all =
                    self.expand(number, ground, left, |this, far| this.take_breadth(number, is_last, far, ground))?;
                if !all {
                    return Ok(false);
                }
            }
            self.next += 1;
            *left -= 1;
            if *left == 0 {
                return Ok((self.next as usize) == self.met.len());
            }
        }
        Ok(true)
    }

    /// Handles an edge; returns whether to continue with the block's other edges.
    #[inline]
    pub(super) fn take_breadth(
        &mut self,
        near: u32,
        is_last: bool,
        far: super::expand::Far,
        ground: WalkInput<'_>,
    ) -> Result<bool, ReadError> {
        let (number, is_new) = self.meet_far(near, far, ground)?;
        if !is_new {
            self.note(near, far, number);
            return Ok(true);
        }
        let state = self.met[number as usize].state;
        if state == VisitState::Barred {
            return Ok(true);
        }
        self.note(near, far, number);
        let bound = if is_last {
            Some(WalkBound::Depth)
        } else if self.visited >= self.plan.visited_max {
            Some(WalkBound::Visited)
        } else if state == VisitState::Seen && self.given >= self.plan.results_max {
            Some(WalkBound::Results)
        } else {
            None
        };
        match bound {
            _ if self.is_closed => {}
            None => self.visit(number),
            Some(bound) => self.stop(bound),
        }
        Ok(!self.is_closed || self.plan.with_edges)
    }
}
