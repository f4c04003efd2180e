//! The record batch format, from the outside: known bytes, refused bytes, and round trips of every
//! record.

use proptest::prelude::*;
use quire_model::Sequence;
use quire_streams::wire::{
    BATCH_BYTES_MAX, Batch, BatchBuilder, BatchError, BatchFull, Codec, CompressedBatch, HEADER_BYTES, Header,
    PREFIX_BYTES, RecordError,
};

const TIME: i64 = 1_700_000_000_000;

/// Three records, put together from Kafka's protocol guide by a few lines of Python with a CRC of
/// their own.
const KNOWN: &str = "
    0000000000000000 00000067 ffffffff 02 3e76def5
    0000 00000002 0000018bcfe56800 0000018bcfe5692c ffffffffffffffff ffff ffffffff 00000003
    46 00 00 00 06 4a464b 10 6465706172746564 04 08 74797065 0c 666c69676874 08 6e6f7465 01
    0c 00 09 02 01 00 00
    14 00 d804 04 06 4c4741 01 00";

fn known() -> Vec<u8> {
    let digits: Vec<u8> = KNOWN.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The CRC-32C, bit by bit: slow, and not the crate's own.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// The known batch with other bytes at `at`, its length and checksum made right again.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = known();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    sealed(batch)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn the_builder_writes_the_bytes_of_the_protocol_guide() {
    let mut builder = BatchBuilder::new();
    let headers = [Header::new("type", b"flight"), Header { key: b"note", value: None }];
    builder.add(Some(b"JFK"), Some(b"departed"), &headers, TIME).unwrap();
    builder.add(None, Some(b""), &[], TIME - 5).unwrap();
    builder.add(Some(b"LGA"), None, &[], TIME + 300).unwrap();
    assert_eq!(builder.record_count(), 3);
    assert_eq!(builder.finish().unwrap().bytes(), known());
}

#[test]
fn a_view_gives_every_field_and_every_record() {
    let bytes = known();
    let batch = Batch::parse(&bytes).unwrap();
    assert_eq!((batch.base_offset(), batch.leader_epoch(), batch.checksum()), (0, -1, 0x3e76_def5));
    assert_eq!((batch.codec(), batch.is_control(), batch.is_transactional()), (Codec::None, false, false));
    assert_eq!((batch.base_timestamp_ms(), batch.max_timestamp_ms()), (TIME, TIME + 300));
    assert_eq!((batch.producer_id(), batch.producer_epoch(), batch.base_sequence()), (-1, -1, -1));
    assert_eq!((batch.last_offset_delta(), batch.record_count()), (2, 3));

    let records: Vec<_> = batch.records().unwrap().map(Result::unwrap).collect();
    let parts: Vec<_> = records.iter().map(|r| (r.offset_delta, r.timestamp_ms, r.key, r.value)).collect();
    assert_eq!(
        parts,
        [
            (0, TIME, Some(&b"JFK"[..]), Some(&b"departed"[..])),
            (1, TIME - 5, None, Some(&b""[..])),
            (2, TIME + 300, Some(&b"LGA"[..]), None),
        ]
    );
    let headers: Vec<_> = records[0].headers.iter().collect();
    assert_eq!(headers, [Header::new("type", b"flight"), Header { key: b"note", value: None }]);
    assert!(records[1].headers.is_empty());
}

#[test]
fn an_idempotent_transactional_marker_shows_what_it_is() {
    let mut bytes = changed(43, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 3, 0, 0, 0, 40]);
    bytes[22] = 0b11_0000;
    let bytes = sealed(bytes);
    let batch = Batch::parse(&bytes).unwrap();
    assert_eq!((batch.producer_id(), batch.producer_epoch(), batch.base_sequence()), (7, 3, 40));
    assert!(batch.is_control() && batch.is_transactional());
}

#[test]
fn a_flip_of_any_bit_that_the_log_does_not_set_is_refused() {
    let good = known();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let set_by_the_log = (0..8).contains(&(bit / 8)) || (12..16).contains(&(bit / 8));
        assert_eq!(Batch::parse(&bytes).is_ok(), set_by_the_log, "bit {bit}");
    }
}

#[test]
fn cut_and_doubled_batches_are_refused() {
    let good = known();
    for length in 0..good.len() {
        assert!(Batch::parse(&good[..length]).is_err(), "{length} bytes");
    }
    let twice = [good.clone(), good].concat();
    assert_eq!(Batch::parse(&twice), Err(BatchError::Length { length: 103, length_met: 218 }));
}

#[test]
fn old_formats_are_refused_by_name() {
    let refused = Batch::parse(&changed(16, &[1])).unwrap_err();
    assert_eq!(refused, BatchError::Magic { magic: 1 });
    assert!(refused.to_string().contains("message format 1 is not supported"), "{refused}");
    // A message of format 0 or 1 may be shorter than a header of format 2.
    assert_eq!(Batch::parse(&[0; 30]), Err(BatchError::Magic { magic: 0 }));
}

