//! The contents of the database after the load, read back from it: the report shows these, not what
//! the feed counted.

use std::collections::BTreeMap;

use quire::Database;
use quire::events::{Query, ReadOptions};

use super::names::{DELAYS, DEPARTURES, FLIGHTS, NOTIFIED, ROUTES};
use super::tally::Tally;
use crate::failure::{CommandError, Result};
use crate::text::grouped;

/// The contents of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoContents {
    /// The events, counted by type.
    by_type: BTreeMap<String, u64>,
    pub(super) messages: u64,
    pub(super) jobs_completed: u64,
    pub(super) airports: u64,
    pub(super) routes: u64,
}

impl DemoContents {
    /// Reads the contents.
    ///
    /// # Errors
    /// When the database fails.
    pub(super) fn read(database: &Database) -> Result<Self> {
        let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
        database.events(FLIGHTS).visit(&Query::all(), ReadOptions::default(), |event| {
            *by_type.entry(event.event_type.to_owned()).or_default() += 1;
        })?;
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
        Ok(DemoContents { by_type, messages, jobs_completed, airports, routes })
    }

    /// The number of events.
    pub(super) fn events(&self) -> u64 {
        self.by_type.values().sum()
    }

    /// The number of events for finished jobs.
    pub(super) fn notified(&self) -> u64 {
        self.of_type(NOTIFIED)
    }

    fn of_type(&self, event_type: &str) -> u64 {
        self.by_type.get(event_type).copied().unwrap_or_default()
    }

    /// The events by type, as a sum: `5,900 Arrived + 5,990 Departed`.
    pub(super) fn sum_of_types(&self) -> String {
        let terms: Vec<_> = self.by_type.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
        terms.join(" + ")
    }

    /// Compares the contents with the counts of the feed and the worker.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn check(&self, tally: &Tally) -> Result {
        let pairs = [
            ("departures", self.of_type("Departed"), tally.departed),
            ("arrivals", self.of_type("Arrived"), tally.arrived),
            ("cancellations", self.of_type("Cancelled"), tally.cancelled),
            ("events", self.events(), tally.events()),
            ("messages", self.messages, tally.departed),
            ("jobs enqueued", self.jobs_completed, tally.late),
            ("jobs done", self.jobs_completed, tally.jobs_done),
            ("notifications", self.notified(), tally.jobs_done),
            ("rows", tally.accounted_for(), tally.rows),
        ];
        match pairs.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => Err(CommandError::new(format!(
                "the demo found an error in Quire: {found} {what}, expected {expected}; please report it"
            ))),
        }
    }
}
