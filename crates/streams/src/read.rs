//! The reads: the catalogue and the groups' offsets from the state, everything about records from the log.
//!
//! A partition is the walk over its tag. Its high watermark is the number behind the tag's last entry and is stored
//! nowhere else, so it can't disagree with what is there. Nothing here waits for records to come.

use core::fmt;
use core::ops::ControlFlow;

use quire_model::{Entry, History, Place, ReadError, Sequence, Timestamp};

use crate::state::Committed;
use crate::tag::partition_tag;
use crate::wire::Batch;
use crate::{GroupId, PartitionTag, Streams, TopicId};

/// A topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicInfo<'a> {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: &'a str,
    /// How many partitions it has, counted from 0.
    pub partitions: u32,
}

/// A consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupInfo<'a> {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: &'a str,
    /// For how many partitions it has committed an offset.
    pub partitions: usize,
}

/// How far a group has read a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset<'a> {
    /// The offset of the next record to read.
    pub offset: Sequence,
    /// The leader epoch of the last record that was read, when the consumer knew it.
    pub leader_epoch: Option<u32>,
    /// The consumer's note.
    pub metadata: &'a str,
    /// When it was committed.
    pub time: Timestamp,
}

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The offset of the first record that is still there; that of the next one when there is none.
    pub start: Sequence,
    /// The offset that the next record gets: the high watermark.
    pub next: Sequence,
}

/// A batch where it stands.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The offset of its first record. The batch's own bytes say 0: see [`Batch::prefix`].
    pub base_offset: Sequence,
    /// When it was appended.
    pub time: Timestamp,
    /// The batch, as its producer sent it.
    pub batch: Batch<'a>,
}

impl<'a> Stored<'a> {
    fn new(entry: &Entry<'a>) -> Self {
        let base_offset = entry.sequence.expect("every batch has its offsets");
        Stored { base_offset, time: entry.time, batch: Batch::stored(entry.body) }
    }

    /// The offset behind its last record.
    pub fn next_offset(&self) -> Sequence {
        Sequence::new(self.base_offset.get() + u64::from(self.batch.last_offset_delta()) + 1)
    }
}

/// What a fetch handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// Where the next fetch goes on: behind the last batch, or the offset asked for when there was none.
    pub next_offset: Sequence,
    /// How many bytes of batches.
    pub bytes: usize,
}