#[test]
fn counts_that_disagree_are_refused() {
    let count = |count, last_offset_delta| BatchError::Count { count, last_offset_delta };
    assert_eq!(Batch::parse(&changed(57, &[0, 0, 0, 2])), Err(count(2, 2)));
    assert_eq!(Batch::parse(&changed(23, &[0, 0, 0, 3])), Err(count(3, 3)));
    assert_eq!(Batch::parse(&changed(57, &[0, 0, 0, 0])), Err(count(0, 2)));
    assert_eq!(Batch::parse(&changed(57, &[0xff; 4])), Err(count(-1, 2)));
    assert_eq!(Batch::parse(&changed(57, &[0x80, 0, 0, 0])), Err(count(i32::MIN, 2)));

    let mut billion = changed(23, &[0x3f, 0xff, 0xff, 0xff]);
    billion[57..61].copy_from_slice(&[0x40, 0, 0, 0]);
    let refused = BatchError::TooFewBytes { count: 1 << 30, records_bytes: 54 };
    assert_eq!(Batch::parse(&sealed(billion)), Err(refused));
}

/// A batch whose header states this number of records, compressed to this number of bytes.
fn of_compressed(codec: Codec, count: u32, records_bytes: usize) -> Vec<u8> {
    let mut bytes = changed(57, &count.to_be_bytes());
    bytes[22] = codec as u8;
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.resize(HEADER_BYTES + records_bytes, 0);
    sealed(bytes)
}

#[test]
fn compressed_bytes_hold_at_most_the_records_that_their_codec_can_expand_to() {
    // The most bytes that one compressed byte can expand to, by each format's own description.
    for (codec, bytes_per_byte) in [(Codec::Gzip, 1032), (Codec::Snappy, 22), (Codec::Lz4, 255), (Codec::Zstd, 32_768)]
    {
        let most = 20 * bytes_per_byte / 7;
        assert_eq!(Batch::parse(&of_compressed(codec, most, 20)).unwrap().record_count(), most, "{codec}");
        for count in [most + 1, i32::MAX as u32] {
            let refused = BatchError::TooFewBytes { count: count as i32, records_bytes: 20 };
            assert_eq!(Batch::parse(&of_compressed(codec, count, 20)), Err(refused), "{codec}");
        }
        assert!(Batch::parse(&of_compressed(codec, 1, 0)).is_err(), "no bytes, no record");
    }
}

#[test]
fn an_unreadable_batch_has_its_reason_in_a_sentence() {
    let compressed = CompressedBatch { codec: Codec::Gzip }.to_string();
    assert_eq!(compressed, "the records are compressed with gzip");
    let record = RecordError { index: 3, expected: "the end of the batch" }.to_string();
    assert_eq!(record, "invalid record 3: expected the end of the batch");
}

#[test]
fn a_compressed_batch_is_whole_but_closed() {
    for (number, codec) in [(1, Codec::Gzip), (2, Codec::Snappy), (3, Codec::Lz4), (4, Codec::Zstd)] {
        let mut bytes = known();
        bytes[22] = number;
        bytes.truncate(HEADER_BYTES);
        bytes.extend(b"not the records");
        let bytes = sealed(bytes);
        let batch = Batch::parse(&bytes).unwrap();
        assert_eq!(batch.codec(), codec);
        assert_eq!(batch.records().unwrap_err(), CompressedBatch { codec });
        let plain = known();
        let opened: Vec<_> = batch.records_from(&plain[HEADER_BYTES..]).collect();
        assert_eq!(opened, Batch::parse(&plain).unwrap().records().unwrap().collect::<Vec<_>>());
    }
    for number in 5..=7 {
        assert_eq!(Batch::parse(&changed(22, &[number])), Err(BatchError::Codec { number }));
    }
}

#[test]
fn records_with_append_time_all_have_the_time_of_the_append() {
    let bytes = changed(22, &[0b1000]);
    assert_eq!(Batch::parse(&bytes), Err(BatchError::AppendTime), "no producer says so");
    let records = Batch::stored(&bytes).records().unwrap();
    assert!(records.map(Result::unwrap).all(|record| record.timestamp_ms == TIME + 300));
}

#[test]
fn sending_a_batch_sets_the_fields_before_the_checksum_and_nothing_else() {
    let stored = known();
    let prefix = Batch::parse(&stored).unwrap().prefix(Sequence::new(41), 7);
    let sent = [&prefix, &stored[PREFIX_BYTES..]].concat();
    let batch = Batch::parse(&sent).unwrap();
    assert_eq!((batch.base_offset(), batch.leader_epoch(), batch.checksum()), (41, 7, 0x3e76_def5));
}

#[test]
fn an_omitted_checksum_is_added_when_a_batch_is_sent() {
    let mut builder = BatchBuilder::new();
    builder.add(Some(b"key"), Some(b"value"), &[], TIME).unwrap();
    let stored = builder.finish_without_checksum().unwrap();
    assert_eq!((stored.checksum(), Batch::parse(stored.bytes()).is_err()), (0, true));
    let sent = [&stored.prefix(Sequence::new(0), -1), &stored.bytes()[PREFIX_BYTES..]].concat();
    assert_eq!(Batch::parse(&sent).unwrap(), builder.finish().unwrap());
}

