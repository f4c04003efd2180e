//! The last refused commits of this process, for operators. They are in memory only.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use quire_model::{Operation, Resource, Timestamp};
use quire_shard::{Commands, CommitRefusal, Guard, TouchedResource};

use crate::Result;
use crate::commit::Part;
use crate::database::Database;
use crate::parts::part_of;

/// The number of refused commits that are kept.
const COMMITS_MAX: usize = 200;

/// The longest reason that is kept, in bytes of its message. A longer one quotes an invalid name.
const REASON_BYTES_MAX: usize = 4 << 10;

/// A commit that was refused. It has no data of the commit, except names. See
/// [`Database::recent_refusals`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCommit {
    /// The number of the refusal: 1 for the first one of this process.
    pub number: u64,
    /// The time of the decision.
    pub time: Timestamp,
    /// The refused part, and the reason.
    pub refusal: CommitRefusal,
    /// The resources that the refused part touches.
    pub resources: Vec<TouchedResource>,
}

impl RefusedCommit {
    /// Whether the client may read the resources of the refused part.
    fn is_shown(&self, guard: Option<&Guard>) -> bool {
        let Some(guard) = guard else { return true };
        self.resources.iter().all(|TouchedResource { kind, name }| match name.as_deref() {
            Some(name) => {
                let resource = Resource::new(*kind, name);
                let operation = if resource == Resource::ACCESS { Operation::Describe } else { Operation::Read };
                guard.permits(resource, operation)
            }
            None => guard.permits_every(*kind, Operation::Read),
        })
    }
}

/// The last refused commits, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RecentRefusals(Mutex<RefusalRing>);

#[derive(Debug, Default)]
struct RefusalRing {
    last_number: u64,
    commits: VecDeque<RefusedCommit>,
}

impl RecentRefusals {
    fn add(&self, time: Timestamp, refusal: CommitRefusal, resources: Vec<TouchedResource>) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.last_number += 1;
        if ring.commits.len() == COMMITS_MAX {
            ring.commits.pop_front();
        }
        let number = ring.last_number;
        ring.commits.push_back(RefusedCommit { number, time, refusal, resources });
    }

    /// Copies of those that `is_shown` accepts, newest first.
    fn newest_first(&self, is_shown: impl Fn(&RefusedCommit) -> bool) -> Vec<RefusedCommit> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.commits.iter().rev().filter(|commit| is_shown(commit)).cloned().collect()
    }
}

impl Database {
    /// Returns the last refused commits of this process, newest first: at most 200. They have the
    /// reasons, and no data of the commits except names. Dry runs are not among them, and refusals
    /// with a message of more than 4 KiB.
    ///
    /// A client sees the refusals of parts whose resources it may read.
    ///
    /// ```
    /// use quire::events::{Condition, NewEvent, QueryItem};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let taken = Condition::fail_if_matches(QueryItem::new().tag("username:ada"));
    /// for _ in 0..2 {
    ///     let event = NewEvent::new("Registered").tag("username:ada");
    ///     db.commit(&quire::Commit::new().append_if("accounts", [event], [taken.clone()]))?;
    /// }
    /// let refusals = db.recent_refusals()?;
    /// assert_eq!(refusals.len(), 1);
    /// assert!(refusals[0].refusal.to_string().contains("event 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) for a client that may not
    /// describe the database.
    pub fn recent_refusals(&self) -> Result<Vec<RefusedCommit>> {
        self.check_permission(Resource::DATABASE, Operation::Describe)?;
        let guard = self.current_guard()?;
        Ok(self.shards.refusals().newest_first(|commit| commit.is_shown(guard)))
    }

    /// Notes a refused commit. `parts` are its parts, unless all commands are of one model.
    #[cold]
    pub(crate) fn note_refusal(
        &self,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        parts: Option<&[Part<'_>]>,
        refused: &CommitRefusal,
    ) {
        // The second one is no refusal of the commit: the caller sends it again with keys read.
        if commands.is_dry_run || refused.asks_for_keys().is_some() || !is_short(refused) {
            return;
        }
        let look = |view: &quire_shard::ReadView<'_>| view.touched_by_refused(commands, refused);
        // A database that can not be read shows no refusals either.
        let Ok(resources) = self.shards.only().read_local(look) else { return };
        let part = parts.map_or(refused.part, |parts| part_of(parts, refused));
        let refusal = CommitRefusal { part, reason: refused.reason.clone() };
        self.shards.refusals().add(now, refusal, resources);
    }
}

/// Whether the message of a refusal is short enough to be kept.
fn is_short(refused: &CommitRefusal) -> bool {
    struct BytesLeft(usize);
    impl fmt::Write for BytesLeft {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    write!(BytesLeft(REASON_BYTES_MAX), "{}", refused.reason).is_ok()
}

#[cfg(test)]
mod tests {
    use quire_shard::Reason;

    use super::*;
    use crate::events;

    #[test]
    fn the_ring_keeps_the_newest_refusals_in_bounded_memory() {
        let refusals = RecentRefusals::default();
        let reason = Reason::Events(events::Refusal::ReservedStore { store: "quire/audit".to_owned() });
        for number in 1..=COMMITS_MAX as u64 + 5 {
            let refusal = CommitRefusal { part: 0, reason: reason.clone() };
            refusals.add(Timestamp::from_millis(number), refusal, Vec::new());
        }
        let numbers: Vec<u64> = refusals.newest_first(|_| true).iter().map(|refused| refused.number).collect();
        assert_eq!(numbers, (6..=COMMITS_MAX as u64 + 5).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_refusal_with_a_long_message_is_not_kept() {
        let refusal = |bytes| CommitRefusal {
            part: 0,
            reason: Reason::Events(events::Refusal::ReservedStore { store: "s".repeat(bytes) }),
        };
        assert!(is_short(&refusal(255)) && !is_short(&refusal(REASON_BYTES_MAX)));
    }
}
