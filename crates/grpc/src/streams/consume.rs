//! A consumer on a stream: a member of a group by lease, for as long as the client reads.
//!
//! ```text
//! join ──▶ the log: members, shares ──▶ each page: the current share, then records of one partition
//!            ▲                              │ no records: waits until the next publication
//!            └── each third of a lease: a task renews the lease, as long as the client commits pages
//! ```
//!
//! The client commits offsets with other calls, under the member and the epoch of a page. So the
//! stream decides nothing, and a page that was sent and not committed is sent again: to the next
//! reader of its partition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::streams::{Command, Committer, MemberId, OwnedPartition, Reply, StreamReadError, TopicRef};
use quire::{Commit, Outcome, Part, Position, Sequence};
use quire_access::{RecordsError, RecordsRead};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::Status;

use super::records::{self, RecordsPage, records_max};
use crate::app::App;
use crate::error::{failed, invalid, member_replaced, not_found, refused};
use crate::pages::{PAGE_BYTES, PageStream, PagedResult, stream};
use crate::proto::{ConsumeRequest, ConsumeResponse, OffsetOwner};

/// The default number of records in a page.
const LIMIT_DEFAULT: u32 = 1_000;

/// The default lease, and the default time between two pages, in milliseconds.
const LEASE_MS_DEFAULT: u32 = 10_000;
const HANDLING_MS_DEFAULT: u32 = 300_000;

/// Starts to consume.
pub(super) async fn begin(app: Arc<App>, request: ConsumeRequest) -> Result<PageStream<ConsumeResponse>, Status> {
    let limit = records_max(request.limit, LIMIT_DEFAULT)?;
    if request.topic.is_empty() || request.group.is_empty() {
        return Err(invalid("give a group and a topic"));
    }
    let or = |given: u32, default: u32| if given == 0 { default } else { given };
    let lease_ms = or(request.lease_ms, LEASE_MS_DEFAULT);
    let handling_max = Duration::from_millis(or(request.handling_max_ms, HANDLING_MS_DEFAULT).into());
    let ConsumeRequest { group, topic, member_name, from_end, .. } = request;
    let place = MemberPlace { group, topic, name: member_name, lease_ms };
    let consumer = ConsumerPages {
        app: Arc::clone(&app),
        place: Arc::new(place),
        handling_max,
        limit,
        from_end,
        member: None,
        seen: None,
        partitions: Vec::new(),
        read_at: Position::ZERO,
    };
    stream(app, consumer).await
}

/// The place of a member in a group.
#[derive(Debug)]
struct MemberPlace {
    group: String,
    topic: String,
    name: String,
    lease_ms: u32,
}

/// The state that a stream and the renewal of its lease share.
#[derive(Debug)]
struct StreamMemberState {
    member: MemberId,
    /// The pages that were sent and not committed.
    open: BTreeMap<u32, OpenPages>,
}

/// The pages of a partition that the client has not committed.
#[derive(Debug)]
struct OpenPages {
    /// The offset that the client commits for the last of them.
    next: Sequence,
    committed: Option<Sequence>,
    /// The first page, or the last commit since.
    since: Instant,
}

/// A member of a group. It leaves when it is dropped.
#[derive(Debug)]
struct StreamMember {
    app: Arc<App>,
    place: Arc<MemberPlace>,
    state: Arc<Mutex<StreamMemberState>>,
    renewal: AbortHandle,
}

impl StreamMember {
    /// Joins the group, and renews the lease from then on.
    fn join(app: &Arc<App>, place: &Arc<MemberPlace>, handling_max: Duration) -> Result<Self, Status> {
        let member = place.join(app)?;
        let state = Arc::new(Mutex::new(StreamMemberState { member, open: BTreeMap::new() }));
        let renewal = renew(Arc::clone(app), Arc::clone(place), Arc::clone(&state), handling_max);
        let renewal = Handle::current().spawn(renewal).abort_handle();
        Ok(StreamMember { app: Arc::clone(app), place: Arc::clone(place), state, renewal })
    }

    /// Joins again, after the member was removed.
    fn join_again(&self) -> Result<(), Status> {
        let member = self.place.join(&self.app)?;
        *lock(&self.state) = StreamMemberState { member, open: BTreeMap::new() };
        Ok(())
    }

    fn id(&self) -> MemberId {
        lock(&self.state).member
    }

    /// Notes that a page was sent whose records end before `next`.
    fn sent(&self, partition: u32, next: Sequence) {
        let mut state = lock(&self.state);
        let new = || OpenPages { next, committed: None, since: Instant::now() };
        state.open.entry(partition).or_insert_with(new).next = next;
    }
}

