//! A graph as it was at one position, read while writers continue.
//!
//! Each read of the state in memory takes a bounded time; writers commit in between. The log still
//! holds the earlier versions of changes made meanwhile. Every read uses that one position, which
//! is durable before the snapshot is returned.

use std::sync::Arc;
use std::time::Duration;

use quire_model::{Operation, Position, Resource, ResourceKind, StepBudget, Timestamp};

use crate::database::Database;
use crate::graph::{Block, BlockId, Direction, Edge, Graph, ListCursor, ListPlan, Neighbour, Wants};
use crate::handles::UnknownBlock;
use crate::{Error, ErrorKind, History, ReadView, Reader, Result};

/// Number of entries that a list reads before writers get their turn.
const AT_ONCE: usize = 4_096;

/// The most steps of a list before writers get their turn.
const LIST_STEPS: u64 = 4_096;

/// A graph at one position. See [`Graph::snapshot`](crate::Graph::snapshot).
#[derive(Debug, Clone)]
pub struct GraphSnapshot {
    pub(super) database: Database,
    pub(super) name: Arc<str>,
    at: Position,
    pub(super) history: Reader,
}

impl GraphSnapshot {
    pub(crate) fn of(database: &Database, name: &str, at: Option<Position>) -> Result<Option<Self>> {
        loop {
            let look = |view: &ReadView<'_>| view.graphs.graph(name).map(|_| view.position);
            let graph = Resource::new(ResourceKind::Graph, name);
            let found = database.read_for(graph, Operation::Read, look)?.wait()?;
            let Some(now) = found else { return Ok(None) };
            let position = at.unwrap_or(now);
            if position > now {
                let message = format!("nothing is published at position {position} yet; the last is {now}");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            let snapshot = GraphSnapshot {
                database: database.clone(),
                name: name.into(),
                at: position,
                history: database.history(),
            };
            match snapshot.look(|_| Ok(())) {
                Ok(()) => return Ok(Some(snapshot)),
                // The history was trimmed beyond this position meanwhile; a snapshot of the newest
                // state is still valid.
                Err(error) if error.kind() == ErrorKind::Gone && at.is_none() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the position.
    pub fn at(&self) -> Position {
        self.at
    }

    /// Passes a block to `look`. Returns `None` when the graph had no such block.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn block<T>(&self, id: BlockId, look: impl FnOnce(&Block<'_>) -> T) -> Result<Option<T>> {
        self.look(|graph| {
            let found = if graph.changed(id) <= self.at {
                graph.block(&self.history, id)?
            } else {
                graph.block_at(&self.history, id, self.at)?
            };
            Ok(found.as_ref().map(look))
        })
    }

    /// Returns whether the graph had the block.
    ///
    /// # Errors
    /// As [`GraphSnapshot::look`].
    pub fn contains(&self, id: BlockId) -> Result<bool> {
        self.look(|graph| Ok(graph.contains_at(&self.history, id, self.at)?))
    }

    /// Returns whether the graph had the block, or edges from or to it if the block was missing.
    ///
    /// # Errors
    /// As [`GraphSnapshot::look`].
    pub fn knows(&self, id: BlockId) -> Result<bool> {
        self.look(|graph| Ok(graph.knows_at(&self.history, id, self.at)?))
    }

    /// Passes up to `count_max` neighbours of a block to `look`, from the one after `after`.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn neighbours<T>(
        &self,
        block: BlockId,
        direction: Direction,
        edge_types: &[&str],
        after: Option<Neighbour<'_>>,
        count_max: usize,
        look: impl FnMut(Neighbour<'_>) -> T,
    ) -> Result<Vec<T>> {
        self.look(|graph| {
            if graph.changed(block) <= self.at {
                let found = graph.neighbours(block, direction, edge_types, after);
                return Ok(found.take(count_max).map(look).collect());
            }
            let found = graph.neighbours_at(&self.history, block, direction, edge_types, after, self.at)?;
            Ok(found.into_iter().take(count_max).map(look).collect())
        })
    }

    /// Returns the number of edges of a block with one of `edge_types`. An empty list means every
    /// type. An edge from the block to itself counts in each direction.
    ///
    /// # Errors
    /// As [`GraphSnapshot::neighbours`].
    ///
    /// ```
    /// use quire::graph::{BlockId, Direction};
    /// use quire::{Database, NewBlock, NewEdge};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let database = Database::builder(folder.path()).create(true).open()?;
    /// let air = database.graph("air");
    /// for name in ["EWR", "IAH"] {
    ///     air.put_block(NewBlock::new(name, "airport"))?;
    /// }
    /// air.put_edge(NewEdge::new("EWR", "flies_to", "IAH").properties(r#"{"miles": 1400}"#))?;
    ///
    /// let snapshot = air.snapshot()?.expect("it was just made");
    /// let [ewr, iah] = ["EWR", "IAH"].map(BlockId::of_name);
    /// assert_eq!(snapshot.degree(ewr, Direction::Outgoing, &["flies_to"])?, 1);
    /// let miles = snapshot.edge(ewr, "flies_to", iah, |edge| edge.properties.to_vec())?;
    /// assert_eq!(miles.as_deref(), Some(&br#"{"miles": 1400}"#[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn degree(&self, block: BlockId, direction: Direction, edge_types: &[&str]) -> Result<usize> {
        self.look(|graph| {
            if graph.changed(block) <= self.at {
                return Ok(graph.degree(block, direction, edge_types));
            }
            Ok(graph.neighbours_at(&self.history, block, direction, edge_types, None, self.at)?.len())
        })
    }

    /// Passes an edge to `look`. Returns `None` when the graph had no such edge.
    ///
    /// # Errors
    /// As [`GraphSnapshot::block`].
    pub fn edge<T>(
        &self,
        source: BlockId,
        edge_type: &str,
        target: BlockId,
        look: impl FnOnce(&Edge<'_>) -> T,
    ) -> Result<Option<T>> {
        self.look(|graph| {
            let found = graph.edge_at(&self.history, source, edge_type, target, self.at)?;
            Ok(found.as_ref().map(look))
        })
    }

    /// Returns the fact that the graph does not have a block, which a read named by `name`.
    pub fn unknown_block(&self, block: BlockId, name: Option<&str>) -> UnknownBlock {
        UnknownBlock { graph: self.name.to_string(), block, name: name.map(str::to_owned), position: self.at }
    }

    /// Whether only a quarter of the request's steps is left. A walk or a list ends then: reading
    /// the results takes the rest.
    pub(super) fn is_nearly_spent(&self) -> bool {
        self.database.budget().is_some_and(|budget| budget.left() < budget.steps_max() / 4)
    }

    /// Passes the blocks that the plan selects to `show`, from a cursor. It ends when `show` stops
    /// or the time is over. Returns the cursor to resume from; `None` at the end of the list.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn list(
        &self,
        plan: &ListPlan<'_>,
        from: ListCursor,
        time_max: Option<Duration>,
        mut show: impl FnMut(&Block<'_>) -> Wants,
    ) -> Result<Option<ListCursor>> {
        let deadline = self.deadline(time_max);
        let (mut from, mut steps) = (from, LIST_STEPS);
        loop {
            let mut is_enough = false;
            let history = self.history.clone().within(Some(StepBudget::part_of(self.database.budget(), steps)));
            let listed = self.look(|graph| {
                let mut show = |block: &Block<'_>| {
                    let wants = show(block);
                    is_enough = wants.is_break();
                    wants
                };
                Ok(graph.list(&history, self.at, plan, from, AT_ONCE, &mut show)?)
            });
            let next = match listed {
                // One look takes more than the slice.
                Err(error) if error.kind() == ErrorKind::TooCostly && !self.is_nearly_spent() => {
                    steps = steps.saturating_mul(4);
                    continue;
                }
                listed => listed?,
            };
            steps = LIST_STEPS;
            let is_late = deadline.is_some_and(|deadline| self.database.now() >= deadline);
            match next {
                Some(next) if !is_enough && !is_late && !self.is_nearly_spent() => from = next,
                next => return Ok(next),
            }
        }
    }

    /// Counts the blocks that the plan selects, from a cursor, until the time is over. Returns the
    /// number and the cursor to resume from; `None` at the end of the list.
    ///
    /// ```
    /// use quire::NewBlock;
    /// use quire::graph::{BlockFilter, ListCursor, ListPlan};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let code = db.graph("code");
    /// for name in ["parse", "lex"] {
    ///     code.put_block(NewBlock::new(name, "function"))?;
    /// }
    /// code.put_block(NewBlock::new("main.rs", "file"))?;
    /// let filter = BlockFilter { kinds: &["function"], ..BlockFilter::default() };
    /// let plan = ListPlan { filter, ..ListPlan::default() };
    /// let snapshot = code.snapshot()?.expect("it was just made");
    /// assert_eq!(snapshot.count(&plan, ListCursor::START, None)?, (2, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`GraphSnapshot::list`].
    pub fn count(
        &self,
        plan: &ListPlan<'_>,
        from: ListCursor,
        time_max: Option<Duration>,
    ) -> Result<(u64, Option<ListCursor>)> {
        let mut count = 0;
        let next = self.list(plan, from, time_max, |_| {
            count += 1;
            Wants::Continue(())
        })?;
        Ok((count, next))
    }

    /// Passes the graph's current state to `look` while writers wait. The log is read as of the
    /// snapshot.
    ///
    /// # Errors
    /// The errors of `look`, and [`ErrorKind::Failed`]. [`ErrorKind::Gone`] when the graph's
    /// history now begins after the snapshot. A successful read of a snapshot is therefore always
    /// complete.
    pub fn look<T>(&self, look: impl FnOnce(&Graph) -> Result<T>) -> Result<T> {
        let own = Resource::new(ResourceKind::Graph, &self.name);
        self.database.read_published_for(own, Operation::Read, |view| {
            let graph = view.graphs.graph(&self.name).expect("an existing graph is never removed");
            graph.check_history(self.at)?;
            look(graph)
        })?
    }

    /// Returns the log as of the snapshot.
    pub fn history(&self) -> &dyn History {
        &self.history
    }

    pub(super) fn left(&self, deadline: Timestamp) -> Duration {
        Duration::from_micros(deadline.as_micros().saturating_sub(self.database.now().as_micros()))
    }

    pub(super) fn deadline(&self, time_max: Option<Duration>) -> Option<Timestamp> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        time_max.map(|time| self.database.now().plus_micros(micros(time)))
    }
}
