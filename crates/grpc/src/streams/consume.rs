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

use quire::streams::{Command, Committer, LEASE_MS_MAX, MemberId, OwnedPartition, Reply, StreamReadError, TopicRef};
use quire::{
    Commit, ErrorKind, Operation, Outcome, Part, Position, ReadView, Reason, Resource, ResourceKind, Sequence,
};
use quire_access::budget::BudgetRefusal;
use quire_access::{Decompression, DecompressionTurn, RecordsError, RecordsRead};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::records::{self, RecordsPage, records_max};
use crate::app::App;
use crate::error::{failed, invalid, member_hangs, member_replaced, not_found, overloaded, refused};
use crate::pages::{MEMORY_WAIT, PAGE_BYTES, PageStream, PagedResult, stream};
use crate::proto::{ConsumeRequest, ConsumeResponse, OffsetOwner};

/// The default number of records in a page.
const LIMIT_DEFAULT: u32 = 1_000;

/// The shortest lease in milliseconds: each third of it, the server writes a renewal.
const LEASE_MS_MIN: u32 = 100;

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
    if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        return Err(invalid(format!("lease_ms must be between {LEASE_MS_MIN} and {LEASE_MS_MAX}, got {lease_ms}")));
    }
    let handling_max = Duration::from_millis(or(request.handling_max_ms, HANDLING_MS_DEFAULT).into());
    let ConsumeRequest { group, topic, member_name, from_end, .. } = request;
    let place = MemberPlace { group, topic, name: member_name, lease_ms };
    let consumer = ConsumerPages::new(Arc::clone(&app), place, handling_max, limit, from_end);
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
    handling_max: Duration,
    renewal: AbortHandle,
}

