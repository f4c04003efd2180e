//! DescribeTopicPartitions: topics with their partitions, a page at a time.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, PermittedView};
use quire_access::Deadline;

use crate::broker::Broker;
use crate::brokers::BrokerList;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::permissions::{DescribableTopic, shows_topic};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topic_list::TopicList;
use crate::topics::{self, KafkaTopic};

/// Topics of (name), most partitions of the response, cursor of (topic, partition).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[
        Field(0, LAST, Shape::Structs(&TOPIC)),
        Field(0, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::NullableStruct(&CURSOR)),
    ]),
};
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text)]);
static CURSOR: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(4))]);

/// Most partitions of a response, as in Kafka.
const PARTITIONS_MAX: usize = 2_000;

/// Describes the requested topics, or all, by name. A page ends with a cursor when its partitions
/// are as many as the request allows.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeTopicPartitionsResponse, CloseReason> {
    let brokers = broker.brokers(ends);
    let decoded: DescribeTopicPartitionsRequest = request.decode()?;
    let (from, first) = match &decoded.cursor {
        Some(cursor) => (cursor.topic_name.to_string(), u32::try_from(cursor.partition_index).unwrap_or(0)),
        None => (String::new(), 0),
    };
    let most = usize::try_from(decoded.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let mut found: Vec<(String, Result<DescribableTopic, KafkaError>)> = match &decoded.topics[..] {
        [] => match first_topics(broker, &from, most + 1).await? {
            Ok(found) => found.into_iter().map(|(name, topic)| (name, Ok(topic))).collect(),
            // The response has no error of its own.
            Err(_) => return Err(CloseReason::Idle(Deadline::Response)),
        },
        asked => {
            let look = |database: u128, view: &PermittedView<'_>, topic: &TopicRequest| {
                let found = topics::permitted(database, view, &topic.name, Operation::Describe);
                found.map(|topic| DescribableTopic::of(view, topic))
            };
            let found = RequestItems::begin(broker).read_each(broker, asked, look).await?;
            let names = asked.iter().map(|topic| topic.name.to_string());
            names.zip(found.into_iter().map(Result::flatten)).collect()
        }
    };
    found.retain(|(name, _)| *name >= from);
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    found.dedup_by(|(one, _), (other, _)| one == other);
    let (mut described, mut left, mut next_cursor) = (Vec::new(), most, None);
    for (name, topic) in found {
        let start = if name == from { first } else { 0 };
        let partitions = topic.as_ref().map_or(0, |found| found.topic.partitions());
        let end = partitions.min(start.saturating_add(u32::try_from(left).unwrap_or(u32::MAX)));
        if left == 0 {
            next_cursor = Some(cursor(name, start));
            break;
        }
        left -= end.saturating_sub(start) as usize;
        described.push(describe(name.clone(), topic, start..end, &brokers));
        if end < partitions {
            next_cursor = Some(cursor(name, end));
            break;
        }
    }
    Ok(DescribeTopicPartitionsResponse::default().with_topics(described).with_next_cursor(next_cursor))
}

/// The first `count_max` topics that the client may describe, from a name on, in the order of the
/// names. Each has at least one partition.
async fn first_topics(
    broker: &Broker,
    from: &str,
    count_max: usize,
) -> Result<Result<BTreeMap<String, DescribableTopic>, KafkaError>, CloseReason> {
    let (mut first, mut list, mut items) = (BTreeMap::new(), TopicList::new(), RequestItems::begin(broker));
    loop {
        let last = first.last_key_value().map(|(last, _): (&String, _)| last.clone());
        let last = last.filter(|_| first.len() == count_max);
        let is_wanted = |name: &str| name >= from && last.as_deref().is_none_or(|last| name < last);
        let describe = |view: &PermittedView<'_>, topic: KafkaTopic| {
            let is_described = is_wanted(&topic.name) && shows_topic(view, &topic);
            is_described.then(|| DescribableTopic::of(view, topic))
        };
        match list.next(broker, &mut items, describe).await? {
            Ok(Some(few)) => first.extend(few.into_iter().map(|found| (found.topic.name.clone(), found))),
            Ok(None) => return Ok(Ok(first)),
            Err(failure) => return Ok(Err(failure)),
        }
        while first.len() > count_max {
            first.pop_last();
        }
    }
}

fn cursor(name: String, partition: u32) -> Cursor {
    let partition = i32::try_from(partition).expect("a partition's number has 31 bits");
    Cursor::default().with_topic_name(topic_name(name)).with_partition_index(partition)
}

fn topic_name(name: String) -> TopicName {
    TopicName(StrBytes::from_string(name))
}

fn describe(
    name: String,
    topic: Result<DescribableTopic, KafkaError>,
    partitions: std::ops::Range<u32>,
    brokers: &BrokerList,
) -> DescribeTopicPartitionsResponseTopic {
    let response = DescribeTopicPartitionsResponseTopic::default().with_name(Some(topic_name(name)));
    let DescribableTopic { topic, operations } = match topic {
        Ok(found) => found,
        Err(failure) => return response.with_error_code(failure.code.code()),
    };
    let response = response.with_topic_authorized_operations(operations);
    let partition = |number: u32| {
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(i32::try_from(number).expect("a partition's number has 31 bits"))
            .with_leader_id(brokers.leader_id())
            .with_leader_epoch(brokers.epoch)
            .with_replica_nodes(brokers.ids())
            .with_isr_nodes(brokers.ids())
            // Kafka's own client fails on null.
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    };
    response.with_topic_id(topic.uuid).with_partitions(partitions.map(partition).collect())
}
