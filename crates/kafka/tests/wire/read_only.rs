//! Operations that event stores and queues do not support, and the errors.

use kafka_protocol::ResponseError::{self, *};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, DescribeProducersRequest, IncrementalAlterConfigsRequest, TopicName, alter_configs_request,
    incremental_alter_configs_request,
};
use kafka_protocol::protocol::StrBytes;
use quire::events::NewEvent;
use quire::jobs::JobSpec;

use crate::support::{Client, World, batch, text};

const TOPIC: i8 = 2;

fn name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

/// The codes and words with which each change of a topic is answered.
async fn changes(client: &mut Client, topic: &str) -> Vec<(&'static str, Option<ResponseError>, String)> {
    let mut met = Vec::new();
    let mut note = |what, code, message: &Option<StrBytes>| {
        met.push((what, ResponseError::try_from_code(code), message.as_deref().unwrap_or_default().to_owned()));
    };
    let produced = client.produce(topic, &batch(&["a"])).await;
    note("produce", produced.error_code, &produced.error_message);
    for only_validate in [true, false] {
        let more = CreatePartitionsTopic::default().with_name(name(topic)).with_count(2).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![more]).with_validate_only(only_validate);
        let created = client.call(3, &request).await.results.remove(0);
        note("partitions", created.error_code, &created.error_message);

        let config = alter_configs_request::AlterableConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text("1")));
        let resource = alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic))
            .with_configs(vec![config]);
        let request = AlterConfigsRequest::default().with_resources(vec![resource]).with_validate_only(only_validate);
        let altered = client.call(2, &request).await.responses.remove(0);
        note("settings", altered.error_code, &altered.error_message);

        let config = incremental_alter_configs_request::AlterableConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text("1")));
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let altered = client.call(1, &request.with_validate_only(only_validate)).await.responses.remove(0);
        note("settings", altered.error_code, &altered.error_message);
    }
    let partition = DeleteRecordsPartition::default().with_offset(1);
    let records = DeleteRecordsTopic::default().with_name(name(topic)).with_partitions(vec![partition]);
    let deleted = client.call(2, &DeleteRecordsRequest::default().with_topics(vec![records])).await;
    // Its response has no field for a message.
    note("records", deleted.topics[0].partitions[0].error_code, &None);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![name(topic)]);
    let deleted = client.call(5, &request).await.responses.remove(0);
    note("delete", deleted.error_code, &deleted.error_message);
    met
}

#[tokio::test]
async fn changes_of_topics_are_refused_for_stores_and_queues_with_an_alternative() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    world.database.queue("air/delays").enqueue(JobSpec::new(b"late")).expect("a job");
    let mut client = world.client().await;
    for (topic, is, retain) in [
        ("air.flights", "is read-only: it is the event store air/flights", "quire events retain"),
        ("jobs.air.delays", "is read-only: it is the history of queue air/delays", "no topic settings"),
    ] {
        for (what, code, message) in changes(&mut client, topic).await {
            assert_eq!(code, Some(PolicyViolation), "{what} of {topic}: {message}");
            assert!(what == "records" || message.contains(is), "{message}");
            let instead = match what {
                "partitions" => "exactly one partition",
                "settings" => retain,
                _ => "",
            };
            assert!(message.contains(instead), "{message}");
        }
    }
    for (what, code, message) in changes(&mut client, "nowhere").await {
        assert_eq!(code, Some(UnknownTopicOrPartition), "{what}: {message}");
    }
}

#[tokio::test]
async fn no_client_hides_a_store_or_a_queue_by_a_topic_of_its_name() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    world.database.queue("air/delays").enqueue(JobSpec::new(b"late")).expect("a job");
    let mut client = world.client().await;
    for (topic, is) in
        [("air.flights", "is the event store air/flights"), ("jobs.air.delays", "is the history of queue air/delays")]
    {
        for only_validate in [true, false] {
            let created =
                CreatableTopic::default().with_name(name(topic)).with_num_partitions(2).with_replication_factor(1);
            let request = CreateTopicsRequest::default().with_topics(vec![created]).with_validate_only(only_validate);
            let result = client.call(7, &request).await.topics.remove(0);
            assert_eq!(ResponseError::try_from_code(result.error_code), Some(TopicAlreadyExists));
            assert!(result.error_message.as_deref().expect("words").contains(is), "{:?}", result.error_message);
        }
        assert_eq!(client.topic(topic).await.partitions.len(), 1);
    }
}

#[tokio::test]
async fn a_store_and_a_queue_have_no_producers_and_settings_that_are_read_only() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    world.database.queue("air/delays").enqueue(JobSpec::new(b"late")).expect("a job");
    let mut client = world.client().await;
    client.topic("t").await;
    for (topic, read_only) in [("air.flights", true), ("jobs.air.delays", true), ("t", false)] {
        let asked = TopicRequest::default().with_name(name(topic)).with_partition_indexes(vec![0, 1]);
        let told = client.call(0, &DescribeProducersRequest::default().with_topics(vec![asked])).await;
        let partitions = &told.topics[0].partitions;
        assert_eq!((partitions[0].error_code, partitions[0].active_producers.len()), (0, 0), "{topic}");
        assert_eq!(ResponseError::try_from_code(partitions[1].error_code), Some(UnknownTopicOrPartition));
        let resource = DescribeConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text(topic));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None)]);
        let told = client.call(4, &request).await.results.remove(0);
        assert!(!told.configs.is_empty());
        assert!(told.configs.iter().all(|config| config.read_only == read_only), "{topic}");
    }
}
