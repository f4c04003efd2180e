//! Decompression bombs: a client that sends one waits for its decompression; no other client does.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::{ApiVersionsRequest, ListOffsetsResponse, ProduceRequest, ProduceResponse};
use quire::streams::wire::HEADER_BYTES;
use quire::streams::{Cleanup, LOOKED_THROUGH_BYTES_MAX, TopicSettings};
use quire::{Database, Durability};
use quire_kafka::Settings;

use crate::offsets::{list, listing};
use crate::support::{World, batch, patiently, producing, resealed};

const ZSTD: u8 = 4;

/// The number of zeros that a Zstandard block of four bytes expands to.
const BLOCK_BYTES: usize = 128 << 10;

/// A Zstandard frame of the given sequences of bytes, each followed by a number of blocks of
/// [`BLOCK_BYTES`] zeros.
fn zstd(parts: &[(Vec<u8>, usize)]) -> Vec<u8> {
    const RAW: u32 = 0;
    const RLE: u32 = 1;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    let mut block = |kind: u32, bytes: usize, content: &[u8]| {
        frame.extend_from_slice(&(kind << 1 | (bytes as u32) << 3).to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    for (said, zeros) in parts {
        block(RAW, said.len(), said);
        (0..*zeros).for_each(|_| block(RLE, BLOCK_BYTES, &[0]));
    }
    frame.extend_from_slice(&[1, 0, 0]);
    frame
}

fn varint(out: &mut Vec<u8>, number: usize) {
    let mut zigzag = number << 1;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

/// A record without its value of `zeros` zeros, and the number of its headers.
fn record(index: usize, key: Option<u8>, zeros: usize) -> Vec<u8> {
    let mut body = vec![0];
    varint(&mut body, index);
    varint(&mut body, index);
    match key {
        Some(key) => body.extend_from_slice(&[2, key]),
        None => body.push(1),
    }
    varint(&mut body, zeros);
    let mut record = Vec::new();
    varint(&mut record, body.len() + zeros + 1);
    record.extend(body);
    record
}

/// A batch of `count` records, at the times 1000 and so on, with these bytes as its compressed
/// records.
fn holding(count: usize, compressed: &[u8]) -> Vec<u8> {
    resealed(batch(&vec![""; count]), |batch| {
        batch[22] = ZSTD;
        batch.truncate(HEADER_BYTES);
        batch.extend_from_slice(compressed);
    })
}

/// A batch of one record whose value has `zeros` zeros.
pub(crate) fn bomb(key: Option<u8>, bytes: usize) -> Vec<u8> {
    let blocks = bytes.div_ceil(BLOCK_BYTES);
    holding(1, &zstd(&[(record(0, key, blocks * BLOCK_BYTES), blocks), (vec![0], 0)]))
}

/// Searches of a partition for `count` times up to 1000.
fn at_times(wanted: &ListOffsetsPartition, count: i64) -> Vec<ListOffsetsPartition> {
    (0..count).map(|number| wanted.clone().with_timestamp(1000 - number)).collect()
}

#[tokio::test]
async fn a_request_for_times_unpacks_as_much_as_its_steps_allow() {
    let directory = tempfile::tempdir().expect("a directory");
    // A step for each KiB that is unpacked.
    let steps_max = 3 * LOOKED_THROUGH_BYTES_MAX as u64 / 1024;
    let builder = Database::builder(directory.path()).durability(Durability::Os).request_steps_max(steps_max);
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    assert_eq!(client.produce("t", &bomb(Some(b'k'), LOOKED_THROUGH_BYTES_MAX - BLOCK_BYTES)).await.error_code, 0);
    let mut request = listing("t", 0, 1000);
    let wanted: ListOffsetsPartition = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = at_times(&wanted, 6);
    let response = patiently(client.call(6, &request)).await;
    let codes: Vec<i16> = response.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
    let too_costly = ResponseError::PolicyViolation.code();
    assert_eq!(codes, [0, 0, too_costly, too_costly, too_costly, too_costly]);
    // The same search is done once.
    request.topics[0].partitions = vec![wanted; 6];
    let response = patiently(client.call(6, &request)).await;
    assert!(response.topics[0].partitions.iter().all(|partition| partition.timestamp == 1000), "{response:?}");
    assert_eq!(list(&mut client, "t", 1000).await, (0, 0, 1000), "the next request has its own steps");
}

#[tokio::test]
async fn a_produce_request_unpacks_as_much_as_its_steps_allow() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).request_steps_max(3 * 1024);
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    let settings = TopicSettings { cleanup: Cleanup::Compact, ..TopicSettings::default() };
    world.database.topic("t").create_with(3, settings).expect("created");
    let mut client = world.client().await;
    let mut request = producing("t", 0, &bomb(Some(b'k'), 1 << 20));
    let partitions = &mut request.topic_data[0].partition_data;
    *partitions = (0..4).map(|index| partitions[0].clone().with_index(index % 3)).collect();
    let response = client.call(9, &request).await;
    let codes: Vec<i16> =
        response.responses[0].partition_responses.iter().map(|partition| partition.error_code).collect();
    assert_eq!(codes, [0, 0, ResponseError::PolicyViolation.code(), ResponseError::PolicyViolation.code()]);
    assert_eq!(client.call(9, &producing("t", 0, &bomb(Some(b'k'), 1 << 20))).await.responses.len(), 1);
}

#[tokio::test]
async fn others_are_served_while_batches_are_unpacked_to_look_for_times() {
    let world = World::new().await;
    let (mut client, mut other) = (world.client().await, world.client().await);
    client.topic("t").await;
    assert_eq!(client.produce("t", &bomb(Some(b'k'), LOOKED_THROUGH_BYTES_MAX - BLOCK_BYTES)).await.error_code, 0);
    let mut request = listing("t", 0, 1000);
    let wanted: ListOffsetsPartition = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = at_times(&wanted, 100);
    client.send(6, &request).await;
    let versions = ApiVersionsRequest::default();
    let answered = async {
        tokio::select! {
            biased;
            (_, _) = client.receive::<ListOffsetsResponse>(6) => panic!("others waited for the whole request"),
            response = other.call(0, &versions) => assert_eq!(response.error_code, 0),
        }
        // A client that disconnects cancels the batches of its request that were not begun.
        drop(client);
        world.counted(|statistics| statistics.connections_open == 1).await;
        assert_eq!(list(&mut other, "t", 1000).await, (0, 0, 1000));
    };
    patiently(answered).await;
}

#[tokio::test]
async fn a_batch_is_searched_for_a_time_up_to_a_limit_and_beyond_it_found_by_its_start() {
    let world = World::new().await;
    let mut client = world.client().await;
    for (topic, bytes, found) in [
        ("small", LOOKED_THROUGH_BYTES_MAX - 2 * BLOCK_BYTES, (0, 1, 1001)),
        ("large", LOOKED_THROUGH_BYTES_MAX, (0, 0, 1000)),
    ] {
        client.topic(topic).await;
        let (first, last) = (record(0, None, bytes), [vec![0], record(1, None, 0), vec![0]].concat());
        let batch = holding(2, &zstd(&[(first, bytes / BLOCK_BYTES), (last, 0)]));
        assert_eq!(client.produce(topic, &batch).await.error_code, 0);
        assert_eq!(list(&mut client, topic, 1001).await, found, "{topic}");
        assert_eq!(list(&mut client, topic, -3).await, found, "{topic}");
    }
}

#[tokio::test]
async fn a_topic_that_compacts_refuses_compressed_batches_with_unreadable_keys() {
    let world = World::new().await;
    let settings = TopicSettings { cleanup: Cleanup::Compact, ..TopicSettings::default() };
    world.database.topic("t").create_with(1, settings).expect("created");
    let mut client = world.client().await;
    let cut = zstd(&[(record(0, Some(b'k'), 10), 0)]);
    let short = zstd(&[([record(0, Some(b'k'), 0), vec![0]].concat(), 0)]);
    let refused = [
        ("a record has no key", bomb(None, 1 << 20)),
        ("the record that has no key is too large", bomb(None, quire::OPENED_BYTES_MAX)),
        ("too much", bomb(Some(b'k'), quire::OPENED_BYTES_MAX)),
        ("too much together", bomb(Some(b'k'), quire::OPENED_BYTES_MAX / 2).repeat(2)),
        ("no codec wrote this", holding(1, b"garbagegarbage")),
        ("a record is cut off", holding(1, &cut)),
        ("a record is missing", holding(2, &short)),
    ];
    for (what, batch) in refused {
        let answer = client.produce("t", &batch).await;
        assert_eq!(answer.error_code, ResponseError::InvalidRecord.code(), "{what}: {answer:?}");
    }
    assert_eq!(list(&mut client, "t", -1).await, (0, 0, -1));
    // Requests are answered in their order, whether or not they had to be unpacked.
    for (version, batch) in [(9, holding(1, &short)), (9, batch(&["a"])), (9, bomb(Some(b'k'), 1 << 20))] {
        client.send(version, &producing("t", 0, &batch)).await;
    }
    for offset in 0..3 {
        let (_, response) = client.receive::<ProduceResponse>(9).await;
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, offset), "{answer:?}");
    }
}

