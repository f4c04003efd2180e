//! ListOffsets.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ListOffsetsRequest, TopicName};

use quire::events::NewEvent;
use tokio::io::AsyncWriteExt;

use crate::support::{Client, World, batch, text};

pub(crate) fn listing(topic: &str, partition: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(TopicName(text(topic))).with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![topic])
}

/// Error code, offset, time.
pub(crate) async fn list(client: &mut Client, topic: &str, timestamp: i64) -> (i16, i64, i64) {
    let response = client.call(6, &listing(topic, 0, timestamp)).await;
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.offset, partition.timestamp)
}

#[tokio::test]
async fn the_ends_of_a_partition_are_listed() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(list(&mut client, "t", -2).await, (0, 0, -1));
    assert_eq!(list(&mut client, "t", -1).await, (0, 0, -1));
    client.produce("t", &batch(&["a", "b"])).await;
    assert_eq!(list(&mut client, "t", -2).await, (0, 0, -1));
    assert_eq!(list(&mut client, "t", -1).await, (0, 2, -1));
}

#[tokio::test]
async fn the_first_record_that_is_late_enough_is_listed() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["at 1000", "at 1001"])).await;
    assert_eq!(list(&mut client, "t", 0).await, (0, 0, 1000));
    assert_eq!(list(&mut client, "t", 1001).await, (0, 1, 1001));
    assert_eq!(list(&mut client, "t", 1002).await, (0, -1, -1));
}

#[tokio::test]
async fn the_record_with_the_latest_time_is_listed() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(list(&mut client, "t", -3).await, (0, -1, -1));
    client.produce("t", &batch(&["at 1000", "at 1001", "at 1002"])).await;
    client.produce("t", &batch(&["at 1000"])).await;
    assert_eq!(list(&mut client, "t", -3).await, (0, 2, 1002));
    assert_eq!(list(&mut client, "t", -4).await, (0, 0, -1));
    assert_eq!(list(&mut client, "t", -5).await, (0, -1, -1));
    assert_eq!(list(&mut client, "air.flights", -3).await.1, 1);
}

#[tokio::test]
async fn a_missing_topic_and_an_invalid_time_have_a_code() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(list(&mut client, "u", -1).await.0, ResponseError::UnknownTopicOrPartition.code());
    assert_eq!(list(&mut client, "t", -6).await.0, ResponseError::InvalidRequest.code());
    let response = client.call(6, &listing("t", 1, -1)).await;
    assert_eq!(response.topics[0].partitions[0].error_code, ResponseError::UnknownTopicOrPartition.code());
}

/// Asks in version 0, which no decoder of ours knows; the error code and the offsets of each
/// partition.
async fn list_in_version_0(client: &mut Client, partitions: &[(i32, i64, i32)]) -> Vec<(i16, Vec<i64>)> {
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 2, 0, 0, 0, 0, 0, 9, 0, 2, b'm', b'e']);
    frame.put_i32(-1);
    frame.put_slice(&[0, 0, 0, 1, 0, 1, b't']);
    frame.put_i32(partitions.len() as i32);
    for (partition, time, offsets_max) in partitions {
        frame.put_i32(*partition);
        frame.put_i64(*time);
        frame.put_i32(*offsets_max);
    }
    client.stream.write_u32(frame.len() as u32).await.expect("sent");
    client.stream.write_all(&frame).await.expect("sent");
    let mut answer: Bytes = client.receive_frame().await.expect("an answer");
    assert_eq!(answer.split_to(11)[..], [0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't']);
    assert_eq!(answer.get_i32(), partitions.len() as i32);
    let listed = partitions.iter().map(|(partition, ..)| {
        assert_eq!(answer.get_i32(), *partition);
        let code = answer.get_i16();
        (code, (0..answer.get_i32()).map(|_| answer.get_i64()).collect())
    });
    let listed = listed.collect();
    assert!(answer.is_empty(), "{} bytes behind the answer", answer.len());
    listed
}

#[tokio::test]
async fn the_ends_of_a_partition_are_listed_in_version_0() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a", "b"])).await;
    let listed = list_in_version_0(&mut client, &[(0, -1, 1), (0, -2, 1), (0, -1, 0), (1, -1, 1), (0, 1000, 1)]).await;
    let code = |error: ResponseError| (error.code(), vec![]);
    let (unknown, no_times) = (code(ResponseError::UnknownTopicOrPartition), code(ResponseError::UnsupportedVersion));
    assert_eq!(listed, [(0, vec![2]), (0, vec![0]), (0, vec![]), unknown, no_times]);
}
