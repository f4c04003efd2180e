//! The feed of a graph's changes: past changes from a place first, then new ones.
//!
//! The feed reads by place alone. No change is omitted or repeated where past changes end and new
//! ones begin. A slow subscriber delays no other client.

use std::time::Duration;

use quire_model::{Place, Position};

use crate::database::{Database, NextPublication};
use crate::graph::{GraphChange, Wants};
use crate::handles::GraphSnapshot;
use crate::{Error, ErrorKind, Result};

/// A feed of changes. See [`Graph::changes`](crate::Graph::changes).
#[derive(Debug)]
pub struct GraphChanges {
    database: Database,
    graph: String,
    from: Place,
    /// Whether the start of the log stands for the start of the graph's history. True only before
    /// the first read.
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

    /// Requires complete history from the start of the log: the feed fails when any change there is
    /// deleted. Every other place already requires this.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.may_begin_later = false;
        self
    }

    /// Returns the place to resume from. The feed has shown every change before this place.
    pub fn next(&self) -> Place {
        self.from
    }

    /// Passes the next available changes to `show`, in order, until `show` stops. Returns whether
    /// no changes are left.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the graph does not exist. [`ErrorKind::NotFound`] when the
    /// place is beyond the end of the log: it belongs to another database, or to one restored
    /// since. [`ErrorKind::Gone`] when the graph's history begins after the place.
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn visit_next(&mut self, mut show: impl FnMut(&GraphChange<'_>) -> Wants) -> Result<bool> {
        // Read before the look, so that later publications end the wait.
        self.seen = self.database.published();
        let snapshot = GraphSnapshot::of(&self.database, &self.graph, None)?;
        let missing = || Error::new(ErrorKind::NotFound, format!("unknown graph {:?}", self.graph));
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
            let mut show = |change: &GraphChange<'_>| {
                let wants = show(change);
                is_broken_off = wants.is_break();
                wants
            };
            Ok(graph.changes(snapshot.history(), snapshot.at(), self.from, &mut show)?)
        })?;
        self.may_begin_later = false;
        Ok(!is_broken_off)
    }

    /// Returns a future that is ready when there may be more changes than at the last read.
    pub fn next_publication(&self) -> NextPublication {
        self.database.publication_after(self.seen)
    }

    /// Waits up to `at_most` for more changes than at the last read. Returns whether there may be
    /// any.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        self.database.wait_after(self.seen, at_most)
    }
}
