//! OffsetFetch: the committed offsets of groups.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{CommittedOffset, TopicId};
use quire::{Operation, PermittedView, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::items::RequestItems;
use crate::memory::GrowingResponse;
use crate::pause::STEPS_AT_ONCE;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, TopicKind};

/// The groups as (name, topics), and whether the offsets must be stable.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 6,
    body: fields(&[
        Field(0, 7, Shape::Text),
        Field(0, 7, Shape::Structs(&TOPIC)),
        Field(8, LAST, Shape::Structs(&GROUP)),
        Field(7, LAST, Shape::Fixed(1)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);
static GROUP: Struct = fields(&[
    Field(8, LAST, Shape::Text),
    Field(9, LAST, Shape::Text),
    Field(9, LAST, Shape::Fixed(4)),
    Field(8, LAST, Shape::Structs(&TOPIC)),
]);

/// The first versions whose responses have an error of their own, and the leader epoch, and whose
/// requests name several groups.
const ERRORS_FROM: i16 = 2;
const EPOCH_FROM: i16 = 5;
const GROUPS_FROM: i16 = 8;

/// The request for a group: some partitions, or, without topics, all committed offsets.
struct GroupQuery {
    group: String,
    topics: Option<Vec<(String, Vec<i32>)>>,
}

/// An offset of a partition; -1 for none.
struct PartitionOffset {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: StrBytes,
    error: Option<ResponseError>,
}

/// The memory of an offset, besides its note: in the response and in its frame.
const OFFSET_BYTES: usize = 256;

/// The offsets of a group, by topic; and why the client may not read them.
#[derive(Default)]
struct GroupOffsets {
    topics: Vec<(String, Vec<PartitionOffset>)>,
    error: Option<ResponseError>,
}

/// Reads the offsets in slices: commits continue in between.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<OffsetFetchResponse, CloseReason> {
    let decoded: OffsetFetchRequest = request.decode()?;
    let asked: Vec<GroupQuery> = if request.version < GROUPS_FROM {
        let topics = decoded
            .topics
            .map(|topics| topics.into_iter().map(|topic| (topic.name.to_string(), topic.partition_indexes)).collect());
        vec![GroupQuery { group: decoded.group_id.to_string(), topics }]
    } else {
        let groups = decoded.groups.into_iter().map(|group| GroupQuery {
            group: group.group_id.to_string(),
            topics: group.topics.map(|topics| {
                topics.into_iter().map(|topic| (topic.name.to_string(), topic.partition_indexes)).collect()
            }),
        });
        groups.collect()
    };
    let mut reading = OffsetReading { broker, memory, items: RequestItems::begin(broker), bytes_left: 0 };
    let mut found = Vec::with_capacity(asked.len());
    for asked in &asked {
        found.push(reading.group(asked).await?);
    }
    let code = |error: Option<ResponseError>| error.map_or(0, |error| error.code());
    let response = OffsetFetchResponse::default();
    if request.version < GROUPS_FROM {
        let GroupOffsets { topics, error } = found.pop().unwrap_or_default();
        let response = if request.version >= ERRORS_FROM { response.with_error_code(code(error)) } else { response };
        let topics = topics.into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|found| {
                let partition = OffsetFetchResponsePartition::default()
                    .with_partition_index(found.partition)
                    .with_error_code(code(found.error))
                    .with_committed_offset(found.offset)
                    .with_metadata(Some(found.metadata));
                match request.version {
                    EPOCH_FROM.. => partition.with_committed_leader_epoch(found.leader_epoch),
                    _ => partition,
                }
            });
            OffsetFetchResponseTopic::default().with_name(topic_name(name)).with_partitions(partitions.collect())
        });
        return Ok(response.with_topics(topics.collect()));
    }
    let groups = asked.into_iter().zip(found).map(|(asked, GroupOffsets { topics, error })| {
        let topics = topics.into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|found| {
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(found.partition)
                    .with_error_code(code(found.error))
                    .with_committed_offset(found.offset)
                    .with_committed_leader_epoch(found.leader_epoch)
                    .with_metadata(Some(found.metadata))
            });
            OffsetFetchResponseTopics::default().with_name(topic_name(name)).with_partitions(partitions.collect())
        });
        let group = OffsetFetchResponseGroup::default().with_group_id(StrBytes::from_string(asked.group).into());
        group.with_error_code(code(error)).with_topics(topics.collect())
    });
    Ok(response.with_groups(groups.collect()))
}

