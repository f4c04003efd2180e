//! How an idle worker waits for a job. The workers of this process and the front ends share this
//! code.
//!
//! A fetch takes the writer's turn, and a look does not. An idle worker therefore looks, rests for
//! the returned time, and looks again. It fetches only when a fetch may return a job.

use std::time::Duration;

use quire_model::{Operation, Position, Resource, ResourceKind};

use crate::Result;
use crate::database::Database;

/// The longest rest. A changed system clock is noticed after this time.
const REST_MAX: Duration = Duration::from_secs(1);

/// A time during which a fetch would find no job. See [`Database::fetch_rest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// A commit after this position may bring a job. See [`Database::wait_after`] and
    /// [`Database::publication_after`].
    pub seen: Position,
    /// A job may also become due after this time; at most a second.
    pub at_most: Duration,
}

impl Database {
    /// Returns how long a worker of these queues must rest before it looks again. `None` when a
    /// fetch may return a job now.
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
    /// database.queue("mail").enqueue(quire::jobs::JobSpec::new(b"{}"))?;
    /// assert!(database.wait_after(rest.seen, rest.at_most)?);
    /// assert_eq!(database.fetch_rest(&["mail"])?, None);
    /// # Ok(()) }
    /// ```
    pub fn fetch_rest(&self, queues: &[&str]) -> Result<Option<Rest>> {
        // Read before the look, so that later publications end the wait.
        let (seen, now) = (self.published(), self.now());
        for queue in queues {
            self.check_permission(Resource::new(ResourceKind::Queue, queue), Operation::Read)?;
        }
        let worth = self.look_published(|view| view.jobs.fetchable_at(queues, now))?;
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
