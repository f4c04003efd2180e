//! A topic, by name.

use std::borrow::Borrow;
use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use quire_model::{History, Operation, Resource, ResourceKind, Sequence};
use quire_shard::{Commands, CommitRefusal, DecidedCommit, OPENED_BYTES_MAX, Replies, open_batch_up_to, opened};

use crate::commit::{Message, batch_time_ms};
use crate::confirmation::Confirmation;
use crate::consumer::{Consumer, ConsumerSettings};
use crate::database::{Database, read_keys};
use crate::durations::TimedCommit;
use crate::handles::commit_one;
use crate::streams::wire::{Batch, BatchBuilder, Codec};
use crate::streams::{
    Command, Committer, PartitionOffsets, PartitionReach, ProduceResult, Reply, StreamReadError, TimeOffset,
    TopicChanges, TopicId, TopicRef, TopicSettings,
};
use crate::ticket::Ticket;
use crate::time::{milliseconds_of, time_of_milliseconds};
use crate::{Error, ErrorKind, Result};

/// The most partitions that one look at the state shows. Writers wait for it, some 100 µs.
const PARTITIONS_AT_ONCE: u32 = 1_000;

/// A topic. See [`Database::topic`].
///
/// ```
/// use quire::Message;
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let topic = db.topic("orders");
/// topic.create(4)?;
/// for order in 1..=3 {
///     topic.produce(Message::new(format!("order {order}")).key(format!("customer:{}", order % 2)))?;
/// }
/// let counts = (0..4).map(|partition| topic.offsets(partition).map(|offsets| offsets.next.get()));
/// assert_eq!(counts.sum::<quire::Result<u64>>()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topic {
    database: Database,
    name: Arc<str>,
}

/// A record, copied out of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The record's offset.
    pub offset: Sequence,
    /// The record's time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The record's headers: names and values. A value may be absent.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Record {
    /// Returns the record's time.
    pub fn time(&self) -> SystemTime {
        time_of_milliseconds(self.timestamp_ms)
    }
}

/// The settings and partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStatistics {
    /// The topic's settings.
    pub settings: TopicSettings,
    /// The groups whose unread records the topic keeps.
    pub protected_for: Vec<String>,
    /// The topic's partitions, in order.
    pub partitions: Vec<PartitionStatistics>,
}

/// The contents of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// The partition.
    pub partition: u32,
    /// The offset of the first record in the partition.
    pub start: Sequence,
    /// The offset of the next record. When the end of the partition is `unreadable`, the offset
    /// after the last readable record.
    pub next: Sequence,
    /// Why the end of the partition is unknown.
    pub unreadable: Option<String>,
    /// The bytes of the partition's batches, overstated by up to one part in 32.
    pub bytes: u64,
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The offset of the next fetch.
    pub next_offset: Sequence,
}

