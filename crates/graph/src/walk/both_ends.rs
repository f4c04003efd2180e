//! A shortest path between two blocks, by a search from both of its ends (I. Pohl, *Bi-directional
//! search*, 1971).
//!
//! ```text
//! start ── forward: level by level ──▶ meeting ◀── level by level: backward ── target
//! ```
//!
//! Each side visits breadth first, and only whole levels: always the side whose last level has
//! fewer blocks. Invariant: while the sides have no block in common, every path has more edges than
//! both depths together. So the first block that both have is on a shortest path. The choice of the
//! side depends only on the graph at the position, so the same search finds the same path.

use alloc::vec::Vec;

use quire_model::{History, Position, ReadError};

use super::met::{VisitState, visit_of};
use super::paths::Paths;
use super::tokens::NONE;
use super::{TraversalOrder, Visit, WalkBound, WalkInput, WalkPlan, WalkProgress, WalkStep, Walker};
use crate::{BlockId, Graph};

/// The search for a shortest path between two blocks, under way.
#[derive(Debug)]
pub struct PathWalker<'p> {
    forward: SearchSide<'p>,
    backward: SearchSide<'p>,
    is_forward: bool,
    /// The most edges of a path, and the most blocks that both sides visit.
    depth_max: usize,
    visited_max: usize,
    progress: SearchProgress,
}

/// One side of the search.
#[derive(Debug)]
struct SearchSide<'p> {
    walker: Walker<'p>,
    /// The depth of its last level, which may be incomplete.
    depth: usize,
    /// The number of the first block after the level that is expanded.
    level_end: usize,
}

#[derive(Debug, Clone, Copy)]
enum SearchProgress {
    /// The starts of both sides were not met yet.
    New,
    Searching,
    /// Both sides have a block: its number in the forward and in the backward side.
    Met(u32, u32),
    /// No path was found, within the bound if there is one.
    Ended(Option<WalkBound>),
}

impl<'p> SearchSide<'p> {
    fn new(start: BlockId, plan: WalkPlan<'p>, at: Position) -> Self {
        SearchSide { walker: Walker::new(&[start], plan, at), depth: 0, level_end: 0 }
    }

    /// The number of blocks whose edges come next.
    fn frontier(&self) -> usize {
        self.walker.met.len() - self.walker.next as usize
    }

    /// The number of a block that this side visited.
    fn visited(&mut self, id: BlockId, slot: u32, graph: &Graph) -> Option<u32> {
        let slot = if slot == NONE { self.walker.slot_of(id, graph) } else { slot };
        let number = self.walker.number(id, slot, graph)?;
        self.walker.met[number as usize].is_visited().then_some(number)
    }

    /// Continues the level for about `left` edges. Returns whether the level is complete, and the
    /// numbers of a block that both sides visited, in this side and in the other one.
    fn expand_level(
        &mut self,
        other: &mut Self,
        is_last: bool,
        ground: WalkInput<'_>,
        left: &mut usize,
    ) -> Result<(bool, Option<(u32, u32)>), ReadError> {
        let walker = &mut self.walker;
        while (walker.next as usize) < self.level_end && !walker.is_closed {
            walker.fetch_ahead(ground);
            let number = walker.next;
            if walker.met[number as usize].is_visited() {
                let mut meeting = None;
                let is_all = walker.expand(number, ground, left, |walker, far| {
                    let known = walker.met.len();
                    let goes_on = walker.take_breadth(number, is_last, far, ground)?;
                    // A block that the other side has visited is no further block, so the limit of
                    // visits allows it. The limit of edges does not.
                    let new = walker.met.get(known).copied();
                    if let Some(new) = new.filter(|new| !is_last && new.state != VisitState::Barred) {
                        let common = other.visited(new.id, new.slot, ground.graph);
                        meeting = common.map(|common| (known as u32, common));
                    }
                    Ok(goes_on && meeting.is_none())
                })?;
                if meeting.is_some() {
                    return Ok((true, meeting));
                }
                if !is_all {
                    return Ok((false, None));
                }
            }
            walker.next += 1;
            *left -= 1;
            if *left == 0 {
                break;
            }
        }
        Ok((walker.is_closed || walker.next as usize == self.level_end, None))
    }
}

impl<'p> PathWalker<'p> {
    /// A search for a path from `start` to `target`, through the graph as it is after the record at
    /// this position. The filter of the plan applies to the blocks between the two. The target may
    /// be a missing block with edges, unless the plan excludes these.
    pub fn new((start, target): (BlockId, BlockId), plan: WalkPlan<'p>, at: Position) -> Self {
        let plan = WalkPlan { order: TraversalOrder::BreadthFirst, with_edges: false, results_max: usize::MAX, ..plan };
        let (depth_max, visited_max) = (plan.depth_max, plan.visited_max);
        let plan = WalkPlan { depth_max: usize::MAX, visited_max: usize::MAX, ..plan };
        let back = WalkPlan { direction: plan.direction.reversed(), exempt: Some(start), ..plan };
        let forward = SearchSide::new(start, WalkPlan { exempt: Some(target), ..plan }, at);
        let mut backward = SearchSide::new(target, back, at);
        backward.walker.is_missing_start_known = plan.with_missing;
        PathWalker { forward, backward, is_forward: true, depth_max, visited_max, progress: SearchProgress::New }
    }