fn topic_name(name: String) -> TopicName {
    TopicName(StrBytes::from_string(name))
}

/// The slices of a request.
struct OffsetReading<'r, 'm> {
    broker: &'r Broker,
    memory: &'r mut GrowingResponse<'m>,
    items: RequestItems,
    /// The claimed memory that the response has left.
    bytes_left: usize,
}

impl OffsetReading<'_, '_> {
    /// Returns the requested offsets of a group.
    async fn group(&mut self, asked: &GroupQuery) -> Result<GroupOffsets, CloseReason> {
        if let Err(failure) = self.broker.check_coordinates() {
            let topics = asked.topics.iter().flatten().map(|(name, partitions)| {
                let partitions = partitions.iter().map(|partition| failed(*partition, failure.code));
                (name.clone(), partitions.collect())
            });
            return Ok(GroupOffsets { topics: topics.collect(), error: Some(failure.code) });
        }
        let shown = self.broker.read_published(|_, view| view.shows(ResourceKind::Group, &asked.group));
        let is_shown = shown.map_err(|_| CloseReason::Failed)?;
        let mut offsets = GroupOffsets::default();
        self.items.grow(self.memory, asked.group.len() + OFFSET_BYTES).await?;
        if !is_shown {
            offsets.error = Some(ResponseError::GroupAuthorizationFailed);
        }
        match &asked.topics {
            None if is_shown => offsets.error = self.all(&asked.group, &mut offsets.topics).await?,
            None => {}
            Some(topics) => {
                for (name, partitions) in topics {
                    let found = self.topic(&asked.group, name, partitions).await?;
                    offsets.topics.push((name.clone(), found));
                }
            }
        }
        Ok(offsets)
    }

    /// Returns the offsets of partitions of a topic.
    async fn topic(
        &mut self,
        group: &str,
        name: &str,
        partitions: &[i32],
    ) -> Result<Vec<PartitionOffset>, CloseReason> {
        let mut offsets = Vec::with_capacity(partitions.len());
        self.items.grow(self.memory, name.len() + OFFSET_BYTES).await?;
        for few in partitions.chunks(STEPS_AT_ONCE) {
            if let Err(failure) = self.items.look(few.len()).await {
                offsets.extend(few.iter().map(|partition| failed(*partition, failure.code)));
                continue;
            }
            let found = self.slice(|database, view, left| {
                let is_refused = !view.shows(ResourceKind::Group, group);
                let topic =
                    topics::permitted(database, view, name, Operation::Describe).map(|topic| match topic.kind {
                        TopicKind::Stream { id, .. } => id,
                        kind => TopicId::outside(kind.outside().expect("a topic of a store or queue is external")),
                    });
                let refusal = topic.as_ref().err().map(|failure| failure.code);
                // An unknown topic has no offsets.
                let refusal = refusal.filter(|code| *code != ResponseError::UnknownTopicOrPartition);
                let error = is_refused.then_some(ResponseError::GroupAuthorizationFailed).or(refusal);
                let topic = topic.ok().filter(|_| error.is_none());
                let committed = |partition: i32| {
                    let (topic, number) = topic.zip(u32::try_from(partition).ok())?;
                    view.streams.committed(group, topic, number)
                };
                left.take(few.iter().map(|partition| committed(*partition)))?;
                let found =
                    few.iter().map(|&partition| PartitionOffset { error, ..found(partition, committed(partition)) });
                Ok(found.collect::<Vec<_>>())
            });
            offsets.extend(found.await?);
        }
        Ok(offsets)
    }

