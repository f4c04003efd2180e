//! Walks along edges, within bounds, consistent at one position while writers continue.
//!
//! ```text
//! Walker::new ─▶ advance, advance, ...  a bounded number of edges each; writers commit in between ─▶ finish ─▶ Walk
//!                   │
//!                   ├─ the node in memory has not changed since the position: its lists tell
//!                   └─ it has: the log tells, by the block's tags before the position
//! ```
//!
//! Invariant: every block is visited once, as of the walk's position, regardless of later commits.
//! The order is defined ([`TraversalOrder`]) and depends on nothing else. Blocks to be visited
//! stand in a list, so a walk of any length needs no stack.

mod ahead;
mod both_ends;
mod breadth;
mod depth;
mod expand;
mod met;
mod plan;
mod scratch;
mod tokens;

mod components;
mod links;
mod paths;

use alloc::vec::Vec;

use quire_model::{History, Position, ReadError};

use crate::read::Types;
use crate::{BlockId, End, Graph};
pub use both_ends::PathWalker;
pub use components::{TopologicalOrder, truncate_sets};
use expand::EdgeCursor;
use met::{BlockVisit, VisitState};
pub use paths::{PathCost, Paths};
pub use plan::{BlockFilter, TraversalOrder, WalkBound, WalkPlan};
use tokens::Tokens;

/// A walk under way.
#[derive(Debug)]
pub struct Walker<'p> {
    plan: WalkPlan<'p>,
    at: Position,
    /// The starts that were not met yet, the next one last.
    starts: Vec<BlockId>,
    /// Whether a start may be a missing block with edges.
    is_missing_start_known: bool,
    /// A start that is not there.
    missing: Option<BlockId>,
    /// The numbers of the plan's names, in the catalogues of the first graph seen.
    resolved: Option<PlanNumbers>,
    tokens: Tokens,
    /// By number, in the order in which they were met.
    met: Vec<BlockVisit>,
    /// The numbers of the blocks visited depth first, in order; breadth first that is the order of
    /// `met`.
    order: Vec<u32>,
    /// Depth first: the numbers of the blocks to be visited, and from where.
    stack: Vec<depth::OpenEdge>,
    /// Breadth first: the number of the block whose edges come next.
    next: u32,
    /// Breadth first: up to which block memory was fetched ahead.
    fetched: u32,
    cursor: EdgeCursor,
    edges: Vec<Link>,
    visited: usize,
    given: usize,
    bound: Option<WalkBound>,
    /// Whether nothing new is to be visited any more.
    is_closed: bool,
}

/// The plan in numbers.
#[derive(Debug)]
struct PlanNumbers {
    types: Types,
    kinds: Vec<u16>,
    slots_freed: Position,
}

/// An edge between two blocks that were met, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    source: u32,
    edge_type: u16,
    target: u32,
}

/// The bytes of a block in an analysis: its numbers in the search, a component of its own, and its
/// id.
const ANALYSIS_BLOCK_BYTES: usize = 160;

/// The progress of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkProgress {
    /// There is more to do.
    More,
    /// It has ended.
    Done,
    /// This start is not there: the walk goes nowhere.
    NoSuchBlock(BlockId),
}

impl<'p> Walker<'p> {
    /// A walk from these blocks, through the graph as it is after the record at this position.
    ///
    /// # Panics
    /// When the plan asks for edges of a walk that is depth first.
    pub fn new(starts: &[BlockId], plan: WalkPlan<'p>, at: Position) -> Self {
        assert!(!plan.with_edges || plan.order == TraversalOrder::BreadthFirst, "edges are given breadth first");
        Walker {
            plan,
            at,
            starts: starts.iter().rev().copied().collect(),
            is_missing_start_known: false,
            missing: None,
            resolved: None,
            tokens: Tokens::none(),
            met: Vec::new(),
            order: Vec::new(),
            stack: Vec::new(),
            next: 0,
            fetched: 0,
            cursor: EdgeCursor::default(),
            edges: Vec::new(),
            visited: 0,
            given: 0,
            bound: None,
            is_closed: false,
        }
    }

    /// The position of the walk.
    pub fn at(&self) -> Position {
        self.at
    }

    /// Whether the walk reads the entry of each block that it meets.
    pub fn reads_entries(&self) -> bool {
        self.plan.filter.reads()
    }

    /// The memory of the walk in bytes.
    pub fn bytes(&self) -> usize {
        self.tokens.bytes()
            + size_of::<BlockId>() * self.starts.capacity()
            + size_of::<BlockVisit>() * self.met.capacity()
            + size_of::<u32>() * self.order.capacity()
            + size_of::<depth::OpenEdge>() * self.stack.capacity()
            + size_of::<Link>() * self.edges.capacity()
    }

