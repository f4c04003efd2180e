//! Metadata.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, MetadataRequest, MetadataResponse, TopicName,
};
use quire::events::NewEvent;
use quire::{Database, Durability};
use quire_kafka::{AdvertisedAddress, Settings};
use uuid::Uuid;

use crate::support::{World, about, text};

fn names(response: &MetadataResponse) -> Vec<&str> {
    response.topics.iter().map(|topic| topic.name.as_ref().expect("a name").as_str()).collect()
}

#[tokio::test]
async fn the_broker_is_where_the_client_reached_it() {
    let world = World::new().await;
    let response = world.client().await.call(12, &about("t")).await;
    let [broker] = &response.brokers[..] else { panic!("one broker, not {:?}", response.brokers) };
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(world.address.port())));
    assert_eq!(response.controller_id, broker.node_id);
    assert!(response.cluster_id.is_some_and(|id| !id.is_empty()));
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id, partition.leader_epoch), (0, broker.node_id, 0));
    assert_eq!((&partition.isr_nodes, &partition.replica_nodes), (&vec![broker.node_id], &vec![broker.node_id]));
}

#[tokio::test]
async fn the_advertised_address_replaces_the_address_of_the_connection() {
    let advertised = vec![AdvertisedAddress { host: "quire.example".to_owned(), port: 19092 }];
    let world = World::with(Settings { advertised, ..Settings::default() }).await;
    let response = world.client().await.call(12, &about("t")).await;
    assert_eq!((response.brokers[0].host.as_str(), response.brokers[0].port), ("quire.example", 19092));
}

#[tokio::test]
async fn asking_creates_a_topic_when_client_and_settings_allow_it() {
    let world = World::with(Settings { auto_create_partitions: 3, ..Settings::default() }).await;
    let mut client = world.client().await;
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    let forbidden = about("t").with_allow_auto_topic_creation(false);
    assert_eq!(client.call(12, &forbidden).await.topics[0].error_code, unknown);
    assert_eq!(client.topic("t").await.partitions.len(), 3);
    assert_eq!(client.call(12, &forbidden).await.topics[0].error_code, 0);
    let invalid = client.topic("no/slashes").await;
    assert_eq!(invalid.error_code, ResponseError::InvalidTopicException.code());

    let world = World::with(Settings { auto_create_topics: Some(false), ..Settings::default() }).await;
    assert_eq!(world.client().await.topic("t").await.error_code, unknown);
}

#[tokio::test]
async fn a_request_for_all_topics_returns_existing_topics_and_event_stores() {
    let world = World::new().await;
    let mut client = world.client().await;
    for topic in ["b", "a"] {
        client.topic(topic).await;
    }
    for store in ["air/flights", "store.named"] {
        world.database.events(store).append([NewEvent::new("Happened")]).expect("an event");
    }
    let expected = ["a", "b", "air.flights", "store.named"];
    assert_eq!(names(&client.call(12, &MetadataRequest::default().with_topics(None)).await), expected);
    assert_eq!(names(&client.call(0, &MetadataRequest::default()).await), expected, "in version 0, none are all");
    assert!(client.call(12, &MetadataRequest::default()).await.topics.is_empty());
}

