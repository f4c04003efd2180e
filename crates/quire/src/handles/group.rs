//! A consumer group, by name: its offsets, its members, and its deletion.

use std::slice;
use std::sync::Arc;

use quire_model::{Operation, Resource, ResourceKind, Sequence, Timestamp};
use quire_shard::{Commands, OUTSIDE_QUEUE, VirtualLog, unread};

use crate::database::Database;
use crate::events::EventPosition;
use crate::handles::commit_one;
use crate::reading::PermittedView;
use crate::streams::{Command, Despite, MemberId, TopicId, TopicRef};
use crate::{Error, ErrorKind, ReadView, Result};

/// A consumer group. See [`Database::group`].
///
/// ```
/// use quire::streams::Despite;
/// use quire::{ConsumerSettings, Message};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let topic = db.topic("orders");
/// for order in 1..=3 {
///     topic.produce(Message::new(format!("order {order}")))?;
/// }
/// let mut consumer = topic.consumer("billing", ConsumerSettings::default())?;
/// let delivery = consumer.poll()?.expect("there are records");
/// consumer.ack(&delivery)?;
///
/// let group = db.group("billing");
/// let description = group.describe()?.expect("it has committed an offset");
/// assert_eq!(description.offsets[0].offset.get(), delivery.len() as u64);
/// assert_eq!(group.name(), "billing");
/// group.delete(Despite::Nobody)?;
/// assert!(group.describe()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Group {
    database: Database,
    name: Arc<str>,
}

/// A group and its offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// The number of the group's newest generation; 0 for a group that never had a coordinator.
    pub generation: u32,
    /// How the members of that generation share the partitions; empty without members. Only their
    /// coordinator knows the members.
    pub protocol: String,
    /// The group's members by lease.
    pub members: Vec<GroupMember>,
    /// The topics that keep the group's unread records.
    pub protected_in: Vec<String>,
    /// The group's offset in each partition with a commit.
    pub offsets: Vec<GroupOffset>,
}

/// A member of a group by lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The topic that the member reads.
    pub topic: String,
    /// The member's id.
    pub member: MemberId,
    /// The name of the member's place; empty for none.
    pub name: String,
    /// The partitions that the member reads.
    pub partitions: Vec<u32>,
    /// When the member's lease expires, or when it expired.
    pub until: Timestamp,
}

/// A source that a group reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A topic.
    Topic(String),
    /// An event store, which has one partition, and whose offsets are positions.
    Store(String),
    /// The life-cycle events of a queue's jobs. This source has one partition.
    Queue(String),
}

/// The life-cycle event of a queue that a group reads next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextEvent {
    /// The first event still in the log.
    First,
    /// The next new event.
    ToCome,
    /// The event with this number.
    Numbered(Sequence),
}

/// The offset of a group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// The source.
    pub source: Source,
    /// The partition.
    pub partition: u32,
    /// The committed offset.
    pub offset: Sequence,
    /// The first offset still in the partition.
    pub start: Sequence,
    /// The offset that the next record gets.
    pub next: Sequence,
    /// The consumer's note.
    pub metadata: String,
    /// When the offset was committed.
    pub time: Timestamp,
}

impl GroupOffset {
    /// Returns the number of unread records, without deleted ones.
    pub fn lag(&self) -> u64 {
        unread(self.offset, (self.start, self.next))
    }
}

