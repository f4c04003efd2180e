//! Responses that exceed the free memory: fetches with a first batch that is too large, and others.

use kafka_protocol::messages::{FetchResponse, MetadataRequest, ProduceResponse};
use quire::streams::{Cleanup, TopicSettings};
use quire::{Database, Durability};
use quire_kafka::Settings;

use crate::bombs::bomb;
use crate::offsets::list;
use crate::support::{Client, World, batch, fetching, patiently, producing, values};

/// More than what systems take for a client that does not read.
const LARGE_BYTES: usize = 15 << 20;

const MEMORY_BYTES: usize = 20 << 20;

/// The idle timeout of a test that waits for it. It is longer than any delay of a client on a busy
/// machine.
const IDLE_MS: u64 = 2_000;

const MANY: [&str; 3] = ["many", "more", "most"];

/// A server with memory for one large request or answer, and a topic with one large batch.
async fn world(idle_timeout_ms: u64) -> (World, Client) {
    world_of(MEMORY_BYTES, idle_timeout_ms).await
}

async fn world_of(memory_bytes: usize, idle_timeout_ms: u64) -> (World, Client) {
    let settings = Settings {
        frame_bytes_max: 16 << 20,
        memory_bytes_max: memory_bytes as u64,
        idle_timeout_ms,
        ..Settings::default()
    };
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(64 << 20);
    let builder = builder.partitions_max(1_000_000);
    let world = World::over(directory, builder.open().expect("a database"), settings).await;
    // Made before any client connects, because it takes a while.
    let large = batch(&[&"x".repeat(LARGE_BYTES)]);
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(client.produce("t", &large).await.error_code, 0);
    (world, client)
}

#[tokio::test]
async fn a_fetch_waits_for_the_memory_of_its_first_batch_also_when_that_is_more_than_it_asked_for() {
    let (world, mut other) = world(600_000).await;
    let mut unread = world.client().await;
    unread.send(12, &fetching("t", 0)).await;
    world.counted(|counts| counts.fetch_looks == 1).await;
    other.send(12, &fetching("t", 0).with_max_bytes(1)).await;
    // It looked and found no memory; it looks again when there is some.
    world.counted(|counts| counts.fetch_looks == 2).await;
    drop(unread);
    let (_, answer) = other.receive::<FetchResponse>(12).await;
    assert_eq!(values(&answer.responses[0].partitions[0])[0].1.len(), LARGE_BYTES);
    world.counted(|counts| counts.fetch_looks == 3).await;
}

#[tokio::test]
async fn a_batch_is_decompressed_when_there_is_memory_and_otherwise_the_client_must_retry() {
    const TIMED_OUT: i16 = 7;
    // Memory for the large batch and less than one client's share in addition.
    let (world, mut other) = world_of(LARGE_BYTES * 11 / 10, 600_000).await;
    let settings = TopicSettings { cleanup: Cleanup::Compact, ..TopicSettings::default() };
    world.database.topic("compacts").create_with(1, settings).expect("created");
    let packed = bomb(Some(b'k'), 1 << 20);
    assert_eq!(other.produce("compacts", &packed).await.error_code, 0);
    assert_eq!(list(&mut other, "compacts", 1000).await, (0, 0, 1000));
    let mut unread = world.client().await;
    unread.send(12, &fetching("t", 0)).await;
    world.counted(|counts| counts.fetch_looks == 1).await;
    assert_eq!(other.produce("compacts", &packed).await.error_code, TIMED_OUT);
    assert_eq!(list(&mut other, "compacts", 1000).await.0, TIMED_OUT);
    drop(unread);
    patiently(async { while other.produce("compacts", &packed).await.error_code != 0 {} }).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_is_closed_when_another_fetch_waits_for_its_memory() {
    let (world, mut other) = world(600_000).await;
    let mut unread = world.client().await;
    unread.send(12, &fetching("t", 0)).await;
    world.counted(|counts| counts.fetch_looks == 1).await;
    assert_eq!(values(&other.fetch("t", 0).await)[0].1.len(), LARGE_BYTES);
    world.counted(|counts| counts.closed_idle == 1).await;
}

#[tokio::test]
async fn a_fetch_that_waits_for_the_memory_of_a_later_request_is_answered_without_records() {
    let (world, mut other) = world(IDLE_MS).await;
    other.topic("u").await;
    let request = producing("u", 0, &batch(&[&"y".repeat(LARGE_BYTES)]));
    let mut both = world.client().await;
    // It waits for more memory than is free. The server then reads the next request ahead, which
    // takes most of the memory.
    both.send(12, &fetching("t", 0).with_max_wait_ms(200).with_min_bytes(i32::MAX)).await;
    world.counted(|counts| counts.fetch_looks == 1).await;
    both.send(9, &request).await;
    let (_, fetched) = both.receive::<FetchResponse>(12).await;
    let fetched = &fetched.responses[0].partitions[0];
    assert_eq!((fetched.error_code, fetched.high_watermark, values(fetched).len()), (0, 1, 0));
    let (_, produced) = patiently(both.receive::<ProduceResponse>(9)).await;
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0);
    // By now, the other connection has exceeded its idle timeout.
    let mut another = world.client().await;
    assert_eq!(values(&another.fetch("t", 0).await)[0].1.len(), LARGE_BYTES);
}

#[tokio::test]
async fn a_response_other_than_a_fetch_claims_its_memory_too_until_it_is_read() {
    let (world, mut other) = world(600_000).await;
    // At least 26 bytes each.
    let partitions = u32::try_from((MEMORY_BYTES - LARGE_BYTES) / 26 / MANY.len()).expect("a number") + 1;
    for topic in MANY {
        world.database.topic(topic).create(partitions).expect("created");
    }
    let mut unread = world.client().await;
    unread.send(12, &fetching("t", 0)).await;
    world.counted(|counts| counts.fetch_looks == 1).await;
    // A client that does not read is closed because others wait for its memory.
    let answer = patiently(other.call(4, &MetadataRequest::default().with_topics(None))).await;
    assert!(answer.topics.iter().any(|topic| topic.partitions.len() == partitions as usize));
    world.counted(|counts| counts.closed_idle == 1).await;
}