/// In a database from an earlier version.
#[tokio::test]
async fn one_of_several_objects_with_one_topic_name_is_listed() {
    let world = World::earlier().await;
    let all = world.client().await.call(12, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!(names(&all), ["jobs.mail.out", "pay.orders", "air.flights"]);
}

/// Asks for topics by number.
fn numbered(numbers: std::ops::Range<usize>) -> MetadataRequest {
    let topic = |number: usize| MetadataRequestTopic::default().with_name(Some(TopicName(text(&format!("t{number}")))));
    MetadataRequest::default().with_topics(Some(numbers.map(topic).collect())).with_allow_auto_topic_creation(true)
}

/// How many topics a request created, found, or was refused with a code.
fn codes(response: &MetadataResponse) -> BTreeMap<i16, usize> {
    let mut codes = BTreeMap::new();
    response.topics.iter().for_each(|topic| *codes.entry(topic.error_code).or_default() += 1);
    codes
}

#[tokio::test]
async fn one_request_creates_a_bounded_number_of_topics_and_reports_the_others() {
    let settings = Settings { auto_create_per_second: 1_000_000, ..Settings::default() };
    let world = World::with(settings).await;
    let mut client = world.client().await;
    let throttled = ResponseError::ThrottlingQuotaExceeded.code();
    let response = client.call(12, &numbered(0..5_000)).await;
    assert_eq!(codes(&response), BTreeMap::from([(0, 50), (throttled, 4_950)]));
    let there = |world: &World| world.database.read_published(|view| view.streams.topics().count()).expect("readable");
    assert_eq!(there(&world), 50);
    let response = client.call(12, &numbered(0..60)).await;
    assert_eq!(codes(&response), BTreeMap::from([(0, 60)]), "topics that are there do not count");
    assert_eq!(there(&world), 60);
    let statistics = world.counters.statistics();
    assert_eq!((statistics.topics_auto_created, statistics.topics_auto_refused), (60, 4_950));
}

#[tokio::test]
async fn all_requests_together_create_topics_at_a_bounded_rate() {
    let world = World::with(Settings { auto_create_per_second: 1, ..Settings::default() }).await;
    let codes = codes(&world.client().await.call(12, &numbered(0..40)).await);
    let throttled = codes.get(&ResponseError::ThrottlingQuotaExceeded.code()).copied().unwrap_or_default();
    // At least one topic is created at once. On a slow machine, the others may take some seconds.
    assert!(codes[&0] >= 1 && throttled > 0, "{codes:?}");
}

#[tokio::test]
async fn creations_are_refused_at_the_limit_of_partitions_in_every_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(4 << 20);
    let database = builder.partitions_max(3).open().expect("a database");
    let world = World::over(directory, database, Settings::default()).await;
    let mut client = world.client().await;
    let refused = ResponseError::PolicyViolation.code();
    assert_eq!(codes(&client.call(12, &numbered(0..5)).await), BTreeMap::from([(0, 3), (refused, 2)]));
    assert_eq!(world.counters.statistics().topics_auto_refused, 2);
    for validate_only in [true, false] {
        let topic = CreatableTopic::default().with_name(TopicName(text("more"))).with_num_partitions(1);
        let topic = topic.with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_validate_only(validate_only);
        let created = client.call(7, &request).await.topics.remove(0);
        assert_eq!(created.error_code, refused);
        let message = created.error_message.expect("words");
        assert!(message.contains("partitions_max of 3 is exceeded") && message.contains("has 3 "), "{message}");
    }
    let topic = CreatePartitionsTopic::default().with_name(TopicName(text("t0"))).with_count(2);
    let topic = topic.with_assignments(None);
    let result = client.call(3, &CreatePartitionsRequest::default().with_topics(vec![topic])).await.results.remove(0);
    assert_eq!(result.error_code, refused);
}

#[tokio::test]
async fn a_topic_is_found_by_its_id() {
    let world = World::new().await;
    let mut client = world.client().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let by_id = |id: Uuid| {
        let topic = MetadataRequestTopic::default().with_topic_id(id).with_name(None);
        MetadataRequest::default().with_topics(Some(vec![topic]))
    };
    let mut ids = Vec::new();
    for name in ["t", "u", "air.flights"] {
        let id = client.topic(name).await.topic_id;
        let found = client.call(12, &by_id(id)).await;
        assert_eq!((found.topics[0].error_code, names(&found), found.topics[0].topic_id), (0, vec![name], id));
        ids.push(id);
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids.iter().all(|id| !id.is_nil()));
    let unknown = client.call(12, &by_id(Uuid::from_u128(5))).await;
    assert_eq!(unknown.topics[0].error_code, ResponseError::UnknownTopicId.code());
}
