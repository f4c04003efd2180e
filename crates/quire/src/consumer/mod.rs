//! Consumers: a group's reader of a topic, which hands batches of records to a handler and notes how far it came.
//!
//! ```text
//! fetch ──▶ handler ──┬─ took them ──▶ offsets committed, in one commit with what the handler wants to be written
//!   ▲                 └─ failed ──▶ tried again, later each time ──▶ at last: to the dead-letter topic, or an error
//!   └── nothing there: waits until something is published, without looking again and again
//! ```
//!
//! Members of a group share the partitions by number, or by leases: see [`Sharing`].
//!
//! Records are handed out at least once. What a handler puts into the [`Commit`] that it is given happens exactly once: it is
//! committed together with the offset, or not at all, and refused when the partition is another member's by then.

mod delivery;
mod member;
mod process;
mod settings;

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use quire_model::Sequence;

pub use delivery::{Delivery, RecordView};
pub use settings::{ConsumerSettings, Lease, Sharing};

use crate::commit::Commit;
use crate::database::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::handles::unreadable;
use crate::streams::{Committer, Owned, OwnerEpoch, PartitionOffsets, TopicRef};
use crate::{Part, streams};
use member::Member;

/// Reads a topic for a group. See [`Topic::consumer`](crate::Topic::consumer).
pub struct Consumer<'d> {
    database: &'d Database,
    topic: &'d str,
    group: &'d str,
    settings: ConsumerSettings<'d>,
    /// The partitions that it reads, and how far it has.
    partitions: Vec<Share>,
    /// Its membership, when it shares by leases.
    member: Option<Member>,
    /// Whose buffers serve the next delivery.
    spare: Option<Delivery>,
    on_error: OnError<'d>,
}

/// Told of a delivery, of what its handler failed with, and of how often that has been tried.
type OnError<'d> = Option<&'d (dyn Fn(&Delivery, &str, u32) + Sync)>;

/// A partition that is read.
#[derive(Debug, Clone, Copy)]
struct Share {
    partition: u32,
    /// Which reading of it this is, by a member by lease.
    epoch: OwnerEpoch,
    next: Sequence,
    is_paused: bool,
}

impl Share {
    fn owned(&self) -> Owned {
        Owned { partition: self.partition, epoch: self.epoch }
    }
}

/// What a look at a member's share found.
enum Found {
    Share(Vec<(Owned, Option<Sequence>)>),
    /// It is a member no more.
    Gone,
    /// Nor is its place free.
    Replaced,
}

/// How far a group is behind in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The partition.
    pub partition: u32,
    /// The offset of the record that is read next.
    pub next: Sequence,
    /// Where the partition ends.
    pub end: Sequence,
}

impl Lag {
    /// How many records are to be read.
    pub fn records(&self) -> u64 {
        self.end.get().saturating_sub(self.next.get())
    }
}

impl<'d> Consumer<'d> {
    pub(crate) fn new(
        database: &'d Database,
        topic: &'d str,
        group: &'d str,
        settings: ConsumerSettings<'d>,
    ) -> Result<Self> {
        settings.check()?;
        if database.read_published(|view| view.streams.topic_named(topic).is_none())? {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no topic {topic:?}")));
        }
        let member = match &settings.sharing {
            Sharing::Fixed { .. } => None,
            Sharing::Lease(lease) => Some(Member::join(database, group, topic, lease)?),
        };
        let partitions = Vec::new();
        let mut consumer =
            Consumer { database, topic, group, settings, partitions, member, spare: None, on_error: None };
        match consumer.member {
            None => drop(consumer.look_for_partitions(settings.from_start)?),
            Some(_) => consumer.look_at_share()?,
        }
        Ok(consumer)
    }

    /// Has a function told of each failure of a handler in [`Consumer::process`]: the delivery, the error, and how often the
    /// handler has failed with it.
    pub fn on_error(&mut self, told: &'d (dyn Fn(&Delivery, &str, u32) + Sync)) {
        self.on_error = Some(told);
    }

