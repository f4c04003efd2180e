//! The writer of a compacted segment.
//!
//! The segment contains the surviving entries of a run, under their old places. It also contains
//! the numbers that each tag had reached, so that no number is given twice even when all entries of
//! a tag were dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use quire_model::{Entry, NewEntry, SequenceRequest};

use super::Survival;
use crate::mark::Term;
use crate::record::{ALIGNMENT, EntryHeader, EntryLayout, HEADER_BYTES, RecordHeader, RecordKind, RecordView};
use crate::sealed::{Numbers, TagNumbers, numbers_encoded};
use crate::segment::{COMPACTED_HEADER_BYTES, CompactedRange, SegmentHeader};

/// See the module.
#[derive(Debug)]
pub(crate) struct RemainsWriter {
    bytes: Vec<u8>,
    chain: u32,
    /// The term of the last record, whatever is left of it.
    term: Term,
    records: u32,
    /// Whether an entry was dropped or rewritten.
    changed: bool,
    numbers: BTreeMap<Vec<u8>, Numbers>,
}

impl RemainsWriter {
    /// An empty segment that follows a record with the checksum `previous`.
    pub(crate) fn new(previous: u32) -> Self {
        RemainsWriter {
            bytes: vec![0; COMPACTED_HEADER_BYTES],
            chain: previous,
            term: Term::UNSTORED,
            records: 0,
            changed: false,
            numbers: BTreeMap::new(),
        }
    }

    /// Adds the numbers of the next segment's tags.
    pub(crate) fn count(&mut self, all: &[TagNumbers<'_>]) {
        for TagNumbers { tag, first, next, position } in all {
            let fresh = Numbers { first: *first, next: *next, position: *position };
            self.numbers.entry(tag.as_bytes().to_vec()).and_modify(|known| known.next = *next).or_insert(fresh);
        }
    }

    /// Adds the surviving entries of the next record. Returns the count of dropped entries.
    pub(crate) fn add(&mut self, record: RecordView<'_>, survivals: &[Survival]) -> u64 {
        assert_eq!(record.header.entries as usize, survivals.len(), "one answer for each entry");
        debug_assert!(record.header.term >= self.term, "terms never fall");
        self.term = record.header.term;
        self.changed |= survivals.iter().any(|survival| *survival != Survival::Whole);
        let survives = |entry: u32| survivals[entry as usize] != Survival::Nothing;
        let kept = (0..record.header.entries).filter(|entry| survives(*entry)).count() as u32;
        if kept > 0 {
            let begin = self.bytes.len();
            self.bytes.resize(begin + HEADER_BYTES, 0);
            for entry in (0..record.header.entries).filter(|entry| survives(*entry)) {
                self.bytes.extend_from_slice(&record.index_of(entry).to_le_bytes());
            }
            let mut own_parts = Vec::new();
            for ((offset, entry), survival) in record.entries().zip(survivals) {
                match survival {
                    Survival::Nothing => {}
                    Survival::Whole => {
                        own_parts.extend(record.own_part_at(offset, self.bytes.len() - begin));
                        self.bytes.extend_from_slice(record.entry_bytes(offset));
                    }
                    Survival::Body(body) => own_parts.extend(self.rewrite(&entry, body, begin)),
                }
            }
            self.seal(begin, RecordKind::Remains, RecordHeader { entries: kept, ..record.header }, &own_parts);
        }
        u64::from(record.header.entries - kept)
    }

    /// Writes an entry with another body to the end of the record that begins at `begin`. Returns
    /// the part with its own checksum, as a range in that record.
    fn rewrite(&mut self, entry: &Entry<'_>, body: &[u8], begin: usize) -> Option<Range<usize>> {
        let tags: Vec<_> = entry.tags.iter().collect();
        // The origin of the tag's numbers no longer matters: this entry has a number.
        let sequenced = entry.sequence.map(|origin| SequenceRequest { origin, count: entry.count });
        let new = NewEntry { kind: entry.kind, tags: &tags, sequenced, body: &[body] };
        let (layout, at) = (EntryLayout::of(&new, None), self.bytes.len());
        self.bytes.resize(at + layout.length, 0);
        layout.write(&new, entry.sequence, &mut self.bytes[at..]);
        let written = EntryHeader::parse(&self.bytes[at..]).expect("a written entry is sound");
        assert_eq!(written.length, layout.length, "an entry fills its space");
        written.own_part(at - begin).map(|(part, _)| part)
    }

    fn seal(&mut self, begin: usize, kind: RecordKind, header: RecordHeader, own_parts: &[Range<usize>]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let record = &mut self.bytes[begin..];
        let length = u32::try_from(record.len()).expect("a compacted segment is shorter than 4 GiB");
        self.chain = RecordHeader { length, previous: self.chain, ..header }.seal_as(kind, record, own_parts);
        debug_assert!(RecordView::verify(&self.bytes[begin..]).is_ok(), "a sealed record verifies");
        self.records += 1;
    }

    /// Returns the whole file, and its header. `of` describes the segment except for its length.
    pub(crate) fn finish(mut self, of: SegmentHeader, compacted: CompactedRange) -> (Vec<u8>, SegmentHeader) {
        assert!(of.first <= compacted.end, "segment {} ends at {}", of.first, compacted.end);
        let begin = self.bytes.len();
        let numbers = numbers_encoded(self.numbers.iter().map(|(tag, numbers)| (tag.as_slice(), *numbers)));
        self.bytes.resize(begin + HEADER_BYTES, 0);
        let length = u32::try_from(numbers.len()).expect("the numbers of a segment take less than 4 GiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&numbers);
        let header = RecordHeader {
            crc: 0,
            length: 0,
            position: compacted.end,
            time: compacted.last_time,
            previous: 0,
            term: self.term,
            entries: 0,
        };
        self.seal(begin, RecordKind::Numbers, header, &[]);
        assert!(self.bytes.len().is_multiple_of(ALIGNMENT), "{} bytes are not padded", self.bytes.len());
        let bytes = self.bytes.len() as u64;
        let compacted = CompactedRange { records: self.records, ..compacted };
        let header = SegmentHeader { bytes, compacted: Some(compacted), ..of };
        self.bytes[..COMPACTED_HEADER_BYTES].copy_from_slice(&header.encode_compacted(compacted));
        (self.bytes, header)
    }

    /// Whether an entry was dropped or rewritten.
    pub(crate) fn changed(&self) -> bool {
        self.changed
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