#[test]
fn records_that_disagree_with_their_batch_end_the_walk_with_an_error() {
    let errors = |bytes: &[u8]| {
        let records: Vec<_> = Batch::parse(bytes).unwrap().records().unwrap().collect();
        let (last, before) = records.split_last().unwrap();
        assert!(before.iter().all(Result::is_ok));
        last.unwrap_err()
    };
    let offset = "an offset after the previous one, within the batch";
    // The second record's offset delta, from 1 to 0, then to 3.
    assert_eq!(errors(&changed(100, &[0])), RecordError { index: 1, expected: offset });
    assert_eq!(errors(&changed(100, &[6])), RecordError { index: 1, expected: offset });
    let mut longer = known();
    longer.push(0);
    assert_eq!(errors(&sealed(longer)), RecordError { index: 3, expected: "the end of the batch" });
    assert_eq!(errors(&changed(97, &[14])).index, 1);
    assert_eq!(errors(&changed(101, &[3])), RecordError { index: 1, expected: "a key within the record" });
}

#[test]
fn an_empty_builder_makes_no_batch_and_a_cleared_one_starts_again() {
    let mut builder = BatchBuilder::new();
    assert_eq!(builder.finish(), None);
    builder.add(None, Some(&[1; 5000]), &[], TIME + 9).unwrap();
    assert_eq!(builder.bytes(), builder.finish().unwrap().bytes().len());
    builder.clear();
    assert_eq!((builder.bytes(), builder.finish()), (0, None));
    builder.add(None, Some(b"again"), &[], TIME).unwrap();
    let batch = builder.finish().unwrap();
    assert_eq!((batch.record_count(), batch.base_timestamp_ms(), batch.max_timestamp_ms()), (1, TIME, TIME));
    assert_eq!(Batch::parse(batch.bytes()), Ok(batch));
}

#[test]
fn a_record_that_does_not_fit_is_refused_and_the_batch_stays() {
    let megabyte = vec![7; 1 << 20];
    let headers = vec![Header { key: b"h", value: Some(&megabyte) }; 2048];
    let mut builder = BatchBuilder::new();
    builder.add(None, Some(b"small"), &[], TIME).unwrap();
    let bytes = builder.bytes();
    let BatchFull { bytes: refused } = builder.add(None, None, &headers, TIME).unwrap_err();
    assert!(refused > BATCH_BYTES_MAX);
    assert_eq!((builder.bytes(), builder.record_count()), (bytes, 1));
    assert!(Batch::parse(builder.finish().unwrap().bytes()).is_ok());

    let mut empty = BatchBuilder::new();
    empty.add(None, None, &headers, TIME).unwrap_err();
    assert_eq!((empty.bytes(), empty.finish()), (0, None));
}

type OwnedRecord = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>, i64);

fn record() -> impl Strategy<Value = OwnedRecord> {
    let bytes = || prop_oneof![8 => prop::collection::vec(any::<u8>(), 0..90), 1 => Just(vec![5; 9_000])];
    let time = prop_oneof![4 => TIME..TIME + 10_000, 1 => any::<i64>()];
    let header = (prop::collection::vec(any::<u8>(), 0..9), prop::option::of(bytes()));
    let headers = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(header, 0..3)];
    (prop::option::of(bytes()), prop::option::of(bytes()), headers, time)
}

proptest! {
    #[test]
    fn every_record_comes_back_as_it_went_in(records in prop::collection::vec(record(), 1..100)) {
        let mut builder = BatchBuilder::new();
        for (key, value, headers, time) in &records {
            let headers: Vec<_> = headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
            builder.add(key.as_deref(), value.as_deref(), &headers, *time).unwrap();
        }
        let bytes = builder.finish().unwrap().bytes().to_vec();
        let batch = Batch::parse(&bytes).unwrap();
        prop_assert_eq!(batch.checksum(), crc32c(&bytes[21..]));
        prop_assert_eq!(batch.max_timestamp_ms(), records.iter().map(|record| record.3).max().unwrap());
        let back: Vec<OwnedRecord> = batch
            .records()
            .unwrap()
            .map(Result::unwrap)
            .map(|record| {
                let headers = record.headers.iter().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)));
                let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                (key, value, headers.collect(), record.timestamp_ms)
            })
            .collect();
        prop_assert_eq!(back, records);
    }

    #[test]
    fn records_of_garbage_end_without_panic(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        at in 0usize..54,
        count in 1u8..20,
    ) {
        let mut bytes = known();
        bytes[26] = count - 1;
        bytes[60] = count;
        bytes.truncate(HEADER_BYTES + at);
        bytes.extend(&garbage);
        let batch = Batch::stored(&bytes);
        let mut walked = 0;
        for record in batch.records().unwrap().flatten() {
            prop_assert_eq!(record.headers.iter().count(), record.headers.len());
            walked += 1;
        }
        prop_assert!(walked <= usize::from(count));
    }

    #[test]
    fn random_bytes_are_refused_as_a_batch(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Batch::parse(&bytes).is_err());
    }
}
