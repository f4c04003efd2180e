//! Requests with many items: other clients are served meanwhile, and the items have the steps of
//! one request.

use kafka_protocol::ResponseError::{GroupIdNotFound, PolicyViolation};
use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeGroupsRequest, ElectLeadersRequest, GroupId,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetFetchResponse, ProduceResponse, TopicName,
};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request, StrBytes};
use quire::{Database, Durability};
use quire_kafka::Settings;
use tokio::task::yield_now;

use crate::support::{Client, World, batch, patiently, producing, text};

const COMMITS: usize = 20_000;
const LOOKS: usize = 200_000;

fn names(count: usize) -> impl Iterator<Item = StrBytes> {
    (0..count).map(|number| text(&format!("{number}")))
}

/// Whether another client's commit is answered before the request.
async fn is_shared<R: Request>(world: &World, version: i16, request: R) -> bool
where
    R::Response: Decodable + HeaderVersion,
{
    let (mut large, mut other) = (world.client().await, world.client().await);
    other.topic("other").await;
    let before = world.counters.statistics().requests;
    large.send(version, &request).await;
    patiently(async {
        while world.counters.statistics().requests == before {
            yield_now().await;
        }
    })
    .await;
    other.send(9, &producing("other", 0, &batch(&["a"]))).await;
    let is_first = tokio::select! {
        biased;
        (_, response) = large.receive::<R::Response>(version) => {
            drop(response);
            false
        }
        (_, response) = other.receive::<ProduceResponse>(9) => {
            assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
            true
        }
    };
    if is_first {
        large.receive::<R::Response>(version).await;
    }
    is_first
}

#[tokio::test]
async fn a_commit_of_another_client_comes_between_the_items_of_a_request() {
    let world = World::new().await;
    world.database.topic("wide").create(COMMITS as u32).expect("created");
    let wide = || TopicName(text("wide"));
    let partition = |number: usize| DeleteRecordsPartition::default().with_partition_index(number as i32);
    let topic = DeleteRecordsTopic::default().with_name(wide()).with_partitions((0..COMMITS).map(partition).collect());
    assert!(is_shared(&world, 2, DeleteRecordsRequest::default().with_topics(vec![topic])).await, "DeleteRecords");

    let groups = names(COMMITS).map(GroupId).collect();
    assert!(is_shared(&world, 2, DeleteGroupsRequest::default().with_groups_names(groups)).await, "DeleteGroups");

    let topics = names(COMMITS).map(|name| CreatePartitionsTopic::default().with_name(TopicName(name)).with_count(9));
    let request = CreatePartitionsRequest::default().with_topics(topics.collect());
    assert!(is_shared(&world, 3, request).await, "CreatePartitions");

    let topic = |name| CreatableTopic::default().with_name(TopicName(name)).with_num_partitions(1);
    let topics = names(COMMITS).map(|name| topic(name).with_replication_factor(1)).collect();
    let request = CreateTopicsRequest::default().with_topics(topics).with_validate_only(true);
    assert!(is_shared(&world, 7, request).await, "CreateTopics");

    let topics = names(COMMITS).map(|name| DeleteTopicState::default().with_name(Some(TopicName(name))));
    assert!(is_shared(&world, 6, DeleteTopicsRequest::default().with_topics(topics.collect())).await, "DeleteTopics");

    let resource = |name| AlterConfigsResource::default().with_resource_type(2).with_resource_name(name);
    let request = AlterConfigsRequest::default().with_resources(names(COMMITS).map(resource).collect());
    assert!(is_shared(&world, 2, request).await, "AlterConfigs");

    let resource = |name| DescribeConfigsResource::default().with_resource_type(2).with_resource_name(name);
    let request = DescribeConfigsRequest::default().with_resources(names(COMMITS).map(resource).collect());
    assert!(is_shared(&world, 4, request).await, "DescribeConfigs");

    let groups = names(COMMITS).map(GroupId).collect();
    assert!(is_shared(&world, 5, DescribeGroupsRequest::default().with_groups(groups)).await, "DescribeGroups");

    let topic = |name| TopicPartitions::default().with_topic(TopicName(name));
    let request = ElectLeadersRequest::default().with_topic_partitions(Some(names(LOOKS).map(topic).collect()));
    assert!(is_shared(&world, 2, request).await, "ElectLeaders");

    let partition = |number: usize| OffsetCommitRequestPartition::default().with_partition_index(number as i32);
    let partitions = (0..COMMITS).map(partition).collect();
    let topic = OffsetCommitRequestTopic::default().with_name(wide()).with_partitions(partitions);
    let request = OffsetCommitRequest::default().with_group_id(GroupId(text("g"))).with_topics(vec![topic]);
    let request = request.with_generation_id_or_member_epoch(-1);
    assert!(is_shared(&world, 8, request).await, "OffsetCommit");

    let topic = |name| OffsetFetchRequestTopics::default().with_name(TopicName(name)).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(text("g")));
    let group = group.with_topics(Some(names(LOOKS / 4).map(topic).collect()));
    assert!(is_shared(&world, 9, OffsetFetchRequest::default().with_groups(vec![group])).await, "OffsetFetch");

    let partition = |number: usize| OffsetDeleteRequestPartition::default().with_partition_index(number as i32);
    let partitions = (0..COMMITS).map(partition).collect();
    let topic = OffsetDeleteRequestTopic::default().with_name(wide()).with_partitions(partitions);
    let request = OffsetDeleteRequest::default().with_group_id(GroupId(text("g"))).with_topics(vec![topic]);
    assert!(is_shared(&world, 0, request).await, "OffsetDelete");
}