    /// Stops the walk where it is, for this reason.
    pub fn stop(&mut self, bound: WalkBound) {
        self.bound.get_or_insert(bound);
        self.is_closed = true;
    }

    /// Continues for about `edges` edges, and claims as many steps from `history`. `graph` is the
    /// same graph every time, in its current state; `history` has every record up to the walk's
    /// position.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn advance(&mut self, graph: &Graph, history: &dyn History, edges: usize) -> Result<WalkProgress, ReadError> {
        graph.check_history(self.at)?;
        let ground = WalkInput { graph, history };
        let mut left = edges.max(1);
        let is_done = match self.prepare(ground, &mut left)? {
            WalkProgress::Done => match self.plan.order {
                TraversalOrder::BreadthFirst => self.breadth_first(ground, &mut left)?,
                TraversalOrder::DepthFirst => self.depth_first(ground, &mut left)?,
            },
            WalkProgress::More => false,
            missing => return Ok(missing),
        };
        history.claim((edges.max(1) - left) as u64)?;
        Ok(if is_done { WalkProgress::Done } else { WalkProgress::More })
    }

    /// Meets up to `left` starts. Returns [`WalkProgress::Done`] once every start was met.
    fn prepare(&mut self, ground: WalkInput<'_>, left: &mut usize) -> Result<WalkProgress, ReadError> {
        let graph = ground.graph;
        match &mut self.resolved {
            None => self.resolve(graph),
            Some(resolved) if resolved.slots_freed != graph.adjacency.slots_freed => {
                resolved.slots_freed = graph.adjacency.slots_freed;
                if self.tokens.is_by_slot() {
                    self.tokens.by_id(&self.met, &graph.adjacency);
                }
            }
            Some(_) => {}
        }
        if let Some(missing) = self.missing {
            return Ok(WalkProgress::NoSuchBlock(missing));
        }
        while let Some(start) = self.starts.pop() {
            let is_known =
                ground.is_there(start, self.at)? || (self.is_missing_start_known && ground.knows(start, self.at)?);
            if !is_known {
                self.missing = Some(start);
                return Ok(WalkProgress::NoSuchBlock(start));
            }
            self.meet_start(start, graph);
            if self.starts.is_empty() {
                self.starts = Vec::new();
                self.stack.reverse();
            }
            *left -= 1;
            if *left == 0 {
                return Ok(WalkProgress::More);
            }
        }
        Ok(WalkProgress::Done)
    }

    /// Reads the plan's names in the catalogues of the graph.
    fn resolve(&mut self, graph: &Graph) {
        self.tokens = Tokens::new(&graph.adjacency);
        if graph.adjacency.slots_freed > self.at {
            self.tokens.by_id(&self.met, &graph.adjacency);
        }
        let kinds = self.plan.filter.kinds.iter().filter_map(|kind| graph.kinds.number(kind));
        self.resolved = Some(PlanNumbers {
            types: graph.types(self.plan.edge_types),
            kinds: kinds.map(crate::names::narrow).collect(),
            slots_freed: graph.adjacency.slots_freed,
        });
    }

    fn meet_start(&mut self, start: BlockId, graph: &Graph) {
        let slot = self.slot_of(start, graph);
        if self.number(start, slot, graph).is_some() {
            return;
        }
        if self.met.len() >= self.plan.visited_max {
            self.stop(WalkBound::Visited);
            self.starts.clear();
            return;
        }
        self.meet(BlockVisit::start(start, slot), graph);
        let number = (self.met.len() - 1) as u32;
        match self.plan.order {
            TraversalOrder::BreadthFirst => self.visit(number),
            TraversalOrder::DepthFirst => self.stack.push(depth::OpenEdge::start(number)),
        }
    }

    /// Marks a block as visited.
    fn visit(&mut self, number: u32) {
        let met = &mut self.met[number as usize];
        met.visit();
        self.visited += 1;
        self.given += usize::from(met.is_given());
    }

    /// The result of a walk.
    pub fn finish(mut self) -> Walk {
        if self.plan.order == TraversalOrder::BreadthFirst {
            let visited = |number: &u32| self.met[*number as usize].is_visited();
            self.order = (0..self.met.len() as u32).filter(visited).collect();
        } else if !self.is_closed && self.met.iter().any(|met| !met.is_visited() && met.state != VisitState::Barred) {
            self.bound = Some(WalkBound::Depth);
        }
        let met = &self.met;
        self.edges.retain(|link| met[link.source as usize].is_visited() && met[link.target as usize].is_visited());
        Walk { at: self.at, met: self.met, order: self.order, edges: self.edges, bound: self.bound }
    }
}