impl Drop for StreamMember {
    fn drop(&mut self) {
        self.renewal.abort();
        let MemberPlace { group, topic, .. } = &*self.place;
        let leave = Command::LeaveGroup { group, topic: TopicRef::Name(topic), member: self.id() };
        // If this commit fails, the member is removed when its lease expires.
        drop(self.app.database.submit(&Commit::new().part(Part::Streams(leave))));
    }
}

fn lock(state: &Mutex<StreamMemberState>) -> MutexGuard<'_, StreamMemberState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemberPlace {
    /// Joins the group. It may block.
    fn join(&self, app: &App) -> Result<MemberId, Status> {
        let MemberPlace { group, topic, name, lease_ms } = self;
        let join = Command::JoinGroup { group, topic: TopicRef::Name(topic), name, lease_ms: *lease_ms };
        match app.database.commit(&Commit::new().part(Part::Streams(join))).map_err(failed)? {
            Outcome::Committed(committed) => match committed.replies.first() {
                Some(quire::Reply::Streams(Reply::MemberJoined(joined))) => Ok(joined.member),
                other => unreachable!("a join is answered by a member, not by {other:?}"),
            },
            Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    /// Whether the client commits what it was sent: within `handling_max` after a page, or after
    /// the commit before.
    fn is_handling(&self, app: &App, state: &Mutex<StreamMemberState>, handling_max: Duration) -> quire::Result<bool> {
        let now = Instant::now();
        let mut state = lock(state);
        app.database.read_published(|view| {
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
        Ok(state.open.values().all(|pages| now.duration_since(pages.since) <= handling_max))
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
            // The next page reports a failed database.
            Err(_) => return,
        }
        let MemberPlace { group, topic, .. } = &*place;
        let renewal = Command::RenewMember { group, topic: TopicRef::Name(topic), member: lock(&state).member };
        let Ok(ticket) = app.database.submit(&Commit::new().part(Part::Streams(renewal))) else { return };
        // A removed member joins again with the next page.
        drop(ticket.await);
    }
}

/// A partition that the member reads.
#[derive(Debug, Clone, Copy)]
struct ReadPartition {
    owned: OwnedPartition,
    next: Sequence,
}

/// The member's share, as the log says it.
enum MemberShare {
    /// The share is the one that was read before.
    Unchanged,
    Changed(u64, Vec<(OwnedPartition, Option<Sequence>)>),
    /// The consumer is no longer a member.
    Gone,
    /// Another member has taken over the place.
    Replaced,
}

/// The pages of a consumer, which do not end by themselves.
#[derive(Debug)]
struct ConsumerPages {
    app: Arc<App>,
    place: Arc<MemberPlace>,
    handling_max: Duration,
    limit: usize,
    from_end: bool,
    member: Option<StreamMember>,
    /// How many times the topic had been shared out when the share was read.
    seen: Option<u64>,
    partitions: Vec<ReadPartition>,
    /// The last publication before the partitions were read.
    read_at: Position,
}

impl PagedResult for ConsumerPages {
    type Page = ConsumeResponse;

    fn next(&mut self, app: &App) -> Result<Option<ConsumeResponse>, Status> {
        // Taken before the read, so that a publication during it is noticed.
        self.read_at = app.database.published();
        if self.member.is_none() {
            self.member = Some(StreamMember::join(&self.app, &self.place, self.handling_max)?);
        }
        let member = self.look_at_share(app)?;
        for turn in 0..self.partitions.len() {
            let (page, lost) = self.read(app, turn)?;
            if page.is_empty() {
                continue;
            }
            let OwnedPartition { partition, epoch } = self.partitions[turn].owned;
            // The partition that had its turn moves to the end.
            self.partitions.rotate_left(turn + 1);
            self.member.iter().for_each(|member| member.sent(partition, page.next_offset));
            return Ok(Some(ConsumeResponse {
                partition,
                records: page.records,
                skipped: page.skipped,
                next_offset: page.next_offset.get(),
                owner: Some(OffsetOwner { member: member.get(), epoch: epoch.get() }),
                lost,
            }));
        }
        Ok(None)
    }

    async fn more(&mut self, _app: &App) -> Result<bool, Status> {
        self.app.database.publication_after(self.read_at).await.map_err(failed)?;
        Ok(true)
    }
}

impl ConsumerPages {
    /// Applies the current share of the member, and returns the member. The consumer drops
    /// partitions of other members, and starts new partitions at the group's offset.
    fn look_at_share(&mut self, app: &App) -> Result<MemberId, Status> {
        loop {
            let member = self.member.as_ref().expect("it has joined").id();
            match self.share(app, member)? {
                MemberShare::Unchanged => return Ok(member),
                MemberShare::Replaced => {
                    let MemberPlace { group, name, .. } = &*self.place;
                    let message = format!("another member of the group {group} took the place {name:?} over");
                    return Err(member_replaced(message));
                }
                MemberShare::Gone => {
                    self.partitions.clear();
                    self.seen = None;
                    self.member.iter().try_for_each(StreamMember::join_again)?;
                }
                MemberShare::Changed(version, share) => {
                    self.seen = Some(version);
                    if self.take_share(app, member, &share)? {
                        return Ok(member);
                    }
                    self.seen = None;
                }
            }
        }
    }

    fn share(&self, app: &App, member: MemberId) -> Result<MemberShare, Status> {
        let MemberPlace { group, topic, name, .. } = &*self.place;
        // Shares that are not yet durable may be used: every commit that follows from them comes
        // later in the log.
        let share = app.database.read_published(|view| {
            let topic = view.streams.topic_named(topic)?.id;
            let version = view.streams.shared_out(group, topic);
            if self.seen == Some(version) {
                return Some(MemberShare::Unchanged);
            }
            let committed = |partition| view.streams.committed(group, topic, partition).and_then(|found| found.offset);
            let is_taken =
                || view.streams.members(group, topic).any(|other| !other.name.is_empty() && other.name == *name);
            Some(match view.streams.share(group, topic, member) {
                Some(share) => {
                    let share = share.map(|owned| (owned, committed(owned.partition))).collect();
                    MemberShare::Changed(version, share)
                }
                None if is_taken() => MemberShare::Replaced,
                None => MemberShare::Gone,
            })
        });
        share.map_err(failed)?.ok_or_else(|| not_found(format!("unknown topic {topic:?}")))
    }

    /// Returns whether the consumer took the share. Otherwise another commit came first, and the
    /// consumer must read the share again.
    fn take_share(
        &mut self,
        app: &App,
        member: MemberId,
        share: &[(OwnedPartition, Option<Sequence>)],
    ) -> Result<bool, Status> {
        // A partition that left and returned meanwhile starts at the offset of its reader in
        // between.
        self.partitions.retain(|known| share.iter().any(|(owned, _)| *owned == known.owned));
        for (owned, committed) in share {
            if self.partitions.iter().any(|known| known.owned.partition == owned.partition) {
                continue;
            }
            let next = match committed {
                Some(committed) => *committed,
                None if self.from_end => {
                    let end = self.bounds(app, owned.partition)?.1;
                    // Committed at once, so that the next reader of the partition continues here.
                    // Otherwise that reader would skip records that arrived meanwhile.
                    if !self.commit(app, member, *owned, end)? {
                        return Ok(false);
                    }
                    end
                }
                None => self.bounds(app, owned.partition)?.0,
            };
            self.partitions.push(ReadPartition { owned: *owned, next });
        }
        Ok(true)
    }

    /// The first offset of a partition, and the one after the last.
    fn bounds(&self, app: &App, partition: u32) -> Result<(Sequence, Sequence), Status> {
        let topic = &self.place.topic;
        let offsets = app.database.topic(topic).offsets(partition).map_err(failed)?;
        Ok((offsets.start, offsets.next))
    }

    /// Commits an offset; returns whether the member still reads the partition.
    fn commit(&self, app: &App, member: MemberId, owned: OwnedPartition, offset: Sequence) -> Result<bool, Status> {
        let MemberPlace { group, topic, .. } = &*self.place;
        let command = Command::CommitOffset {
            group,
            topic: TopicRef::Name(topic),
            partition: owned.partition,
            offset,
            leader_epoch: None,
            metadata: "",
            by: Committer::Member { member, epoch: owned.epoch },
        };
        let outcome = app.database.commit(&Commit::new().part(Part::Streams(command))).map_err(failed)?;
        Ok(matches!(outcome, Outcome::Committed(_)))
    }

    /// Reads the next records of a partition, and the number of deleted records before them.
    fn read(&mut self, app: &App, turn: usize) -> Result<(RecordsPage, u64), Status> {
        let ReadPartition { owned, next } = self.partitions[turn];
        let topic = &self.place.topic;
        let mut read = RecordsRead {
            topic: topic.clone(),
            partition: owned.partition,
            from: next,
            limit: self.limit,
            bytes_max: PAGE_BYTES,
        };
        let mut lost = 0;
        loop {
            let mut claim = app.caller().claim();
            let page = match records::page(app, &read, &mut claim) {
                Err(RecordsError::Partition(StreamReadError::OffsetOutOfRange { from, start, next })) => {
                    lost = start.get().saturating_sub(from.get());
                    read.from = if from < start && !self.from_end { start } else { next };
                    self.partitions[turn].next = read.from;
                    continue;
                }
                page => page.map_err(|error| records::status(error, topic))?,
            };
            self.partitions[turn].next = page.next_offset;
            // After compaction, all records left in a batch may lie before the offset to read from.
            let has_come_on = page.next_offset > read.from;
            if !page.is_empty() || !has_come_on {
                return Ok((page, lost));
            }
            read.from = page.next_offset;
        }
    }
}
