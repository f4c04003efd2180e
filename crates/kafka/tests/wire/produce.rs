//! Produce requests, and the records that later fetches return.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::PartitionProduceData;
use kafka_protocol::messages::{ApiVersionsRequest, ProduceRequest, ProduceResponse};
use quire::streams::wire::{Batch, BatchBuilder, BatchError, Codec, HEADER_BYTES, PREFIX_BYTES};
use quire::streams::{Command, TimestampType, TopicChanges, TopicRef};
use quire::{Commit, Database, Durability, Outcome, Part, Sequence};
use quire_kafka::Settings;

use crate::support::{World, batch, batches, compressed, fetching, producing, resealed, values};

#[tokio::test]
async fn produced_records_are_fetched_with_their_offsets() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for (values, base_offset) in [(&["a", "b"][..], 0), (&["c"], 2), (&["d", "e", "f"], 3)] {
        let produced = client.produce("t", &batch(values)).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, base_offset));
    }
    let fetched = client.fetch("t", 0).await;
    let expected = ["a", "b", "c", "d", "e", "f"].iter().enumerate();
    assert_eq!(values(&fetched), expected.map(|(at, value)| (at as i64, (*value).to_owned())).collect::<Vec<_>>());
    assert_eq!((fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset), (6, 6, 0));
}

#[tokio::test]
async fn every_codec_comes_back_as_its_producer_wrote_it() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let mut sent = vec![batch(&["plain"])];
    sent.extend(
        [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd].map(|codec| compressed(codec as u8, &["x", "y"])),
    );
    for (batch, base_offset) in sent.iter().zip([0, 1, 3, 5, 7]) {
        assert_eq!(client.produce("t", batch).await.base_offset, base_offset);
    }
    let fetched = client.fetch("t", 0).await;
    let fetched = batches(fetched.records.as_deref().expect("records"));
    assert_eq!(fetched.len(), sent.len());
    for ((base, fetched), (sent, base_offset)) in fetched.iter().zip(sent.iter().zip([0, 1, 3, 5, 7])) {
        assert_eq!((*base, fetched.leader_epoch()), (base_offset, 0));
        assert_eq!(&fetched.bytes()[PREFIX_BYTES..], &sent[PREFIX_BYTES..]);
    }
}

#[tokio::test]
async fn a_records_field_may_hold_several_batches() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let two = [batch(&["a", "b"]), compressed(1, &["c"])].concat();
    assert_eq!(client.produce("t", &two).await.base_offset, 0);
    let fetched = client.fetch("t", 0).await;
    let fetched = batches(fetched.records.as_deref().expect("records"));
    assert_eq!(
        fetched.iter().map(|(base, batch)| (*base, batch.codec())).collect::<Vec<_>>(),
        [(0, Codec::None), (2, Codec::Gzip)]
    );
    // All of them, or none: the second is damaged.
    let mut damaged = two;
    *damaged.last_mut().expect("bytes") ^= 1;
    assert_eq!(client.produce("t", &damaged).await.error_code, ResponseError::CorruptMessage.code());
    assert_eq!(client.fetch("t", 3).await.high_watermark, 3);
}

#[tokio::test]
async fn each_error_of_a_producer_has_its_code() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let good = batch(&["a"]);
    let with =
        |at: usize, bytes: &[u8]| resealed(good.clone(), |batch| batch[at..at + bytes.len()].copy_from_slice(bytes));
    let mut damaged = good.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    for (records, code) in [
        (damaged, ResponseError::CorruptMessage),
        (with(16, &[1]), ResponseError::UnsupportedForMessageFormat),
        (with(16, &[0]), ResponseError::UnsupportedForMessageFormat),
        (with(22, &[5]), ResponseError::UnsupportedCompressionType),
        (with(22, &[0x08]), ResponseError::InvalidTimestamp),
        (with(22, &[0x20]), ResponseError::InvalidRecord),
        (with(22, &[0x10]), ResponseError::InvalidTxnState),
        (with(43, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]), ResponseError::UnknownProducerId),
        (with(43, &7i64.to_be_bytes()), ResponseError::InvalidRecord),
        (with(57, &2i32.to_be_bytes()), ResponseError::InvalidRecord),
        (good[..good.len() - 1].to_vec(), ResponseError::InvalidRecord),
        (good[..9].to_vec(), ResponseError::InvalidRecord),
        (Vec::new(), ResponseError::InvalidRecord),
    ] {
        let produced = client.produce("t", &records).await;
        assert_eq!((produced.error_code, produced.base_offset), (code.code(), -1), "{code:?}");
        assert!(produced.error_message.is_some_and(|message| !message.is_empty()), "{code:?}");
    }
    assert_eq!(client.fetch("t", 0).await.high_watermark, 0, "nothing of it is kept");
}