impl Topic {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        Topic { database: database.clone(), name: name.into() }
    }

    /// Returns the name of the topic.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the topic with this number of partitions, and waits until the topic is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the topic already exists or is invalid. The errors of
    /// [`Database::commit`].
    pub fn create(&self, partitions: u32) -> Result<TopicId> {
        self.create_with(partitions, TopicSettings::default())
    }

    /// Creates the topic with settings, and waits until the topic is durable.
    ///
    /// ```
    /// use quire::streams::{Cleanup, TopicSettings};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let settings = TopicSettings { cleanup: Cleanup::Compact, ..TopicSettings::default() };
    /// let region = "eu";
    /// db.topic(&format!("profiles-{region}")).create_with(4, settings)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Topic::create`].
    pub fn create_with(&self, partitions: u32, settings: TopicSettings) -> Result<TopicId> {
        match self.commit(Command::CreateTopic { name: &self.name, partitions, settings })? {
            Reply::TopicCreated(created) => Ok(created.topic),
            other => unreachable!("a create command gets the reply that the topic was created, not {other:?}"),
        }
    }

    /// Produces a message, and waits until it is durable. A missing topic is created with one
    /// partition.
    ///
    /// ```
    /// use quire::Message;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = 17;
    /// let message = Message::new(format!("order {order} was placed")).key(format!("order:{order}"));
    /// assert_eq!(db.topic("orders").produce(&message)?.base_offset.get(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn produce<'c>(&self, message: impl Borrow<Message<'c>>) -> Result<ProduceResult> {
        self.producer().produce(slice::from_ref(message.borrow()))
    }

    /// Returns a producer, which reuses its buffers for each batch.
    pub fn producer(&self) -> Producer {
        Producer { topic: self.clone(), known: None, batch: BatchBuilder::new(), replies: Replies::default() }
    }

    /// Commits the offset of a consumer group, and waits until the commit is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn commit_offset(&self, group: &str, partition: u32, offset: Sequence) -> Result<()> {
        let topic = TopicRef::Name(&self.name);
        self.commit(Command::CommitOffset {
            group,
            topic,
            partition,
            offset,
            leader_epoch: None,
            metadata: "",
            by: Committer::Anyone,
        })?;
        Ok(())
    }

    /// Changes the topic's settings, and waits until the change is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn alter(&self, changes: TopicChanges) -> Result<()> {
        self.commit(Command::AlterTopic { topic: TopicRef::Name(&self.name), changes }).map(|_| ())
    }

    /// Protects a group's unread records from the topic's retention, or ends this protection. For a
    /// group without a committed offset, the topic keeps all records.
    ///
    /// [`Command::DeleteRecords`] without `keep_unread`, and the deletion of the topic, still
    /// delete unread records. [`Delivery::lost`](crate::Delivery::lost) reports the loss to a
    /// consumer.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn protect_unread(&self, group: &str, protects: bool) -> Result<()> {
        self.commit(Command::ProtectUnread { group, topic: TopicRef::Name(&self.name), protects }).map(|_| ())
    }

    fn resource(&self) -> Resource<'_> {
        Resource::new(ResourceKind::Topic, &self.name)
    }

    /// Returns the settings and partitions of the topic.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the topic does not exist. [`ErrorKind::Damaged`],
    /// [`ErrorKind::Io`], [`ErrorKind::Failed`].
    /// [`ErrorKind::TooCostly`]: each partition takes at least one step.
    pub fn statistics(&self) -> Result<TopicStatistics> {
        let mut statistics =
            TopicStatistics { settings: TopicSettings::default(), protected_for: Vec::new(), partitions: Vec::new() };
        loop {
            let first = statistics.partitions.len() as u32;
            self.database.check_permission(self.resource(), Operation::Describe)?;
            let found = self.database.read_permitted(|view| -> Result<_> {
                let Some(topic) = view.streams.topic_named(&self.name) else { return Ok(None) };
                let few = first..topic.partitions.min(first.saturating_add(PARTITIONS_AT_ONCE));
                view.history.claim(few.len() as u64)?;
                let partition = |number| {
                    let bytes = view.streams.partition_bytes(topic.id, number).unwrap_or_default();
                    Some((number, view.streams.partition(topic.id, number).ok()?, bytes))
                };
                let shown = view.streams.protecting(topic.id).filter(|group| view.shows(ResourceKind::Group, group));
                let protected_for: Vec<String> = shown.map(ToOwned::to_owned).collect();
                let is_last = few.end == topic.partitions;
                Ok(Some((topic.settings, protected_for, few.filter_map(partition).collect::<Vec<_>>(), is_last)))
            })?;
            let (settings, protected_for, partitions, is_last) = found.wait()??.ok_or_else(|| self.not_found())?;
            (statistics.settings, statistics.protected_for) = (settings, protected_for);
            let history = self.database.history();
            for (partition, found, bytes) in partitions {
                let PartitionReach { offsets: PartitionOffsets { start, next }, unreadable } = found.reach(&history)?;
                let unreadable = unreadable.map(|error| error.to_string());
                statistics.partitions.push(PartitionStatistics { partition, start, next, unreadable, bytes });
            }
            if is_last {
                return Ok(statistics);
            }
        }
    }

    /// Returns the committed offset of a consumer group. `None` when the group never committed one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the topic does not exist; [`ErrorKind::Failed`].
    pub fn committed_offset(&self, group: &str, partition: u32) -> Result<Option<Sequence>> {
        self.database.check_permission(Resource::new(ResourceKind::Group, group), Operation::Describe)?;
        let found = self.database.read_for(self.resource(), Operation::Describe, |view| {
            let topic = view.streams.topic_named(&self.name)?;
            Some(view.streams.committed(group, topic.id, partition).and_then(|committed| committed.offset))
        })?;
        found.wait()?.ok_or_else(|| self.not_found())
    }

    /// Returns the start and the end of a partition.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the partition does not exist. [`ErrorKind::Damaged`],
    /// [`ErrorKind::Io`], also when the partition's last batch is unreadable: [`Topic::statistics`]
    /// shows the readable part.
    pub fn offsets(&self, partition: u32) -> Result<PartitionOffsets> {
        let found = self.database.read_published_for(self.resource(), Operation::Describe, |view| {
            let topic = view.streams.topic_named(&self.name)?;
            Some(view.streams.offsets(view.history, topic.id, partition))
        })?;
        found.ok_or_else(|| self.not_found())?.map_err(unreadable)
    }

    /// Returns how far a partition is readable.
    pub(crate) fn reach(&self, partition: u32) -> Result<PartitionReach> {
        let found = self.database.read_published_for(self.resource(), Operation::Describe, |view| {
            let topic = view.streams.topic_named(&self.name)?;
            Some(view.streams.partition(topic.id, partition))
        })?;
        let found = found.ok_or_else(|| self.not_found())?.map_err(unreadable)?;
        Ok(found.reach(&self.database.history())?)
    }

    /// Reads the records from offset `from`, copied. Returns at most `bytes_max` bytes of batches,
    /// and at least one batch. Writers continue meanwhile.
    ///
    /// ```
    /// use quire::{Message, Sequence};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (topic, order) = (db.topic("orders"), 17);
    /// topic.produce(Message::new(format!("order {order}")))?;
    /// let fetched = topic.fetch(0, Sequence::new(0), 1 << 20)?;
    /// assert_eq!(fetched.records[0].value.as_deref(), Some(&b"order 17"[..]));
    /// assert_eq!(fetched.next_offset, Sequence::new(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the partition or the offset does not exist.
    /// [`ErrorKind::Invalid`] for an unreadable batch; [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn fetch(&self, partition: u32, from: Sequence, bytes_max: usize) -> Result<Records> {
        let mut records = Vec::new();
        let mut problem = None;
        let found = self.database.read_published_for(self.resource(), Operation::Read, |view| {
            let topic = view.streams.topic_named(&self.name)?;
            Some(view.streams.partition(topic.id, partition))
        })?;
        let found = found.ok_or_else(|| self.not_found())?.map_err(unreadable)?;
        let history = self.database.history();
        let fetched = found.fetch(&history, from, bytes_max, &mut |stored| match copy(&stored, from, &mut records) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                problem = Some((stored.base_offset, error));
                ControlFlow::Break(())
            }
        });
        let fetched = fetched.map_err(unreadable)?;
        match problem {
            // Records before an unreadable batch are returned; the next fetch begins at the batch
            // and fails.
            Some((_, problem)) if records.is_empty() => Err(problem),
            Some((next_offset, _)) => Ok(Records { records, next_offset }),
            None => Ok(Records { records, next_offset: fetched.next_offset }),
        }
    }

    /// Returns the first record of a partition with this time or a later one. `None` when every
    /// record is earlier. Records have times in milliseconds: the rest of `time` is ignored.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use quire::Message;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (topic, noon) = (db.topic("orders"), SystemTime::UNIX_EPOCH + Duration::from_secs(43_200));
    /// for order in 1..=3 {
    ///     topic.produce(Message::new(format!("order {order}")).time(noon + Duration::from_secs(order)))?;
    /// }
    /// let found = topic.offset_at_time(0, noon + Duration::from_secs(2))?.expect("two records");
    /// assert_eq!(found.offset.get(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the partition does not exist; [`ErrorKind::Damaged`].
    pub fn offset_at_time(&self, partition: u32, time: SystemTime) -> Result<Option<TimeOffset>> {
        let timestamp_ms = milliseconds_of(time);
        let found = self.database.read_published_for(self.resource(), Operation::Describe, |view| {
            let topic = view.streams.topic_named(&self.name)?;
            Some(view.streams.partition_from_time(topic.id, partition, timestamp_ms))
        })?;
        let found = found.ok_or_else(|| self.not_found())?.map_err(unreadable)?;
        let mut open = |batch: &Batch<'_>, bytes_max| open_batch_up_to(batch, bytes_max).ok();
        Ok(found.offset_at_time(&self.database.history(), timestamp_ms, &mut open)?)
    }

    /// Returns a consumer that reads the topic for a group, from the group's committed offset. The
    /// topic must exist.
    ///
    /// ```
    /// use quire::{Commit, ConsumerSettings, Database, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::builder(directory.path().join("data")).durability(quire::Durability::Os).open()?;
    /// db.topic("orders").produce(Message::new("one apple").key("ann"))?;
    /// let mut billing = db.topic("orders").consumer("billing", ConsumerSettings::default())?;
    /// let stop = billing.stopper();
    /// // An invoice is written for each order, exactly once.
    /// billing.run(|orders| {
    ///     stop.stop(); // after this delivery
    ///     let mut commit = Commit::new();
    ///     for order in orders.records() {
    ///         let text = std::str::from_utf8(order.value.unwrap_or_default())?;
    ///         commit = commit.produce("invoices", Message::new(format!("invoice for {text}")));
    ///     }
    ///     Ok(commit)
    /// })?;
    /// assert_eq!(db.topic("invoices").offsets(0)?.next.get(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the topic does not exist, [`ErrorKind::Invalid`] for invalid
    /// settings.
    pub fn consumer(&self, group: &str, settings: ConsumerSettings) -> Result<Consumer> {
        Consumer::new(&self.database, &self.name, group, settings)
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.streams)
    }

    fn not_found(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("unknown topic {:?}", self.name))
    }
}

