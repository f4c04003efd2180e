//! Dry runs: a commit is decided, and nothing is appended.
//!
//! ```text
//! Commit ─▶ check, decide ─▶ the draft of its record
//!                              ├─ commit:  append, apply
//!                              └─ dry run: list the entries, drop the draft
//! ```

use quire_shard::DraftedEntry;

use crate::Result;
use crate::commit::Commit;
use crate::database::Database;
use crate::decided::{outcome, told};
use crate::outcome::Outcome;
use crate::ticket::Ticket;

/// The result of a dry run. See [`Database::dry_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// The outcome that the commit would have had. Nothing was committed.
    pub outcome: Outcome,
    /// The entries that the commit would have appended. Empty when the commit is refused, changes
    /// nothing, or is a copy of an earlier one.
    pub entries: Vec<DraftedEntry>,
}

impl Database {
    /// Decides a commit as [`Database::submit`] does, and commits nothing: the log and the state
    /// stay as they are, and no idempotency key is stored. The ticket waits until everything that
    /// the decision rests on is durable.
    ///
    /// Another commit may come first. A later [`Database::commit`] can then be refused, and its
    /// positions, offsets and ids can differ. A dry run does not check whether the disk has space.
    ///
    /// ```
    /// use quire::{Commit, NewJob, Outcome};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let commit = Commit::new().enqueue("mails", NewJob::new("order 17"));
    /// let dry_run = db.dry_run(&commit)?.wait()?;
    /// let Outcome::Committed(answer) = dry_run.outcome else { panic!("nothing refuses the job") };
    /// assert!(!dry_run.entries.is_empty());
    /// assert!(db.queue("mails").stats()?.is_none(), "nothing was enqueued");
    ///
    /// // No other commit came first, so the commit gets the same replies.
    /// assert_eq!(db.commit(&commit)?.committed()?.replies, answer.replies);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::commit`], except [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace).
    pub fn dry_run(&self, commit: &Commit<'_>) -> Result<Ticket<DryRun>> {
        let ticket = self.submit_as(commit, true, |verdict| {
            let decided = verdict?;
            let entries = std::mem::take(&mut decided.replies.drafted);
            Ok((told(commit, Ok(decided))?, entries))
        })?;
        Ok(ticket.map(|verdict| match verdict {
            Ok((answer, entries)) => DryRun { outcome: outcome(commit, Ok(answer)), entries },
            Err(refused) => DryRun { outcome: outcome(commit, Err(refused)), entries: Vec::new() },
        }))
    }
}
