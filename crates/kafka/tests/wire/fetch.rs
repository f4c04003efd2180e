//! Fetch: waiting, limits and ranges.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchResponse};
use quire::{Database, Durability};
use quire_kafka::Settings;
use tokio::io::AsyncWriteExt;

use crate::support::{Client, World, batch, fetching, values};

/// Sends a fetch, and returns when the server has read everything before it.
pub(crate) async fn wait_for(client: &mut Client, request: &FetchRequest) {
    client.send(3, &ApiVersionsRequest::default()).await;
    client.send(12, request).await;
    client.receive::<ApiVersionsResponse>(3).await;
}

pub(crate) fn patient(topic: &str, offset: i64, min_bytes: i32) -> FetchRequest {
    fetching(topic, offset).with_max_wait_ms(600_000).with_min_bytes(min_bytes)
}

#[tokio::test]
async fn a_fetch_that_waits_is_answered_by_the_write_itself() {
    let world = World::new().await;
    let (mut reader, mut writer) = (world.client().await, world.client().await);
    writer.topic("t").await;
    wait_for(&mut reader, &patient("t", 0, 1)).await;
    // Other connections are served in the meantime.
    assert_eq!(writer.fetch("t", 0).await.high_watermark, 0);
    writer.produce("t", &batch(&["a"])).await;
    let (_, response) = reader.receive::<FetchResponse>(12).await;
    assert_eq!(values(&response.responses[0].partitions[0]), [(0, "a".to_owned())]);
}

#[tokio::test]
async fn a_waiting_fetch_is_not_woken_by_writes_to_other_partitions() {
    let world = World::new().await;
    let (mut one, mut other, mut writer) = (world.client().await, world.client().await, world.client().await);
    for topic in ["t", "u"] {
        writer.topic(topic).await;
    }
    wait_for(&mut one, &patient("t", 0, 1)).await;
    wait_for(&mut other, &patient("u", 0, 1)).await;
    for _ in 0..10 {
        writer.produce("v", &batch(&["a"])).await;
    }
    writer.produce("u", &batch(&["a"])).await;
    other.receive::<FetchResponse>(12).await;
    assert!(world.counters.statistics().fetches_woken <= 1, "by its own topic, if it waited already");
    // By any writer: this one does not use the server.
    world.database.topic("t").produce(quire::Message::new("b")).expect("produced");
    let (_, response) = one.receive::<FetchResponse>(12).await;
    assert_eq!(values(&response.responses[0].partitions[0]), [(0, "b".to_owned())]);
}

#[tokio::test]
async fn a_fetch_for_which_nothing_comes_looks_once_however_much_is_written_elsewhere() {
    let world = World::new().await;
    let (mut reader, mut writer) = (world.client().await, world.client().await);
    for topic in ["t", "u"] {
        writer.topic(topic).await;
    }
    let looks = || world.counters.statistics().fetch_looks;
    let waiting = fetching("t", 0).with_max_wait_ms(100).with_min_bytes(1);
    assert_eq!(values(&reader.call(12, &waiting).await.responses[0].partitions[0]), []);
    assert_eq!(looks(), 1);
    wait_for(&mut reader, &waiting).await;
    for _ in 0..10 {
        writer.produce("u", &batch(&["a"])).await;
    }
    assert_eq!(values(&reader.receive::<FetchResponse>(12).await.1.responses[0].partitions[0]), []);
    assert_eq!(looks(), 2);
}

#[tokio::test]
async fn a_fetch_waits_for_as_many_bytes_as_it_asks_for() {
    let world = World::new().await;
    let (mut reader, mut writer) = (world.client().await, world.client().await);
    writer.topic("t").await;
    wait_for(&mut reader, &patient("t", 0, 1000)).await;
    writer.produce("t", &batch(&["too little"])).await;
    writer.topic("another").await;
    writer.produce("t", &batch(&[&"x".repeat(1000)])).await;
    let (_, response) = reader.receive::<FetchResponse>(12).await;
    assert_eq!(values(&response.responses[0].partitions[0]).len(), 2, "it was not answered after the first");
}

#[tokio::test]
async fn a_fetch_that_waited_long_enough_is_answered_with_what_there_is() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a"])).await;
    let response = client.call(12, &fetching("t", 0).with_max_wait_ms(20).with_min_bytes(1 << 20)).await;
    assert_eq!(values(&response.responses[0].partitions[0]).len(), 1);
    let response = client.call(12, &fetching("t", 1).with_max_wait_ms(20).with_min_bytes(1)).await;
    assert_eq!(values(&response.responses[0].partitions[0]), []);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_fetch_waits_is_noticed() {
    let world = World::new().await;
    let mut reader = world.client().await;
    reader.topic("t").await;
    wait_for(&mut reader, &patient("t", 0, 1)).await;
    for _ in 0..10 {
        reader.send(3, &ApiVersionsRequest::default()).await;
    }
    drop(reader);
    world.counted(|counts| counts.connections_accepted == 1 && counts.connections_open == 0).await;
}

