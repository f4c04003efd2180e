//! Walks and searches of paths in a graph as it was at one position. They pause for writers.

use std::time::Duration;

use quire_model::Timestamp;

use crate::graph::{
    BlockId, Graph, ListCursor, ListPlan, PathCost, PathWalker, Paths, TraversalOrder, Walk, WalkBound, WalkPlan,
    WalkProgress, Walker, Wants,
};
use crate::handles::GraphSnapshot;
use crate::{Error, ErrorKind, History, Reader, Result};

/// Number of edges that a walk follows before writers get their turn.
const AT_ONCE: usize = 4096;

/// Number of edges that a walk follows before writers get their turn, when it reads an entry for
/// each.
const READ_AT_ONCE: usize = 512;

/// A walk or a search under way, which pauses for writers.
trait PausableWalk {
    fn reads_entries(&self) -> bool;
    fn bytes(&self) -> usize;
    fn stop(&mut self, bound: WalkBound);
    fn advance(&mut self, graph: &Graph, history: &Reader, edges: usize) -> Result<WalkProgress>;
}

impl PausableWalk for Walker<'_> {
    fn reads_entries(&self) -> bool {
        self.reads_entries()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn stop(&mut self, bound: WalkBound) {
        self.stop(bound);
    }

    fn advance(&mut self, graph: &Graph, history: &Reader, edges: usize) -> Result<WalkProgress> {
        Ok(self.advance(graph, history, edges)?)
    }
}

impl PausableWalk for PathWalker<'_> {
    fn reads_entries(&self) -> bool {
        self.reads_entries()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn stop(&mut self, bound: WalkBound) {
        self.stop(bound);
    }

    fn advance(&mut self, graph: &Graph, history: &Reader, edges: usize) -> Result<WalkProgress> {
        Ok(self.advance(graph, history, edges)?)
    }
}

impl GraphSnapshot {
    /// Walks the graph from the blocks in `starts`.
    ///
    /// ```
    /// use quire::graph::{BlockId, WalkPlan};
    /// use quire::{NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let air = db.graph("air/routes");
    /// for code in ["EWR", "IAH", "SFO"] {
    ///     air.put_block(NewBlock::new(code, "airport"))?;
    /// }
    /// for (from, to) in [("EWR", "IAH"), ("IAH", "SFO")] {
    ///     air.put_edge(NewEdge::new(from, "flies_to", to))?;
    /// }
    /// let plan = WalkPlan { edge_types: &["flies_to"], depth_max: 2, ..WalkPlan::default() };
    /// let walk = air.snapshot()?.expect("it was just made").walk(&[BlockId::of_name("EWR")], plan, None)?;
    /// assert_eq!(walk.visits().map(|visit| visit.depth).collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the graph did not have one of the blocks.
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn walk(&self, starts: &[BlockId], plan: WalkPlan<'_>, time_max: Option<Duration>) -> Result<Walk> {
        self.walk_claiming(starts, plan, time_max, |_| Ok(()))
    }

