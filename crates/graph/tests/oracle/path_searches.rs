//! Searches for a shortest path that begin after a commit and continue while others commit, against
//! a walk of the naive graph.

use quire_graph::{BlockId, End, PathWalker, WalkPlan, WalkProgress, WalkStep};
use quire_model::Position;
use quire_model::memory::World;

use crate::{BLOCKS, Graphs, Naive, NaiveGraph, id};

/// A search that began after a commit, and the graph as it was then.
pub(crate) struct BegunSearch {
    graph: &'static str,
    ends: (BlockId, BlockId),
    with_missing: bool,
    search: PathWalker<'static>,
    naive: NaiveGraph,
}

/// Searches from each block to two others, with and without missing blocks.
pub(crate) fn begin(naive: &Naive, at: Position) -> Vec<BegunSearch> {
    let mut begun = Vec::new();
    for (graph, naive) in naive {
        for start in 0..BLOCKS {
            for (target, with_missing) in [(start + 1, true), (start + 2, false)] {
                let ends = (id(start), id(target % BLOCKS));
                let plan = WalkPlan { with_missing, ..WalkPlan::default() };
                let search = PathWalker::new(ends, plan, at);
                begun.push(BegunSearch { graph, ends, with_missing, search, naive: naive.clone() });
            }
        }
    }
    begun
}

impl BegunSearch {
    /// The end of the path that is not there.
    fn absent(&self) -> Option<BlockId> {
        let is_there = |block: BlockId| self.naive.blocks.contains_key(&block);
        let has_edges = |block: BlockId| self.naive.edges.iter().any(|edge| edge.0 == block || edge.2 == block);
        let (start, target) = self.ends;
        if !is_there(start) {
            return Some(start);
        }
        let is_known = is_there(target) || (self.with_missing && has_edges(target));
        (!is_known).then_some(target)
    }

    /// Continues for `edges` edges; returns whether the search is finished.
    pub(crate) fn advance(&mut self, world: &World<Graphs>, edges: usize) -> bool {
        let graph = world.model.graph(self.graph).expect("it is there");
        let progress = self.search.advance(graph, &world.log, edges).expect("readable");
        match self.absent() {
            Some(absent) => assert_eq!(progress, WalkProgress::NoSuchBlock(absent)),
            None => assert!(!matches!(progress, WalkProgress::NoSuchBlock(_)), "{progress:?}"),
        }
        progress != WalkProgress::More
    }

    pub(crate) fn check(self, world: &World<Graphs>) {
        if self.absent().is_some() {
            return;
        }
        let graph = world.model.graph(self.graph).expect("it is there");
        let (at, (start, target)) = (self.search.at(), self.ends);
        let mut reachable = self.naive.clone();
        if !self.with_missing {
            let blocks = &self.naive.blocks;
            reachable.edges.retain(|edge| blocks.contains_key(&edge.0) && blocks.contains_key(&edge.2));
        }
        let visits = reachable.walk(start);
        let expected = visits.iter().find(|visit| visit.0 == target).map(|visit| visit.1);
        let found = self.search.finish();
        assert_eq!(found.bound, None);
        assert_eq!(found.paths.first().map(|path| path.len() - 1), expected, "at {at}");
        let Some(path) = found.paths.first() else { return };
        assert_eq!((path[0].block, path[path.len() - 1].block), self.ends);
        for (depth, pair) in path.windows(2).enumerate() {
            let WalkStep { block, edge_type, end } = pair[1].from.expect("a step");
            assert_eq!((block, end, pair[1].depth), (pair[0].block, End::Target, depth + 1));
            let edge_type = graph.edge_type_name(edge_type);
            let is_edge = |edge: &(BlockId, String, BlockId, Vec<u8>)| {
                (edge.0, edge.1.as_str(), edge.2) == (block, edge_type, pair[1].block)
            };
            assert!(reachable.edges.iter().any(is_edge), "{block} {edge_type} {} at {at}", pair[1].block);
        }
    }
}
