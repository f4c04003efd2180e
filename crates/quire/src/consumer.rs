//! Consumers: a group's reader of a topic, which hands batches of records to a handler and notes how far it came.
//!
//! ```text
//! fetch ──▶ handler ──┬─ took them ──▶ offsets committed, in one commit with what the handler wants to be written
//!   ▲                 └─ failed ──▶ tried again, later each time ──▶ at last: to the dead-letter topic, or an error
//!   └── nothing there: waits until something is published, without looking again and again
//! ```
//!
//! A consumer reads a fixed share of the partitions: those whose number, divided by the members, leaves the member's own. So
//! members need not know of each other, and two never read the same partition, as long as they are told the same count.
//!
//! Records are handed out at least once. What a handler puts into the [`Commit`] that it is given happens exactly once: it is
//! committed together with the offset, or not at all.

use std::ops::ControlFlow;
use std::time::Duration;

use quire_model::Sequence;

use crate::commit::{Commit, Message};
use crate::database::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::handles::{Record, Records};
use crate::outcome::Outcome;
use crate::streams::{PartitionOffsets, TopicRef};
use crate::{Part, streams};

/// Reads a topic for a group. See [`Topic::consumer`](crate::Topic::consumer).
#[derive(Debug, Clone)]
pub struct Consumer<'d> {
    database: &'d Database,
    topic: &'d str,
    group: &'d str,
    settings: ConsumerSettings<'d>,
    /// The partitions that it reads, and how far it has.
    partitions: Vec<Share>,
}

/// How a consumer is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerSettings<'s> {
    /// Which of the members it is, from 0. Default: 0.
    pub member: u32,
    /// How many members share the partitions. Default: 1.
    pub members: u32,
    /// How many bytes of record batches it takes at once; at least one batch. Default: 1 MiB.
    pub bytes_max: usize,
    /// How often records are handed out again when the handler fails. Default: 3.
    pub retries: u32,
    /// How long it waits before the first of these, in milliseconds; twice as long before each next. Default: 100.
    pub backoff_ms: u64,
    /// The longest of these waits, in milliseconds. Default: 10,000.
    pub backoff_ms_max: u64,
    /// The topic that takes records whose handler fails to the last, each with the headers `error`, `topic`, `partition` and
    /// `offset`. Default: none; the failure then ends the reading.
    pub dead_letter: Option<&'s str>,
    /// Where a partition is begun in which the group has committed nothing, or whose records it wanted are gone: at the first
    /// record there is, or else behind the last. Default: at the first.
    pub from_start: bool,
}

impl Default for ConsumerSettings<'_> {
    fn default() -> Self {
        ConsumerSettings {
            member: 0,
            members: 1,
            bytes_max: 1 << 20,
            retries: 3,
            backoff_ms: 100,
            backoff_ms_max: 10_000,
            dead_letter: None,
            from_start: true,
        }
    }
}

/// A partition that is read.
#[derive(Debug, Clone, Copy)]
struct Share {
    partition: u32,
    next: Sequence,
    is_paused: bool,
}