#[tokio::test]
async fn the_items_of_a_request_share_its_steps_and_those_beyond_them_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).request_steps_max(1_000);
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    let mut client = world.client().await;
    let request = DeleteGroupsRequest::default().with_groups_names(names(200).map(GroupId).collect());
    let response = client.call(2, &request).await;
    let codes: Vec<i16> = response.results.iter().map(|result| result.error_code).collect();
    let within = codes.iter().take_while(|code| **code == GroupIdNotFound.code()).count();
    assert_eq!(within, 125, "8 steps each");
    assert!(codes[within..].iter().all(|code| *code == PolicyViolation.code()), "{codes:?}");
    // The next request has its own steps.
    let request = DeleteGroupsRequest::default().with_groups_names(names(1).map(GroupId).collect());
    assert_eq!(client.call(2, &request).await.results[0].error_code, GroupIdNotFound.code());
}

/// The fetched offsets with the lengths of their notes, by partition.
fn fetched(response: &OffsetFetchResponse) -> Vec<(i32, i64, usize)> {
    let [group] = &response.groups[..] else { panic!("one group, not {}", response.groups.len()) };
    assert_eq!((group.error_code, group.topics.len()), (0, 1));
    let note = |note: &Option<StrBytes>| note.as_ref().map_or(0, |note| note.len());
    let partitions = group.topics[0].partitions.iter();
    partitions.map(|of| (of.partition_index, of.committed_offset, note(&of.metadata))).collect()
}

async fn fetch(client: &mut Client, topics: Option<Vec<OffsetFetchRequestTopics>>) -> Vec<(i32, i64, usize)> {
    let group = OffsetFetchRequestGroup::default().with_group_id(GroupId(text("g"))).with_topics(topics);
    fetched(&client.call(9, &OffsetFetchRequest::default().with_groups(vec![group])).await)
}

#[tokio::test]
async fn many_offsets_are_committed_and_fetched_in_slices() {
    const PARTITIONS: i32 = 2_500;
    let world = World::new().await;
    world.database.topic("wide").create(PARTITIONS as u32).expect("created");
    let mut client = world.client().await;
    let note = "n".repeat(1_000);
    // Every other partition is unknown.
    let partition = |number: i32| {
        let index = if number % 2 == 0 { number / 2 } else { PARTITIONS + number };
        let partition = OffsetCommitRequestPartition::default().with_partition_index(index);
        partition.with_committed_offset(i64::from(index)).with_committed_metadata(Some(text(&note)))
    };
    let partitions = (0..2 * PARTITIONS).map(partition).collect();
    let topic = OffsetCommitRequestTopic::default().with_name(TopicName(text("wide"))).with_partitions(partitions);
    let request = OffsetCommitRequest::default().with_group_id(GroupId(text("g"))).with_topics(vec![topic]);
    let response = client.call(8, &request.with_generation_id_or_member_epoch(-1)).await;
    let codes = response.topics[0].partitions.iter().map(|partition| partition.error_code);
    assert!(codes.eq((0..2 * PARTITIONS).map(|number| if number % 2 == 0 { 0 } else { 3 })));

    let expected: Vec<_> = (0..PARTITIONS).map(|number| (number, i64::from(number), note.len())).collect();
    assert_eq!(fetch(&mut client, None).await, expected);
    let topic = OffsetFetchRequestTopics::default().with_name(TopicName(text("wide")));
    let some = topic.with_partition_indexes((0..PARTITIONS + 300).collect());
    let mut with_unknown = expected;
    with_unknown.extend((PARTITIONS..PARTITIONS + 300).map(|number| (number, -1, 0)));
    assert_eq!(fetch(&mut client, Some(vec![some])).await, with_unknown);
}
