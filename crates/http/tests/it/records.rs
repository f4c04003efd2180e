//! Records of compressed batches: a batch is decompressed only as far as the response needs, and
//! its size does not limit other reads.

use quire::streams::wire::{Batch, BatchBuilder, HEADER_BYTES};
use quire::streams::{Command, TopicRef};
use quire::{Commit, OPENED_BYTES_MAX, Part};
use serde_json::{Value, json};

use crate::served::Served;

/// How many zeros a block of Zstandard that takes four bytes stands for.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;

fn varint(out: &mut Vec<u8>, number: usize) {
    let mut zigzag = number << 1;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

/// A record with this index and a value of zeros, without its value and headers.
fn head(index: usize, zeros: usize) -> Vec<u8> {
    let mut body = vec![0];
    varint(&mut body, index);
    varint(&mut body, index);
    body.push(1);
    varint(&mut body, zeros);
    let mut record = Vec::new();
    varint(&mut record, body.len() + zeros + 1);
    record.extend(body);
    record
}

/// A batch of records whose values are multiples of [`BLOCK_BYTES`] zeros, compressed with
/// Zstandard.
pub(crate) fn batch(values: &[usize]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    values.iter().for_each(|_| builder.add(None, None, &[], 1000).expect("room"));
    let mut batch = builder.finish().expect("a record").bytes()[..HEADER_BYTES].to_vec();
    batch[22] = 4;
    batch.extend([0x28, 0xb5, 0x2f, 0xfd, 0, 0x38]);
    let mut block = |kind: u32, bytes: usize, content: &[u8]| {
        batch.extend_from_slice(&(kind << 1 | (bytes as u32) << 3).to_le_bytes()[..3]);
        batch.extend_from_slice(content);
    };
    for (index, blocks) in values.iter().enumerate() {
        let head = head(index, blocks * BLOCK_BYTES);
        block(0, head.len(), &head);
        (0..*blocks).for_each(|_| block(1, BLOCK_BYTES, &[0]));
        block(0, 1, &[0]);
    }
    batch.extend_from_slice(&[1, 0, 0]);
    batch
}

impl Served {
    pub(crate) fn produce(&self, topic: &str, batch: &[u8]) {
        let batch = Batch::stored(batch);
        let command =
            Command::Produce { topic: TopicRef::Name(topic), partition: 0, batch, create_partitions: Some(1) };
        let database = self.database.as_ref().expect("open");
        database.commit(&Commit::new().part(Part::Streams(command))).expect("no error").committed().expect("taken");
    }
}

fn offsets(page: &Value) -> (Vec<u64>, u64) {
    let records = page["data"].as_array().expect("records");
    let offsets = records.iter().map(|record| record["offset"].as_u64().expect("an offset")).collect();
    (offsets, page["next_offset"].as_u64().expect("an offset"))
}

#[test]
fn a_batch_is_opened_as_far_as_an_answer_takes() {
    let served = Served::new();
    // The third record alone is more than is ever opened of a batch.
    served.produce("t", &batch(&[0, 1, OPENED_BYTES_MAX / BLOCK_BYTES, 0]));
    served.produce("t", &batch(&[0]));
    assert_eq!(offsets(&served.read("/v1/topics/t/partitions/0/records?limit=1")), (vec![0], 1));
    assert_eq!(offsets(&served.read("/v1/topics/t/partitions/0/records")), (vec![0, 1], 2));
    assert_eq!(offsets(&served.read("/v1/topics/t/partitions/0/records?timestamp_ms=1000&limit=2")), (vec![0, 1], 2));
    for offset in [2, 3] {
        let path = format!("/v1/topics/t/partitions/0/records?offset={offset}");
        let problem = served.fails("GET", &path, "", 400, "invalid");
        let message = problem["detail"].as_str().expect("a message");
        assert!(message.starts_with("batch at offset 0: the records exceed 268435456 bytes"), "{message}");
        assert_eq!((&problem["offset"], &problem["next_offset"]), (&json!(0), &json!(4)));
    }
    assert_eq!(offsets(&served.read("/v1/topics/t/partitions/0/records?offset=4")), (vec![4], 5));
}

#[test]
fn a_record_that_lies_deep_in_a_batch_is_read() {
    let served = Served::new();
    // Opened to 1 MiB there is the first record, to 8 the second, to 64 the third, and to more the
    // last two.
    served.produce("t", &batch(&[1, 20, 60, 1000, 0, 0]));
    for (offset, expected) in
        [(0, (vec![0], 1)), (1, (vec![1], 2)), (2, (vec![2], 3)), (4, (vec![4, 5], 6)), (5, (vec![5], 6))]
    {
        let page = served.read(&format!("/v1/topics/t/partitions/0/records?offset={offset}"));
        assert_eq!(offsets(&page), expected, "from {offset}");
    }
}

#[test]
fn a_response_has_a_bounded_size_of_records_and_at_least_one() {
    let served = Served::new();
    served.produce("t", &batch(&[1; 7]));
    served.write("/v1/commit", json!({"parts": [{"produce": {"topic": "t", "value": "x"}}]}));
    for (bytes_max, expected) in [
        (1, (vec![0], 1)),
        (2 * BLOCK_BYTES - 1, (vec![0], 1)),
        (2 * BLOCK_BYTES, (vec![0, 1], 2)),
        (8 * BLOCK_BYTES, (vec![0, 1, 2, 3, 4, 5, 6, 7], 8)),
    ] {
        let page = served.read(&format!("/v1/topics/t/partitions/0/records?bytes_max={bytes_max}"));
        assert_eq!(offsets(&page), expected, "{bytes_max}");
    }
}

#[test]
fn values_are_shown_in_the_form_that_a_read_asks_for() {
    let served = Served::new();
    let [text, bytes] =
        [json!({"value_text": "hello", "key": "k"}), json!({"value_base64": "/2E=", "key_base64": "/w=="})];
    for message in [json!({"value": 42}), text, bytes] {
        served.write("/v1/topics/t/records", message);
    }
    served.write("/v1/events/s/append", json!({"events": [{"type": "A", "data": {"n": 1}, "metadata_text": "m"}]}));
    let values = |form: &str| {
        let page = served.read(&format!("/v1/topics/t/partitions/0/records?as={form}"));
        let values = page["data"].as_array().expect("records").iter().map(|record| record["value"].clone());
        values.collect::<Vec<_>>()
    };
    assert_eq!(values("json"), [json!(42), json!("hello"), json!("\u{fffd}a")]);
    assert_eq!(values("text"), [json!("42"), json!("hello"), json!("\u{fffd}a")]);
    assert_eq!(values("base64"), [json!("NDI="), json!("aGVsbG8="), json!("/2E=")]);
    let event = served.read("/v1/events/s?as=text")["data"][0].clone();
    assert_eq!((&event["data"], &event["metadata"]), (&json!("{\"n\":1}"), &json!("m")));
    let read = served.write("/v1/events/s/read?as=base64", json!({}));
    assert_eq!(read["data"][0]["metadata"], "bQ==");
    for wrong in ["as=xml", "as=json&as=text", "as="] {
        served.fails("GET", &format!("/v1/events/s?{wrong}"), "", 400, "invalid");
    }
}