/// The inputs of a walk.
#[derive(Clone, Copy)]
struct WalkInput<'g> {
    graph: &'g Graph,
    history: &'g dyn History,
}

/// The result of a walk.
#[derive(Debug)]
pub struct Walk {
    at: Position,
    met: Vec<BlockVisit>,
    order: Vec<u32>,
    edges: Vec<Link>,
    bound: Option<WalkBound>,
}

/// A block that a walk reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The block. It may be missing when an edge to it was put with `allow_missing`.
    pub block: BlockId,
    /// The number of edges from the start, on the path that the walk took.
    pub depth: usize,
    /// The edge by which the walk reached the block; `None` for a start.
    pub from: Option<WalkStep>,
}

/// The last edge on the way to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkStep {
    /// The block before it on the way.
    pub block: BlockId,
    /// The number of the edge's type. See [`Graph::edge_type_name`].
    pub edge_type: u16,
    /// The end of the edge at which the reached block stands.
    pub end: End,
}

/// An edge between two blocks that a walk reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedEdge {
    /// The block that the edge leaves.
    pub source: BlockId,
    /// The number of its type. See [`Graph::edge_type_name`].
    pub edge_type: u16,
    /// The block that the edge enters.
    pub target: BlockId,
}

impl Walk {
    /// The position of the graph that was walked.
    pub fn at(&self) -> Position {
        self.at
    }

    /// The bound that kept the walk from something; `None` when it saw all there is.
    pub fn bound(&self) -> Option<WalkBound> {
        self.bound
    }

    /// Returns an upper bound on the bytes that [`Walk::components`], [`Walk::topological_order`]
    /// and the search of [`Walk::paths`] take besides the walk and the paths.
    pub fn analysis_bytes(&self) -> usize {
        ANALYSIS_BLOCK_BYTES * self.met.len() + 2 * size_of::<links::FollowedEdge>() * self.edges.len()
    }

    /// Returns the number of visited blocks, returned or not.
    pub fn visited(&self) -> usize {
        self.order.len()
    }

    /// The blocks that match the plan's filter, in the order of the visits.
    pub fn visits(&self) -> impl Iterator<Item = Visit> {
        self.visits_from(0).map(|(_, visit)| visit)
    }

    /// The same, from the visit with this number on, each with its number: visits that are not
    /// given are numbered, too.
    pub fn visits_from(&self, first: usize) -> impl Iterator<Item = (usize, Visit)> {
        let order = self.order.get(first..).unwrap_or_default();
        let given = (first..).zip(order).filter(|(_, number)| self.met[**number as usize].is_given());
        given.map(|(index, number)| (index, self.visit_of(*number)))
    }

    /// The edges between the blocks that [`Walk::visits`] gives, when the plan asked for them.
    pub fn edges(&self) -> impl Iterator<Item = WalkedEdge> {
        self.edges_from(0).map(|(_, edge)| edge)
    }

    /// The same, from the edge with this number on, each with its number: edges that are not given
    /// are numbered, too.
    pub fn edges_from(&self, first: usize) -> impl Iterator<Item = (usize, WalkedEdge)> {
        let met = |number: u32| &self.met[number as usize];
        let links = (first..).zip(self.edges.get(first..).unwrap_or_default());
        let given = links.filter(move |(_, link)| met(link.source).is_given() && met(link.target).is_given());
        given.map(move |(index, link)| {
            let (source, target) = (met(link.source).id, met(link.target).id);
            (index, WalkedEdge { source, edge_type: link.edge_type, target })
        })
    }

    fn visit_of(&self, number: u32) -> Visit {
        met::visit_of(&self.met, number)
    }
}

impl Graph {
    /// Walks from a block through the graph as it is, at once; `None` when the block is not there.
    ///
    /// # Errors
    /// When the plan's filter reads entries, and one can't be read.
    pub fn walk(&self, history: &dyn History, start: BlockId, plan: WalkPlan<'_>) -> Result<Option<Walk>, ReadError> {
        let mut walker = Walker::new(&[start], plan, Position::MAX);
        match walker.advance(self, history, usize::MAX)? {
            WalkProgress::NoSuchBlock(_) => Ok(None),
            WalkProgress::Done | WalkProgress::More => Ok(Some(walker.finish())),
        }
    }

    /// The names of the edge types, by their numbers.
    pub fn edge_type_names(&self) -> impl Iterator<Item = &str> {
        (0..self.edge_types.count()).map(|number| self.edge_types.name(number))
    }

    /// The name of an edge type.
    ///
    /// # Panics
    /// When the graph has none of this number.
    pub fn edge_type_name(&self, number: u16) -> &str {
        self.edge_types.name(u32::from(number))
    }
}
