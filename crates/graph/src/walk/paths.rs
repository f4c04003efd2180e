//! The paths from one block to another that visit no block twice, shortest first.
//!
//! Yen's algorithm (J. Y. Yen, *Finding the k shortest loopless paths in a network*, 1971) with
//! Lawler's partition (E. L. Lawler, *A procedure for computing the k best solutions to discrete
//! optimization problems*, 1972):
//!
//! ```text
//! found paths ── as a tree of prefixes:   start ─▶ a ─▶ b ─▶ target
//!                                                  └─▶ c ─▶ target
//! each prefix ── the paths that continue it with an edge that no found path takes there,
//!                and a lower bound on their length
//! ```
//!
//! Every path that was not found yet belongs to exactly one prefix. The prefix with the least bound
//! is searched, for a path of exactly that length. The search goes only along blocks that are near
//! enough to the target, by the distances of one backward search that ignores the prefix. It finds
//! such a path, or a greater bound, or that the prefix has no path. The prefix may block the near
//! way, so a search without a result lets the next one go twice as far beyond the bound. A prefix
//! then costs at most a logarithm of searches, each in proportion to the walked edges.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::links::{FollowedEdge, Links};
use super::tokens::NONE;
use super::{Visit, Walk, WalkBound, WalkStep};
use crate::{BlockId, Direction};

/// The least number of steps between two calls of `bound`.
const STEPS_AT_ONCE: u32 = 4096;

/// The bytes of a prefix, with the spare memory of its lists.
const PREFIX_BYTES: usize = 2 * (size_of::<PathPrefix>() + size_of::<OpenPrefix>()) + 32;

/// Paths from a block to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Each path from the start to the target. Shorter paths come first. The order of equally long
    /// paths depends only on the graph at the position of the walk.
    pub paths: Vec<Vec<Visit>>,
    /// The limit that ended the search. With [`WalkBound::Depth`] there may be paths of more edges,
    /// which may visit a block twice.
    pub bound: Option<WalkBound>,
}

/// The cost of a search for paths since its last report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathCost {
    /// The edges that the search looked at, and the visits of the paths that it found.
    pub steps: u32,
    /// The memory that the search and its results took in addition, in bytes.
    pub bytes: usize,
}

impl Walk {
    /// The paths from `start` to `target` along the walked edges, in this direction, that visit no
    /// block twice, shortest first. Returns at most `count_max` paths of at most `edges_max` edges.
    /// Calls `bound` with the cost since its last call, and stops with the bound that it returns.
    ///
    /// It looks at the edges that the walk gives: see
    /// [`WalkPlan::with_edges`](crate::WalkPlan::with_edges).
    pub fn paths(
        &self,
        (start, target): (BlockId, BlockId),
        direction: Direction,
        edges_max: usize,
        count_max: usize,
        bound: &mut dyn FnMut(PathCost) -> Option<WalkBound>,
    ) -> Paths {
        let mut found = Paths { paths: Vec::new(), bound: self.bound };
        let number = |id: BlockId| self.order.iter().copied().find(|number| self.met[*number as usize].id == id);
        let Some((start, target)) = number(start).zip(number(target)) else { return found };
        let distances = self.distances(target, direction);
        let length = distances[start as usize];
        if length == NONE {
            return found;
        }
        if length as usize > edges_max {
            found.bound.get_or_insert(WalkBound::Depth);
            return found;
        }
        let mut search = PathSearch {
            walk: self,
            links: Links::of(self, direction),
            distances,
            target,
            edges_max,
            prefixes: Vec::new(),
            open: BinaryHeap::new(),
            opened: 0,
            marked: 0,
            is_on_path: alloc::vec![false; self.met.len()],
            round: 0,
            seen: alloc::vec![(0, NONE, NONE); self.met.len()],
            queue: Vec::new(),
            tail: Vec::new(),
            cost: PathCost::default(),
            bound,
        };
        search.begin(start, length);
        if start == target {
            match count_max {
                0 => found.bound = Some(WalkBound::Results),
                _ => found.paths.push(search.path()),
            }
            return found;
        }
        while let Some(OpenPrefix { length: Reverse(length), prefix, .. }) = search.open.pop() {
            match search.search(prefix, length) {
                Ok(PrefixProgress::Found) if found.paths.len() == count_max => {
                    found.bound = Some(WalkBound::Results);
                    return found;
                }
                Ok(PrefixProgress::Found) => {
                    found.paths.push(search.path());
                    if let Err(bound) = search.add_path(prefix, length) {
                        found.bound = Some(bound);
                        return found;
                    }
                }
                Ok(PrefixProgress::Longer(length)) if length as usize > edges_max => {
                    found.bound.get_or_insert(WalkBound::Depth);
                }
                Ok(PrefixProgress::Longer(length)) => search.open(prefix, length),
                Ok(PrefixProgress::Empty) => {}
                Err(bound) => {
                    found.bound = Some(bound);
                    return found;
                }
            }
        }
        found
    }

