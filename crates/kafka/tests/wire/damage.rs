//! Damage in the log: records before and after it are served, and a client that reads it gets an
//! error.

use std::path::{Path, PathBuf};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::FetchRequest;
use quire::{Database, Durability};

use quire::jobs::JobSpec;
use tempfile::TempDir;

use crate::offsets::list;
use crate::support::{Client, World, batch, fetching, values};

/// So large that a segment holds eight batches.
const VALUE_BYTES: usize = 500_000;

const BATCHES: usize = 20;

fn value(number: usize) -> String {
    format!("batch {number:04} {}", "x".repeat(VALUE_BYTES))
}

/// Fetches everything from an offset on.
fn all_from(offset: i64) -> FetchRequest {
    let mut request = fetching("t", offset).with_max_bytes(i32::MAX);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    request
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, mut found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    found.extend(folders.iter().flat_map(|folder| files(folder)));
    found
}

/// A server over a topic with `count` of the batches, between those of another topic; the batches
/// with these numbers are damaged on disk.
async fn damaged(count: usize, numbers: &[usize]) -> (World, Client) {
    let world = World::new().await;
    let mut client = world.client().await;
    for topic in ["t", "u"] {
        client.topic(topic).await;
    }
    for number in 0..BATCHES {
        let topic = if number < count { "t" } else { "u" };
        assert_eq!(client.produce(topic, &batch(&[&value(number)])).await.error_code, 0);
    }
    let (directory, settings) = world.stop().await;
    damage(&directory, numbers);
    let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("it opens");
    let world = World::over(directory, database, settings).await;
    let client = world.client().await;
    (world, client)
}

/// Flips a bit in each copy of these values on the disk.
fn damage(directory: &TempDir, numbers: &[usize]) {
    for number in numbers {
        let wanted = format!("batch {number:04} ").into_bytes();
        let place = files(directory.path()).into_iter().find_map(|path| {
            let bytes = std::fs::read(&path).expect("readable");
            let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
            Some((path, bytes, at))
        });
        let (path, mut bytes, at) = place.expect("the batch is in a file");
        bytes[at + 100] ^= 1;
        std::fs::write(path, bytes).expect("written");
    }
}

/// The fetched batches, the error, and the high watermark.
async fn fetched(client: &mut Client, offset: i64) -> (Vec<i64>, i16, i64) {
    let response = client.call(12, &all_from(offset)).await;
    let data = &response.responses[0].partitions[0];
    let came = match data.error_code {
        0 => values(data).into_iter().map(|(offset, _)| offset).collect(),
        _ => Vec::new(),
    };
    (came, data.error_code, data.high_watermark)
}

#[tokio::test]
async fn the_batches_before_and_after_a_damaged_one_are_served() {
    let (world, mut client) = damaged(BATCHES, &[3]).await;
    assert_eq!(fetched(&mut client, 0).await, (vec![0, 1, 2], 0, 20));
    assert_eq!(fetched(&mut client, 2).await, (vec![2], 0, 20));
    assert_eq!(fetched(&mut client, 3).await, (vec![], ResponseError::KafkaStorageError.code(), -1));
    assert_eq!(fetched(&mut client, 4).await, ((4..20).collect(), 0, 20));
    // The same within the database.
    let topic = world.database.topic("t");
    let read = topic.fetch(0, quire::Sequence::new(1), 1 << 30).expect("what is before it");
    assert_eq!((read.records.len(), read.next_offset.get()), (2, 3));
    let error = topic.fetch(0, read.next_offset, 1 << 30).expect_err("it is damaged");
    assert_eq!(error.kind(), quire::ErrorKind::Damaged);
}

#[tokio::test]
async fn a_partition_with_a_damaged_first_batch_is_read_after_it_and_at_its_end() {
    let (_world, mut client) = damaged(BATCHES, &[0]).await;
    assert_eq!(fetched(&mut client, 0).await.1, ResponseError::KafkaStorageError.code());
    assert_eq!(fetched(&mut client, 1).await, ((1..20).collect(), 0, 20));
    assert_eq!(fetched(&mut client, 20).await, (vec![], 0, 20));
    assert_eq!(client.produce("t", &batch(&["more"])).await.base_offset, 20);
    assert_eq!(fetched(&mut client, 20).await, (vec![20], 0, 21));
}

#[tokio::test]
async fn a_partition_with_a_damaged_last_batch_is_read_up_to_it_and_continues_after_it() {
    let (_world, mut client) = damaged(3, &[2]).await;
    // The end of the partition can't be read, so it counts as the end of the readable part.
    assert_eq!(fetched(&mut client, 0).await, (vec![0, 1], 0, 2));
    assert_eq!(fetched(&mut client, 2).await.1, ResponseError::KafkaStorageError.code());
    // A client that reads from the beginning finds the damage; the exact end can't be determined.
    assert_eq!(list(&mut client, "t", -2).await, (0, 0, -1));
    assert_eq!(list(&mut client, "t", -1).await.0, ResponseError::KafkaStorageError.code());
    assert_eq!(client.produce("t", &batch(&["more"])).await.base_offset, 3);
    assert_eq!(fetched(&mut client, 0).await, (vec![0, 1], 0, 4));
    assert_eq!(fetched(&mut client, 3).await, (vec![3], 0, 4));
}

/// A server over a queue with `count` jobs, between those of another queue; the records that
/// enqueue these jobs are damaged on disk.
async fn damaged_queue(jobs: usize, numbers: &[usize]) -> (World, Client) {
    let world = World::new().await;
    for number in 0..BATCHES {
        let queue = if number < jobs { "q" } else { "u" };
        world.database.queue(queue).enqueue(JobSpec::new(value(number).as_bytes())).expect("enqueued");
    }
    let (directory, settings) = world.stop().await;
    damage(&directory, numbers);
    let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("it opens");
    let world = World::over(directory, database, settings).await;
    let client = world.client().await;
    (world, client)
}

#[tokio::test]
async fn a_queue_with_a_damaged_first_event_is_read_after_it_and_its_end_is_known() {
    let (_world, mut client) = damaged_queue(BATCHES, &[0]).await;
    // One entry has the first job's event and the event of the queue's creation.
    let (first, next) = (list(&mut client, "jobs.q", -2).await, list(&mut client, "jobs.q", -1).await);
    assert_eq!((first, next), ((0, 0, -1), (0, 21, -1)));
    assert_eq!(client.fetch("jobs.q", 0).await.error_code, ResponseError::KafkaStorageError.code());
    assert_eq!(values(&client.fetch("jobs.q", 2).await).first().map(|(offset, _)| *offset), Some(2));
}

#[tokio::test]
async fn a_queue_with_a_damaged_last_event_is_read_up_to_it() {
    let (world, mut client) = damaged_queue(3, &[2]).await;
    let fetched = client.fetch("jobs.q", 0).await;
    assert_eq!(values(&fetched).last().map(|(offset, _)| *offset), Some(2));
    assert_eq!(client.fetch("jobs.q", 3).await.error_code, ResponseError::KafkaStorageError.code());
    world.database.queue("q").enqueue(JobSpec::new(b"more")).expect("enqueued");
    assert_eq!(values(&client.fetch("jobs.q", 4).await).first().map(|(offset, _)| *offset), Some(4));
}
