//! The beginning of a graph's history, and its movement with time.
//!
//! Invariant: a read as of a position before the history begins is refused, whether or not a
//! compaction has removed anything yet. So no answer depends on compactions, and none is based on
//! partial history.

use alloc::format;

use quire_model::{History, Place, Position, ReadError, Timestamp};

use crate::{Graph, Graphs, Retention, tags};

impl Graph {
    /// The retention of the graph's history.
    pub fn retention(&self) -> Retention {
        self.retention
    }

    /// The first position as of which the graph can be read; [`Position::ZERO`] while its whole
    /// history is kept.
    pub fn history_from(&self) -> Position {
        self.history_from
    }

    /// Checks that the graph can be read as of a position.
    ///
    /// # Errors
    /// [`ReadErrorKind::Gone`](quire_model::ReadErrorKind::Gone) when its history begins later.
    pub fn check_history(&self, at: Position) -> Result<(), ReadError> {
        if at >= self.history_from { Ok(()) } else { Err(self.gone(at)) }
    }

    #[cold]
    fn gone(&self, at: Position) -> ReadError {
        let from = self.history_from;
        ReadError::gone(format!("the graph can't be read as of {at}: its history before {from} is gone"))
    }

    /// Checks that the log has all changes from a place on.
    ///
    /// # Errors
    /// The errors of [`Graph::check_history`].
    pub fn check_changes(&self, from: Place) -> Result<(), ReadError> {
        let begins = self.history_from;
        if from.position >= begins {
            return Ok(());
        }
        Err(ReadError::gone(format!(
            "the graph's changes from {from} on are incomplete: its history before {begins} is gone; \
             list it as of {begins} or later, then read the changes after {}-0",
            begins.next()
        )))
    }
}

/// A graph whose past is kept for a time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedGraph<'g> {
    /// Its name.
    pub name: &'g str,
    number: u32,
    history_from: Position,
    /// It can be read as of this time and later.
    keep_from: Timestamp,
}

impl Graphs {
    /// The graphs whose past is kept for a time only.
    pub fn retained(&self, now: Timestamp) -> impl Iterator<Item = RetainedGraph<'_>> {
        self.iter().filter_map(move |(name, graph)| {
            let kept_micros = graph.retention.history_ms?.saturating_mul(1_000);
            let keep_from = Timestamp::from_micros(now.as_micros().saturating_sub(kept_micros));
            Some(RetainedGraph { name, number: graph.number, history_from: graph.history_from, keep_from })
        })
    }

    /// The record that last trimmed a history, since the state was loaded. A refusal to read a
    /// trimmed position depends on that record.
    pub fn trimmed_at(&self) -> Position {
        self.trimmed_at
    }
}

impl RetainedGraph<'_> {
    /// A copy of the retention, without the name, to be used after the state is released.
    pub fn nameless(self) -> RetainedGraph<'static> {
        RetainedGraph { name: "", number: self.number, history_from: self.history_from, keep_from: self.keep_from }
    }

    /// Returns the new beginning of the history: the last change before the retention time. Returns
    /// `None` when the history begins there or later. Times rise with positions, so a binary search
    /// finds it.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn plan(&self, history: &dyn History) -> Result<Option<Position>, ReadError> {
        let tag = tags::graph(self.number);
        let Some(last) = history.previous(&[tag.tag()], Place::END)? else { return Ok(None) };
        let mut old = self.history_from;
        let mut kept = last.place.position.next();
        while kept.get() > old.get() + 1 {
            let middle = Position::new(old.get() + (kept.get() - old.get()) / 2);
            // The first change at or after the middle; it may lie much later.
            match history.next(&[tag.tag()], Place::new(middle, 0))? {
                Some(change) if change.time < self.keep_from => old = change.place.position,
                _ => kept = middle,
            }
        }
        Ok((old > self.history_from).then_some(old))
    }
}