    /// Returns the distance of each block to the target, in edges.
    fn distances(&self, target: u32, direction: Direction) -> Vec<u32> {
        let links = Links::of(self, direction.reversed());
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

/// The beginning of found paths, up to a block before the target.
#[derive(Debug)]
struct PathPrefix {
    /// The prefix without its last block; itself for the start alone.
    parent: u32,
    /// The last block, by its number in the walk, and the edge to it.
    block: u32,
    edge: u32,
    /// The number of its edges.
    depth: u32,
    /// The edges with which found paths continue, sorted.
    taken: Vec<u32>,
    /// The number of searches that found no path since the last known length. Each doubles how far
    /// the next one goes beyond the bound.
    tries: u8,
}

/// A prefix whose further paths have at least this length. The greatest is searched next: of the
/// shortest, the last opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OpenPrefix {
    length: Reverse<u32>,
    opened: u64,
    prefix: u32,
}

/// The result of the search of a prefix.
#[derive(Debug, Clone, Copy)]
enum PrefixProgress {
    /// A path of the length. Its edges after the prefix are in [`PathSearch::tail`].
    Found,
    /// Its paths have at least this length.
    Longer(u32),
    /// It has no further path.
    Empty,
}

/// A search for paths. Blocks and edges are numbers of the walk and of its links.
struct PathSearch<'w> {
    walk: &'w Walk,
    links: Links,
    /// The distance of each block to the target.
    distances: Vec<u32>,
    target: u32,
    edges_max: usize,
    /// The first is that of the start.
    prefixes: Vec<PathPrefix>,
    open: BinaryHeap<OpenPrefix>,
    opened: u64,
    /// The prefix whose blocks are marked in `is_on_path`.
    marked: u32,
    is_on_path: Vec<bool>,
    /// The number of the current search, and by block: the last search that saw it, the block from
    /// which, and the edge.
    round: u32,
    seen: Vec<(u32, u32, u32)>,
    queue: Vec<u32>,
    tail: Vec<u32>,
    cost: PathCost,
    bound: &'w mut dyn FnMut(PathCost) -> Option<WalkBound>,
}