/// A record found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOffset {
    /// Its offset.
    pub offset: Sequence,
    /// Its time: milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl Streams {
    /// The topic of this name.
    pub fn topic_named(&self, name: &str) -> Option<TopicInfo<'_>> {
        self.topic(TopicId::new(self.topics.id(name)?))
    }

    /// The topic with this id.
    pub fn topic(&self, id: TopicId) -> Option<TopicInfo<'_>> {
        self.topic_at(id).map(|(name, topic)| TopicInfo { id, name, partitions: topic.partitions })
    }

    /// Every topic, in the order of the names.
    pub fn topics(&self) -> impl Iterator<Item = TopicInfo<'_>> {
        self.topics.ids_by_name().filter_map(|id| self.topic(TopicId::new(id)))
    }

    /// Every consumer group that ever committed an offset, in the order of the names.
    pub fn groups(&self) -> impl Iterator<Item = GroupInfo<'_>> {
        self.groups.ids_by_name().filter_map(|id| {
            let id = GroupId::new(id);
            self.group_at(id).map(|(name, group)| GroupInfo { id, name, partitions: group.offsets.len() })
        })
    }

    /// How far this group has read this partition; `None` when it never committed.
    pub fn committed(&self, group: &str, topic: TopicId, partition: u32) -> Option<CommittedOffset<'_>> {
        let (_, group) = self.groups.get(self.groups.id(group)?)?;
        group.offsets.get(&(topic, partition)).map(committed)
    }

    /// Everything that this group committed, by topic and partition; nothing of a group that is not there.
    pub fn committed_by(&self, group: &str) -> impl Iterator<Item = (TopicId, u32, CommittedOffset<'_>)> {
        let group = self.groups.id(group).and_then(|id| self.groups.get(id));
        group
            .into_iter()
            .flat_map(|(_, group)| &group.offsets)
            .map(|((topic, partition), offset)| (*topic, *partition, committed(offset)))
    }

    /// Where the partition begins and ends.
    ///
    /// # Errors
    /// When the partition is not there, or the log can't be read.
    pub fn offsets(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
    ) -> Result<PartitionOffsets, StreamReadError> {
        offsets(history, &self.existing(topic, partition)?)
    }

    /// Hands out the stored batches from the one that holds offset `from`, until the next one would take them over
    /// `bytes_max` bytes, the partition ends, or `visit` breaks. The first batch is handed out whatever its size, and
    /// may begin before `from`: the reader passes over what it has.
    ///
    /// # Errors
    /// [`StreamReadError::OffsetOutOfRange`] when `from` lies before the first record or beyond the end; at the end
    /// there is nothing to hand out, and no error. When the partition is not there, or the log can't be read.
    pub fn fetch(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
        from: Sequence,
        bytes_max: usize,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<Fetched, StreamReadError> {
        let tag = self.existing(topic, partition)?;
        let mut fetched = Fetched { next_offset: from, bytes: 0 };
        let mut entry = history.seek(tag.tag(), from)?;
        // The batch that holds `from` proves that it is in range; anything else needs a look at the partition's ends.
        if entry.is_none_or(|entry| Stored::new(&entry).base_offset > from) {
            let PartitionOffsets { start, next } = offsets(history, &tag)?;
            if from < start || from > next {
                return Err(StreamReadError::OffsetOutOfRange { from, start, next });
            }
        }
        while let Some(found) = entry {
            let stored = Stored::new(&found);
            let bytes = fetched.bytes.saturating_add(found.body.len());
            if fetched.bytes > 0 && bytes > bytes_max {
                break;
            }
            fetched = Fetched { next_offset: stored.next_offset(), bytes };
            if visit(stored).is_break() {
                break;
            }
            entry = history.next(&[tag.tag()], found.place.after())?;
        }
        Ok(fetched)
    }

    /// The first record that is not earlier than `timestamp_ms`; `None` when every record is.
    ///
    /// Producers set times as they like, so this looks at the batches one by one, from the start. A compressed batch is
    /// not opened: the answer is then its first record with the batch's base timestamp, which may be earlier.
    ///
    /// # Errors
    /// When the partition is not there, or the log can't be read.
    pub fn offset_at_time(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, StreamReadError> {
        let tag = self.existing(topic, partition)?;
        let mut entry = history.next(&[tag.tag()], Place::START)?;
        while let Some(found) = entry {
            let stored = Stored::new(&found);
            if stored.batch.max_timestamp_ms() >= timestamp_ms {
                return Ok(Some(first_at_time(&stored, timestamp_ms)));
            }
            entry = history.next(&[tag.tag()], found.place.after())?;
        }
        Ok(None)
    }

    fn existing(&self, topic: TopicId, partition: u32) -> Result<PartitionTag, StreamReadError> {
        let (_, found) = self.topic_at(topic).ok_or(StreamReadError::UnknownTopic { topic })?;
        let partitions = found.partitions;
        if partition >= partitions {
            return Err(StreamReadError::UnknownPartition { topic, partition, partitions });
        }
        Ok(partition_tag(topic, partition))
    }
}

fn offsets(history: &dyn History, tag: &PartitionTag) -> Result<PartitionOffsets, StreamReadError> {
    let last = history.previous(&[tag.tag()], Place::END)?;
    let next = last.map_or(Sequence::new(0), |last| last.next_sequence());
    let first = history.seek(tag.tag(), Sequence::new(0))?;
    let start = first.and_then(|first| first.sequence).unwrap_or(next);
    Ok(PartitionOffsets { start, next })
}

/// The first record of the batch that is late enough. A producer may state a max timestamp that no record has, or write
/// what can't be read; the batch's start is then the safe answer, for nothing is passed over.
fn first_at_time(stored: &Stored<'_>, timestamp_ms: i64) -> TimeOffset {
    let records = stored.batch.records().into_iter().flatten();
    let found = records.map_while(Result::ok).find(|record| record.timestamp_ms >= timestamp_ms);
    match found {
        Some(record) => TimeOffset {
            offset: Sequence::new(stored.base_offset.get() + u64::from(record.offset_delta)),
            timestamp_ms: record.timestamp_ms,
        },
        None => TimeOffset { offset: stored.base_offset, timestamp_ms: stored.batch.base_timestamp_ms() },
    }
}

fn committed(committed: &Committed) -> CommittedOffset<'_> {
    CommittedOffset {
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: &committed.metadata,
        time: committed.time,
    }
}

/// Why a partition can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamReadError {
    /// No topic has this id.
    UnknownTopic {
        /// The id.
        topic: TopicId,
    },
    /// The topic has no such partition.
    UnknownPartition {
        /// The topic.
        topic: TopicId,
        /// The partition that was asked for.
        partition: u32,
        /// How many there are, counted from 0.
        partitions: u32,
    },
    /// The offset is not there any more, or not yet.
    OffsetOutOfRange {
        /// The offset that was asked for.
        from: Sequence,
        /// The first that is there.
        start: Sequence,
        /// The one behind the last.
        next: Sequence,
    },
    /// The log can't be read.
    Unreadable(ReadError),
}

impl From<ReadError> for StreamReadError {
    fn from(error: ReadError) -> Self {
        StreamReadError::Unreadable(error)
    }
}

impl fmt::Display for StreamReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamReadError::UnknownTopic { topic } => write!(f, "there is no topic with id {topic}"),
            StreamReadError::UnknownPartition { topic, partition, partitions } => {
                write!(f, "topic {topic} has {partitions} partitions, and none with number {partition}")
            }
            StreamReadError::OffsetOutOfRange { from, start, next } => {
                write!(f, "offset {from} is out of range: the partition holds {start} to {next}, which is excluded")
            }
            StreamReadError::Unreadable(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamReadError {}