    /// The partitions that it reads now, in order.
    pub fn partitions(&self) -> Vec<u32> {
        let mut partitions: Vec<u32> = self.partitions.iter().map(|share| share.partition).collect();
        partitions.sort_unstable();
        partitions
    }

    /// Adds the partitions that came to be since the last look, each from where the group goes on in it, and says whether there
    /// are any. Only for a share by number.
    fn look_for_partitions(&mut self, from_start: bool) -> Result<bool> {
        let Sharing::Fixed { member, members } = self.settings.sharing else { return Ok(false) };
        let (group, topic) = (self.group, self.topic);
        let known = |partition: u32| self.partitions.iter().any(|share| share.partition == partition);
        let found = self.database.read(|view| {
            let Some(topic) = view.streams.topic_named(topic) else { return Vec::new() };
            let new = (0..topic.partitions).filter(|partition| partition % members == member && !known(*partition));
            let committed = |partition| view.streams.committed(group, topic.id, partition).map(|found| found.offset);
            new.map(|partition| (partition, committed(partition))).collect()
        })?;
        let before = self.partitions.len();
        for (partition, committed) in found.wait()? {
            let next = match committed {
                Some(committed) => committed,
                None => self.begin(partition, from_start)?,
            };
            self.partitions.push(Share { partition, epoch: OwnerEpoch::default(), next, is_paused: false });
        }
        Ok(self.partitions.len() > before)
    }

    /// Where a partition is begun in which the group has committed nothing.
    fn begin(&self, partition: u32, from_start: bool) -> Result<Sequence> {
        let PartitionOffsets { start, next } = self.database.topic(self.topic).offsets(partition)?;
        Ok(if from_start { start } else { next })
    }