    /// Adds all committed offsets of a group by topic. Returns the error of a request that exceeds
    /// its steps.
    async fn all(
        &mut self,
        group: &str,
        topics: &mut Vec<(String, Vec<PartitionOffset>)>,
    ) -> Result<Option<ResponseError>, CloseReason> {
        let (mut behind, mut last) = (None, None);
        loop {
            if let Err(failure) = self.items.look(STEPS_AT_ONCE).await {
                topics.clear();
                return Ok(Some(failure.code));
            }
            let found = self.slice(|database, view, left| {
                let few = || view.streams.committed_by_behind(group, behind).take(STEPS_AT_ONCE);
                left.take(few().map(|(.., committed)| Some(committed)))?;
                let mut named = None;
                let mut offsets = Vec::new();
                for (topic, partition, committed) in few() {
                    if named.as_ref().is_none_or(|(of, _)| *of != topic) {
                        named = Some((topic, topics::name_of(database, view, topic)));
                    }
                    let name = named.as_ref().and_then(|(_, name)| name.clone());
                    let number = i32::try_from(partition).expect("a partition's number has 31 bits");
                    offsets.push(((topic, partition), name, found(number, Some(committed))));
                }
                Ok(offsets)
            });
            let found = found.await?;
            let is_last = found.len() < STEPS_AT_ONCE;
            for ((topic, partition), name, offset) in found {
                behind = Some((topic, partition));
                let Some(name) = name else { continue };
                match topics.last_mut().filter(|_| last == Some(topic)) {
                    Some((_, partitions)) => partitions.push(offset),
                    None => topics.push((name, vec![offset])),
                }
                last = Some(topic);
            }
            if is_last {
                return Ok(None);
            }
        }
    }

    /// Reads one slice, with more memory when it needs more.
    async fn slice<T>(
        &mut self,
        read: impl Fn(u128, &PermittedView<'_>, &mut BytesLeft) -> Result<T, usize>,
    ) -> Result<T, CloseReason> {
        loop {
            let mut left = BytesLeft(self.bytes_left);
            let found = self.broker.read(|database, view| read(database, view, &mut left)).await?;
            match found {
                Ok(found) => {
                    self.bytes_left = left.0;
                    return Ok(found);
                }
                Err(missing) => {
                    self.items.grow(self.memory, missing).await?;
                    self.bytes_left += missing;
                }
            }
        }
    }
}

/// The claimed memory that a response has left.
struct BytesLeft(usize);

impl BytesLeft {
    /// Takes the memory of offsets with their notes.
    ///
    /// # Errors
    /// When less is left: the number of missing bytes.
    fn take<'c>(&mut self, offsets: impl Iterator<Item = Option<CommittedOffset<'c>>>) -> Result<(), usize> {
        let note_bytes = |committed: CommittedOffset<'_>| committed.metadata.len();
        let bytes = offsets.map(|committed| OFFSET_BYTES + 2 * committed.map_or(0, note_bytes)).sum::<usize>();
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(bytes - self.0),
        }
    }
}

fn failed(partition: i32, code: ResponseError) -> PartitionOffset {
    PartitionOffset { error: Some(code), ..found(partition, None) }
}

fn found(partition: i32, committed: Option<CommittedOffset<'_>>) -> PartitionOffset {
    match committed {
        Some(committed) => PartitionOffset {
            partition,
            offset: committed.number,
            leader_epoch: committed.leader_epoch.and_then(|epoch| i32::try_from(epoch).ok()).unwrap_or(-1),
            metadata: StrBytes::from_string(committed.metadata.to_owned()),
            error: None,
        },
        None => PartitionOffset { partition, offset: -1, leader_epoch: -1, metadata: StrBytes::default(), error: None },
    }
}
