//! Readers accept compressed batches in the form that Kafka's clients write. Embedded producers
//! compress with their topic's codec.

use std::io::Write;
use std::ops::ControlFlow;

use quire::streams::wire::{Batch, BatchBuilder, BatchRecord, Codec, HEADER_BYTES, PREFIX_BYTES};
use quire::streams::{Command, TopicChanges, TopicRef, TopicSettings};
use quire::{Builder, Commit, Database, Durability, ErrorKind, Message, Part, Profile, ReadView, Sequence};

use crate::support::Place;

const VALUES: [&str; 3] = ["Newark", "Houston", "Chicago"];

/// Returns a batch whose records are these bytes, under this codec. Its checksum is wrong, and is
/// not checked.
fn batch(codec: u8, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for value in VALUES {
        builder.add(Some(b"key"), Some(value.as_bytes()), &[], 1000).expect("room");
    }
    let mut bytes = builder.finish().expect("records").bytes().to_vec();
    let records = bytes.split_off(HEADER_BYTES);
    bytes[22] = codec;
    bytes.extend(compress(&records));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("memory")
}

/// Frames bytes as snappy-java does, in two blocks.
fn snappy_java(bytes: &[u8]) -> Vec<u8> {
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in bytes.chunks(bytes.len().div_ceil(2)) {
        let block = snappy(block);
        framed.extend(u32::try_from(block.len()).expect("short").to_be_bytes());
        framed.extend(block);
    }
    framed
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("memory")
}

#[test]
fn every_codec_is_read_and_an_unknown_one_is_an_error_after_the_readable_records() {
    let place = Place::new();
    let database = place.open(Durability::Os);
    let written = [batch(1, gzip), batch(2, snappy), batch(2, snappy_java), batch(3, lz4), batch(4, zstd)];
    let garbage: Vec<Vec<u8>> = (1..=4).map(|codec| batch(codec, |_| b"no codec wrote this".to_vec())).collect();
    for bytes in written.iter().chain(&garbage) {
        let batch = Batch::stored(bytes);
        let command = Command::Produce { topic: TopicRef::Name("t"), partition: 0, batch, create_partitions: Some(1) };
        database.commit(&Commit::new().part(Part::Streams(command))).expect("no error").committed().expect("taken");
    }
    drop(database);
    let database = place.open(Durability::Os);
    let read = database.topic("t").fetch(0, Sequence::new(1), 1 << 20).expect("records");
    let values: Vec<String> = read
        .records
        .iter()
        .map(|record| String::from_utf8(record.value.clone().expect("a value")).expect("text"))
        .collect();
    let all: Vec<&str> = written.iter().flat_map(|_| VALUES).collect();
    assert_eq!(values, all[1..]);
    assert_eq!(read.next_offset, Sequence::new(15));
    for at in (15..27).step_by(3) {
        let error = database.topic("t").fetch(0, Sequence::new(at), 1 << 20).expect_err("garbage");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(&format!("the batch at offset {at}")), "{error}");
    }
}

#[test]
fn a_batch_that_opens_to_too_much_is_refused() {
    let zeros = vec![0; quire::OPENED_BYTES_MAX + 1];
    let long_claim = |_: &[u8]| b"\xff\xff\xff\xff\x0f".to_vec();
    for bytes in [batch(1, |_| gzip(&zeros)), batch(4, |_| zstd(&zeros)), batch(2, long_claim)] {
        let error = quire::open_batch(&Batch::stored(&bytes)).expect_err("too much");
        assert!(error.to_string().contains("exceed"), "{error}");
    }
}

/// Returns the batches of two producers to a topic with this codec, which compresses batches of any
/// length. Checks whether the batches are smaller as a result.
fn written_with(codec: Codec) -> Vec<(Codec, Vec<String>)> {
    let place = Place::new();
    let database = place.builder(Durability::Os).compress_bytes_min(0).open().expect("opened");
    let settings = TopicSettings { compression: codec, ..TopicSettings::default() };
    database.topic("t").create_with(1, settings).expect("created");
    let long = "again and ".repeat(100);
    let mut producer = database.topic("t").producer();
    producer.produce(&[Message::new(&long).key("k"), Message::new("b")]).expect("produced");
    producer.produce(&[Message::new(&long)]).expect("produced");
    producer.produce(&[Message::new("short")]).expect("produced");
    let commit = Commit::new().produce("t", Message::new(&long)).produce("other", Message::new(&long));
    database.commit(&commit).expect("no error").committed().expect("accepted");
    drop(database);
    let database = place.open(Durability::Os);
    let topics = database.read(|view| ["t", "other"].map(|name| view.streams.topic_named(name).expect("a topic").id));
    let [t, other] = topics.expect("no error").wait().expect("no error");
    let mut batches = Vec::new();
    for topic in [t, other] {
        let partition =
            database.read_published(|view| view.streams.partition(topic, 0).expect("a partition")).expect("ok");
        let fetched = partition.fetch(&database.history(), Sequence::new(0), usize::MAX, &mut |stored| {
            let prefix = stored.batch.prefix(stored.base_offset, 0);
            let sent = [&prefix[..], &stored.batch.bytes()[PREFIX_BYTES..]].concat();
            Batch::parse(&sent).expect("a batch as it may be sent to anyone");
            let opened = quire::open_batch(&stored.batch).expect("it opens");
            let value =
                |record: BatchRecord<'_>| String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
            let values: Vec<String> =
                stored.batch.records_from(&opened).map(|record| value(record.expect("whole"))).collect();
            batches.push((stored.batch.codec(), values));
            ControlFlow::Continue(())
        });
        fetched.expect("readable");
    }
    let long = || vec![long.clone()];
    let expected = [vec![long()[0].clone(), "b".into()], long(), vec!["short".into()], long(), long()];
    assert_eq!(batches.iter().map(|(_, values)| values.clone()).collect::<Vec<_>>(), expected);
    batches
}

