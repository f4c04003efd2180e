//! Records as bytes: reading returns the written record, and rejects all other bytes.

use proptest::prelude::*;
use quire_model::{
    BodyChecksum, EntryKind, ModelId, NewEntry, Place, Position, Sequence, SequenceRequest, Tag, Timestamp,
};

use crate::checksum::crc32c;
use crate::mark::Term;

use super::{ALIGNMENT, EntryLayout, HEADER_BYTES, RECORD_BYTES_MIN, RecordFault, RecordHeader, RecordView};

#[derive(Debug, Clone)]
struct EntrySample {
    kind: (u8, u8),
    tags: Vec<Vec<u8>>,
    sequenced: Option<(u64, u32)>,
    body: Vec<Vec<u8>>,
    /// Whether the last piece of the body comes with its checksum.
    summed: bool,
}

fn bytes(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), lengths)
}

fn entry_sample() -> impl Strategy<Value = EntrySample> {
    let tags = proptest::collection::vec(prop_oneof![9 => bytes(1..30), 1 => bytes(510..513)], 0..4);
    let sequenced = proptest::option::of((any::<u64>(), 1..=u32::MAX));
    let body = proptest::collection::vec(bytes(0..60), 0..4);
    (any::<(u8, u8)>(), tags, sequenced, body, any::<bool>()).prop_map(|(kind, tags, sequenced, body, summed)| {
        let sequenced = sequenced.filter(|_| !tags.is_empty());
        EntrySample { kind, tags, sequenced, body, summed }
    })
}

/// Returns the sealed record of these entries.
fn sealed(header: RecordHeader, entries: &[EntrySample]) -> Vec<u8> {
    let mut record = vec![0; HEADER_BYTES];
    let mut own_parts = Vec::new();
    for sample in entries {
        let tags: Vec<Tag<'_>> = sample.tags.iter().map(|tag| Tag::new(tag)).collect();
        let body: Vec<&[u8]> = sample.body.iter().map(Vec::as_slice).collect();
        let new = NewEntry {
            kind: EntryKind { model: ModelId::new(sample.kind.0), kind: sample.kind.1 },
            tags: &tags,
            sequenced: sample.sequenced.map(|(_, count)| SequenceRequest { origin: Sequence::new(0), count }),
            body: &body,
        };
        let last = body.last().copied().unwrap_or_default();
        let layout =
            EntryLayout::of(&new, sample.summed.then(|| BodyChecksum { crc32c: crc32c(last), bytes: last.len() }));
        let mut encoded = vec![0xFF; layout.length];
        layout.write(&new, sample.sequenced.map(|(first, _)| Sequence::new(first)), &mut encoded);
        record.extend(encoded);
        if sample.summed {
            own_parts.push(record.len() - last.len()..record.len());
        }
    }
    record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
    RecordHeader { length: record.len() as u32, entries: entries.len() as u32, ..header }.seal(&mut record, &own_parts);
    record
}

fn header() -> impl Strategy<Value = RecordHeader> {
    any::<(u64, u64, u32, u32)>().prop_map(|(position, time, previous, term)| RecordHeader {
        crc: 0,
        length: 0,
        position: Position::new(position),
        time: Timestamp::from_micros(time),
        previous,
        term: Term::new(term),
        entries: 0,
    })
}

proptest! {
    #[test]
    fn a_record_reads_back_as_written(
        header in header(),
        entries in proptest::collection::vec(entry_sample(), 1..5),
        behind in bytes(0..20),
    ) {
        let record = sealed(header, &entries);
        prop_assert!(record.len() >= RECORD_BYTES_MIN);
        let followed = [record.as_slice(), &behind].concat();
        let view = RecordView::verify(&followed).expect("it is whole");
        let found = view.header;
        prop_assert_eq!((found.position, found.time), (header.position, header.time));
        prop_assert_eq!((found.previous, found.term), (header.previous, header.term));
        prop_assert_eq!(view.entries().count(), entries.len());
        for (index, ((_, entry), sample)) in view.entries().zip(&entries).enumerate() {
            prop_assert_eq!(entry.place, Place::new(header.position, index as u32));
            prop_assert_eq!(entry.time, header.time);
            prop_assert_eq!((entry.kind.model.get(), entry.kind.kind), sample.kind);
            prop_assert_eq!(entry.sequence.map(|first| (first.get(), entry.count)), sample.sequenced);
            prop_assert!(entry.tags.iter().map(Tag::as_bytes).eq(sample.tags.iter().map(Vec::as_slice)));
            prop_assert_eq!(entry.body, sample.body.concat());
        }
    }

    #[test]
    fn a_record_with_a_flipped_bit_or_a_missing_byte_is_rejected(
        header in header(),
        entries in proptest::collection::vec(entry_sample(), 1..3),
    ) {
        let mut record = sealed(header, &entries);
        for bit in 0..record.len() * 8 {
            record[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RecordView::verify(&record).is_err(), "bit {}", bit);
            record[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..record.len() {
            prop_assert!(RecordView::verify(&record[..length]).is_err(), "{} bytes", length);
        }
        prop_assert!(RecordView::verify(&record).is_ok());
    }

    #[test]
    fn contradicting_entries_with_a_valid_checksum_are_rejected(
        header in header(),
        entries in proptest::collection::vec(entry_sample(), 1..3),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut record = sealed(header, &entries);
        let behind = record.len() - HEADER_BYTES;
        for (at, byte) in changes {
            record[HEADER_BYTES + at.index(behind)] = byte;
        }
        let length = record.len() as u32;
        RecordHeader { length, entries: entries.len() as u32, ..header }.seal(&mut record, &[]);
        match RecordView::verify(&record) {
            // The change was within the content of a model, or sample other sound entries.
            Ok(view) => prop_assert_eq!(view.entries().count(), entries.len()),
            Err(fault) => prop_assert_eq!(fault, RecordFault::Entries),
        }
    }
}