/// A server with a topic `t` of `partitions` partitions, which compacts. A request may take any
/// number of steps.
async fn compacting(partitions: u32) -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).request_steps_max(u64::MAX);
    compacting_in(World::over(directory, builder.open().expect("a database"), Settings::default()).await, partitions)
}

/// Creates a topic `t` of `partitions` partitions, which compacts.
fn compacting_in(world: World, partitions: u32) -> World {
    let settings = TopicSettings { cleanup: Cleanup::Compact, ..TopicSettings::default() };
    world.database.topic("t").create_with(partitions, settings).expect("created");
    world
}

/// Produces this batch to each of `partitions` partitions.
fn producing_to_all(partitions: u32, batch: &[u8]) -> ProduceRequest {
    let mut request = producing("t", 0, batch);
    let data = request.topic_data[0].partition_data[0].clone();
    request.topic_data[0].partition_data =
        (0..partitions as i32).map(|partition| data.clone().with_index(partition)).collect();
    request
}

/// How many partitions have a record.
fn written(world: &World) -> usize {
    let partitions = world.database.topic("t").statistics().expect("a topic").partitions;
    partitions.iter().filter(|partition| partition.next.get() > 0).count()
}

#[tokio::test]
async fn a_batch_of_a_disconnected_producer_is_not_decompressed() {
    // To unpack all of them takes many times longer than the server works for a client that closed
    // its side.
    const PARTITIONS: u32 = 400;
    let world = compacting(PARTITIONS).await;
    let mut client = world.client().await;
    client.send(9, &producing_to_all(PARTITIONS, &bomb(Some(b'k'), quire::OPENED_BYTES_MAX / 2))).await;
    drop(client);
    world.counted(|statistics| statistics.requests > 0 && statistics.connections_open == 0).await;
    // A request that is sent now runs after those that were begun.
    let mut other = world.client().await;
    assert_eq!(other.produce("t", &bomb(Some(b'k'), BLOCK_BYTES)).await.error_code, 0);
    assert!(written(&world) < PARTITIONS as usize, "{} partitions", written(&world));
}

