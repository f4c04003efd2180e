//! Metadata.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use quire::events::NewEvent;
use quire_kafka::{AdvertisedAddress, Settings};
use uuid::Uuid;

use crate::support::{World, about};

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
async fn the_advertised_address_is_told_instead() {
    let advertised = Some(AdvertisedAddress { host: "quire.example".to_owned(), port: 19092 });
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

    let world = World::with(Settings { auto_create_topics: false, ..Settings::default() }).await;
    assert_eq!(world.client().await.topic("t").await.error_code, unknown);
}

#[tokio::test]
async fn all_topics_are_those_that_are_there_and_the_event_stores() {
    let world = World::new().await;
    let mut client = world.client().await;
    for topic in ["b", "a", "hides.a.store"] {
        client.topic(topic).await;
    }
    for store in ["air/flights", "hides/a/store", "twice/named", "twice.named"] {
        world.database.events(store).append([NewEvent::new("Happened")]).expect("an event");
    }
    let expected = ["a", "b", "hides.a.store", "air.flights", "twice.named"];
    assert_eq!(names(&client.call(12, &MetadataRequest::default().with_topics(None)).await), expected);
    assert_eq!(names(&client.call(0, &MetadataRequest::default()).await), expected, "in version 0, none are all");
    assert!(client.call(12, &MetadataRequest::default()).await.topics.is_empty());
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
