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

use std::sync::Arc;
use std::time::Duration;

use quire::streams::{Command, Committer, LEASE_MS_MAX, MemberId, OwnedPartition, StreamReadError, TopicRef};
use quire::{Commit, Outcome, Part, Position, Reason, Sequence};
use quire_access::budget::BudgetRefusal;
use quire_access::{Decompression, ReadTurn, RecordsError, RecordsRead};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use self::member::{MemberPlace, StreamMember};
use super::records::{self, RecordsPage, records_max};
use crate::app::App;
use crate::error::{failed, invalid, member_replaced, not_found, overloaded, refused};
use crate::pages::{MEMORY_WAIT, PAGE_BYTES, PageStream, PagedResult, stream};
use crate::proto::{ConsumeRequest, ConsumeResponse, OffsetOwner};

mod member;

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
    turn: Option<ReadTurn>,
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
mod tests;
