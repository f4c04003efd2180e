//! Membership by lease: joining, the thread that keeps the lease, and leaving.
//!
//! ```text
//! join ──▶ the log: members, shares ──▶ each member applies the new shares
//!            ▲                          at its next call for records
//!            └── each third of a lease: the thread renews the lease,
//!                as long as the member asks for records
//! ```
//!
//! The thread decides nothing. A removed member learns of its removal from the log, and joins
//! again.

use std::slice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::settings::Lease;
use quire_model::micros_of;
use quire_shard::Commands;

use crate::database::Database;
use crate::handles::commit_one;
use crate::streams::{Command, MemberId, Reply, TopicRef};
use crate::{Error, ErrorKind, Result};

/// A member of a group. It leaves when it is dropped.
#[derive(Debug)]
pub(super) struct LeasedMember {
    /// How many times the topic had been shared out when the member last read its share.
    pub(super) seen: Option<u64>,
    place: Arc<MemberLease>,
    keeper: Option<JoinHandle<()>>,
}

/// State that a member and its keeper share.
#[derive(Debug)]
struct MemberLease {
    database: Database,
    group: String,
    topic: String,
    name: String,
    lease_ms: u32,
    handling_max: Duration,
    state: Mutex<LeaseState>,
    changed: Condvar,
}

#[derive(Debug)]
struct LeaseState {
    member: MemberId,
    /// Time of the last call for records, by the database's clock; `None` while a call is waiting.
    asked_at: Option<crate::Timestamp>,
    is_over: bool,
}

impl LeasedMember {
    /// Joins a group.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`]. [`ErrorKind::Io`] when the
    /// system can't start another thread.
    pub(super) fn join(database: &Database, group: &str, topic: &str, lease: &Lease) -> Result<Self> {
        let asked_at = Some(database.now());
        let mut place = MemberLease {
            database: database.clone(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            name: lease.name.to_owned(),
            lease_ms: u32::try_from(lease.duration.as_millis()).unwrap_or(u32::MAX),
            handling_max: lease.handling_max,
            state: Mutex::new(LeaseState { member: MemberId::new(0), asked_at, is_over: false }),
            changed: Condvar::new(),
        };
        let member = place.join()?;
        place.state.get_mut().unwrap_or_else(PoisonError::into_inner).member = member;
        let place = Arc::new(place);
        let kept = Arc::clone(&place);
        let mut member = LeasedMember { seen: None, place, keeper: None };
        let spawned = std::thread::Builder::new().name(String::from("quire-member")).spawn(move || kept.keep());
        let failed = |error| Error::new(ErrorKind::Io, format!("can't start a thread: {error}"));
        member.keeper = Some(spawned.map_err(failed)?);
        Ok(member)
    }

    /// Joins again, after the member was removed.
    pub(super) fn join_anew(&mut self) -> Result<()> {
        let member = self.place.join()?;
        self.place.lock().member = member;
        self.seen = None;
        Ok(())
    }

    pub(super) fn id(&self) -> MemberId {
        self.place.lock().member
    }

    /// Notes that the member asks for records; `waits` while it waits for them.
    pub(super) fn asks(&self, waits: bool) {
        self.place.lock().asked_at = (!waits).then(|| self.place.database.now());
    }
}

impl Drop for LeasedMember {
    fn drop(&mut self) {
        self.place.lock().is_over = true;
        self.place.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // A panic in the keeper was already reported.
            let _ = keeper.join();
        }
        let place = &self.place;
        let topic = TopicRef::Name(&place.topic);
        // If this commit fails, the member is removed when its lease expires.
        let _ = place.commit(Command::LeaveGroup { group: &place.group, topic, member: self.id() });
    }
}

impl MemberLease {
    fn join(&self) -> Result<MemberId> {
        let (group, topic) = (&self.group, TopicRef::Name(&self.topic));
        match self.commit(Command::JoinGroup { group, topic, name: &self.name, lease_ms: self.lease_ms })? {
            Reply::MemberJoined(joined) => Ok(joined.member),
            other => unreachable!("a join is answered by a member, not by {other:?}"),
        }
    }

    /// Renews the lease until the member is dropped.
    fn keep(&self) {
        let third = Duration::from_millis(u64::from(self.lease_ms)) / 3;
        let mut state = self.lock();
        loop {
            let waited = self.changed.wait_timeout_while(state, third, |state| !state.is_over);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_over {
                return;
            }
            let silent = |at: crate::Timestamp| {
                self.database.now().as_micros().saturating_sub(at.as_micros()) > micros_of(self.handling_max)
            };
            if state.asked_at.is_some_and(silent) {
                continue;
            }
            let member = state.member;
            drop(state);
            let topic = TopicRef::Name(&self.topic);
            match self.commit(Command::RenewMember { group: &self.group, topic, member }) {
                // The next call for records reports a failed database.
                Err(error) if error.kind() == ErrorKind::Failed => return,
                // A removed member joins again when it asks for records.
                Ok(_) | Err(_) => state = self.lock(),
            }
        }
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.streams)
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