/// Records of one partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub partition: u32,
    /// The records.
    pub records: Vec<Record>,
    /// How many records before the first were deleted before this group read them.
    pub lost: u64,
    /// Where the group goes on once these are taken.
    next: Sequence,
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
        if settings.member >= settings.members || settings.bytes_max == 0 {
            let message = "a consumer is one of its members, counted from 0, and takes at least one byte";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut consumer = Consumer { database, topic, group, settings, partitions: Vec::new() };
        consumer.look_for_partitions(settings.from_start)?;
        if consumer.partitions.is_empty() && settings.member == 0 {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no topic {topic}")));
        }
        Ok(consumer)
    }

    /// Adds the partitions that came to be since the last look, each from where the group goes on in it, and says whether there
    /// are any.
    fn look_for_partitions(&mut self, from_start: bool) -> Result<bool> {
        let (group, topic, settings) = (self.group, self.topic, self.settings);
        let known = |partition: u32| self.partitions.iter().any(|share| share.partition == partition);
        let found = self.database.read(|view| {
            let Some(topic) = view.streams.topic_named(topic) else { return Vec::new() };
            let mine = (0..topic.partitions).filter(|partition| partition % settings.members == settings.member);
            let new = mine.filter(|partition| !known(*partition));
            let committed = |partition| view.streams.committed(group, topic.id, partition).map(|found| found.offset);
            new.map(|partition| (partition, committed(partition))).collect()
        })?;
        let before = self.partitions.len();
        for (partition, committed) in found.wait()? {
            let PartitionOffsets { start, next } = self.database.topic(topic).offsets(partition)?;
            let begin = if from_start { start } else { next };
            self.partitions.push(Share { partition, next: committed.unwrap_or(begin), is_paused: false });
        }
        Ok(self.partitions.len() > before)
    }

    /// The next records of a partition that has any, taking turns; nothing is noted of them yet. `None` when there are none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a batch that can't be read; [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn poll(&mut self) -> Result<Option<Delivery>> {
        for turn in 0..self.partitions.len() {
            let share = self.partitions[turn];
            if share.is_paused {
                continue;
            }
            let topic = self.database.topic(self.topic);
            let (mut from, mut lost) = (share.next, 0);
            let Records { records, next_offset } = match topic.fetch(share.partition, from, self.settings.bytes_max) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let PartitionOffsets { start, next } = topic.offsets(share.partition)?;
                    lost = start.get().saturating_sub(from.get());
                    from = if from < start && self.settings.from_start { start } else { next };
                    topic.fetch(share.partition, from, self.settings.bytes_max)?
                }
                Err(error) => return Err(error),
            };
            self.partitions[turn].next = next_offset.max(from);
            if !records.is_empty() {
                // Whoever had a turn is last.
                self.partitions.rotate_left(turn + 1);
                return Ok(Some(Delivery { partition: share.partition, records, lost, next: next_offset }));
            }
        }
        Ok(None)
    }

    /// The next records, waiting until there are any, at most so long. Nothing runs while it waits.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Delivery>> {
        let clock = self.database.clock();
        let until = clock.now().as_micros().saturating_add(at_most.as_micros() as u64);
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
            let left = until.saturating_sub(clock.now().as_micros());
            if left == 0 || !self.database.wait_after(seen, Duration::from_micros(left))? {
                return Ok(None);
            }
        }
    }

    /// Notes that a delivery was taken, and waits until that is durable. The group goes on behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn ack(&self, delivery: &Delivery) -> Result<()> {
        self.ack_in(Commit::new(), delivery)
    }

    /// Notes that a delivery was taken, in one commit with what followed from it: both happen, or neither.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn ack_in<'c>(&'c self, commit: Commit<'c>, delivery: &'c Delivery) -> Result<()> {
        let commit = commit.part(self.note(delivery.partition, delivery.next));
        self.database.commit(&commit)?.committed().map(|_| ())
    }

    /// Notes that the records of a delivery up to this offset were taken; the others are handed out again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when it is not an offset of the delivery, and as [`Consumer::ack`].
    pub fn ack_up_to(&mut self, delivery: &Delivery, last: Sequence) -> Result<()> {
        if !delivery.records.iter().any(|record| record.offset == last) {
            return Err(Error::new(ErrorKind::Invalid, format!("offset {last} was not delivered")));
        }
        let next = Sequence::new(last.get() + 1);
        let commit = Commit::new().part(self.note(delivery.partition, next));
        self.database.commit(&commit)?.committed()?;
        self.go_on(delivery.partition, next);
        Ok(())
    }

    fn note(&self, partition: u32, offset: Sequence) -> Part<'_> {
        Part::Streams(streams::Command::CommitOffset {
            group: self.group,
            topic: TopicRef::Name(self.topic),
            partition,
            offset,
            leader_epoch: None,
            metadata: "",
            generation: None,
        })
    }

    fn go_on(&mut self, partition: u32, next: Sequence) {
        for share in &mut self.partitions {
            if share.partition == partition {
                share.next = next;
            }
        }
    }

    /// Goes on elsewhere in a partition, wherever the group has committed.
    pub fn seek(&mut self, partition: u32, offset: Sequence) {
        self.go_on(partition, offset);
    }

    /// Goes on in every partition at the first record that is not earlier than a time, or at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Failed`].
    pub fn seek_to_time(&mut self, timestamp_ms: i64) -> Result<()> {
        for index in 0..self.partitions.len() {
            let partition = self.partitions[index].partition;
            let topic = self.database.topic(self.topic);
            let found = topic.offset_at_time(partition, timestamp_ms)?;
            self.partitions[index].next = found.map_or(topic.offsets(partition)?.next, |found| found.offset);
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

    /// Hands records to `handle` until `stop` says so, looked at before each delivery and at least every `look` while there
    /// are none. What `handle` adds to the commit that it is given is committed with the offset, once. A failure is tried
    /// again as the settings say, and so is a commit that is refused.
    ///
    /// # Errors
    /// What `handle` failed with at the last try, when there is no dead-letter topic; as [`Consumer::wait`] and
    /// [`Consumer::ack`].
    pub fn process<E: std::fmt::Display>(
        &mut self,
        look: Duration,
        mut stop: impl FnMut() -> bool,
        mut handle: impl for<'c> FnMut(&'c Delivery, Commit<'c>) -> std::result::Result<Commit<'c>, E>,
    ) -> Result<()> {
        while !stop() {
            let Some(delivery) = self.wait(look)? else { continue };
            let mut tries = 0;
            loop {
                let error = match handle(&delivery, Commit::new()) {
                    Ok(commit) => {
                        let commit = commit.part(self.note(delivery.partition, delivery.next));
                        match self.database.commit(&commit).and_then(Outcome::committed) {
                            Ok(_) => break,
                            // What it was decided on may have changed meanwhile: the handler decides again.
                            Err(refused) if refused.kind() == ErrorKind::Refused => refused.to_string(),
                            Err(failed) => return self.give_back(&delivery, Err(failed)),
                        }
                    }
                    Err(error) => error.to_string(),
                };
                if tries == self.settings.retries {
                    match self.give_up(&delivery, &error) {
                        Ok(()) => break,
                        Err(failed) => return self.give_back(&delivery, Err(failed)),
                    }
                }
                match self.back_off(tries, look, &mut stop) {
                    Ok(ControlFlow::Continue(())) => tries += 1,
                    Ok(ControlFlow::Break(())) => return self.give_back(&delivery, Ok(())),
                    Err(failed) => return self.give_back(&delivery, Err(failed)),
                }
            }
        }
        Ok(())
    }

    /// Ends the reading with a delivery of which nothing was noted: whoever goes on, also this consumer, has it again.
    fn give_back(&mut self, delivery: &Delivery, end: Result<()>) -> Result<()> {
        self.go_on(delivery.partition, delivery.records[0].offset);
        end
    }

    /// Waits before the next try, on the database's clock.
    fn back_off(&self, tries: u32, look: Duration, stop: &mut impl FnMut() -> bool) -> Result<ControlFlow<()>> {
        let doubled = self.settings.backoff_ms.saturating_mul(1 << tries.min(40));
        let wait_micros = doubled.min(self.settings.backoff_ms_max).saturating_mul(1000);
        let clock = self.database.clock();
        let until = clock.now().as_micros().saturating_add(wait_micros);
        loop {
            if stop() {
                return Ok(ControlFlow::Break(()));
            }
            let left = until.saturating_sub(clock.now().as_micros());
            if left == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            // Nothing is published behind the last position that there can be: this only waits, and ends when the database fails.
            let wait = Duration::from_micros(left).min(look);
            self.database.wait_after(crate::Position::MAX, wait)?;
        }
    }

    /// Puts away what can't be handled, in one commit with the offset.
    fn give_up(&self, delivery: &Delivery, error: &str) -> Result<()> {
        let Some(dead_letter) = self.settings.dead_letter else {
            let (first, last) = (delivery.records[0].offset, delivery.records[delivery.records.len() - 1].offset);
            let message = format!(
                "the handler failed with offsets {first} to {last} of partition {} of {}: {error}",
                delivery.partition, self.topic
            );
            return Err(Error::new(ErrorKind::Handler, message));
        };
        let partition = delivery.partition.to_string();
        let offsets: Vec<String> = delivery.records.iter().map(|record| record.offset.to_string()).collect();
        let mut commit = Commit::new();
        for (record, offset) in delivery.records.iter().zip(&offsets) {
            let mut message = record.value.as_ref().map_or_else(Message::tombstone, Message::new);
            if let Some(key) = &record.key {
                message = message.key(key);
            }
            for (name, value) in &record.headers {
                if let (Ok(name), Some(value)) = (std::str::from_utf8(name), value) {
                    message = message.header(name, value);
                }
            }
            let message = message
                .header("error", error)
                .header("topic", self.topic)
                .header("partition", &partition)
                .header("offset", offset)
                .timestamp_ms(record.timestamp_ms);
            commit = commit.produce(dead_letter, message);
        }
        let commit = commit.part(self.note(delivery.partition, delivery.next));
        self.database.commit(&commit)?.committed().map(|_| ())
    }
}
