//! What a worker waits for who found no job: in one place for those of this process and for the
//! front ends.
//!
//! A fetch takes the writer's turn, a look does not: so who found nothing looks, rests as long as
//! the look says, and looks again; it fetches only when that may give a job.

use std::time::Duration;

use quire_model::Position;

use crate::Result;
use crate::database::Database;

/// The longest rest: a clock that was set is noticed after it.
const REST_MAX: Duration = Duration::from_secs(1);

/// Until when there is nothing to fetch. See [`Database::fetch_rest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// A commit behind this position may bring a job: see [`Database::wait_after`] and
    /// [`Database::arrival_after`].
    pub seen: Position,
    /// Or time does, after so long; at most a second.
    pub at_most: Duration,
}

impl Database {
    /// Looks whether a fetch from these queues may give a job now: `None` when it may, else how
    /// long to rest and look again.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    ///
    /// # Example
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let database = quire::Database::open(directory.path())?;
    /// let rest = database.fetch_rest(&["mail"])?.expect("there is nothing to do");
    /// database.queue("mail").enqueue(quire::jobs::NewJob::new(b"{}"))?;
    /// assert!(database.wait_after(rest.seen, rest.at_most)?);
    /// assert_eq!(database.fetch_rest(&["mail"])?, None);
    /// # Ok(()) }
    /// ```
    pub fn fetch_rest(&self, queues: &[&str]) -> Result<Option<Rest>> {
        // Read before the look, so that later publications end the wait.
        let (seen, now) = (self.published(), self.now());
        let worth = self.read_published(|view| view.jobs.fetchable_at(queues, now))?;
        Ok(match worth {
            Some(at) if at <= now => None,
            Some(at) => {
                let at_most = Duration::from_micros(at.as_micros() - now.as_micros()).min(REST_MAX);
                Some(Rest { seen, at_most })
            }
            None => Some(Rest { seen, at_most: REST_MAX }),
        })
    }
}