impl Group {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        Group { database: database.clone(), name: name.into() }
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the group, its members and its offsets. `None` when the group does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`], [`ErrorKind::Failed`].
    pub fn describe(&self) -> Result<Option<GroupDescription>> {
        self.describe_claiming(|_| Ok(()))
    }

    /// As [`Group::describe`]. Calls `claim` with the bytes of each member, topic and offset before
    /// the description gets it.
    ///
    /// # Errors
    /// As [`Group::describe`], and the error of `claim`, which ends the description.
    pub fn describe_claiming<E: From<Error>>(
        &self,
        mut claim: impl FnMut(usize) -> std::result::Result<(), E>,
    ) -> std::result::Result<Option<GroupDescription>, E> {
        let own = Resource::new(ResourceKind::Group, &self.name);
        let shows = |view: &PermittedView<'_>, source: &Source| match source {
            Source::Topic(name) => view.shows(ResourceKind::Topic, name),
            Source::Queue(name) => view.shows(ResourceKind::Queue, name),
            Source::Store(name) => view.shows(ResourceKind::Store, name),
        };
        self.database.check_permission(own, Operation::Describe)?;
        let found = self.database.read_permitted(|view| -> std::result::Result<_, E> {
            let streams = view.streams;
            let Some(group) = streams.group_named(&self.name) else { return Ok(None) };
            let name_of = |topic| streams.topic(topic).map(|topic| topic.name.to_owned());
            let is_shown = |topic: &TopicId| {
                streams.topic(*topic).is_some_and(|topic| view.shows(ResourceKind::Topic, topic.name))
            };
            let mut members = Vec::new();
            for topic in streams.shared_topics(&self.name).filter(is_shown) {
                let name = name_of(topic).unwrap_or_default();
                for member in streams.members(&self.name, topic) {
                    let share = streams.share(&self.name, topic, member.id).into_iter().flatten();
                    let partitions: Vec<u32> = share.map(|owned| owned.partition).collect();
                    let numbers = size_of_val(&partitions[..]);
                    claim(size_of::<GroupMember>() + name.len() + member.name.len() + numbers)?;
                    members.push(GroupMember {
                        topic: name.clone(),
                        member: member.id,
                        name: member.name.to_owned(),
                        partitions,
                        until: member.until,
                    });
                }
            }
            let mut protected_in = Vec::new();
            for name in streams.protected_by(&self.name).filter(is_shown).filter_map(name_of) {
                claim(size_of::<String>() + name.len())?;
                protected_in.push(name);
            }
            let (mut offsets, mut reads) = (Vec::new(), Vec::new());
            for (topic, partition, committed) in streams.committed_by(&self.name) {
                let Some(offset) = committed.offset else { continue };
                let found = VirtualLog::find(streams, view.events, view.jobs, topic, partition);
                let named = found.and_then(|read| {
                    let source = match &read {
                        VirtualLog::Partition(_) => Source::Topic(name_of(topic)?),
                        VirtualLog::Queue(queue) => Source::Queue(queue.name().to_owned()),
                        VirtualLog::Store(store, _) => Source::Store(view.events.store_name(*store)?.to_owned()),
                    };
                    Some((source, read))
                });
                let Some((source, read)) = named.filter(|(source, _)| shows(view, source)) else { continue };
                let name_bytes = match &source {
                    Source::Topic(name) | Source::Store(name) | Source::Queue(name) => name.len(),
                };
                claim(size_of::<GroupOffset>() + size_of_val(&read) + name_bytes + committed.metadata.len())?;
                reads.push(read);
                let (start, next) = (Sequence::new(1), Sequence::new(0));
                let (metadata, time) = (committed.metadata.to_owned(), committed.time);
                offsets.push(GroupOffset { source, partition, offset, start, next, metadata, time });
            }
            let (generation, protocol) = (group.generation.get(), group.protocol.to_owned());
            Ok(Some((GroupDescription { generation, protocol, members, protected_in, offsets }, reads)))
        })?;
        let Some((mut description, reads)) = found.wait()?? else { return Ok(None) };
        let history = self.database.history();
        for (offset, read) in description.offsets.iter_mut().zip(reads) {
            (offset.start, offset.next) = read.bounds(&history)?;
        }
        Ok(Some(description))
    }

    /// Deletes the group and its committed offsets, and waits until the deletion is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the group does not exist, or has members and `despite` does not
    /// allow them. The errors of [`Database::commit`].
    pub fn delete(&self, despite: Despite) -> Result<()> {
        let command = Command::DeleteGroup { group: &self.name, despite };
        let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.streams).map(|_| ())
    }

    /// Resets the position of the group in an event store, and waits until the reset is durable. An
    /// event store's positions are its offsets.
    ///
    /// ```
    /// use quire::Source;
    /// use quire::events::{EventPosition, NewEvent};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let region = "eu";
    /// let store = format!("orders/{region}");
    /// db.events(&store).append([NewEvent::new("OrderPlaced")])?;
    /// db.group("billing").commit_position(&store, EventPosition::new(1))?;
    /// let billing = db.group("billing").describe()?.expect("it has a position");
    /// assert_eq!(billing.offsets[0].source, Source::Store(store));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the store does not exist; the errors of [`Database::commit`].
    pub fn commit_position(&self, store: &str, next: EventPosition) -> Result<()> {
        let look = |view: &ReadView<'_>| view.events.store(store).map(|number| number.get());
        let read = Resource::new(ResourceKind::Store, store);
        let number = self.database.read_for(read, Operation::Read, look)?.wait()?;
        let number = number.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("unknown event store {store:?}")))?;
        self.commit_outside(number, Sequence::new(next.get()))
    }

    /// Resets the position of the group in the life-cycle events of a queue's jobs. Waits until the
    /// reset is durable, and returns the new position.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the queue does not exist; the errors of [`Database::commit`].
    pub fn commit_in_queue(&self, queue: &str, next: NextEvent) -> Result<Sequence> {
        let read = Resource::new(ResourceKind::Queue, queue);
        let log = self.database.read_for(read, Operation::Read, |view| view.jobs.queue_log(queue))?.wait()?;
        let log = log.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("unknown queue {queue:?}")))?;
        let next = match next {
            NextEvent::First => log.bounds(&self.database.history())?.0,
            NextEvent::ToCome => log.bounds(&self.database.history())?.1,
            NextEvent::Numbered(number) => number,
        };
        self.commit_outside(log.number() | OUTSIDE_QUEUE, next)?;
        Ok(next)
    }

    fn commit_outside(&self, number: u32, offset: Sequence) -> Result<()> {
        let command = Command::CommitOffset {
            group: &self.name,
            topic: TopicRef::Outside(number),
            partition: 0,
            offset,
            leader_epoch: None,
            metadata: "",
            by: crate::streams::Committer::Anyone,
        };
        let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.streams).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Committer;
    use crate::{Commit, Message, Part};

    #[test]
    fn a_partition_without_a_position_takes_the_bounds_of_no_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        database.topic("t").create(2).expect("created");
        for _ in 0..3 {
            database.topic("t").produce(Message::new("m").partition(1)).expect("produced");
        }
        // Kafka clients may commit a negative offset.
        for (partition, offset) in [(0, Sequence::new(u64::MAX)), (1, Sequence::new(2))] {
            let (group, topic, by) = ("g", TopicRef::Name("t"), Committer::Anyone);
            let commit =
                Command::CommitOffset { group, topic, partition, offset, leader_epoch: None, metadata: "", by };
            database.commit(&Commit::new().part(Part::Streams(commit))).expect("decided").committed().expect("kept");
        }
        let group = database.group("g").describe().expect("read").expect("it exists");
        let [offset] = &group.offsets[..] else { panic!("{group:?}") };
        assert_eq!((offset.partition, offset.start.get(), offset.next.get(), offset.lag()), (1, 0, 3, 1));
    }
}