#[tokio::test]
async fn a_request_after_a_waiting_fetch_is_answered_after_it() {
    let world = World::new().await;
    let (mut reader, mut writer) = (world.client().await, world.client().await);
    writer.topic("t").await;
    wait_for(&mut reader, &patient("t", 0, 1)).await;
    reader.send(3, &ApiVersionsRequest::default()).await;
    reader.send(3, &ApiVersionsRequest::default()).await;
    writer.produce("t", &batch(&["a"])).await;
    reader.receive::<FetchResponse>(12).await;
    reader.receive::<ApiVersionsResponse>(3).await;
    reader.receive::<ApiVersionsResponse>(3).await;
}

#[tokio::test]
async fn a_fetch_returns_at_most_the_requested_bytes_but_always_one_batch() {
    let world = World::with(Settings { auto_create_partitions: 2, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let value = "x".repeat(1000);
    for _ in 0..4 {
        for partition in [0, 1] {
            client.call(9, &crate::support::producing("t", partition, &batch(&[&value]))).await;
        }
    }
    let mut taken = async |max_bytes: i32, partition_max_bytes: i32| {
        let mut request = fetching("t", 0).with_max_bytes(max_bytes);
        let partition =
            |number| FetchPartition::default().with_partition(number).with_partition_max_bytes(partition_max_bytes);
        request.topics[0].partitions = vec![partition(0), partition(1)];
        let response = client.call(12, &request).await;
        let partitions = &response.responses[0].partitions;
        [values(&partitions[0]).len(), values(&partitions[1]).len()]
    };
    assert_eq!(taken(1 << 20, 1 << 20).await, [4, 4]);
    assert_eq!(taken(1 << 20, 2500).await, [2, 2]);
    assert_eq!(taken(2500, 1 << 20).await, [2, 0]);
    assert_eq!(taken(5500, 1 << 20).await, [4, 1]);
    assert_eq!(taken(1, 1).await, [1, 0]);
    assert_eq!(taken(0, 0).await, [1, 0]);
    assert_eq!(taken(-1, -1).await, [1, 0]);
}

#[tokio::test]
async fn an_offset_beyond_the_end_is_out_of_range_and_the_end_is_not() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a", "b"])).await;
    assert_eq!(client.fetch("t", 2).await.error_code, 0);
    for offset in [3, -1, i64::MIN, i64::MAX] {
        assert_eq!(client.fetch("t", offset).await.error_code, ResponseError::OffsetOutOfRange.code(), "{offset}");
    }
    // A fetch from the middle of a batch returns the whole batch; the client skips earlier records.
    assert_eq!(values(&client.fetch("t", 1).await).len(), 2);
}

#[tokio::test]
async fn unknown_epochs_and_sessions_have_an_error_code() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let mut request = fetching("t", 0);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    let response = client.call(12, &request).await;
    assert_eq!(response.responses[0].partitions[0].error_code, ResponseError::UnknownLeaderEpoch.code());
    let response = client.call(12, &fetching("t", 0).with_session_id(7).with_session_epoch(1)).await;
    assert_eq!(response.error_code, ResponseError::FetchSessionIdNotFound.code());
}

#[tokio::test]
async fn a_fetch_looks_at_as_many_partitions_as_its_steps_allow() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).request_steps_max(1_000);
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let mut request = fetching("t", 0);
    let wanted = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = vec![wanted; 2_000];
    let response = client.call(12, &request).await;
    let codes: Vec<i16> = response.responses[0].partitions.iter().map(|partition| partition.error_code).collect();
    assert_eq!((codes.len(), codes[0], codes[1_999]), (2_000, 0, ResponseError::PolicyViolation.code()));
    // When one partition has records, the response omits unchanged partitions. The next fetch
    // reports them.
    client.produce("t", &batch(&["a"])).await;
    let response = client.call(12, &request).await;
    let partitions = &response.responses[0].partitions;
    assert_eq!(values(&partitions[0]), [(0, "a".to_owned())]);
    assert_eq!((partitions[1_999].error_code, partitions[1_999].high_watermark), (0, -1));
}

#[tokio::test]
async fn a_client_that_closed_its_side_is_answered_while_its_fetch_waits() {
    let world = World::new().await;
    let mut reader = world.client().await;
    reader.topic("t").await;
    wait_for(&mut reader, &patient("t", 0, 1)).await;
    reader.send(12, &patient("t", 0, 1)).await;
    reader.stream.shutdown().await.expect("half closed");
    for _ in 0..2 {
        let (_, response) = reader.receive::<FetchResponse>(12).await;
        assert_eq!(values(&response.responses[0].partitions[0]), []);
    }
    world.counted(|counts| counts.connections_accepted == 1 && counts.connections_open == 0).await;
}
