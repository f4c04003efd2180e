//! Fetches that wait while records or their topic are deleted: they wake, and return the remaining
//! records.

use kafka_protocol::ResponseError::{self, OffsetOutOfRange, UnknownTopicId, UnknownTopicOrPartition};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteTopicsRequest, FetchResponse, TopicName};
use quire::events::{EventPosition, NewEvent};
use quire::streams::{Command, TopicRef, TopicSettings};
use quire::{Commit, Outcome, Part};

use crate::fetch::{patient, wait_for};
use crate::support::{Client, World, batch, text, values};

/// More bytes than any test here produces before it expects a response.
const MANY: i32 = 100_000;

async fn delete_records(client: &mut Client, before: i64) {
    let partitions = vec![DeleteRecordsPartition::default().with_offset(before)];
    let topic = DeleteRecordsTopic::default().with_name(TopicName(text("t"))).with_partitions(partitions);
    let response = client.call(2, &DeleteRecordsRequest::default().with_topics(vec![topic])).await;
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
}

async fn delete_topic(client: &mut Client) {
    let request = DeleteTopicsRequest::default().with_topic_names(vec![TopicName(text("t"))]);
    assert_eq!(client.call(3, &request).await.responses[0].error_code, 0);
}

/// Five records in five batches, and a fetch that starts after two of them and waits for more bytes
/// than exist.
async fn waiting(world: &World, writer: &mut Client) -> Client {
    writer.topic("t").await;
    for value in ["a", "b", "c", "d", "e"] {
        writer.produce("t", &batch(&[value])).await;
    }
    let mut reader = world.client().await;
    wait_for(&mut reader, &patient("t", 2, MANY)).await;
    reader
}

async fn answer(reader: &mut Client, version: i16) -> PartitionData {
    let (_, mut response) = reader.receive::<FetchResponse>(version).await;
    response.responses.remove(0).partitions.remove(0)
}

fn error(data: &PartitionData) -> Option<ResponseError> {
    ResponseError::try_from_code(data.error_code)
}

#[tokio::test]
async fn a_waiting_fetch_is_answered_at_once_when_its_records_are_deleted() {
    let world = World::new().await;
    let mut writer = world.client().await;
    let mut reader = waiting(&world, &mut writer).await;
    delete_records(&mut writer, 4).await;
    let told = answer(&mut reader, 12).await;
    assert_eq!((error(&told), told.records.map_or(0, |records| records.len())), (Some(OffsetOutOfRange), 0));
}

#[tokio::test]
async fn a_fetch_that_continues_to_wait_returns_the_current_start_of_the_partition() {
    let world = World::new().await;
    let mut writer = world.client().await;
    let mut reader = waiting(&world, &mut writer).await;
    delete_records(&mut writer, 1).await;
    writer.produce("t", &batch(&[&"x".repeat(MANY as usize)])).await;
    let told = answer(&mut reader, 12).await;
    assert_eq!((error(&told), told.log_start_offset, told.high_watermark), (None, 1, 6));
    assert_eq!(values(&told).first(), Some(&(2, "c".to_owned())));
}

#[tokio::test]
async fn a_waiting_fetch_is_answered_at_once_when_its_topic_is_deleted() {
    let world = World::new().await;
    let mut writer = world.client().await;
    let mut by_name = waiting(&world, &mut writer).await;
    let mut by_id = world.client().await;
    let mut request = patient("t", 2, MANY);
    request.topics[0].topic = TopicName::default();
    request.topics[0].topic_id = writer.topic("t").await.topic_id;
    by_id.send(13, &request).await;
    delete_topic(&mut writer).await;
    assert_eq!(error(&answer(&mut by_name, 12).await), Some(UnknownTopicOrPartition));
    assert_eq!(error(&answer(&mut by_id, 13).await), Some(UnknownTopicId));
}

#[tokio::test]
async fn a_fetch_by_name_continues_with_the_topic_that_has_the_name_now() {
    let world = World::new().await;
    let (mut reader, mut writer) = (world.client().await, world.client().await);
    writer.topic("t").await;
    writer.produce("t", &batch(&["old"])).await;
    wait_for(&mut reader, &patient("t", 0, MANY)).await;
    // In one commit, so that no request finds the name without a topic.
    let again = Command::CreateTopic { name: "t", partitions: 1, settings: TopicSettings::default() };
    let commit = Commit::new().part(Part::Streams(Command::DeleteTopic { topic: TopicRef::Name("t") }));
    let submitted = world.database.submit(&commit.part(Part::Streams(again))).expect("submitted");
    assert!(matches!(submitted.await.expect("an answer"), Outcome::Committed(_)));
    writer.produce("t", &batch(&["new", &"x".repeat(MANY as usize)])).await;
    let told = answer(&mut reader, 12).await;
    assert_eq!((error(&told), told.high_watermark), (None, 2));
    assert_eq!(values(&told).first(), Some(&(0, "new".to_owned())));
}

#[tokio::test]
async fn a_waiting_fetch_is_answered_at_once_when_its_events_are_trimmed() {
    let world = World::new().await;
    let store = world.database.events("s");
    store.append(["A", "B", "C"].map(NewEvent::new)).expect("events");
    let mut reader = world.client().await;
    wait_for(&mut reader, &patient("s", 1, MANY)).await;
    store.trim(EventPosition::new(2)).expect("trimmed");
    assert_eq!(error(&answer(&mut reader, 12).await), Some(OffsetOutOfRange));
}
