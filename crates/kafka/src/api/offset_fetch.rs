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
use crate::memory::GrowingResponse;
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

/// Reads all offsets at one position.
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
    let mut found = loop {
        let mut left = BytesLeft(memory.widen().await?);
        let look = broker.read(|database, view| {
            asked.iter().map(|asked| look(database, view, asked, &mut left)).collect::<Option<Vec<GroupOffsets>>>()
        });
        if let Some(found) = look.await? {
            break found;
        }
    };
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

/// The claimed memory that a response has left.
struct BytesLeft(usize);

impl BytesLeft {
    /// Takes the memory of an offset with a note of this length; `None` when it is not left.
    fn take(&mut self, note_bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(OFFSET_BYTES + 2 * note_bytes)?;
        Some(())
    }
}

/// Returns what is asked for of a group, or `None` when the memory does not suffice.
fn look(database: u128, view: &PermittedView<'_>, asked: &GroupQuery, left: &mut BytesLeft) -> Option<GroupOffsets> {
    let refused = (!view.shows(ResourceKind::Group, &asked.group)).then_some(ResponseError::GroupAuthorizationFailed);
    let Some(topics) = &asked.topics else {
        let topics = if refused.is_none() { all(database, view, &asked.group, left)? } else { Vec::new() };
        return Some(GroupOffsets { topics, error: refused });
    };
    let topics = topics.iter().map(|(name, partitions)| {
        left.take(name.len())?;
        let topic = topics::permitted(database, view, name, Operation::Describe).map(|topic| match topic.kind {
            TopicKind::Stream { id, .. } => id,
            kind => TopicId::outside(kind.outside().expect("a topic of a store or queue is external")),
        });
        let refusal = topic.as_ref().err().map(|failure| failure.code);
        // An unknown topic has no offsets.
        let error = refused.or(refusal.filter(|code| *code != ResponseError::UnknownTopicOrPartition));
        let topic = topic.ok().filter(|_| error.is_none());
        let partitions = partitions.iter().map(|&partition| {
            let place = topic.zip(u32::try_from(partition).ok());
            let committed = place.and_then(|(topic, number)| view.streams.committed(&asked.group, topic, number));
            left.take(committed.map_or(0, |committed| committed.metadata.len()))?;
            Some(PartitionOffset { error, ..found(partition, committed) })
        });
        Some((name.clone(), partitions.collect::<Option<_>>()?))
    });
    Some(GroupOffsets { topics: topics.collect::<Option<_>>()?, error: refused })
}

/// Returns all committed offsets of a group, or `None` when the memory does not suffice.
fn all(
    database: u128,
    view: &PermittedView<'_>,
    group: &str,
    left: &mut BytesLeft,
) -> Option<Vec<(String, Vec<PartitionOffset>)>> {
    let mut topics: Vec<(TopicId, Vec<PartitionOffset>)> = Vec::new();
    left.take(group.len())?;
    for (topic, partition, committed) in view.streams.committed_by(group) {
        left.take(committed.metadata.len())?;
        let partition = i32::try_from(partition).expect("a partition's number has 31 bits");
        let found = found(partition, Some(committed));
        match topics.last_mut() {
            Some((last, partitions)) if *last == topic => partitions.push(found),
            _ => topics.push((topic, vec![found])),
        }
    }
    let named = topics.into_iter().filter_map(|(topic, found)| Some((topics::name_of(database, view, topic)?, found)));
    Some(named.collect())
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
