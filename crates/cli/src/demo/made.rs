//! What the database holds after the demo, read back from it: the report tells this, not what the feed believes.

use quire::Database;
use quire::events::{Query, QueryItem, ReadOptions};

use super::names::{DELAYS, DEPARTURES, FLIGHTS, NOTIFIED, ROUTES};
use super::tally::Tally;
use crate::failure::{Failure, Result};

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) events: u64,
    pub(super) messages: u64,
    /// Events that say that a job was done.
    pub(super) notified: u64,
    pub(super) jobs_completed: u64,
    pub(super) airports: u64,
    pub(super) routes: u64,
}

impl Made {
    /// Reads it.
    ///
    /// # Errors
    /// When the database fails.
    pub(super) fn read(database: &Database) -> Result<Self> {
        let flights = database.events(FLIGHTS);
        let (mut events, mut notified) = (0, 0);
        flights.visit(&Query::all(), ReadOptions::default(), |_| events += 1)?;
        let notifications = Query::from(QueryItem::new().event_type(NOTIFIED));
        flights.visit(&notifications, ReadOptions::default(), |_| notified += 1)?;
        let partitions =
            database.read(|view| view.streams.topic_named(DEPARTURES).map_or(0, |topic| topic.partitions))?.wait()?;
        let mut messages = 0;
        for partition in 0..partitions {
            let offsets = database.topic(DEPARTURES).offsets(partition)?;
            messages += offsets.next.get() - offsets.start.get();
        }
        let jobs_completed = database.queue(DELAYS).stats()?.map_or(0, |stats| stats.completed);
        let graph = database.graph(ROUTES).read(|graph, _| (graph.block_count() as u64, graph.edge_count() as u64))?;
        let (airports, routes) = graph.unwrap_or_default();
        Ok(Made { events, messages, notified, jobs_completed, airports, routes })
    }

    /// Checks it against what the feed and the worker did.
    ///
    /// # Errors
    /// A message that says what differs.
    pub(super) fn check(&self, tally: &Tally) -> Result {
        let pairs = [
            ("events", self.events, tally.events()),
            ("messages", self.messages, tally.departed),
            ("jobs enqueued", self.jobs_completed, tally.late),
            ("jobs done", self.jobs_completed, tally.jobs_done),
            ("notifications", self.notified, tally.jobs_done),
            ("rows", tally.accounted_for(), tally.rows),
        ];
        match pairs.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => Err(Failure::new(format!(
                "the demo is wrong: {found} {what} where {expected} should be; please report this"
            ))),
        }
    }
}