impl StreamMember {
    /// Joins the group, and renews the lease from then on.
    fn join(app: &Arc<App>, place: &Arc<MemberPlace>, handling_max: Duration) -> Result<Self, Status> {
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
    fn join_again(&self) -> Result<(), Status> {
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

    fn id(&self) -> MemberId {
        lock(&self.state).member
    }

    /// Notes that a page was sent whose records end before `next`.
    fn sent(&self, partition: u32, next: Sequence) {
        let mut state = lock(&self.state);
        let new = || OpenPages { next, committed: None, since: Instant::now() };
        state.open.entry(partition).or_insert_with(new).next = next;
    }

    /// Notes that the member reads only these partitions. The pages of the others are for their new
    /// readers to commit.
    fn reads_only(&self, partitions: &[ReadPartition]) {
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

fn lock(state: &Mutex<StreamMemberState>) -> MutexGuard<'_, StreamMemberState> {
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
    fn read<T>(&self, app: &App, look: impl FnOnce(&ReadView<'_>) -> T) -> quire::Result<T> {
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
fn ends_renewal(error: &quire::Error) -> bool {
    error.kind() == ErrorKind::Failed
}

/// A partition that the member reads.
#[derive(Debug, Clone, Copy)]
struct ReadPartition {
    owned: OwnedPartition,
    next: Sequence,
    /// The deleted records before `next` that no page has reported.
    lost: u64,
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
    /// What the next page needs that it must not wait for on a thread.
    need: Option<PageNeed>,
    turn: Option<DecompressionTurn>,
    memory: Option<MemoryWait>,
}

/// What a page needs before it can be read.
#[derive(Debug)]
enum PageNeed {
    /// A turn to decompress much.
    Turn,
    Memory(BudgetRefusal),
}

/// A page that waits for memory.
#[derive(Debug, Clone, Copy)]
struct MemoryWait {
    until: Instant,
    /// The bytes to wait for. The size of the next record is unknown, so each refusal doubles it.
    bytes: usize,
}

impl PagedResult for ConsumerPages {
    type Page = ConsumeResponse;

    fn next(&mut self, app: &App) -> Result<Option<ConsumeResponse>, Status> {
        // Taken before the read, so that a publication during it is noticed.
        self.read_at = app.database().published();
        if self.member.is_none() {
            self.member = Some(StreamMember::join(&self.app, &self.place, self.handling_max)?);
        }
        let member = self.look_at_share(app)?;
        // The turn ends with this read.
        let decompressing = self.turn.take();
        let decompression = if decompressing.is_some() { Decompression::Full } else { Decompression::Cheap };
        for turn in 0..self.partitions.len() {
            // No other partition goes first meanwhile: it could do so for ever.
            let Some(page) = self.read(app, turn, decompression)? else { return Ok(None) };
            if page.is_empty() {
                continue;
            }
            let read = &mut self.partitions[turn];
            let OwnedPartition { partition, epoch } = read.owned;
            let lost = std::mem::take(&mut read.lost);
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

    async fn more(&mut self, app: &App) -> Result<bool, Status> {
        match self.need.take() {
            None => drop(self.app.database().publication_after(self.read_at).await.map_err(failed)?),
            Some(PageNeed::Turn) => self.turn = Some(app.unpacking().turn().await),
            Some(PageNeed::Memory(refusal)) => self.wait_for_memory(app, refusal).await?,
        }
        Ok(true)
    }
}

impl ConsumerPages {
    fn new(app: Arc<App>, place: MemberPlace, handling_max: Duration, limit: usize, from_end: bool) -> Self {
        ConsumerPages {
            app,
            place: Arc::new(place),
            handling_max,
            limit,
            from_end,
            member: None,
            seen: None,
            partitions: Vec::new(),
            read_at: Position::ZERO,
            need: None,
            turn: None,
            memory: None,
        }
    }

    /// Waits until memory is free for the page that had the refusal.
    async fn wait_for_memory(&mut self, app: &App, refusal: BudgetRefusal) -> Result<(), Status> {
        let first = MemoryWait { until: Instant::now() + MEMORY_WAIT, bytes: PAGE_BYTES };
        let wait = self.memory.map_or(first, |wait| MemoryWait { bytes: wait.bytes.saturating_mul(2), ..wait });
        self.memory = Some(wait);
        let mut claim = app.caller().claim();
        let is_free = timeout_at(wait.until, claim.grow_patiently(wait.bytes)).await.is_ok();
        if is_free && Instant::now() < wait.until { Ok(()) } else { Err(overloaded(refusal)) }
    }

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
        let share = self.place.read(app, |view| {
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
        self.member.iter().for_each(|member| member.reads_only(&self.partitions));
        for (owned, committed) in share {
            if self.partitions.iter().any(|known| known.owned.partition == owned.partition) {
                continue;
            }
            let next = match committed {
                Some(committed) => *committed,
                None if self.from_end => {
                    let end = app.database().topic(&self.place.topic).offsets(owned.partition).map_err(failed)?.next;
                    // Committed at once, so that the next reader of the partition continues here.
                    // Otherwise that reader would skip records that arrived meanwhile.
                    if !self.commit(app, member, *owned, end)? {
                        return Ok(false);
                    }
                    end
                }
                None => records::start_of(app.database(), &self.place.topic, owned.partition)?,
            };
            self.partitions.push(ReadPartition { owned: *owned, next, lost: 0 });
        }
        Ok(true)
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
        let outcome = app.database().commit(&Commit::new().part(Part::Streams(command))).map_err(failed)?;
        match outcome {
            Outcome::Committed(_) => Ok(true),
            Outcome::Refused(refusal) => match &refusal.reason {
                Reason::Streams(reason) if reason.is_lost_share() => Ok(false),
                _ => Err(refused(&refusal)),
            },
        }
    }

    /// Reads the next records of a partition. `None` when the page needs something first.
    fn read(&mut self, app: &App, turn: usize, decompression: Decompression) -> Result<Option<RecordsPage>, Status> {
        let ReadPartition { owned, next, .. } = self.partitions[turn];
        let topic = &self.place.topic;
        let mut read = RecordsRead {
            topic: topic.clone(),
            partition: owned.partition,
            from: next,
            limit: self.limit,
            bytes_max: PAGE_BYTES,
        };
        loop {
            let mut claim = app.caller().claim();
            let page = match records::page_of(app, &read, decompression, &mut claim) {
                Ok(Some(page)) => page,
                Ok(None) => {
                    self.need = Some(PageNeed::Turn);
                    return Ok(None);
                }
                Err(RecordsError::Memory { refusal, .. }) if refusal.retry_after().is_some() => {
                    self.need = Some(PageNeed::Memory(refusal));
                    return Ok(None);
                }
                Err(RecordsError::Partition(StreamReadError::OffsetOutOfRange { from, start, next })) => {
                    read.from = if from < start && !self.from_end { start } else { next };
                    let partition = &mut self.partitions[turn];
                    // A later page reports it when all records were deleted.
                    partition.lost += start.get().saturating_sub(from.get());
                    partition.next = read.from;
                    continue;
                }
                Err(error) => return Err(records::status(error, &read)),
            };
            self.memory = None;
            self.partitions[turn].next = page.next_offset;
            // After compaction, all records left in a batch may lie before the offset to read from.
            let has_come_on = page.next_offset > read.from;
            if !page.is_empty() || !has_come_on {
                return Ok(Some(page));
            }
            read.from = page.next_offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use quire::streams::TopicSettings;
    use quire::streams::wire::Codec;
    use quire::{Durability, Message};
    use quire_access::budget::{ByteBudget, FrontEnd};
    use tempfile::TempDir;
    use tokio::sync::watch;

    use super::*;
    use crate::app::DatabaseEnd;

    const TOPIC: &str = "t";

    const BUDGET_BYTES: usize = 256 << 20;

    /// The components over a database of the test's own, which end last.
    struct TestApp {
        app: Arc<App>,
        budget: ByteBudget,
        _end: (DatabaseEnd, watch::Sender<bool>, TempDir),
    }

    impl TestApp {
        fn new(partitions: u32) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let database = quire::Database::builder(directory.path()).durability(Durability::Os).open();
            let database = database.expect("opened");
            let settings = TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() };
            let create = Command::CreateTopic { name: TOPIC, partitions, settings };
            let created = database.commit(&Commit::new().part(Part::Streams(create))).expect("no error");
            created.committed().expect("accepted");
            let budget = ByteBudget::new(BUDGET_BYTES as u64);
            let (close, closed) = watch::channel(false);
            let (app, end) = App::open(database, budget.caller(FrontEnd::Grpc, None), closed);
            TestApp { app, budget, _end: (end, close, directory) }
        }

        fn produce(&self, partition: u32, value: Vec<u8>) {
            let message = Message::new(value).partition(partition);
            self.app.database().topic(TOPIC).produce(message).expect("produced");
        }

        fn consumer(&self, handling_max: Duration) -> ConsumerPages {
            let name = String::new();
            let place = MemberPlace { group: "g".to_owned(), topic: TOPIC.to_owned(), name, lease_ms: 60_000 };
            ConsumerPages::new(Arc::clone(&self.app), place, handling_max, 10, false)
        }
    }

    fn next(app: &TestApp, consumer: &mut ConsumerPages) -> Option<ConsumeResponse> {
        consumer.next(&app.app).expect("it does not end")
    }

    fn open(consumer: &ConsumerPages) -> Vec<u32> {
        let state = lock(&consumer.member.as_ref().expect("it has joined").state);
        state.open.keys().copied().collect()
    }

    #[tokio::test]
    async fn the_pages_of_a_partition_that_moved_away_are_not_awaited() {
        let app = TestApp::new(2);
        (0..2).for_each(|partition| app.produce(partition, b"a".to_vec()));
        let mut first = app.consumer(Duration::MAX);
        let pages = [next(&app, &mut first), next(&app, &mut first)];
        assert!(pages.iter().all(Option::is_some));
        assert_eq!(open(&first), [0, 1]);
        let mut second = app.consumer(Duration::MAX);
        let moved = next(&app, &mut second).expect("it has a partition").partition;
        assert_eq!(next(&app, &mut first), None);
        assert_eq!(open(&first), [1 - moved]);
    }

    #[tokio::test]
    async fn a_client_that_hung_does_not_join_again() {
        let app = TestApp::new(1);
        app.produce(0, b"a".to_vec());
        let mut consumer = app.consumer(Duration::ZERO);
        next(&app, &mut consumer).expect("a page");
        let member = consumer.member.as_ref().expect("it has joined");
        let MemberPlace { group, topic, .. } = &*member.place;
        let leave = Command::LeaveGroup { group, topic: TopicRef::Name(topic), member: member.id() };
        let left = app.app.database().commit(&Commit::new().part(Part::Streams(leave))).expect("no error");
        left.committed().expect("accepted");
        let ended = consumer.next(&app.app).expect_err("the client hangs");
        assert!(ended.message().contains("handling_max_ms"), "{ended:?}");
    }

    #[tokio::test]
    async fn a_page_waits_for_memory_and_for_its_turn_outside_of_the_read() {
        let app = TestApp::new(1);
        app.produce(0, vec![7; 200 << 10]);
        let mut others = app.budget.caller(FrontEnd::Http, None).claim();
        others.grow_anyway(BUDGET_BYTES);
        let mut consumer = app.consumer(Duration::MAX);
        assert_eq!(next(&app, &mut consumer), None);
        assert!(matches!(consumer.need, Some(PageNeed::Memory(_))));
        drop(others);
        assert!(consumer.more(&app.app).await.expect("there is memory"));
        assert!(next(&app, &mut consumer).is_some());

        // Its batch decompresses to more than is cheap.
        app.produce(0, vec![7; 2 << 20]);
        assert_eq!(next(&app, &mut consumer), None);
        assert!(matches!(consumer.need, Some(PageNeed::Turn)));
        assert!(consumer.more(&app.app).await.expect("it has its turn"));
        assert!(next(&app, &mut consumer).is_some());
        assert!(consumer.turn.is_none(), "the turn ends with the read");
    }

    #[test]
    fn only_a_failed_database_ends_the_renewals() {
        for kind in ErrorKind::ALL {
            assert_eq!(ends_renewal(&quire::Error::new(kind, "it failed")), kind == ErrorKind::Failed, "{kind:?}");
        }
    }
}
