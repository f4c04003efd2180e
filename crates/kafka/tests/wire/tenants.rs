//! Tenants: a client with the rights of one space sees nothing of another one, by any read.
//!
//! Each request is sent twice: with names of the other space, and with names that no object has.
//! Both responses are equal, byte for byte.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersTopic;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;
use quire::events::NewEvent;
use quire::system::{AccessRule, RulePattern};
use quire::{Database, Message, NewJob, Operation, ResourceKind, Sequence};
use quire_kafka::Settings;
use tokio::io::AsyncWriteExt;

use crate::offsets::listing;
use crate::permissions::{connected, name, user};
use crate::support::{World, about, batch, fetching, frame, producing, text};

const OWN: &str = "acme";

/// The other space.
const RIVAL: &str = "zebra";

/// A space without objects, as long as [`RIVAL`].
const NOBODY: &str = "zilch";

fn fill(database: &Database, space: &str) {
    let (topic, group) = (format!("{space}.t"), format!("{space}.g"));
    database.topic(&topic).create(1).expect("created");
    database.topic(&topic).produce(Message::new("m")).expect("produced");
    database.topic(&topic).commit_offset(&group, 0, Sequence::new(0)).expect("committed");
    database.events(&format!("{space}/s")).append([NewEvent::new("A")]).expect("appended");
    database.queue(&format!("{space}/q")).enqueue(NewJob::new("job")).expect("enqueued");
}

/// Requests that name no object: they list those that the client may see.
fn lists() -> Vec<BytesMut> {
    let groups = OffsetFetchRequestGroup::default().with_group_id(GroupId(text("acme.g"))).with_topics(None);
    vec![
        frame(1, 12, &MetadataRequest::default().with_topics(None)),
        frame(1, 4, &ListGroupsRequest::default()),
        frame(1, 8, &OffsetFetchRequest::default().with_groups(vec![groups])),
        frame(1, 0, &DescribeTopicPartitionsRequest::default().with_response_partition_limit(99)),
        frame(1, 4, &DescribeLogDirsRequest::default().with_topics(None)),
        frame(1, 0, &ListPartitionReassignmentsRequest::default().with_topics(None)),
        frame(1, 0, &DescribeClientQuotasRequest::default()),
        frame(1, 0, &DescribeUserScramCredentialsRequest::default().with_users(None)),
        frame(1, 2, &crate::permissions::listing_acls()),
    ]
}

/// Requests about the objects of a space. The topic is a topic, a store or a queue.
fn named(topic: &str, group: &str) -> Vec<BytesMut> {
    let (topic_name, group_id) = (|| name(topic), || GroupId(text(group)));
    let offsets = OffsetFetchRequestTopics::default().with_name(topic_name()).with_partition_indexes(vec![0]);
    let offsets = OffsetFetchRequestGroup::default().with_group_id(group_id()).with_topics(Some(vec![offsets]));
    let epoch = OffsetForLeaderTopic::default().with_topic(topic_name());
    let epoch = epoch.with_partitions(vec![OffsetForLeaderPartition::default()]);
    let producers = ProducersTopic::default().with_name(topic_name()).with_partition_indexes(vec![0]);
    let partitions = TopicRequest::default().with_name(topic_name());
    let config = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text(topic));
    let commit = OffsetCommitRequestTopic::default().with_name(topic_name());
    let commit = commit.with_partitions(vec![OffsetCommitRequestPartition::default()]);
    let deleted = DeleteTopicState::default().with_name(Some(topic_name()));
    vec![
        frame(1, 12, &about(topic)),
        frame(1, 12, &fetching(topic, 0)),
        frame(1, 9, &producing(topic, 0, &batch(&["a"]))),
        frame(1, 5, &listing(topic, 0, -1)),
        frame(1, 8, &OffsetFetchRequest::default().with_groups(vec![offsets])),
        frame(1, 8, &OffsetCommitRequest::default().with_group_id(group_id()).with_topics(vec![commit])),
        frame(1, 4, &FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)])),
        frame(1, 5, &DescribeGroupsRequest::default().with_groups(vec![group_id()])),
        frame(1, 2, &DeleteGroupsRequest::default().with_groups_names(vec![group_id()])),
        frame(1, 4, &OffsetForLeaderEpochRequest::default().with_topics(vec![epoch])),
        frame(1, 0, &DescribeProducersRequest::default().with_topics(vec![producers])),
        frame(1, 0, &DescribeTopicPartitionsRequest::default().with_topics(vec![partitions])),
        frame(1, 4, &DescribeConfigsRequest::default().with_resources(vec![config.with_configuration_keys(None)])),
        frame(1, 6, &DeleteTopicsRequest::default().with_topics(vec![deleted])),
    ]
}

fn replaced(bytes: &[u8]) -> Bytes {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(RIVAL.as_bytes())).collect();
    places.into_iter().for_each(|at| bytes[at..at + NOBODY.len()].copy_from_slice(NOBODY.as_bytes()));
    bytes.into()
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn no_read_distinguishes_an_object_of_another_tenant_from_a_missing_one() {
    let world = World::with(Settings::default()).await;
    fill(&world.database, RIVAL);
    fill(&world.database, OWN);
    world.database.access().init("root").expect("enabled");
    let space = AccessRule::allow(Operation::All, ResourceKind::Space, RulePattern::Literal(OWN.to_owned()));
    let key = user(&world.database, "ann", &[], &[space]);
    let mut client = connected(&world, "ann", &key).await;
    let mut call = async |request: &[u8]| {
        client.stream.write_all(request).await.expect("sent");
        client.receive_frame().await.expect("an answer")
    };
    let mut has_own = 0;
    for (number, request) in lists().iter().enumerate() {
        let answer = call(request).await;
        assert!(!has(&answer, RIVAL), "list {number}: {answer:?}");
        has_own += usize::from(has(&answer, OWN));
    }
    assert!(has_own >= 4, "topics, groups, offsets and partitions");
    let group = format!("{RIVAL}.g");
    for topic in ["t", "s", "q"] {
        for (number, request) in named(&format!("{RIVAL}.{topic}"), &group).iter().enumerate() {
            let of_rival = call(request).await;
            let of_nobody = call(&replaced(request)).await;
            assert_eq!(replaced(&of_rival), of_nobody, "request {number} about {topic}");
        }
    }
}
