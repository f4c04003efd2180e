//! A subscription to life-cycle events of jobs: those of the past and then those to come.
//!
//! It is a cursor and no thread. What it gives is published: it is as durable as the database
//! promises.

use std::time::Duration;

use quire_model::Position;

use crate::database::{Arrival, Database};
use crate::jobs::{Cursor, LifeEvent, LifeFilter, LifeProgress, LifeReading};
use crate::{Error, ErrorKind, Result};

/// How much one look of [`LifeEvents::next`] takes.
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
    /// Follows what happens to jobs and queues, from `after` on: [`Cursor::START`] for all that the
    /// log still has, or `Cursor::behind(database.published())` for what is to come.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for the name of a queue that can't be, and for a cursor that the log
    /// has not come to: it is of another one.
    ///
    /// # Example
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use quire::jobs::{Cursor, LifeFilter, NewJob};
    /// let database = quire::Database::open(directory.path())?;
    /// database.queue("mail").enqueue(NewJob::new(b"{}"))?;
    /// let mut events = database.life_events(LifeFilter::default(), Cursor::START)?;
    /// let names: Vec<_> = events.next(std::time::Duration::ZERO)?.iter().map(|event| event.step.event.name()).collect();
    /// assert_eq!(names, ["queue created", "enqueued"]);
    /// # Ok(()) }
    /// ```
    pub fn life_events(&self, filter: LifeFilter, after: Cursor) -> Result<LifeEvents> {
        let published = self.published();
        if after.is_ahead_of(published) {
            let end = Cursor::behind(published);
            let message = format!("{after} is ahead of the log, which ends at {end}: is it of another database?");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let reading = LifeReading::new(filter, after);
        let reading = reading.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        Ok(LifeEvents { database: self.clone(), reading, seen: Position::ZERO })
    }
}

impl LifeEvents {
    /// Up to where it has read: a subscription that begins there goes on with the next event.
    pub fn after(&self) -> Cursor {
        self.reading.after()
    }

    /// Gives the next events, at most so many, and ends with the one that takes their data to so
    /// many bytes. Waits for none.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn visit_next(
        &mut self,
        events_max: usize,
        bytes: usize,
        visit: impl FnMut(LifeEvent),
    ) -> Result<LifeProgress> {
        // Read before the look, so that later publications end the wait.
        self.seen = self.database.published();
        Ok(self.reading.read(&self.database.history(), self.seen, events_max, bytes, visit)?)
    }

    /// A future that is ready when there may be more than the last look found.
    pub fn arrival(&self) -> Arrival {
        self.database.arrival_after(self.seen)
    }

    /// The next events; waits for some, at most `at_most`. The result is empty after that time.
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
                // The time is over, whatever the database's clock says: one last look.
                left = Duration::ZERO;
                continue;
            }
            let waited = self.database.now().as_micros().saturating_sub(waited_from.as_micros());
            left = left.saturating_sub(Duration::from_micros(waited));
        }
    }
}