#[test]
fn embedded_producers_compress_with_the_codec_of_their_topic_where_it_helps() {
    for codec in Codec::ALL {
        let codecs: Vec<Codec> = written_with(codec).into_iter().map(|(codec, _)| codec).collect();
        assert_eq!(codecs, [codec, codec, Codec::None, codec, Codec::None]);
    }
}

/// Returns, for each batch in the topic's first partition, the codec and the size of the
/// decompressed records.
fn batches(database: &Database, topic: &str) -> Vec<(Codec, usize)> {
    let look = |view: &ReadView<'_>| {
        let topic = view.streams.topic_named(topic).expect("a topic").id;
        view.streams.partition(topic, 0).expect("a partition")
    };
    let partition = database.read_published(look).expect("ok");
    let mut batches = Vec::new();
    let fetched = partition.fetch(&database.history(), Sequence::new(0), usize::MAX, &mut |stored| {
        batches.push((stored.batch.codec(), quire::open_batch(&stored.batch).expect("it opens").len()));
        ControlFlow::Continue(())
    });
    fetched.expect("readable");
    batches
}

/// A change to the builder of a database.
type Change = fn(Builder) -> Builder;

#[test]
fn every_producer_compresses_batches_from_the_length_of_the_setting() {
    let settings = TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() };
    let said: [(usize, Change); 3] = [
        (4096, |builder| builder),
        (512, |builder| builder.profile(Profile::SmallDisk)),
        (100, |builder| builder.compress_bytes_min(100)),
    ];
    for (bytes_min, say) in said {
        let place = Place::new();
        let database = say(place.builder(Durability::Os)).open().expect("opened");
        for topic in ["by-producer", "by-commit"] {
            database.topic(topic).create_with(1, settings).expect("created");
        }
        let topic = database.topic("by-producer");
        let mut producer = topic.producer();
        // A record is a few bytes longer than its value.
        for bytes in bytes_min - 20..bytes_min {
            let value = vec![b'a'; bytes];
            producer.produce(&[Message::new(&value)]).expect("produced");
            let commit = Commit::new().produce("by-commit", Message::new(&value));
            database.commit(&commit).expect("no error").committed().expect("accepted");
        }
        for topic in ["by-producer", "by-commit"] {
            let batches = batches(&database, topic);
            let expected = |bytes| if bytes < bytes_min { Codec::None } else { Codec::Zstd };
            assert!(batches.iter().all(|(codec, bytes)| *codec == expected(*bytes)), "{bytes_min}: {batches:?}");
            let longest_not: Vec<_> = batches.iter().filter(|(codec, _)| *codec == Codec::None).collect();
            assert_eq!(longest_not.last(), Some(&&(Codec::None, bytes_min - 1)), "{batches:?}");
            assert!(batches.contains(&(Codec::Zstd, bytes_min)), "{batches:?}");
        }
    }
}

#[test]
fn records_that_many_threads_compress_are_read_unchanged() {
    let place = Place::new();
    let database = place.builder(Durability::Os).segment_bytes(1 << 20).compress_bytes_min(0).open().expect("opened");
    let settings = TopicSettings { compression: Codec::Zstd, ..TopicSettings::default() };
    let (threads, each) = (8, 40);
    database.topic("t").create_with(threads, settings).expect("created");
    let value = |thread: u32, number: usize| format!("{thread} wrote {number} ").repeat(1 + (number * 37) % 900);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let database = &database;
            scope.spawn(move || {
                let topic = database.topic("t");
                let mut producer = topic.producer();
                for number in 0..each {
                    let value = value(thread, number);
                    producer.produce(&[Message::new(&value).partition(thread)]).expect("produced");
                }
            });
        }
    });
    for thread in 0..threads {
        let read = database.topic("t").fetch(thread, Sequence::new(0), usize::MAX).expect("records");
        let read: Vec<_> = read.records.into_iter().map(|record| record.value.expect("a value")).collect();
        let expected: Vec<_> = (0..each).map(|number| value(thread, number).into_bytes()).collect();
        assert_eq!(read, expected, "{thread}");
    }
}

#[test]
fn a_codec_that_is_changed_is_used_from_the_next_look_on_by_every_process() {
    let place = Place::new();
    let (here, there) = (place.open(Durability::Os), place.open(Durability::Os));
    let long = "again and ".repeat(1000);
    let mut producer = there.topic("t").producer();
    producer.produce(&[Message::new(&long)]).expect("produced");
    here.topic("t").alter(TopicChanges { compression: Some(Codec::Zstd), ..TopicChanges::default() }).expect("altered");
    // The reply to this batch reports the codec.
    producer.produce(&[Message::new(&long)]).expect("produced");
    producer.produce(&[Message::new(&long)]).expect("produced");
    there.topic("t").produce(Message::new(&long)).expect("produced");
    let statistics = there.topic("t").statistics().expect("a topic");
    assert_eq!(statistics.settings.compression, Codec::Zstd);
    let bytes = statistics.partitions[0].bytes;
    assert!((2 * long.len() as u64..3 * long.len() as u64).contains(&bytes), "{bytes}");
}
