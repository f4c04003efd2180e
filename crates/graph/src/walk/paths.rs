//! All ways from one block to another that visit no block twice.
//!
//! Their number grows exponentially, so a request has bounds on their number, on their length and
//! on the time. A path is extended only while it can still reach the target within the length, by
//! the distances of a backward search from the target.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::links::{FollowedEdge, Links};
use super::tokens::NONE;
use super::{Visit, Walk, WalkBound, WalkStep};
use crate::{BlockId, Direction};

/// The least number of steps between two calls of `bound`.
const STEPS_AT_ONCE: u32 = 4096;

/// Ways from a block to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Each from the start to the target, in the order of a walk depth first.
    pub paths: Vec<Vec<Visit>>,
    /// The limit that ended the search. With [`WalkBound::Depth`] there may be paths of more edges,
    /// which may visit a block twice.
    pub bound: Option<WalkBound>,
}

impl Walk {
    /// The paths from `start` to `target` along the walked edges, in this direction, that visit no
    /// block twice. Returns at most `count_max` paths of at most `edges_max` edges. Calls `bound`
    /// with the number of steps since its last call, and stops with the bound that it returns. The
    /// visits of the paths found meanwhile are no more than these steps.
    ///
    /// It looks at the edges that the walk gives: see
    /// [`WalkPlan::with_edges`](crate::WalkPlan::with_edges).
    pub fn paths(
        &self,
        (start, target): (BlockId, BlockId),
        direction: Direction,
        edges_max: usize,
        count_max: usize,
        bound: &mut dyn FnMut(u32) -> Option<WalkBound>,
    ) -> Paths {
        let mut found = Paths { paths: Vec::new(), bound: self.bound };
        let number = |id: BlockId| self.order.iter().copied().find(|number| self.met[*number as usize].id == id);
        let Some((start, target)) = number(start).zip(number(target)) else { return found };
        let distances = self.distances(target, direction);
        let links = Links::of(self, direction);
        let leads_there = |number: u32| distances[number as usize] != NONE;
        let is_near =
            |number: u32, edges: usize| leads_there(number) && edges + distances[number as usize] as usize <= edges_max;
        if !is_near(start, 0) {
            if leads_there(start) {
                found.bound.get_or_insert(WalkBound::Depth);
            }
            return found;
        }
        let mut is_on_way = alloc::vec![false; self.met.len()];
        // The way so far: each block, how many of its edges were tried, and the edge that led to
        // it.
        let mut way: Vec<(u32, usize, Option<FollowedEdge>)> = alloc::vec![(start, 0, None)];
        is_on_way[start as usize] = true;
        let mut steps = 0;
        while let Some((number, tried, _)) = way.last() {
            // A path takes a step for each of its visits, which are copied.
            let visits = if *number == target && *tried == 0 { way.len() } else { 0 };
            steps += 1 + u32::try_from(visits).unwrap_or(u32::MAX - STEPS_AT_ONCE);
            if steps >= STEPS_AT_ONCE
                && let Some(bound) = bound(core::mem::take(&mut steps))
            {
                found.bound = Some(bound);
                return found;
            }
            let (number, next) = (*number, *tried);
            way.last_mut().expect("it has one").1 += 1;
            let edge = if number == target { None } else { links.from(number).get(next).copied() };
            if number == target {
                if found.paths.len() == count_max {
                    found.bound = Some(WalkBound::Results);
                    return found;
                }
                found.paths.push(self.way_of(&way));
            }
            match edge {
                Some(edge) if !is_on_way[edge.to as usize] && is_near(edge.to, way.len()) => {
                    is_on_way[edge.to as usize] = true;
                    way.push((edge.to, 0, Some(edge)));
                }
                Some(edge) => {
                    if !is_on_way[edge.to as usize] && leads_there(edge.to) {
                        found.bound.get_or_insert(WalkBound::Depth);
                    }
                }
                None => {
                    is_on_way[number as usize] = false;
                    way.pop();
                }
            }
        }
        found
    }

    fn way_of(&self, way: &[(u32, usize, Option<FollowedEdge>)]) -> Vec<Visit> {
        let id = |number: u32| self.met[number as usize].id;
        let visit = |(depth, (number, _, edge)): (usize, &(u32, usize, Option<FollowedEdge>))| Visit {
            block: id(*number),
            depth,
            from: edge.map(|edge| WalkStep { block: id(way[depth - 1].0), edge_type: edge.edge_type, end: edge.end }),
        };
        way.iter().enumerate().map(visit).collect()
    }

    /// Returns the distance of each block to the target, in edges.
    fn distances(&self, target: u32, direction: Direction) -> Vec<u32> {
        let backwards = match direction {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
            Direction::Both => Direction::Both,
        };
        let links = Links::of(self, backwards);
        let mut distances = alloc::vec![NONE; self.met.len()];
        distances[target as usize] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(number) = queue.pop_front() {
            for edge in links.from(number) {
                if distances[edge.to as usize] == NONE {
                    distances[edge.to as usize] = distances[number as usize] + 1;
                    queue.push_back(edge.to);
                }
            }
        }
        distances
    }
}
