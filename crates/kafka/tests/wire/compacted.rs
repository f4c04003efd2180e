//! A compacted topic on the wire. An independent decoder reads the remaining batches, verifies
//! their checksums, and skips offsets without a record.

use std::sync::Arc;

use kafka_protocol::records::RecordBatchDecoder;
use quire::streams::wire::BatchBuilder;
use quire::streams::{Cleanup, TopicSettings};
use quire::{Background, Database, Durability, Duty, ManualClock, Message, Timestamp};
use quire_kafka::Settings;

use crate::offsets::list;
use crate::support::{Client, World};

const TOLD_MS: u64 = 1000;

type Decoded = Vec<(i64, i64, String, Option<String>)>;

/// Offset, time, key and value of the records of a fetch; of no batch before the offset, none.
async fn decoded(client: &mut Client, offset: i64) -> Decoded {
    let fetched = client.fetch("t", offset).await;
    assert_eq!((fetched.error_code, fetched.log_start_offset), (0, 0));
    let mut bytes = fetched.records.expect("records");
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("batches whose checksums are right");
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    let records = sets.into_iter().flat_map(|set| set.records);
    records.map(|it| (it.offset, it.timestamp, text(it.key.expect("a key")), it.value.map(text))).collect()
}

fn batch(records: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (index, (key, value)) in (0..).zip(records) {
        builder.add(Some(key.as_bytes()), value.map(str::as_bytes), &[], 5_000 + index).expect("room");
    }
    builder.finish().expect("a record").bytes().to_vec()
}

/// Fills and seals the current segment, takes a checkpoint, and compacts.
fn compact(database: &Database) {
    for _ in 0..2 {
        for _ in 0..40 {
            database.topic("other").produce(Message::new([7; 4000])).expect("accepted");
        }
        database.sync().expect("synced");
        while database.carry_out(Duty::Seal).expect("sealed") {}
        database.checkpoint().expect("saved");
    }
    database.compact().expect("compacted");
}

#[tokio::test]
async fn the_remaining_records_of_a_batch_keep_their_offsets_and_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(100_000)));
    let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(64 << 10);
    let database = builder.clock(clock.clone()).background(Background::Caller).open().expect("a database");
    let settings =
        TopicSettings { cleanup: Cleanup::Compact, delete_retention_ms: TOLD_MS, ..TopicSettings::default() };
    database.topic("t").create_with(1, settings).expect("created");
    let world = World::over(directory, database.clone(), Settings::default()).await;
    let mut client = world.client().await;
    for records in [
        &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))][..],
        &[("a", Some("4")), ("b", None), ("d", Some("6"))],
        &[("d", Some("7"))],
        &[("last", Some("8"))],
    ] {
        assert_eq!(client.produce("t", &batch(records)).await.error_code, 0);
    }
    let (own, told) = (|value: &str| Some(value.to_owned()), String::from("b"));
    compact(&database);
    let c = (2, 5_002, String::from("c"), own("3"));
    let (a, b) = ((3, 5_000, String::from("a"), own("4")), (4, 5_001, told, None));
    let (d, last) = ((6, 5_000, String::from("d"), own("7")), (7, 5_000, String::from("last"), own("8")));
    let all = [&c, &a, &b, &d, &last].map(Clone::clone);
    assert_eq!(decoded(&mut client, 0).await, all);
    // The response has the whole batch that contains the offset.
    assert_eq!(decoded(&mut client, 1).await, all);
    assert_eq!(decoded(&mut client, 5).await, all[1..]);
    assert_eq!(decoded(&mut client, 6).await, all[3..]);
    assert_eq!(list(&mut client, "t", -2).await, (0, 0, -1));
    assert_eq!(list(&mut client, "t", -1).await, (0, 8, -1));
    assert_eq!(list(&mut client, "t", 5_002).await, (0, 2, 5_002));
    assert_eq!(list(&mut client, "t", -3).await, (0, 2, 5_002));
    // The batch now has the time from which the deletion marker of the key may be removed. Its
    // records still have their times.
    compact(&database);
    assert_eq!(decoded(&mut client, 0).await, all);
    clock.set(Timestamp::from_millis(100_000 + TOLD_MS));
    compact(&database);
    assert_eq!(decoded(&mut client, 0).await, [&c, &a, &d, &last].map(Clone::clone));
    drop(database);
    let world = world.restart().await;
    assert_eq!(decoded(&mut world.client().await, 0).await, [c, a, d, last]);
}
