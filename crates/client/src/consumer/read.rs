//! Reading: the next records of the partitions, which take turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quire_api::reply::{PartitionReply, RecordReply, RecordsPosition, TopicGroupReply, TopicWithPartitions};
use quire_api::{Code, ListPage};

use super::{RemoteConsumer, RemoteDelivery, too_long};
use crate::{Call, Client, ClientError};

/// The longest wait for records that a server takes.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How far a consumer has read.
#[derive(Debug)]
pub(super) struct TopicProgress {
    /// The topic as the server described it last.
    described: TopicWithPartitions,
    partitions: Vec<PartitionProgress>,
}

/// A partition, and the offset to continue from.
#[derive(Debug, Clone, Copy)]
struct PartitionProgress {
    partition: u32,
    next: u64,
    /// The deleted records before `next` that no delivery has reported.
    lost: u64,
}

/// Waits for records of a topic without its consumer, which another call may use meanwhile.
#[derive(Debug, Clone)]
pub struct TopicWatch {
    client: Client,
    topic: Arc<str>,
    written: u64,
}

impl TopicWatch {
    /// Waits up to `at_most` until there are records that the consumer had not seen, and describes
    /// the topic. Pass the description to [`RemoteConsumer::see`].
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn wait(&self, at_most: Duration) -> Result<TopicWithPartitions, ClientError> {
        describe(&self.client, &self.topic, at_most, self.written)
    }
}

impl RemoteConsumer {
    /// Reads the committed offsets of the group. The first read does so by itself.
    ///
    /// # Errors
    /// When the topic does not exist, and as [`Client::get`].
    pub fn start(&mut self) -> Result<(), ClientError> {
        self.started().map(drop)
    }

    /// Returns the next records of a partition that has any, without committing anything.
    /// Partitions take turns. Returns `None` when there are no records.
    ///
    /// # Errors
    /// As [`RemoteConsumer::wait`].
    pub fn poll(&mut self) -> Result<Option<RemoteDelivery>, ClientError> {
        self.wait(Duration::ZERO)
    }

    /// Waits up to `at_most` for the next records.
    ///
    /// # Errors
    /// As [`Client::get`]. `TooLong` for a record that is larger than an answer of the server.
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<RemoteDelivery>, ClientError> {
        if let Some(delivery) = self.next_seen()? {
            return Ok(Some(delivery));
        }
        let described = self.watch()?.wait(at_most)?;
        self.see(described);
        self.next_seen()
    }

    /// Returns the next records among those that the server has described: at the start, and in
    /// what was passed to [`RemoteConsumer::see`].
    ///
    /// # Errors
    /// As [`RemoteConsumer::wait`].
    pub fn next_seen(&mut self) -> Result<Option<RemoteDelivery>, ClientError> {
        let count = self.started()?.partitions.len();
        for turn in 0..count {
            if let Some(delivery) = self.read_turn(turn)? {
                return Ok(Some(delivery));
            }
        }
        Ok(None)
    }

    /// Returns the wait for records that this consumer has not seen.
    ///
    /// # Errors
    /// As [`RemoteConsumer::start`].
    pub fn watch(&mut self) -> Result<TopicWatch, ClientError> {
        let written = self.started()?.described.written;
        Ok(TopicWatch { client: self.client.clone(), topic: Arc::clone(&self.topic), written })
    }

    /// Takes the description of a [`TopicWatch`] of this consumer.
    pub fn see(&mut self, described: TopicWithPartitions) {
        let Some(progress) = &mut self.progress else { return };
        for found in &described.partitions {
            match progress.partitions.iter().find(|known| known.partition == found.partition) {
                // The topic was created again, or the server lost its last records. The new ones
                // have offsets that this consumer has read, so it begins as at its start.
                Some(known) if found.unreadable.is_none() && found.next < known.next => {
                    self.progress = None;
                    return;
                }
                Some(_) => {}
                // A partition that was created while the consumer runs is read from its start.
                None => {
                    let begin = PartitionProgress { partition: found.partition, next: found.start, lost: 0 };
                    progress.partitions.push(begin);
                }
            }
        }
        progress.described = described;
    }

    /// Gives records back that were not acknowledged: they are read again.
    pub(super) fn give_back(&mut self, delivery: &RemoteDelivery) {
        let partitions = self.progress.iter_mut().flat_map(|progress| &mut progress.partitions);
        for known in partitions.filter(|known| known.partition == delivery.partition) {
            (known.next, known.lost) = (delivery.first(), delivery.lost);
        }
    }

