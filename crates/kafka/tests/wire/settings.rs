//! Each setting has its documented effect. The tests of Metadata cover the settings of topics and
//! addresses.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ProduceResponse};
use quire::Database;
use quire_kafka::{AdvertisedAddress, Server, Settings};
use tokio::io::AsyncWriteExt;

use crate::support::{Client, World, batch, fetching, producing, values};

#[tokio::test]
async fn a_request_longer_than_a_frame_may_be_closes_the_connection() {
    let world = World::with(Settings { frame_bytes_max: 2048, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(client.produce("t", &batch(&[&"x".repeat(1500)])).await.error_code, 0);
    let mut claim = BytesMut::new();
    claim.put_i32(2049);
    client.stream.write_all(&claim).await.expect("taken");
    assert!(client.is_closed().await);
    world.counted(|counts| counts.closed_malformed == 1).await;
}

#[tokio::test]
async fn a_fetch_returns_at_most_the_bytes_that_the_server_allows() {
    let world = World::with(Settings { fetch_bytes_max: 2500, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    for _ in 0..4 {
        client.produce("t", &batch(&[&"x".repeat(1000)])).await;
    }
    assert_eq!(values(&client.fetch("t", 0).await).len(), 2);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let world = World::with(Settings { idle_timeout_ms: 100, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.call(3, &ApiVersionsRequest::default()).await;
    // Half a request is not one.
    client.stream.write_all(b"\0\0\0\x10ab").await.expect("taken");
    assert!(client.is_closed().await);
    world.counted(|counts| counts.closed_idle == 1 && counts.connections_open == 0).await;
}

#[tokio::test]
async fn a_connection_without_a_whole_first_request_is_closed() {
    let world = World::with(Settings { first_request_timeout_ms: 50, ..Settings::default() }).await;
    let (mut silent, mut slow) = (world.client().await, world.client().await);
    slow.stream.write_all(b"\0\0\0\x10ab").await.expect("taken");
    assert!(silent.is_closed().await && slow.is_closed().await);
    world.counted(|counts| counts.closed_idle == 2 && counts.connections_open == 0).await;
    assert_eq!(world.connections.statistics().ended_first_request, 2);
}

#[tokio::test]
async fn a_request_that_has_begun_must_arrive_in_time() {
    let world = World::with(Settings { request_timeout_ms: 50, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.call(3, &ApiVersionsRequest::default()).await;
    client.stream.write_all(b"\0\0\0\x10ab").await.expect("taken");
    assert!(client.is_closed().await);
    world.counted(|counts| counts.closed_idle == 1 && counts.connections_open == 0).await;
    assert_eq!(world.connections.statistics().ended_request, 1);
}

#[tokio::test]
async fn one_address_has_no_more_connections_than_it_may() {
    let world = World::with(Settings { connections_per_address_max: Some(1), ..Settings::default() }).await;
    let mut client = world.client().await;
    busy(&world, &mut client, 1).await;
    assert!(world.client().await.is_closed().await);
    world.counted(|counts| counts.closed_surplus == 1 && counts.connections_open == 1).await;
}

/// Lets a fetch of the client run. It is the fetch number `fetch` of the test.
async fn busy(world: &World, client: &mut Client, fetch: u64) {
    let topic = format!("busy-{fetch}");
    client.topic(&topic).await;
    client.send(12, &fetching(&topic, 0).with_max_wait_ms(i32::MAX).with_min_bytes(1)).await;
    world.counted(|counts| counts.requests == 2 * fetch).await;
}

#[tokio::test]
async fn the_longest_idle_connection_of_an_address_gives_its_place_to_a_new_one() {
    let world = World::with(Settings { connections_per_address_max: Some(3), ..Settings::default() }).await;
    let [mut waiting, mut first, mut second] = [world.client().await, world.client().await, world.client().await];
    busy(&world, &mut waiting, 1).await;
    let mut new = world.client().await;
    assert!(first.is_closed().await);
    for client in [&mut second, &mut new] {
        client.call(3, &ApiVersionsRequest::default()).await;
    }
    world.counted(|counts| counts.closed_surplus == 0 && counts.connections_open == 3).await;
    assert_eq!(world.connections.statistics().displaced, 1);
}

#[tokio::test]
async fn a_client_that_reads_no_response_is_closed() {
    let world = World::with(Settings { idle_timeout_ms: 200, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&[&"x".repeat(1 << 20)])).await;
    for _ in 0..100 {
        client.send(12, &fetching("t", 0)).await;
    }
    world.counted(|counts| counts.closed_idle == 1).await;
}

#[tokio::test]
async fn no_fetch_waits_longer_than_an_idle_connection_may() {
    let world = World::with(Settings { idle_timeout_ms: 50, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let response = client.call(12, &fetching("t", 0).with_max_wait_ms(i32::MAX).with_min_bytes(1)).await;
    assert_eq!(values(&response.responses[0].partitions[0]), []);
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused_all_at_once() {
    let settings = Settings {
        advertised: vec![AdvertisedAddress { host: String::new(), port: 0 }],
        auto_create_topics: Some(true),
        auto_create_partitions: 0,
        frame_bytes_max: 1,
        fetch_bytes_max: usize::MAX,
        idle_timeout_ms: 0,
        connections_max: 0,
        memory_bytes_max: 0,
        ..Settings::default()
    };
    assert_eq!(settings.problems().len(), 8);
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    let any = "127.0.0.1:0".parse().expect("an address");
    let error = Server::bind_with(database, any, settings).await.expect_err("a refusal");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("frame_bytes_max must be 1024 to"), "{error}");
}

#[tokio::test]
async fn one_connection_more_than_there_may_be_is_closed_and_a_place_is_free_again() {
    let world = World::with(Settings { connections_max: 2, ..Settings::default() }).await;
    let (mut a, mut b) = (world.client().await, world.client().await);
    busy(&world, &mut a, 1).await;
    busy(&world, &mut b, 2).await;
    assert!(world.client().await.is_closed().await);
    world.counted(|counts| counts.closed_surplus == 1 && counts.connections_open == 2).await;
    drop(a);
    world.counted(|counts| counts.connections_open == 1).await;
    let mut c = world.client().await;
    c.call(3, &ApiVersionsRequest::default()).await;
}

#[tokio::test]
async fn a_response_is_no_larger_than_the_available_memory() {
    let settings = Settings { frame_bytes_max: 64 << 10, memory_bytes_max: 1 << 20, ..Settings::default() };
    let world = World::with(settings).await;
    let mut client = world.client().await;
    client.topic("t").await;
    for _ in 0..30 {
        client.produce("t", &batch(&[&"x".repeat(60_000)])).await;
    }
    let mut fetch = fetching("t", 0).with_max_bytes(8 << 20);
    fetch.topics[0].partitions[0].partition_max_bytes = 8 << 20;
    // Duplicates: the memory of the first response is free again.
    for _ in 0..2 {
        let response = client.call(12, &fetch).await;
        assert_eq!(values(&response.responses[0].partitions[0]).len(), 17);
    }
}

#[tokio::test]
async fn a_large_request_waits_for_memory_and_is_answered() {
    let settings = Settings { frame_bytes_max: 1 << 20, memory_bytes_max: 1 << 20, ..Settings::default() };
    let world = World::with(settings).await;
    let (mut stalled, mut other) = (world.client().await, world.client().await);
    other.topic("t").await;
    // Most of a request, which takes the memory of all of it.
    let mut begun = BytesMut::new();
    begun.put_i32(1_000 << 10);
    begun.put_bytes(0, 130 << 10);
    stalled.stream.write_all(&begun).await.expect("taken");
    let large = batch(&[&"x".repeat(100 << 10)]);
    other.send(9, &producing("t", 0, &large)).await;
    drop(stalled);
    let (_, answer) = other.receive::<ProduceResponse>(9).await;
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
}
