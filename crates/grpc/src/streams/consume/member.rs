//! A member of a group for a client that reads a stream, and the renewal of its lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::streams::{Command, MemberId, Reply, TopicRef};
use quire::{Commit, ErrorKind, Operation, Outcome, Part, ReadView, Resource, ResourceKind, Sequence};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::Status;

use super::ReadPartition;
use crate::app::App;
use crate::error::{failed, member_hangs, refused};

/// The place of a member in a group.
#[derive(Debug)]
pub(super) struct MemberPlace {
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) name: String,
    pub(super) lease_ms: u32,
}

/// The state that a stream and the renewal of its lease share.
#[derive(Debug)]
pub(super) struct StreamMemberState {
    member: MemberId,
    /// The pages that were sent and not committed.
    pub(super) open: BTreeMap<u32, OpenPages>,
    /// Whether the client commits nothing in time, so that its lease is not renewed.
    hangs: bool,
}

impl StreamMemberState {
    fn new(member: MemberId) -> Self {
        StreamMemberState { member, open: BTreeMap::new(), hangs: false }
    }
}

/// The pages of a partition that the client has not committed.
#[derive(Debug)]
pub(super) struct OpenPages {
    /// The offset that the client commits for the last of them.
    next: Sequence,
    committed: Option<Sequence>,
    /// The first page, or the last commit since.
    since: Instant,
}

/// A member of a group. It leaves when it is dropped.
#[derive(Debug)]
pub(super) struct StreamMember {
    app: Arc<App>,
    place: Arc<MemberPlace>,
    pub(super) state: Arc<Mutex<StreamMemberState>>,
    handling_max: Duration,
    renewal: AbortHandle,
}

impl StreamMember {
    /// Joins the group, and renews the lease from then on.
    pub(super) fn join(app: &Arc<App>, place: &Arc<MemberPlace>, handling_max: Duration) -> Result<Self, Status> {
        let member = place.join(app)?;
        let state = Arc::new(Mutex::new(StreamMemberState::new(member)));
        let renewal = renew(Arc::clone(app), Arc::clone(place), Arc::clone(&state), handling_max);
        let renewal = Handle::current().spawn(renewal).abort_handle();
        Ok(StreamMember { app: Arc::clone(app), place: Arc::clone(place), state, handling_max, renewal })
    }

    /// Joins again, after the member was removed.
    ///
    /// # Errors
    /// When the member was removed because its client hangs: it would take its partitions back.
    pub(super) fn join_again(&self) -> Result<(), Status> {
        let hung = lock(&self.state).hangs;
        if hung || !self.place.is_handling(&self.app, &self.state, self.handling_max).map_err(failed)? {
            let limit = self.handling_max.as_millis();
            let message = format!("no page was committed within {limit} ms (handling_max_ms): the member was removed");
            return Err(member_hangs(message));
        }
        let member = self.place.join(&self.app)?;
        *lock(&self.state) = StreamMemberState::new(member);
        Ok(())
    }

    pub(super) fn id(&self) -> MemberId {
        lock(&self.state).member
    }

    /// Notes that a page was sent whose records end before `next`.
    pub(super) fn sent(&self, partition: u32, next: Sequence) {
        let mut state = lock(&self.state);
        let new = || OpenPages { next, committed: None, since: Instant::now() };
        state.open.entry(partition).or_insert_with(new).next = next;
    }

    /// Notes that the member reads only these partitions. The pages of the others are for their new
    /// readers to commit.
    pub(super) fn reads_only(&self, partitions: &[ReadPartition]) {
        let is_read = |partition: u32| partitions.iter().any(|read| read.owned.partition == partition);
        lock(&self.state).open.retain(|partition, _| is_read(*partition));
    }
}

impl Drop for StreamMember {
    fn drop(&mut self) {
        self.renewal.abort();
        let MemberPlace { group, topic, .. } = &*self.place;
        let leave = Command::LeaveGroup { group, topic: TopicRef::Name(topic), member: self.id() };
        // By the server, because the session of the client may have ended. If this commit fails,
        // the member is removed when its lease expires.
        drop(self.app.owner().submit(&Commit::new().part(Part::Streams(leave))));
    }
}

pub(super) fn lock(state: &Mutex<StreamMemberState>) -> MutexGuard<'_, StreamMemberState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemberPlace {
    /// Joins the group. It may block.
    fn join(&self, app: &App) -> Result<MemberId, Status> {
        let MemberPlace { group, topic, name, lease_ms } = self;
        let join = Command::JoinGroup { group, topic: TopicRef::Name(topic), name, lease_ms: *lease_ms };
        match app.database().commit(&Commit::new().part(Part::Streams(join))).map_err(failed)? {
            Outcome::Committed(committed) => match committed.replies.first() {
                Some(quire::Reply::Streams(Reply::MemberJoined(joined))) => Ok(joined.member),
                other => unreachable!("a join is answered by a member, not by {other:?}"),
            },
            Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    /// Reads the state of the member, which its client must be permitted to read.
    pub(super) fn read<T>(&self, app: &App, look: impl FnOnce(&ReadView<'_>) -> T) -> quire::Result<T> {
        let group = Resource::new(ResourceKind::Group, &self.group);
        app.database().check_permission(group, Operation::Read)?;
        app.database().read_published_for(Resource::new(ResourceKind::Topic, &self.topic), Operation::Read, look)
    }

    /// Whether the client commits what it was sent: within `handling_max` after a page, or after
    /// the commit before.
    fn is_handling(&self, app: &App, state: &Mutex<StreamMemberState>, handling_max: Duration) -> quire::Result<bool> {
        let now = Instant::now();
        let mut state = lock(state);
        self.read(app, |view| {
            let Some(topic) = view.streams.topic_named(&self.topic) else { return };
            for (partition, pages) in &mut state.open {
                let committed = view.streams.committed(&self.group, topic.id, *partition);
                let committed = committed.and_then(|committed| committed.offset);
                if committed != pages.committed {
                    (pages.committed, pages.since) = (committed, now);
                }
            }
        })?;
        state.open.retain(|_, pages| pages.committed.is_none_or(|committed| committed < pages.next));
        state.hangs = state.open.values().any(|pages| now.duration_since(pages.since) > handling_max);
        Ok(!state.hangs)
    }
}

/// Renews the lease each third of its length, as long as the client commits what it was sent.
async fn renew(app: Arc<App>, place: Arc<MemberPlace>, state: Arc<Mutex<StreamMemberState>>, handling_max: Duration) {
    let third = Duration::from_millis(place.lease_ms.into()) / 3;
    loop {
        tokio::time::sleep(third).await;
        match place.is_handling(&app, &state, handling_max) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) if ends_renewal(&error) => return,
            Err(_) => continue,
        }
        let MemberPlace { group, topic, .. } = &*place;
        let renewal = Command::RenewMember { group, topic: TopicRef::Name(topic), member: lock(&state).member };
        match app.database().submit(&Commit::new().part(Part::Streams(renewal))) {
            // A removed member joins again with the next page.
            Ok(ticket) => drop(ticket.await),
            Err(error) if ends_renewal(&error) => return,
            Err(_) => {}
        }
    }
}

/// Whether no renewal succeeds after this error. The next page reports a failed database. After any
/// other error, the next third of the lease may succeed.
pub(super) fn ends_renewal(error: &quire::Error) -> bool {
    error.kind() == ErrorKind::Failed
}