    /// As [`GraphSnapshot::walk`]. Calls `claim` with the memory of the walk in bytes as it grows.
    ///
    /// # Errors
    /// As [`GraphSnapshot::walk`], and the error of `claim`, which ends the walk.
    pub fn walk_claiming<E: From<Error>>(
        &self,
        starts: &[BlockId],
        plan: WalkPlan<'_>,
        time_max: Option<Duration>,
        claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Walk, E> {
        let mut walker = Walker::new(starts, plan, self.at());
        self.carry_out(&mut walker, time_max, claim)?;
        Ok(walker.finish())
    }

    /// Walks the whole graph: from every block that matches the filter of the plan, in the order of
    /// [`GraphSnapshot::list`], up to `visited_max` blocks. Orders and components of the walk are
    /// those of the whole graph.
    ///
    /// ```
    /// use quire::graph::WalkPlan;
    /// use quire::{NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let code = db.graph("code");
    /// for name in ["parse", "lex", "print"] {
    ///     code.put_block(NewBlock::new(name, "function"))?;
    /// }
    /// code.put_edge(NewEdge::new("parse", "calls", "lex"))?;
    /// let snapshot = code.snapshot()?.expect("it was just made");
    /// let plan = WalkPlan { with_edges: true, ..WalkPlan::default() };
    /// assert_eq!(snapshot.walk_whole(plan, None)?.components().len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`GraphSnapshot::list`].
    pub fn walk_whole(&self, plan: WalkPlan<'_>, time_max: Option<Duration>) -> Result<Walk> {
        self.walk_whole_claiming(plan, time_max, |_| Ok(()))
    }

    /// As [`GraphSnapshot::walk_whole`], with `claim` as in [`GraphSnapshot::walk_claiming`].
    ///
    /// # Errors
    /// As [`GraphSnapshot::walk_claiming`].
    pub fn walk_whole_claiming<E: From<Error>>(
        &self,
        plan: WalkPlan<'_>,
        time_max: Option<Duration>,
        mut claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Walk, E> {
        let deadline = self.deadline(time_max);
        let (mut starts, mut refused) = (Vec::new(), None);
        let mut is_full = false;
        let next =
            self.list(&ListPlan { filter: plan.filter, source_prefix: "" }, ListCursor::START, time_max, |block| {
                is_full = starts.len() >= plan.visited_max;
                if is_full {
                    return Wants::Break(());
                }
                starts.push(block.id);
                if starts.len().is_multiple_of(AT_ONCE) {
                    refused = claim(size_of::<BlockId>() * starts.capacity()).err();
                }
                if refused.is_some() { Wants::Break(()) } else { Wants::Continue(()) }
            })?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        // The walk holds the starts meanwhile.
        claim(2 * size_of::<BlockId>() * starts.capacity())?;
        let mut walker = Walker::new(&starts, plan, self.at());
        drop(starts);
        if is_full {
            walker.stop(WalkBound::Visited);
        } else if next.is_some() {
            walker.stop(if self.is_nearly_spent() { WalkBound::Steps } else { WalkBound::Time });
        }
        self.carry_out(&mut walker, deadline.map(|deadline| self.left(deadline)), claim)?;
        Ok(walker.finish())
    }

    /// Searches a shortest path from one block to another, from both ends. The filter of the plan
    /// applies to the blocks between the two. With [`WalkPlan::with_missing`], the target may be a
    /// missing block with edges.
    ///
    /// ```
    /// use quire::graph::{BlockId, WalkPlan};
    /// use quire::{NewBlock, NewEdge};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let air = db.graph("air/routes");
    /// for code in ["EWR", "IAH", "SFO"] {
    ///     air.put_block(NewBlock::new(code, "airport"))?;
    /// }
    /// for (from, to) in [("EWR", "IAH"), ("IAH", "SFO")] {
    ///     air.put_edge(NewEdge::new(from, "flies_to", to))?;
    /// }
    /// let routes = air.snapshot()?.expect("it was just made");
    /// let ends = (BlockId::of_name("EWR"), BlockId::of_name("SFO"));
    /// let found = routes.shortest_path(ends, WalkPlan::default(), None)?;
    /// assert_eq!(found.paths[0].iter().map(|visit| visit.depth).collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the graph did not have one of the ends.
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn shortest_path(
        &self,
        ends: (BlockId, BlockId),
        plan: WalkPlan<'_>,
        time_max: Option<Duration>,
    ) -> Result<Paths> {
        self.shortest_path_claiming(ends, plan, time_max, |_| Ok(()))
    }

    /// As [`GraphSnapshot::shortest_path`], with `claim` as in [`GraphSnapshot::walk_claiming`].
    ///
    /// # Errors
    /// As [`GraphSnapshot::shortest_path`], and the error of `claim`, which ends the search.
    pub fn shortest_path_claiming<E: From<Error>>(
        &self,
        ends: (BlockId, BlockId),
        plan: WalkPlan<'_>,
        time_max: Option<Duration>,
        claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Paths, E> {
        let mut search = PathWalker::new(ends, plan, self.at());
        self.carry_out(&mut search, time_max, claim)?;
        Ok(search.finish())
    }

    /// Returns the paths from one block to another that visit no block twice, shortest first: up to
    /// `count_max` paths of at most `depth_max` edges, among the `visited_max` blocks nearest to
    /// the start. The ends and the filter are as in [`GraphSnapshot::shortest_path`].
    ///
    /// # Errors
    /// As [`GraphSnapshot::shortest_path`].
    pub fn paths(
        &self,
        ends: (BlockId, BlockId),
        plan: WalkPlan<'_>,
        count_max: usize,
        time_max: Option<Duration>,
    ) -> Result<Paths> {
        self.paths_claiming(ends, plan, count_max, time_max, |_| Ok(()))
    }

    /// As [`GraphSnapshot::paths`], with `claim` as in [`GraphSnapshot::walk_claiming`].
    ///
    /// # Errors
    /// As [`GraphSnapshot::shortest_path_claiming`].
    pub fn paths_claiming<E: From<Error>>(
        &self,
        (start, target): (BlockId, BlockId),
        plan: WalkPlan<'_>,
        count_max: usize,
        time_max: Option<Duration>,
        mut claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Paths, E> {
        let deadline = self.deadline(time_max).unwrap_or(Timestamp::MAX);
        if !self.is_target(target, plan.with_missing)? {
            return Err(Error::from(self.unknown_block(target, None)).into());
        }
        let (direction, depth_max) = (plan.direction, plan.depth_max);
        let plan = WalkPlan {
            order: TraversalOrder::BreadthFirst,
            exempt: Some(target),
            with_edges: true,
            results_max: usize::MAX,
            ..plan
        };
        let mut held = 0;
        let walk = self.walk_claiming(&[start], plan, time_max, |bytes| {
            held = bytes;
            claim(bytes)
        })?;
        held += walk.analysis_bytes();
        claim(held)?;
        let mut refused = None;
        let mut bound = |cost: PathCost| {
            held += cost.bytes;
            refused = claim(held).err();
            if refused.is_some() { Some(WalkBound::Results) } else { self.bound(cost.steps, deadline) }
        };
        let found = walk.paths((start, target), direction, depth_max, count_max, &mut bound);
        refused.map_or(Ok(found), Err)
    }

    /// Whether a path may end at a block: it exists, or is missing, has edges and may be visited.
    fn is_target(&self, block: BlockId, with_missing: bool) -> Result<bool> {
        if with_missing { self.knows(block) } else { self.contains(block) }
    }

    fn carry_out<E: From<Error>>(
        &self,
        walk: &mut impl PausableWalk,
        time_max: Option<Duration>,
        mut claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let deadline = self.deadline(time_max);
        let edges = if walk.reads_entries() { READ_AT_ONCE } else { AT_ONCE };
        loop {
            let advanced = self.look(|graph| walk.advance(graph, &self.history, edges));
            claim(walk.bytes())?;
            let bound = match advanced {
                Ok(WalkProgress::Done) => return Ok(()),
                Ok(WalkProgress::NoSuchBlock(block)) => return Err(Error::from(self.unknown_block(block, None)).into()),
                Ok(WalkProgress::More) => self.bound(0, deadline.unwrap_or(Timestamp::MAX)),
                Err(error) if error.kind() == ErrorKind::TooCostly => Some(WalkBound::Steps),
                Err(error) => return Err(error.into()),
            };
            if let Some(bound) = bound {
                walk.stop(bound);
                return Ok(());
            }
        }
    }

    /// Claims `steps` steps of a walk's further evaluation. Returns the bound that ends it, if the
    /// time or the steps of the request are used up.
    pub fn bound(&self, steps: u32, deadline: Timestamp) -> Option<WalkBound> {
        if self.history.claim(steps.into()).is_err() || self.is_nearly_spent() {
            Some(WalkBound::Steps)
        } else if self.database.now() >= deadline {
            Some(WalkBound::Time)
        } else {
            None
        }
    }
}