    /// The progress, which begins at the committed offsets.
    fn started(&mut self) -> Result<&mut TopicProgress, ClientError> {
        if self.progress.is_none() {
            let described = describe(&self.client, &self.topic, Duration::ZERO, 0)?;
            let found: TopicGroupReply = self.client.get(&["topics", &self.topic, "groups", &self.group], &[])?;
            let committed: BTreeMap<u32, u64> =
                found.offsets.iter().map(|found| (found.partition, found.offset)).collect();
            let from_end = self.settings.from_end;
            let begin = |found: &PartitionReply| {
                let begin = if from_end { found.next } else { found.start };
                let next = match committed.get(&found.partition).copied() {
                    // An offset after the last record is that of the next record.
                    Some(offset) if found.unreadable.is_none() => offset.min(found.next),
                    Some(offset) => offset,
                    None => begin,
                };
                PartitionProgress { partition: found.partition, next, lost: 0 }
            };
            let partitions = described.partitions.iter().map(begin).collect();
            self.progress = Some(TopicProgress { described, partitions });
        }
        Ok(self.progress.as_mut().expect("it was set"))
    }

    /// Reads the partition that has this turn. A partition with records moves to the end.
    fn read_turn(&mut self, turn: usize) -> Result<Option<RemoteDelivery>, ClientError> {
        let RemoteConsumer { client, topic, group, settings, progress, .. } = self;
        let Some(progress) = progress else { return Ok(None) };
        let PartitionProgress { partition, mut next, mut lost } = progress.partitions[turn];
        let Some(bounds) = progress.described.partitions.iter_mut().find(|found| found.partition == partition) else {
            return Ok(None);
        };
        let mut delivery = None;
        while delivery.is_none() {
            if next < bounds.start {
                lost += bounds.start - next;
                next = if settings.from_end { bounds.next } else { bounds.start };
            }
            if next >= bounds.next {
                break;
            }
            let read = match read(client, topic, partition, next, (settings.bytes_max, settings.records_max)) {
                // Records were deleted since the topic was described.
                Err(error) if error.code() == Some(Code::OffsetOutOfRange) => {
                    let fact = |name: &str| error.facts().get(name).and_then(|value| value.as_u64());
                    let (Some(start), Some(end)) = (fact("start"), fact("next")) else { return Err(error) };
                    (bounds.start, bounds.next) = (start, end);
                    if (start..end).contains(&next) {
                        return Err(error);
                    }
                    continue;
                }
                read => read?,
            };
            let has_come_on = std::mem::replace(&mut next, read.next) < read.next;
            if !read.records.is_empty() {
                let (topic, group) = (Arc::clone(topic), Arc::clone(group));
                let (records, lost) = (read.records, std::mem::take(&mut lost));
                delivery = Some(RemoteDelivery { partition, lost, records, topic, group, next });
            } else if !has_come_on {
                // After compaction, all records of an answer may lie before the offset to read
                // from. An answer that does not get further would be read again and again.
                break;
            }
        }
        progress.partitions[turn] = PartitionProgress { partition, next, lost };
        if delivery.is_some() {
            progress.partitions.rotate_left(turn + 1);
        }
        Ok(delivery)
    }
}

/// Records, and the offset after them.
struct ReadRecords {
    records: Vec<RecordReply>,
    next: u64,
}

/// Reads records of a partition from an offset on, up to the first one that is too long.
fn read(
    client: &Client,
    topic: &str,
    partition: u32,
    offset: u64,
    (bytes_max, records_max): (usize, usize),
) -> Result<ReadRecords, ClientError> {
    let path = ["topics", topic, "partitions", &partition.to_string(), "records"];
    let call = Call::get(&path).query("offset", offset).query("limit", records_max).query("bytes_max", bytes_max);
    let ListPage { mut data, facts, .. }: ListPage<RecordReply, RecordsPosition> = client.read(call)?;
    let Some(long) = facts.skipped.iter().min_by_key(|skipped| skipped.offset) else {
        return Ok(ReadRecords { records: data, next: facts.next_offset });
    };
    data.retain(|record| record.offset < long.offset);
    match data.is_empty() {
        true => Err(too_long(topic, partition, long.offset, long.bytes)),
        false => Ok(ReadRecords { records: data, next: long.offset }),
    }
}

/// Describes a topic. The server waits up to `at_most` until more than `written` records exist.
fn describe(client: &Client, topic: &str, at_most: Duration, written: u64) -> Result<TopicWithPartitions, ClientError> {
    let wait = at_most.min(WAIT_MAX);
    let wait_ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    client.read(Call::get(&["topics", topic]).query("wait_ms", wait_ms).query("written", written).wait(wait))
}