    /// The position of the search.
    pub fn at(&self) -> Position {
        self.forward.walker.at()
    }

    /// Whether the search reads the entry of each block that it meets.
    pub fn reads_entries(&self) -> bool {
        self.forward.walker.reads_entries()
    }

    /// The memory of the search in bytes.
    pub fn bytes(&self) -> usize {
        self.forward.walker.bytes() + self.backward.walker.bytes()
    }

    /// The number of blocks that were visited.
    pub fn visited(&self) -> usize {
        self.forward.walker.visited + self.backward.walker.visited
    }

    /// Stops the search where it is, for this reason.
    pub fn stop(&mut self, bound: WalkBound) {
        if matches!(self.progress, SearchProgress::New | SearchProgress::Searching) {
            self.progress = SearchProgress::Ended(Some(bound));
        }
    }

    /// Continues as [`Walker::advance`] does. [`WalkProgress::NoSuchBlock`] names the end of the
    /// path that is not there.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn advance(&mut self, graph: &Graph, history: &dyn History, edges: usize) -> Result<WalkProgress, ReadError> {
        graph.check_history(self.at())?;
        let ground = WalkInput { graph, history };
        for side in [&mut self.forward, &mut self.backward] {
            let progress = side.walker.prepare(ground, &mut 2)?;
            if progress != WalkProgress::Done {
                return Ok(progress);
            }
        }
        let mut left = edges.max(1);
        if let SearchProgress::New = self.progress {
            self.progress = SearchProgress::Searching;
            let start = self.forward.walker.met[0];
            match self.backward.visited(start.id, start.slot, graph) {
                Some(common) => self.progress = SearchProgress::Met(0, common),
                None => self.begin_level(),
            }
        }
        while let SearchProgress::Searching = self.progress
            && left > 0
        {
            self.search(ground, &mut left)?;
        }
        history.claim((edges.max(1) - left) as u64)?;
        let is_done = !matches!(self.progress, SearchProgress::Searching);
        Ok(if is_done { WalkProgress::Done } else { WalkProgress::More })
    }

    /// Continues the level of one side, and begins the next level after its end.
    fn search(&mut self, ground: WalkInput<'_>, left: &mut usize) -> Result<(), ReadError> {
        let is_last = self.forward.depth + self.backward.depth > self.depth_max;
        let (near, far) = match self.is_forward {
            true => (&mut self.forward, &mut self.backward),
            false => (&mut self.backward, &mut self.forward),
        };
        let (is_complete, meeting) = near.expand_level(far, is_last, ground, left)?;
        if let Some((near, far)) = meeting {
            let (forward, backward) = if self.is_forward { (near, far) } else { (far, near) };
            self.progress = SearchProgress::Met(forward, backward);
        } else if near.walker.is_closed {
            self.progress = SearchProgress::Ended(near.walker.bound);
        } else if is_complete {
            self.begin_level();
        }
        Ok(())
    }

    fn begin_level(&mut self) {
        let frontiers = (self.forward.frontier(), self.backward.frontier());
        if frontiers.0 == 0 || frontiers.1 == 0 {
            self.progress = SearchProgress::Ended(None);
            return;
        }
        self.is_forward = frontiers.0 <= frontiers.1;
        let (near, far) = match self.is_forward {
            true => (&mut self.forward, &self.backward),
            false => (&mut self.backward, &self.forward),
        };
        near.depth += 1;
        near.level_end = near.walker.met.len();
        near.walker.plan.visited_max = self.visited_max.saturating_sub(far.walker.visited);
    }

    /// The result of the search: one path or none. A path has no bound.
    pub fn finish(self) -> Paths {
        match self.progress {
            SearchProgress::Met(forward, backward) => {
                Paths { paths: [self.path(forward, backward)].into(), bound: None }
            }
            SearchProgress::Ended(bound) => Paths { paths: Vec::new(), bound },
            SearchProgress::New | SearchProgress::Searching => Paths { paths: Vec::new(), bound: None },
        }
    }

    /// The path through a block that both sides visited.
    fn path(&self, forward: u32, backward: u32) -> Vec<Visit> {
        let met = &self.forward.walker.met;
        let mut path = Vec::new();
        let mut number = forward;
        while number != NONE {
            path.push(visit_of(met, number));
            number = met[number as usize].from;
        }
        path.reverse();
        let met = &self.backward.walker.met;
        let mut near = met[backward as usize];
        while let Some(next) = met.get(near.from as usize) {
            // The backward side came from `next` along this edge.
            let step = WalkStep { block: near.id, edge_type: near.edge_type, end: near.end.opposite() };
            path.push(Visit { block: next.id, depth: path.len(), from: Some(step) });
            near = *next;
        }
        path
    }
}
