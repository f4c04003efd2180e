//! Compressed batches, as Kafka's clients write them, are read like any others.

use std::io::Write;

use quire::streams::wire::{Batch, BatchBuilder, HEADER_BYTES};
use quire::streams::{Command, TopicRef};
use quire::{Commit, Durability, ErrorKind, Part, Sequence};

use crate::support::Place;

const VALUES: [&str; 3] = ["Newark", "Houston", "Chicago"];

/// A batch whose records were replaced by these bytes, under this codec. Its checksum is not right, and is not looked at.
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

/// The framing of snappy-java: two blocks.
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
fn every_codec_is_read_and_what_is_none_is_an_error_behind_what_can_be_read() {
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
        assert!(error.to_string().contains("more than"), "{error}");
    }
}
