//! OffsetDelete: deletes a group's committed offsets in topics that no member reads.

use std::collections::HashSet;

use bytes::Buf;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use quire::Operation;
use quire::streams::Command;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::groups::GroupStatus;
use crate::items::RequestItems;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, KafkaTopic};

/// Group, topics of (name, partitions of (number)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: LAST,
    body: fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&TOPIC))]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[Field(0, LAST, Shape::Fixed(4))]);

/// Answers each partition by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<OffsetDeleteResponse, CloseReason> {
    let decoded: OffsetDeleteRequest = request.decode()?;
    let group = decoded.group_id.as_str();
    let response = OffsetDeleteResponse::default();
    let permitted = match broker.group(group, Operation::Delete) {
        Ok(permitted) => permitted,
        Err(failure) => return Ok(response.with_error_code(failure.code.code())),
    };
    let members = match broker.groups.describe(permitted).await {
        Ok(members) => members,
        Err(code) => return Ok(response.with_error_code(code.code())),
    };
    let is_there = broker.read_published(|_, view| view.streams.group_named(group).is_some());
    if !is_there.map_err(|_| CloseReason::Failed)? {
        return Ok(response.with_error_code(ResponseError::GroupIdNotFound.code()));
    }
    let mut items = RequestItems::begin(broker);
    let found = items.read_each(broker, &decoded.topics, |database, view, topic| {
        topics::permitted(database, view, topic.name.as_str(), Operation::Read)
    });
    let found: Vec<_> = found.await?.into_iter().map(Result::flatten).collect();
    let subscribed = members.as_ref().map(subscribed);
    let mut topics = Vec::with_capacity(decoded.topics.len());
    for (topic, found) in decoded.topics.iter().zip(&found) {
        let is_read = match &subscribed {
            None => false,
            Some(Some(subscribed)) => subscribed.contains(topic.name.as_str()),
            // The members' subscriptions are unknown: they may include this topic.
            Some(None) => true,
        };
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let number = partition.partition_index;
            let code = match found {
                Err(failure) if failure.code == ResponseError::TopicAuthorizationFailed => failure.code.code(),
                _ if is_read => ResponseError::GroupSubscribedToTopic.code(),
                Ok(found) => {
                    let deleted = match items.commit().await {
                        Ok(()) => delete(broker, group, found, number).await,
                        Err(failure) => Err(failure),
                    };
                    deleted.map_or_else(|failure| failure.code.code(), |()| 0)
                }
                Err(failure) => failure.code.code(),
            };
            partitions
                .push(OffsetDeleteResponsePartition::default().with_partition_index(number).with_error_code(code));
        }
        topics.push(OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    Ok(response.with_topics(topics))
}

async fn delete(broker: &Broker, group: &str, topic: &KafkaTopic, partition: i32) -> Result<(), KafkaError> {
    let partition = u32::try_from(partition).map_err(|_| KafkaError::unknown_partition(partition))?;
    let command = Command::DeleteOffset { group, topic: topic.committed_as(), partition };
    broker.commit(command).await.map(|_| ())
}

/// The topics that the members read, if their metadata has Kafka's consumer format: a version, and
/// the topics' names.
fn subscribed(group: &GroupStatus) -> Option<HashSet<String>> {
    if group.protocol_type != "consumer" {
        return None;
    }
    let mut topics = HashSet::new();
    for member in &group.members {
        let mut from = &member.metadata[..];
        from.try_get_i16().ok()?;
        for _ in 0..from.try_get_i32().ok()? {
            let length = usize::try_from(from.try_get_i16().ok()?).ok()?;
            let (name, rest) = from.split_at_checked(length)?;
            topics.insert(String::from_utf8(name.to_vec()).ok()?);
            from = rest;
        }
    }
    Some(topics)
}
