//! OffsetCommit: stores how far a group has read. The existing partitions of a request are one
//! commit, or several of [`OFFSETS_AT_ONCE`] each, so that no commit of another client waits for a
//! long one. Every other partition gets its own error.

use std::iter;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use quire::streams::{Command, Committer, GROUP_NAME_BYTES_MAX, Generation, OFFSET_METADATA_BYTES_MAX, TopicRef};
use quire::{Commit, Operation, Outcome, Part, Sequence};

use super::offset_commit_v1 as v1;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::groups::ClaimedMember;
use crate::items::RequestItems;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, KafkaTopic};

/// Group, generation, member, instance, retention, topics of (name, partitions of (number, offset,
/// time, epoch, metadata)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 8,
    body: fields(&[
        Field(0, LAST, Shape::Text),
        Field(1, LAST, Shape::Fixed(4)),
        Field(1, LAST, Shape::Text),
        Field(7, LAST, Shape::Text),
        Field(2, 4, Shape::Fixed(8)),
        Field(0, LAST, Shape::Structs(&TOPIC)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[
    Field(0, LAST, Shape::Fixed(4 + 8)),
    Field(1, 1, Shape::Fixed(8)),
    Field(6, LAST, Shape::Fixed(4)),
    Field(0, LAST, Shape::Text),
]);

/// The most offsets of one commit, which takes about a millisecond.
const OFFSETS_AT_ONCE: usize = 1_000;

/// The version that determines the response.
pub(super) fn answered_in(version: i16) -> i16 {
    version.max(v1::ANSWERED_IN)
}

/// Commits the valid partitions, and returns a result for each.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<OffsetCommitResponse, CloseReason> {
    let decoded: OffsetCommitRequest = match request.version {
        ..v1::ANSWERED_IN => v1::read(request)?,
        _ => request.decode()?,
    };
    let group = decoded.group_id.as_str();
    let generation = decoded.generation_id_or_member_epoch;
    let who = (generation >= 0 || !decoded.member_id.is_empty()).then(|| ClaimedMember {
        member: decoded.member_id.to_string(),
        instance: decoded.group_instance_id.as_ref().map(ToString::to_string),
        generation,
    });
    let allowed = match (broker.group(group, Operation::Read), group.len()) {
        (Err(failure), _) => Err(failure.code),
        (Ok(permitted), 1..=GROUP_NAME_BYTES_MAX) => broker.groups.may_commit(permitted, who).await,
        (Ok(_), _) => Err(ResponseError::InvalidGroupId),
    };
    let of = |generation| Committer::Of(Generation::new(generation));
    let by = u32::try_from(generation).map_or(Committer::Anyone, of);

    let mut items = RequestItems::begin(broker);
    let found = items.read_each(broker, &decoded.topics, |database, view, topic| {
        topics::permitted(database, view, topic.name.as_str(), Operation::Read)
    });
    let found: Vec<_> = found.await?.into_iter().map(Result::flatten).collect();
    let mut commands = Vec::new();
    let mut codes: Vec<Vec<Option<ResponseError>>> = Vec::with_capacity(found.len());
    for (topic, found) in decoded.topics.iter().zip(&found) {
        let mut of_topic = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let command = match allowed {
                Ok(()) => {
                    found.as_ref().map_err(|failure| failure.code).and_then(|it| command(group, by, it, partition))
                }
                Err(code) => Err(code),
            };
            of_topic.push(command.as_ref().err().copied());
            commands.extend(command);
        }
        codes.push(of_topic);
    }
    let mut refused = Vec::new();
    for few in commands.chunks(OFFSETS_AT_ONCE) {
        let committed = match items.look(few.len()).await {
            Ok(()) => committed(broker, few).await,
            Err(failure) => Err(failure),
        };
        refused.push(committed.err().map(|failure| failure.code));
    }
    let mut refused = refused.into_iter().flat_map(|code| iter::repeat_n(code, OFFSETS_AT_ONCE));
    let topics = decoded.topics.iter().zip(codes).map(|(topic, codes)| {
        let partitions = topic.partitions.iter().zip(codes).map(|(partition, code)| {
            let code = code.or_else(|| refused.next().flatten());
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.map_or(0, |code| code.code()))
        });
        OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    });
    Ok(OffsetCommitResponse::default().with_topics(topics.collect()))
}

fn command<'r>(
    group: &'r str,
    by: Committer,
    topic: &KafkaTopic,
    partition: &'r OffsetCommitRequestPartition,
) -> Result<Command<'r>, ResponseError> {
    let number = u32::try_from(partition.partition_index).ok();
    let number = number.filter(|number| *number < topic.partitions());
    let number = number.ok_or(ResponseError::UnknownTopicOrPartition)?;
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > OFFSET_METADATA_BYTES_MAX {
        return Err(ResponseError::OffsetMetadataTooLarge);
    }
    Ok(Command::CommitOffset {
        group,
        topic: topic.committed_as(),
        partition: number,
        // As Kafka does, any number is kept as it is.
        offset: Sequence::new(partition.committed_offset.cast_unsigned()),
        leader_epoch: u32::try_from(partition.committed_leader_epoch).ok(),
        metadata,
        by,
    })
}

async fn committed(broker: &Broker, commands: &[Command<'_>]) -> Result<(), KafkaError> {
    let commit = commands.iter().fold(Commit::new(), |commit, command| commit.part(Part::Streams(*command)));
    match broker.database().submit(&commit)?.await? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Refused(refused) => Err(refused.into()),
    }
}

impl KafkaTopic {
    /// The name of the topic in a group's offsets.
    pub(crate) fn committed_as(&self) -> TopicRef<'static> {
        match &self.kind {
            topics::TopicKind::Stream { id, .. } => TopicRef::Id(*id),
            kind => TopicRef::Outside(kind.outside().expect("a topic of a store or queue is external")),
        }
    }
}
