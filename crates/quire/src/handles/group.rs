//! A consumer group, by name: how far it is, who is in it, and its end.

use std::slice;
use std::sync::Arc;

use quire_model::{Sequence, Timestamp};
use quire_shard::{Commands, OUTSIDE_QUEUE, ReadBy, unread};

use crate::database::Database;
use crate::events::EventPosition;
use crate::handles::commit_one;
use crate::streams::{Command, Despite, MemberId, TopicRef};
use crate::{Error, ErrorKind, Result};

/// A consumer group. See [`Database::group`].
#[derive(Debug, Clone)]
pub struct Group {
    database: Database,
    name: Arc<str>,
}

/// A group, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// The number of its newest generation; 0 for one that no coordinator ever led.
    pub generation: u32,
    /// How the members of that generation share the partitions; empty when it has none. Who they
    /// are their coordinator knows.
    pub protocol: String,
    /// Its members by lease.
    pub members: Vec<GroupMember>,
    /// The topics that keep what it has not read.
    pub protected_in: Vec<String>,
    /// How far it has read, in each partition in which it has committed anything.
    pub offsets: Vec<GroupOffset>,
}

/// A member of a group by lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The topic that it reads.
    pub topic: String,
    /// Its id.
    pub member: MemberId,
    /// The name of its place; empty for none.
    pub name: String,
    /// The partitions that it reads.
    pub partitions: Vec<u32>,
    /// When its lease runs out, or ran out.
    pub until: Timestamp,
}

/// What a group reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A topic.
    Topic(String),
    /// An event store, which has one partition, and whose offsets are positions.
    Store(String),
    /// What happens to the jobs of a queue, which has one partition.
    Queue(String),
}

/// Which event of a queue a group is to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextEvent {
    /// The first that is there.
    First,
    /// The next to come.
    ToCome,
    /// The one with this number.
    Numbered(Sequence),
}

/// How far a group has read a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// Of what.
    pub source: Source,
    /// The partition.
    pub partition: u32,
    /// The committed offset.
    pub offset: Sequence,
    /// The first offset that is there.
    pub start: Sequence,
    /// The offset that the next record gets.
    pub next: Sequence,
    /// The consumer's note.
    pub metadata: String,
    /// When it was committed.
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

    /// The group, its members and how far it is; `None` when there is none of this name.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`], [`ErrorKind::Failed`].
    pub fn describe(&self) -> Result<Option<GroupDescription>> {
        let found = self.database.read(|view| {
            let streams = view.streams;
            let group = streams.group_named(&self.name)?;
            let name_of = |topic| streams.topic(topic).map(|topic| topic.name.to_owned());
            let members = streams.shared_topics(&self.name).flat_map(|topic| {
                streams.members(&self.name, topic).map(move |member| GroupMember {
                    topic: name_of(topic).unwrap_or_default(),
                    member: member.id,
                    name: member.name.to_owned(),
                    partitions: {
                        let share = streams.share(&self.name, topic, member.id).into_iter().flatten();
                        share.map(|owned| owned.partition).collect()
                    },
                    until: member.until,
                })
            });
            let protected = streams.protected_by(&self.name).filter_map(name_of);
            let mut reads = Vec::new();
            let offsets = streams.committed_by(&self.name).filter_map(|(topic, partition, committed)| {
                let read = ReadBy::find(streams, view.events, view.jobs, topic, partition)?;
                let source = match &read {
                    ReadBy::Partition(_) => Source::Topic(name_of(topic)?),
                    ReadBy::Queue(queue) => Source::Queue(queue.name().to_owned()),
                    ReadBy::Store(store, _) => Source::Store(view.events.store_name(*store)?.to_owned()),
                };
                reads.push(read);
                let (start, next) = (Sequence::new(1), Sequence::new(0));
                let (offset, metadata, time) = (committed.offset, committed.metadata.to_owned(), committed.time);
                Some(GroupOffset { source, partition, offset, start, next, metadata, time })
            });
            let description = GroupDescription {
                generation: group.generation.get(),
                protocol: group.protocol.to_owned(),
                members: members.collect(),
                protected_in: protected.collect(),
                offsets: offsets.collect(),
            };
            Some((description, reads))
        })?;
        let Some((mut description, reads)) = found.wait()? else { return Ok(None) };
        let history = self.database.history();
        for (offset, read) in description.offsets.iter_mut().zip(reads) {
            (offset.start, offset.next) = read.bounds(&history)?;
        }
        Ok(Some(description))
    }

    /// Deletes the group with what it committed, and waits until that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when it is not there, or has members, `despite` whom it is not to go;
    /// the errors of [`Database::commit`].
    pub fn delete(&self, despite: Despite) -> Result<()> {
        let command = Command::DeleteGroup { group: &self.name, despite };
        let commands = Commands { streams: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.streams).map(|_| ())
    }

    /// Resets the position of the group in an event store, whose positions are its offsets, and
    /// waits until that is durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such store; the errors of [`Database::commit`].
    pub fn commit_position(&self, store: &str, next: EventPosition) -> Result<()> {
        let number = self.database.read(|view| view.events.store(store).map(|number| number.get()))?.wait()?;
        let number =
            number.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no event store {store:?}")))?;
        self.commit_outside(number, Sequence::new(next.get()))
    }

    /// Resets the position of the group in what happens to a queue's jobs, and waits until that is
    /// durable. Says where that is.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such queue; the errors of [`Database::commit`].
    pub fn commit_in_queue(&self, queue: &str, next: NextEvent) -> Result<Sequence> {
        let log = self.database.read(|view| view.jobs.queue_log(queue))?.wait()?;
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
