//! The feed of a graph's changes: those of the past from a place on, and then those to come.
//!
//! It reads by place alone, so nothing is left out or told twice where the past becomes the
//! present. It holds no place in any queue: a slow subscriber delays no other client.

use std::time::Duration;

use quire_model::{Place, Position};

use crate::database::{Arrival, Database};
use crate::graph::{Change, Wants};
use crate::handles::GraphSnapshot;
use crate::{Error, ErrorKind, Result};

/// See [`Graph::changes`](crate::Graph::changes).
#[derive(Debug)]
pub struct GraphChanges {
    database: Database,
    graph: String,
    from: Place,
    /// Whether the start of the log stands for where the graph's history begins: only before the
    /// first look.
    may_begin_later: bool,
    /// The last published position at the last read.
    seen: Position,
}

impl GraphChanges {
    pub(crate) fn new(database: &Database, graph: &str, from: Place) -> Self {
        GraphChanges {
            database: database.clone(),
            graph: graph.to_owned(),
            from,
            may_begin_later: true,
            seen: Position::ZERO,
        }
    }

    /// The same, but of changes from the start of the log on none may be gone, as from any other
    /// place.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.may_begin_later = false;
        self
    }

    /// Every change before this place was shown: the position to resume from.
    pub fn next(&self) -> Place {
        self.from
    }

    /// Shows the next changes that are there, in order, until `show` breaks off; says whether there
    /// are none left.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such graph, or the place lies behind what comes
    /// next in the log: it is of another database, or of one that was restored since;
    /// [`ErrorKind::Gone`] when the graph's history begins behind it; [`ErrorKind::Damaged`],
    /// [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn visit_next(&mut self, mut show: impl FnMut(&Change<'_>) -> Wants) -> Result<bool> {
        // Read before the look, so that later publications end the wait.
        self.seen = self.database.published();
        let snapshot = GraphSnapshot::of(&self.database, &self.graph, None)?;
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no graph {:?}", self.graph));
        let snapshot = snapshot.ok_or_else(missing)?;
        if self.from > Place::new(snapshot.at().next(), 0) {
            let (from, last) = (self.from.position, snapshot.at());
            let message = format!("nothing is published at position {from} yet; the last is {last}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let mut is_broken_off = false;
        self.from = snapshot.look(|graph| {
            if !self.may_begin_later {
                graph.check_changes(self.from)?;
            }
            let mut show = |change: &Change<'_>| {
                let wants = show(change);
                is_broken_off = wants.is_break();
                wants
            };
            Ok(graph.changes(snapshot.history(), snapshot.at(), self.from, &mut show)?)
        })?;
        self.may_begin_later = false;
        Ok(!is_broken_off)
    }

    /// A future that is ready when there may be more than the last look found.
    pub fn arrival(&self) -> Arrival {
        self.database.arrival_after(self.seen)
    }

    /// Waits until there may be more than the last look found, at most so long; says whether there
    /// may be.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        self.database.wait_after(self.seen, at_most)
    }
}