#[tokio::test]
async fn a_producer_that_wants_no_answer_need_not_stay_until_it_is_unpacked() {
    let world = compacting(20).await;
    let mut client = world.client().await;
    client.send(9, &producing_to_all(20, &bomb(Some(b'k'), BLOCK_BYTES)).with_acks(0)).await;
    drop(client);
    world.counted(|statistics| statistics.requests > 0 && statistics.connections_open == 0).await;
    assert_eq!(written(&world), 20);
}

/// How many batches the topic took.
fn taken(world: &World) -> u64 {
    world.database.topic("t").statistics().expect("a topic").partitions.iter().map(|it| it.next.get()).sum()
}

#[tokio::test]
async fn queued_batches_of_a_disconnected_producer_are_not_decompressed() {
    // As above.
    const REQUESTS: u64 = 400;
    let world = compacting(1).await;
    let mut client = world.client().await;
    // More than the server reads ahead, so the end of the stream comes after unread bytes.
    let request = producing("t", 0, &bomb(Some(b'k'), quire::OPENED_BYTES_MAX / 2));
    for _ in 0..REQUESTS {
        client.send(9, &request).await;
    }
    drop(client);
    world.counted(|statistics| statistics.requests > 0 && statistics.connections_open == 0).await;
    let mut other = world.client().await;
    assert_eq!(other.produce("t", &bomb(Some(b'k'), BLOCK_BYTES)).await.error_code, 0);
    assert!(taken(&world) < REQUESTS, "{} batches", taken(&world));
}

#[tokio::test]
async fn unfinished_requests_without_acks_share_the_steps_of_one_request() {
    const PRODUCERS: u64 = 3;
    const REQUESTS: u64 = 60;
    // The default steps cover some batches of one request, so each request alone has enough.
    let world = compacting_in(World::new().await, 1);
    let request = producing("t", 0, &bomb(Some(b'k'), quire::OPENED_BYTES_MAX / 2)).with_acks(0);
    for _ in 0..PRODUCERS {
        let mut client = world.client().await;
        for _ in 0..REQUESTS {
            client.send(9, &request).await;
        }
    }
    world.counted(|statistics| statistics.requests >= PRODUCERS && statistics.connections_open == 0).await;
    assert!(taken(&world) < PRODUCERS * REQUESTS, "{} batches", taken(&world));
}

#[tokio::test]
async fn a_producer_that_sends_more_than_the_server_reads_ahead_is_answered_and_its_disconnect_noticed() {
    let world = compacting(1).await;
    let mut client = world.client().await;
    // The request is so large that the end of the stream does not arrive before most of it is read.
    // A failed write of a response reveals the closed connection.
    let request = producing("t", 0, &bomb(Some(b'k'), quire::OPENED_BYTES_MAX / 2));
    for _ in 0..100 {
        client.send(9, &request).await;
    }
    drop(client);
    world.counted(|statistics| statistics.requests > 0 && statistics.connections_open == 0).await;
    let mut other = world.client().await;
    assert_eq!(other.produce("t", &bomb(Some(b'k'), BLOCK_BYTES)).await.error_code, 0);
    assert!(taken(&world) < 100, "{} batches", taken(&world));
}
