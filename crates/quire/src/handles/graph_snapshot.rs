//! A graph as it was at one position, read while writers continue.
//!
//! The state in memory is looked at for a bounded time at once; writers commit in between. What
//! they changed meanwhile, the log still tells as of the position. Everything that is read rests on
//! that position alone, which is durable before the snapshot is given out.

use std::sync::Arc;
use std::time::Duration;

use quire_model::{Position, Timestamp};

use crate::database::Database;
use crate::graph::{
    Block, BlockId, Bound, Direction, Edge, Graph, ListCursor, ListPlan, Neighbour, Progress, Walk, WalkPlan, Walker,
    Wants,
};
use crate::{Error, ErrorKind, Result};
use crate::{History, Reader};

/// How many edges a walk follows, or entries a list looks at, before writers get their turn.
const AT_ONCE: usize = 4096;

/// A graph at one position. See [`Graph::snapshot`](crate::Graph::snapshot).
#[derive(Debug, Clone)]
pub struct GraphSnapshot {
    database: Database,
    name: Arc<str>,
    at: Position,
    history: Reader,
}

impl GraphSnapshot {
    pub(crate) fn of(database: &Database, name: &str, at: Option<Position>) -> Result<Option<Self>> {
        loop {
            let found = database.read(|view| view.graphs.graph(name).map(|_| view.position))?.wait()?;
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
                // The history was told to begin behind it meanwhile; what is there now is there.
                Err(error) if error.kind() == ErrorKind::Gone && at.is_none() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The position.
    pub fn at(&self) -> Position {
        self.at
    }

    /// Shows a block to `look`; `None` when it was not there.
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

    /// Whether a block was there.
    ///
    /// # Errors
    /// As [`GraphSnapshot::look`].
    pub fn contains(&self, id: BlockId) -> Result<bool> {
        self.look(|graph| Ok(graph.contains_at(&self.history, id, self.at)?))
    }

    /// The neighbours of a block behind one, at most so many, each shown to `look`.
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

    /// How many edges a block had, of these types; none at all means of every type. One to itself
    /// counts in each direction.
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

    /// Shows an edge to `look`; `None` when it was not there.
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

    /// Walks from these blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when one of them was not there; [`ErrorKind::Damaged`],
    /// [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn walk(&self, starts: &[BlockId], plan: WalkPlan<'_>, time_max: Option<Duration>) -> Result<Walk> {
        self.carry_out(Walker::new(starts, plan, self.at), time_max)
    }

    /// Walks from a block until it reaches another, whether or not that matches the filter: breadth
    /// first, a shortest way ([`Walk::way`]).
    ///
    /// # Errors
    /// As [`GraphSnapshot::walk`].
    pub fn walk_until(
        &self,
        start: BlockId,
        target: BlockId,
        plan: WalkPlan<'_>,
        time_max: Option<Duration>,
    ) -> Result<Walk> {
        self.carry_out(Walker::new(&[start], plan, self.at).until(target), time_max)
    }

    fn carry_out(&self, mut walker: Walker<'_>, time_max: Option<Duration>) -> Result<Walk> {
        let deadline = self.deadline(time_max);
        loop {
            match self.look(|graph| Ok(walker.advance(graph, &self.history, AT_ONCE)?))? {
                Progress::Done => return Ok(walker.finish()),
                Progress::NoSuchBlock(block) => {
                    let (name, at) = (&self.name, self.at);
                    let message = format!("there is no block {block} in graph {name:?} at position {at}");
                    return Err(Error::new(ErrorKind::NotFound, message));
                }
                Progress::More if deadline.is_some_and(|deadline| self.database.now() >= deadline) => {
                    walker.stop(Bound::Time);
                    return Ok(walker.finish());
                }
                Progress::More => {}
            }
        }
    }

    /// Shows the blocks that the plan asks for, from a cursor on, until `show` breaks off or the
    /// time is over. Says where to go on; `None` when those were all.
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
        let mut from = from;
        loop {
            let mut is_enough = false;
            let next = self.look(|graph| {
                let mut show = |block: &Block<'_>| {
                    let wants = show(block);
                    is_enough = wants.is_break();
                    wants
                };
                Ok(graph.list(&self.history, self.at, plan, from, AT_ONCE, &mut show)?)
            })?;
            let is_late = deadline.is_some_and(|deadline| self.database.now() >= deadline);
            match next {
                Some(next) if !is_enough && !is_late => from = next,
                next => return Ok(next),
            }
        }
    }

    /// Looks at the graph as it is by now, while writers wait, with the log as of the snapshot.
    ///
    /// # Errors
    /// Those of `look`, [`ErrorKind::Failed`], and [`ErrorKind::Gone`] when the graph's history
    /// begins behind the snapshot by now: so all that reads of a snapshot find is there.
    pub fn look<T>(&self, look: impl FnOnce(&Graph) -> Result<T>) -> Result<T> {
        self.database.read_published(|view| {
            let graph = view.graphs.graph(&self.name).expect("a graph that is there stays");
            graph.check_history(self.at)?;
            look(graph)
        })?
    }

    /// The log as of the snapshot.
    pub fn history(&self) -> &dyn History {
        &self.history
    }

    fn deadline(&self, time_max: Option<Duration>) -> Option<Timestamp> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        time_max.map(|time| self.database.now().plus_micros(micros(time)))
    }
}
