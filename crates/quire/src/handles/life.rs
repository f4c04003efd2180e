//! A subscription to life-cycle events of jobs. It returns past events first and then new events.
//!
//! The subscription is a cursor and needs no thread. It returns published events, which are as
//! durable as the database promises.

use std::time::Duration;

use quire_model::{Operation, Position, Resource, ResourceKind};

use crate::database::{Database, NextPublication};
use crate::jobs::{Cursor, LifeEvent, LifeFilter, LifeProgress, LifeReading};
use crate::{Error, ErrorKind, Result};

/// Most events that [`LifeEvents::next`] returns.
const BATCH_EVENTS_MAX: usize = 1_024;
const BATCH_BYTES: usize = 1 << 20;

/// A subscription. See [`Database::life_events`].
#[derive(Debug)]
pub struct LifeEvents {
    database: Database,
    reading: LifeReading,
    /// The last published position before the last read.
    seen: Position,
}

impl Database {
    /// Follows life-cycle events of jobs and queues after the cursor `after`. Use [`Cursor::START`]
    /// for all events still in the log. Use `Cursor::behind(database.published())` for new events
    /// only.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid queue name. [`ErrorKind::Invalid`] for a cursor beyond
    /// the end of the log, which belongs to another database.
    ///
    /// # Example
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use quire::jobs::{Cursor, LifeFilter, JobSpec};
    /// let database = quire::Database::open(directory.path())?;
    /// database.queue("mail").enqueue(JobSpec::new(b"{}"))?;
    /// let mut events = database.life_events(LifeFilter::default(), Cursor::START)?;
    /// let names: Vec<_> = events.next(std::time::Duration::ZERO)?.iter().map(|event| event.step.event.name()).collect();
    /// assert_eq!(names, ["queue created", "enqueued"]);
    /// # Ok(()) }
    /// ```
    pub fn life_events(&self, filter: LifeFilter, after: Cursor) -> Result<LifeEvents> {
        self.check_reads()?;
        let published = self.published();
        if after.is_ahead_of(published) {
            let end = Cursor::behind(published);
            let message = format!(
                "{after} is ahead of the log, which ends at {end}: does the cursor belong to another database?"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let reading = LifeReading::new(filter, after);
        let reading = reading.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        Ok(LifeEvents { database: self.clone(), reading, seen: Position::ZERO })
    }
}

impl LifeEvents {
    /// Returns the cursor of the last event read. A subscription that starts there continues with
    /// the next event.
    pub fn after(&self) -> Cursor {
        self.reading.after()
    }

    /// Passes the next events to `visit`, without waiting, up to `events_max`. The event whose data
    /// brings the total to `bytes` is the last one.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn visit_next(
        &mut self,
        events_max: usize,
        bytes: usize,
        mut visit: impl FnMut(LifeEvent),
    ) -> Result<LifeProgress> {
        // The records of a node that no longer leads may be behind those of the leader.
        self.database.check_reads()?;
        // Read before the look, so that later publications end the wait.
        self.seen = self.database.published();
        let mut hidden = 0;
        let show = |event: LifeEvent| {
            let queue = Resource::new(ResourceKind::Queue, &event.queue);
            if self.database.permits(queue, Operation::Read) { visit(event) } else { hidden += 1 }
        };
        let mut progress = self.reading.read(&self.database.history(), self.seen, events_max, bytes, show)?;
        progress.events -= hidden;
        Ok(progress)
    }

    /// Returns a future that is ready when there may be more events than at the last read.
    pub fn next_publication(&self) -> NextPublication {
        self.database.publication_after(self.seen)
    }

    /// Returns the next events. Waits for events up to `at_most`; the result is empty after that
    /// time.
    ///
    /// # Errors
    /// As [`LifeEvents::visit_next`].
    pub fn next(&mut self, at_most: Duration) -> Result<Vec<LifeEvent>> {
        let mut left = at_most;
        loop {
            let mut events = Vec::new();
            let progress = self.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| events.push(event))?;
            if !events.is_empty() || (progress.is_caught_up && left.is_zero()) {
                return Ok(events);
            }
            if !progress.is_caught_up {
                continue;
            }
            let waited_from = self.database.now();
            if !self.database.wait_after(self.seen, left)? {
                // The time is over, whatever the database's clock says: read one last time.
                left = Duration::ZERO;
                continue;
            }
            let waited = self.database.now().as_micros().saturating_sub(waited_from.as_micros());
            left = left.saturating_sub(Duration::from_micros(waited));
        }
    }
}