    /// Takes in what the group's members read by now: what is another's goes, what is new begins where the group goes on.
    fn look_at_share(&mut self) -> Result<()> {
        loop {
            let Some(member) = &mut self.member else { return Ok(()) };
            let (id, seen, group, topic) = (member.id(), member.seen, self.group, self.topic);
            let Sharing::Lease(Lease { name, .. }) = self.settings.sharing else { return Ok(()) };
            // What is not durable yet is as good: all that follows from it comes behind it in the log.
            let found = self.database.read_published(|view| {
                let topic = view.streams.topic_named(topic)?.id;
                let now = view.streams.shared_out(group, topic);
                if seen == Some(now) {
                    return Some((now, None));
                }
                let committed = |partition| view.streams.committed(group, topic, partition).map(|found| found.offset);
                let taken =
                    view.streams.members(group, topic).any(|other| !other.name.is_empty() && other.name == name);
                let share = match view.streams.share(group, topic, id) {
                    Some(share) => {
                        Found::Share(share.map(|owned| (owned, committed(owned.partition))).collect::<Vec<_>>())
                    }
                    None if taken => Found::Replaced,
                    None => Found::Gone,
                };
                Some((now, Some(share)))
            })?;
            let (now, found) = found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("there is no topic {:?} any more", self.topic))
            })?;
            match found {
                None => return Ok(()),
                Some(Found::Replaced) => {
                    self.partitions.clear();
                    let message = format!("another member of the group {group} took the place {name:?} over");
                    return Err(Error::new(ErrorKind::Refused, message));
                }
                Some(Found::Gone) => {
                    self.partitions.clear();
                    member.join_anew()?;
                }
                Some(Found::Share(share)) => {
                    member.seen = Some(now);
                    if self.take_share(&share)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Says whether the share is taken; else somebody was faster, and it is to be looked at again.
    fn take_share(&mut self, share: &[(Owned, Option<Sequence>)]) -> Result<bool> {
        // One that went and came back meanwhile is begun where its reader in between came to.
        self.partitions.retain(|known| share.iter().any(|(owned, _)| *owned == known.owned()));
        for (owned, committed) in share {
            let Owned { partition, epoch } = *owned;
            if self.partitions.iter().any(|known| known.partition == partition) {
                continue;
            }
            let next = match committed {
                Some(committed) => *committed,
                None => {
                    let begin = self.begin(partition, self.settings.from_start)?;
                    // Noted at once: the next reader of the partition goes on here, and not behind what came meanwhile.
                    if !self.settings.from_start {
                        let noted = Commit::new().part(self.note(partition, begin, self.committer(epoch)));
                        match self.database.commit(&noted)?.committed() {
                            Err(refused) if refused.kind() == ErrorKind::Refused => return Ok(false),
                            committed => committed?,
                        };
                    }
                    begin
                }
            };
            self.partitions.push(Share { partition, epoch, next, is_paused: false });
        }
        Ok(true)
    }

    fn committer(&self, epoch: OwnerEpoch) -> Committer {
        self.member.as_ref().map_or(Committer::Anyone, |member| Committer::Member { member: member.id(), epoch })
    }

    /// The next records of a partition that has any, taking turns; nothing is noted of them yet. `None` when there are none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a batch that can't be read; [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn poll(&mut self) -> Result<Option<Delivery>> {
        if let Some(member) = &self.member {
            member.asks(false);
            self.look_at_share()?;
        }
        for turn in 0..self.partitions.len() {
            let share = self.partitions[turn];
            if share.is_paused {
                continue;
            }
            let mut delivery = Delivery::empty(share.partition, self.committer(share.epoch), self.spare.take());
            let mut next = share.next;
            loop {
                self.fetch(&mut delivery, next)?;
                // What is left of a compacted batch may all lie before where it was to be read from.
                let has_come_on = std::mem::replace(&mut next, delivery.next) < delivery.next;
                if !delivery.is_empty() || !has_come_on {
                    break;
                }
            }
            self.partitions[turn].next = next;
            if !delivery.is_empty() {
                // Whoever had a turn is last.
                self.partitions.rotate_left(turn + 1);
                return Ok(Some(delivery));
            }
            self.spare = Some(delivery);
        }
        Ok(None)
    }

    /// Fills a delivery, from an offset on or from where there is anything still.
    fn fetch(&self, delivery: &mut Delivery, from: Sequence) -> Result<()> {
        match self.fetch_from(delivery, from) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let PartitionOffsets { start, next } = self.database.topic(self.topic).offsets(delivery.partition)?;
                delivery.lost = start.get().saturating_sub(from.get());
                let from = if from < start && self.settings.from_start { start } else { next };
                self.fetch_from(delivery, from)
            }
            fetched => fetched,
        }
    }

    fn fetch_from(&self, delivery: &mut Delivery, from: Sequence) -> Result<()> {
        delivery.next = from;
        let (partition, records_max) = (delivery.partition, self.settings.records_max);
        let found = self.database.read_published(|view| {
            let topic = view.streams.topic_named(self.topic)?;
            Some(view.streams.partition(topic.id, partition))
        })?;
        let found = found
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no topic {:?}", self.topic)))?
            .map_err(unreadable)?;
        let history = self.database.history();
        let mut problem = None;
        let visit = &mut |stored: streams::Stored<'_>| match delivery.add(&stored, from, records_max) {
            Ok(flow) => flow,
            Err(error) => {
                problem = Some(error);
                ControlFlow::Break(())
            }
        };
        found.fetch(&history, from, self.settings.bytes_max, visit).map_err(unreadable)?;
        match problem {
            // What stands before a batch that can't be read can be; the next fetch begins at it and tells.
            Some(problem) if delivery.is_empty() => Err(problem),
            _ => Ok(()),
        }
    }

    /// The next records, waiting until there are any, at most so long. Nothing runs while it waits.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Delivery>> {
        let until = self.database.clock().now().as_micros().saturating_add(at_most.as_micros() as u64);
        loop {
            // Taken before the look, so that what is published during it wakes us.
            let seen = self.database.published();
            if let Some(delivery) = self.poll()? {
                return Ok(Some(delivery));
            }
            // A partition that came while this consumer is there is read whole.
            if self.look_for_partitions(true)? {
                continue;
            }
            let left = until.saturating_sub(self.database.clock().now().as_micros());
            if left == 0 {
                return Ok(None);
            }
            if let Some(member) = &self.member {
                member.asks(true);
            }
            let is_there_more = self.database.wait_after(seen, Duration::from_micros(left))?;
            if let Some(member) = &self.member {
                member.asks(false);
            }
            if !is_there_more {
                return Ok(None);
            }
        }
    }

    /// Notes that a delivery was taken, and waits until that is durable. The group goes on behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the partition is another member's by now, who has these records again, and the errors of
    /// [`Database::commit`].
    pub fn ack(&self, delivery: &Delivery) -> Result<()> {
        self.ack_in(Commit::new(), delivery)
    }

    /// Notes that a delivery was taken, in one commit with what followed from it: both happen, or neither.
    ///
    /// # Errors
    /// As [`Consumer::ack`].
    pub fn ack_in<'c>(&'c self, commit: Commit<'c>, delivery: &'c Delivery) -> Result<()> {
        let commit = commit.part(self.note(delivery.partition, delivery.next, delivery.by));
        self.database.commit(&commit)?.committed().map(|_| ())
    }

    /// Notes that the records of a delivery up to this offset were taken; the others are handed out again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when it is not an offset of the delivery, and as [`Consumer::ack`].
    pub fn ack_up_to(&mut self, delivery: &Delivery, last: Sequence) -> Result<()> {
        if !delivery.records().any(|record| record.offset == last) {
            return Err(Error::new(ErrorKind::Invalid, format!("offset {last} was not delivered")));
        }
        let next = Sequence::new(last.get() + 1);
        let commit = Commit::new().part(self.note(delivery.partition, next, delivery.by));
        self.database.commit(&commit)?.committed()?;
        self.go_on(delivery.partition, next);
        Ok(())
    }

    fn note(&self, partition: u32, offset: Sequence, by: Committer) -> Part<'_> {
        Part::Streams(streams::Command::CommitOffset {
            group: self.group,
            topic: TopicRef::Name(self.topic),
            partition,
            offset,
            leader_epoch: None,
            metadata: "",
            by,
        })
    }

    fn go_on(&mut self, partition: u32, next: Sequence) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.next = next;
            }
        }
    }

    /// Goes on in a partition at this offset, whether or not a record is there. The group does so once a delivery behind it is
    /// acknowledged.
    pub fn seek(&mut self, partition: u32, offset: Sequence) {
        self.go_on(partition, offset);
    }

    /// Goes on in every partition at the first record there is.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn seek_to_start(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, true))
    }

    /// Goes on in every partition behind the last record.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn seek_to_end(&mut self) -> Result<()> {
        self.seek_each(|consumer, partition| consumer.begin(partition, false))
    }

    /// Goes on in every partition at the first record that is not earlier than a time, or at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn seek_to_time(&mut self, timestamp_ms: i64) -> Result<()> {
        self.seek_each(|consumer, partition| {
            let topic = consumer.database.topic(consumer.topic);
            match topic.offset_at_time(partition, timestamp_ms)? {
                Some(found) => Ok(found.offset),
                None => Ok(topic.offsets(partition)?.next),
            }
        })
    }

    fn seek_each(&mut self, find: impl Fn(&Self, u32) -> Result<Sequence>) -> Result<()> {
        for index in 0..self.partitions.len() {
            self.partitions[index].next = find(self, self.partitions[index].partition)?;
        }
        Ok(())
    }

    /// Hands out nothing of a partition until it is resumed.
    pub fn pause(&mut self, partition: u32, is_paused: bool) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.is_paused = is_paused;
            }
        }
    }

    /// How far this consumer is behind, in each of its partitions.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn lag(&self) -> Result<Vec<Lag>> {
        let lag = self.partitions.iter().map(|share| {
            let end = self.database.topic(self.topic).offsets(share.partition)?.next;
            Ok(Lag { partition: share.partition, next: share.next, end })
        });
        let mut lag = lag.collect::<Result<Vec<_>>>()?;
        lag.sort_unstable_by_key(|lag| lag.partition);
        Ok(lag)
    }
}

impl fmt::Debug for Consumer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("topic", &self.topic)
            .field("group", &self.group)
            .field("settings", &self.settings)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