#[tokio::test]
async fn records_that_no_consumer_could_read_are_refused() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    // Two records of 13 bytes with one-byte numbers. The offset delta is byte 3 of the first
    // record, and byte 16 is that of the second.
    let good = batch(&["abc", "def"]);
    assert_eq!(good.len(), HEADER_BYTES + 2 * 13);
    let with = |at: usize, byte: u8| resealed(good.clone(), |batch| batch[HEADER_BYTES + at] = byte);
    let noise = resealed(good.clone(), |batch| {
        batch.truncate(HEADER_BYTES);
        batch.extend([0xff; 30]);
    });
    let millions = |codec: u8| {
        resealed(noise.clone(), |batch| {
            batch.truncate(HEADER_BYTES + 20);
            batch[22] = codec;
            batch[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
            batch[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
        })
    };
    let mut poisoned = vec![
        ("noise", noise.clone()),
        ("a first delta of 1", with(3, 2)),
        ("a repeated delta", with(16, 0)),
        ("a delta left out", with(16, 4)),
        ("a record that ends late", with(0, 26)),
        ("bytes behind the last", resealed(good.clone(), |batch| batch.push(0))),
        ("a good batch, then noise", [good.clone(), noise.clone()].concat()),
    ];
    poisoned.extend((0..=4).map(|codec| ("millions of records in 20 bytes", millions(codec))));
    for (what, records) in poisoned {
        let produced = client.produce("t", &records).await;
        assert_eq!((produced.error_code, produced.base_offset), (ResponseError::InvalidRecord.code(), -1), "{what}");
        let message = produced.error_message.expect("a message");
        let is_named = message.contains("invalid record") || message.contains("can't be decompressed");
        assert!(is_named, "{what}: {message}");
    }
    assert_eq!(client.produce("t", &good).await.base_offset, 0, "nothing of it is kept");
}

#[tokio::test]
async fn a_program_with_the_database_learns_which_batch_is_unreadable_and_why() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a"])).await;
    client.produce("t", &compressed(Codec::Gzip as u8, &["b"])).await;
    // Commits take what this protocol refuses.
    let noise = resealed(batch(&["c"]), |batch| batch[HEADER_BYTES..].fill(0xff));
    let noise = Batch::parse(&noise).expect("a batch, as far as its header goes");
    let command = Command::Produce { topic: TopicRef::Name("t"), partition: 0, batch: noise, create_partitions: None };
    let outcome = world.database.submit(&Commit::new().part(Part::Streams(command))).expect("a commit").await;
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    for (offset, expected) in [
        (1, "in the batch at offset 1, the records can't be decompressed with gzip"),
        (2, "in the batch at offset 2, invalid record 0: expected a length within the batch"),
    ] {
        let error = world.database.topic("t").fetch(0, Sequence::new(offset), 1).expect_err("not to be read");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_refused_partition_does_not_hold_up_the_others() {
    let world = World::with(Settings { auto_create_partitions: 3, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let mut request = producing("t", 2, &batch(&["a"]));
    let partitions = &mut request.topic_data[0].partition_data;
    for index in [3, -1, 0] {
        let records = Some(Bytes::from(batch(&["b"])));
        partitions.push(PartitionProduceData::default().with_index(index).with_records(records));
    }
    let response = client.call(9, &request).await;
    let answered: Vec<_> =
        response.responses[0].partition_responses.iter().map(|it| (it.index, it.error_code, it.base_offset)).collect();
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    assert_eq!(answered, [(2, 0, 0), (3, unknown, -1), (-1, unknown, -1), (0, 0, 0)]);
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_unknown() {
    let world = World::new().await;
    let mut client = world.client().await;
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    assert_eq!(client.produce("t", &batch(&["a"])).await.error_code, unknown);
    assert_eq!(client.fetch("t", 0).await.error_code, unknown);
}

#[tokio::test]
async fn a_batch_larger_than_a_commit_is_too_large() {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = Database::builder(directory.path()).durability(Durability::Os).commit_bytes_max(4096);
    let database = builder.open().expect("a database");
    let world = World::over(directory, database, Settings::default()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let produced = client.produce("t", &batch(&[&"x".repeat(5000)])).await;
    assert_eq!(produced.error_code, ResponseError::MessageTooLarge.code());
    assert_eq!(client.produce("t", &batch(&["a"])).await.error_code, 0);
}

#[tokio::test]
async fn acks_decide_which_producers_get_a_response() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let with_acks = |acks| producing("t", 0, &batch(&["a"])).with_acks(acks);
    for acks in [-1, 1] {
        assert_eq!(client.call(9, &with_acks(acks)).await.responses[0].partition_responses[0].error_code, 0);
    }
    let refused = client.call(9, &with_acks(2)).await;
    let code = refused.responses[0].partition_responses[0].error_code;
    assert_eq!(code, ResponseError::InvalidRequiredAcks.code());

    // The first request gets no response, so the next response belongs to the second.
    client.send(9, &with_acks(0)).await;
    client.call(3, &ApiVersionsRequest::default()).await;
    assert_eq!(client.fetch("t", 0).await.high_watermark, 3);

    client.send(9, &producing("nowhere", 0, &batch(&["a"])).with_acks(0)).await;
    assert!(client.is_closed().await, "a producer that wants no answer learns of a refusal by the end");
    world.counted(|counts| counts.closed_unacknowledged == 1).await;
}

#[tokio::test]
async fn pipelined_requests_are_processed_and_answered_in_order() {
    let world = World::new().await;
    let mut client = world.client().await;
    // The first request creates the topic that the others need.
    let mut sent = vec![client.send(12, &crate::support::about("t")).await];
    for value in 0..300 {
        sent.push(client.send(9, &producing("t", 0, &batch(&[&value.to_string()]))).await);
    }
    let fetch_id = client.send(12, &fetching("t", 0)).await;
    let last_id = client.send(9, &producing("t", 0, &batch(&["last"]))).await;

    let metadata = client.receive::<kafka_protocol::messages::MetadataResponse>(12).await;
    assert_eq!((metadata.0, metadata.1.topics[0].error_code), (sent[0], 0));
    for (offset, id) in sent[1..].iter().enumerate() {
        let (received, response) = client.receive::<ProduceResponse>(9).await;
        assert_eq!(received, *id);
        assert_eq!(response.responses[0].partition_responses[0].base_offset, offset as i64);
    }
    let (received, fetched) = client.receive::<kafka_protocol::messages::FetchResponse>(12).await;
    assert_eq!(received, fetch_id);
    let partition = &fetched.responses[0].partitions[0];
    assert_eq!((partition.high_watermark, values(partition).len()), (300, 300));
    assert_eq!(client.receive::<ProduceResponse>(9).await.0, last_id);
}

#[tokio::test]
async fn a_restart_keeps_what_was_acknowledged() {
    let world = World::new().await;
    let mut client = world.client().await;
    let topic_id = client.topic("t").await.topic_id;
    client.produce("t", &batch(&["a", "b"])).await;
    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(client.topic("t").await.topic_id, topic_id);
    assert_eq!(client.produce("t", &batch(&["c"])).await.base_offset, 2);
    let kept = values(&client.fetch("t", 0).await);
    assert_eq!(kept, [(0, "a".to_owned()), (1, "b".to_owned()), (2, "c".to_owned())]);
}

#[tokio::test]
async fn a_synced_database_answers_pipelined_producers_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::builder(directory.path()).durability(Durability::Sync).open().expect("a database");
    let world = World::over(directory, database, Settings::default()).await;
    let mut client = world.client().await;
    client.topic("t").await;
    let request: ProduceRequest = producing("t", 0, &batch(&["a"]));
    for _ in 0..200 {
        client.send(9, &request).await;
    }
    for offset in 0..200 {
        let (_, response) = client.receive::<ProduceResponse>(9).await;
        assert_eq!(response.responses[0].partition_responses[0].base_offset, offset);
    }
}

/// A batch of one record with this time.
fn at_time(timestamp_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.add(Some(b"key"), Some(b"value"), &[], timestamp_ms).expect("room");
    builder.finish().expect("a record").bytes().to_vec()
}

#[tokio::test]
async fn a_time_too_far_from_now_is_refused() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let now_ms = i64::try_from(world.database.now().as_millis()).expect("a time");
    let (minute, hour) = (60_000, 3_600_000);
    let year_9999_ms = 253_370_764_800_000;
    for (timestamp_ms, expected) in [
        (now_ms, None),
        (-1, None),
        (0, None),
        (now_ms + hour - minute, None),
        (now_ms + hour + minute, Some(ResponseError::InvalidTimestamp)),
        (now_ms * 1_000, Some(ResponseError::InvalidTimestamp)),
        (year_9999_ms, Some(ResponseError::InvalidTimestamp)),
    ] {
        let response = client.produce("t", &at_time(timestamp_ms)).await;
        assert_eq!(ResponseError::try_from_code(response.error_code), expected, "{timestamp_ms}");
    }
    // The limits are settings of the topic, and hold for every front end.
    let changes = TopicChanges {
        timestamp_after_max_ms: Some(i64::MAX as u64),
        timestamp_before_max_ms: Some(3_600_000),
        ..TopicChanges::default()
    };
    world.database.topic("t").alter(changes).expect("altered");
    for (timestamp_ms, expected) in [
        (year_9999_ms, None),
        (now_ms - hour + minute, None),
        (now_ms - hour - minute, Some(ResponseError::InvalidTimestamp)),
        (-1, None),
    ] {
        let response = client.produce("t", &at_time(timestamp_ms)).await;
        assert_eq!(ResponseError::try_from_code(response.error_code), expected, "{timestamp_ms}");
    }
}

#[tokio::test]
async fn a_topic_may_give_its_records_the_time_of_their_arrival() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let changes = TopicChanges { timestamp_type: Some(TimestampType::LogAppendTime), ..TopicChanges::default() };
    world.database.topic("t").alter(changes).expect("altered");
    let before_ms = i64::try_from(world.database.now().as_millis()).expect("a time");
    let year_9999_ms = 253_370_764_800_000;
    for (offset, sent) in [at_time(1_000), at_time(year_9999_ms), compressed(2, &["a", "b"])].iter().enumerate() {
        let produced = client.produce("t", sent).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, offset as i64));
        assert!(produced.log_append_time_ms >= before_ms, "{produced:?}");
    }
    let fetched = client.fetch("t", 0).await;
    let records = fetched.records.expect("records");
    let mut rest = &records[..];
    let mut found = 0;
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let (bytes, more) = rest.split_at(12 + length);
        // A producer may not send such a batch. The checksum is checked first, so it is right.
        assert_eq!(Batch::parse(bytes).err(), Some(BatchError::AppendTime));
        let batch = Batch::stored(bytes);
        assert!((before_ms..year_9999_ms).contains(&batch.max_timestamp_ms()), "{batch:?}");
        (rest, found) = (more, found + 1);
    }
    assert_eq!(found, 3);
}