fn copy(stored: &crate::streams::StoredBatch<'_>, from: Sequence, records: &mut Vec<Record>) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
    let opened = opened(&stored.batch)
        .map_err(|error| invalid(format!("in the batch at offset {}, {error}", stored.base_offset)))?;
    let before = records.len();
    for record in stored.batch.records_from(&opened) {
        let record = record.map_err(|error| {
            records.truncate(before);
            invalid(format!("in the batch at offset {}, {error}", stored.base_offset))
        })?;
        let offset = Sequence::new(stored.base_offset.get() + u64::from(record.offset_delta));
        if offset < from {
            continue;
        }
        records.push(Record {
            offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record
                .headers
                .iter()
                .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        });
    }
    Ok(())
}

pub(crate) fn unreadable(error: StreamReadError) -> Error {
    match error {
        StreamReadError::Unreadable(error) => error.into(),
        _ => Error::new(ErrorKind::NotFound, error.to_string()),
    }
}

/// Produces batches to one topic. See [`Topic::producer`].
#[derive(Debug)]
pub struct Producer {
    topic: Topic,
    /// The topic's id and its codec, as the last reply reported. Saves a lookup.
    known: Option<(TopicId, Codec)>,
    /// Kept from one batch to the next for their capacity.
    batch: BatchBuilder,
    replies: Replies,
}