impl PathSearch<'_> {
    fn begin(&mut self, start: u32, length: u32) {
        self.prefixes.push(PathPrefix { parent: 0, block: start, edge: NONE, depth: 0, taken: Vec::new(), tries: 0 });
        self.is_on_path[start as usize] = true;
        self.open(0, length);
    }

    fn open(&mut self, prefix: u32, length: u32) {
        self.opened += 1;
        self.open.push(OpenPrefix { length: Reverse(length), opened: self.opened, prefix });
    }

    /// Counts steps, and reports them once there are many.
    fn step(&mut self, steps: usize) -> Result<(), WalkBound> {
        self.cost.steps = self.cost.steps.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.cost.steps < STEPS_AT_ONCE {
            return Ok(());
        }
        (self.bound)(core::mem::take(&mut self.cost)).map_or(Ok(()), Err)
    }

    /// Searches for a path of this length that continues a prefix with an edge that was not taken,
    /// breadth first. No path of the prefix is shorter.
    fn search(&mut self, prefix: u32, length: u32) -> Result<PrefixProgress, WalkBound> {
        let PathPrefix { block, depth, tries, .. } = self.prefixes[prefix as usize];
        let edges_max = u32::try_from(self.edges_max).unwrap_or(u32::MAX - 1);
        let limit = length.saturating_add((1 << tries.min(30)) - 1).min(edges_max);
        let mut next = u32::MAX;
        let is_near = self.links.numbers_from(block).any(|edge| {
            let to = self.links.edge(edge).to;
            let least = self.least(depth + 1, to);
            let is_taken = least == NONE || self.prefixes[prefix as usize].taken.binary_search(&edge).is_ok();
            next = if is_taken { next } else { next.min(least) };
            !is_taken && least <= length
        });
        self.step(1 + self.links.from(block).len())?;
        if next == u32::MAX && !is_near {
            return Ok(PrefixProgress::Empty);
        }
        // A block of the prefix may be the reason for this bound: a later search finds out.
        if !is_near && next as usize <= self.edges_max {
            return Ok(PrefixProgress::Longer(next));
        }
        self.mark(prefix)?;
        self.round += 1;
        self.queue.clear();
        self.queue.push(block);
        (next, self.seen[block as usize]) = (u32::MAX, (self.round, NONE, NONE));
        let (mut depth, mut level_end) = (depth, 1);
        let mut index = 0;
        while let Some(from) = self.queue.get(index).copied() {
            if index == level_end {
                (depth, level_end) = (depth + 1, self.queue.len());
            }
            self.step(1 + self.links.from(from).len())?;
            for edge in self.links.numbers_from(from) {
                let FollowedEdge { to, .. } = self.links.edge(edge);
                let is_closed = self.is_on_path[to as usize] || self.seen[to as usize].0 == self.round;
                let least = self.least(depth + 1, to);
                if is_closed || least == NONE {
                    continue;
                }
                if index == 0 && self.prefixes[prefix as usize].taken.binary_search(&edge).is_ok() {
                    continue;
                }
                if least > limit {
                    next = next.min(least);
                    continue;
                }
                self.seen[to as usize] = (self.round, from, edge);
                if to == self.target {
                    if depth + 1 > length {
                        self.prefixes[prefix as usize].tries = 0;
                        return Ok(PrefixProgress::Longer(depth + 1));
                    }
                    self.trace(block);
                    return Ok(PrefixProgress::Found);
                }
                self.queue.push(to);
            }
            index += 1;
        }
        if next == u32::MAX {
            return Ok(PrefixProgress::Empty);
        }
        let tries = &mut self.prefixes[prefix as usize].tries;
        *tries = tries.saturating_add(1);
        Ok(PrefixProgress::Longer(next))
    }

    /// The least length of a path with this block at this depth; [`NONE`] when no path leads on.
    fn least(&self, depth: u32, block: u32) -> u32 {
        depth.saturating_add(self.distances[block as usize])
    }

    /// Notes the edges from the end of a prefix to the target.
    fn trace(&mut self, block: u32) {
        self.tail.clear();
        let mut number = self.target;
        while number != block {
            let (_, from, edge) = self.seen[number as usize];
            self.tail.push(edge);
            number = from;
        }
        self.tail.reverse();
    }

    /// Marks the blocks of a prefix, instead of those of the last one.
    fn mark(&mut self, prefix: u32) -> Result<(), WalkBound> {
        let (mut old, mut new) = (self.marked, prefix);
        let mut moves = 0;
        while old != new {
            let [old_prefix, new_prefix] = [old, new].map(|prefix| &self.prefixes[prefix as usize]);
            if old_prefix.depth >= new_prefix.depth {
                self.is_on_path[old_prefix.block as usize] = false;
                old = old_prefix.parent;
            } else {
                new = new_prefix.parent;
            }
            moves += 1;
        }
        let mut marked = prefix;
        while marked != new {
            let PathPrefix { block, parent, .. } = self.prefixes[marked as usize];
            self.is_on_path[block as usize] = true;
            marked = parent;
        }
        self.marked = prefix;
        self.step(moves)
    }

    /// The path that was found last: its prefix is the marked one.
    fn path(&mut self) -> Vec<Visit> {
        let mut edges = Vec::with_capacity(self.tail.len());
        let mut prefix = &self.prefixes[self.marked as usize];
        while prefix.edge != NONE {
            edges.push(prefix.edge);
            prefix = &self.prefixes[prefix.parent as usize];
        }
        edges.reverse();
        edges.extend_from_slice(&self.tail);
        let id = |number: u32| self.walk.met[number as usize].id;
        let mut last = id(prefix.block);
        let mut path = Vec::with_capacity(edges.len() + 1);
        path.push(Visit { block: last, depth: 0, from: None });
        for edge in edges {
            let FollowedEdge { to, edge_type, end } = self.links.edge(edge);
            let from = Some(WalkStep { block: last, edge_type, end });
            last = id(to);
            path.push(Visit { block: last, depth: path.len(), from });
        }
        self.cost.bytes += size_of::<Vec<Visit>>() * 2 + size_of::<Visit>() * path.len();
        path
    }

    /// Takes the edges of the path that was found last, so that the prefixes stand for the others.
    fn add_path(&mut self, prefix: u32, length: u32) -> Result<(), WalkBound> {
        let tail = core::mem::take(&mut self.tail);
        let first = self.prefixes.len();
        let taken = &mut self.prefixes[prefix as usize].taken;
        let index = taken.binary_search(&tail[0]).unwrap_or_else(|index| index);
        taken.insert(index, tail[0]);
        let mut parent = prefix;
        for pair in tail.windows(2) {
            let (edge, depth) = (pair[0], self.prefixes[parent as usize].depth + 1);
            let block = self.links.edge(edge).to;
            self.prefixes.push(PathPrefix { parent, block, edge, depth, taken: alloc::vec![pair[1]], tries: 0 });
            parent = (self.prefixes.len() - 1) as u32;
        }
        // The deepest is opened last: the search turns back as little as it can.
        for prefix in core::iter::once(prefix).chain(first as u32..self.prefixes.len() as u32) {
            let PathPrefix { block, ref taken, .. } = self.prefixes[prefix as usize];
            if taken.len() < self.links.from(block).len() {
                self.open(prefix, length);
            }
        }
        self.cost.bytes += PREFIX_BYTES * tail.len();
        self.tail = tail;
        self.step(length as usize + 1)
    }
}