impl Producer {
    /// Produces messages as one batch to the partition of the first message, and waits until they
    /// are durable.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when there is no message, or when a message can't be encoded.
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn produce(&mut self, messages: &[Message<'_>]) -> Result<ProduceResult> {
        let (decided, timed) = self.decide(messages)?;
        self.topic.database.shards.only().log().wait(decided.rests_on)?;
        self.topic.database.confirmation(&decided).map_or(Ok(()), Confirmation::wait)?;
        if let Some(commit) = timed {
            commit.end(self.topic.database.clock());
        }
        match decided.verdict {
            Ok(_) => Ok(self.produced()),
            Err(refused) => Err(Error::from(*refused)),
        }
    }

    /// Produces messages as one batch to the partition of the first message, without waiting. The
    /// ticket waits for durability, and returns the offsets or the refusal. Batches keep the order
    /// of their submission. One sync makes all batches submitted before it durable.
    ///
    /// ```
    /// use quire::{Database, Message};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("data"))?;
    /// let topic = db.topic("orders");
    /// let mut producer = topic.producer();
    /// let apple = producer.submit(&[Message::new("one apple")])?;
    /// let pear = producer.submit(&[Message::new("one pear")])?;
    /// assert_eq!(pear.wait()?.expect("accepted").base_offset.get(), 1);
    /// assert_eq!(apple.wait()?.expect("accepted").base_offset.get(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Producer::produce`], except that the ticket returns a refusal as a result.
    pub fn submit(
        &mut self,
        messages: &[Message<'_>],
    ) -> Result<Ticket<std::result::Result<ProduceResult, CommitRefusal>>> {
        let (decided, timed) = self.decide(messages)?;
        let confirmation = self.topic.database.confirmation(&decided);
        let DecidedCommit { rests_on, verdict, .. } = decided;
        let answer = match verdict {
            Ok(_) => Ok(self.produced()),
            Err(refused) => Err(*refused),
        };
        let log = self.topic.database.shards.only().log().clone();
        Ok(Ticket::new(log, rests_on, answer).timed(timed).after(confirmation))
    }

    /// Decides on messages as one batch. [`Producer::produced`] returns the position of an accepted
    /// batch.
    fn decide(&mut self, messages: &[Message<'_>]) -> Result<(DecidedCommit, Option<TimedCommit>)> {
        let database = &self.topic.database;
        let first =
            messages.first().ok_or_else(|| Error::new(ErrorKind::Invalid, "a batch has at least one message"))?;
        let now = database.now();
        let timed = database.shards.timer().begin(now, database.clock());
        let now_ms = batch_time_ms(now);
        self.batch.clear();
        for message in messages {
            message.add_to(&mut self.batch, now_ms)?;
        }
        let batch = self.batch.finish_without_checksum().expect("at least one message was added");
        let (topic, codec) = match self.known {
            Some((id, codec)) => (TopicRef::Id(id), codec),
            None => (TopicRef::Name(&self.topic.name), database.codec_of(&self.topic.name)?),
        };
        let smaller;
        let mut command = match database.shards.only().compressor().produced(batch, codec)? {
            None => first.command(topic, batch),
            Some(bytes) => {
                smaller = bytes;
                first.command(topic, Batch::stored(&smaller))
            }
        };
        let mut bytes_left = OPENED_BYTES_MAX;
        database.note_keys(&mut command, &mut bytes_left)?;
        loop {
            let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
            let decided = database.shards.only().commit(now, &database.permit(commands)?, &mut self.replies)?;
            match &decided.verdict {
                Err(refused) if refused.asks_for_keys().is_some() => {
                    read_keys(database.budget(), &mut command, &mut bytes_left)?;
                }
                _ => return Ok((decided, timed)),
            }
        }
    }

    /// Returns the reply to the last batch, which was accepted.
    fn produced(&mut self) -> ProduceResult {
        match &self.replies.streams[..] {
            [Reply::Produced(produced)] => {
                self.known = Some((produced.topic, produced.compression));
                *produced
            }
            other => unreachable!("a batch is answered by its offsets, not by {other:?}"),
        }
    }
}
