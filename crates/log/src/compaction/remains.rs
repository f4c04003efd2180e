//! What a compaction leaves of a run of segments, being put together: the entries that survive, under their old places, and
//! the numbers that the tags had reached, so that none is given twice though every entry of a tag may be gone.

use std::collections::BTreeMap;
use std::ops::Range;

use quire_model::{Entry, NewEntry, Sequenced};

use super::Survival;
use crate::mark::Term;
use crate::record::{ALIGNMENT, EntryHeader, EntryLayout, HEADER_BYTES, RecordHeader, RecordKind, RecordView};
use crate::sealed::{Numbered, Numbers, numbers_encoded};
use crate::segment::{COMPACTED_HEADER_BYTES, Compacted, SegmentHeader};

/// See the module.
#[derive(Debug)]
pub(super) struct Remains {
    bytes: Vec<u8>,
    chain: u32,
    /// The term of the last record, whatever is left of it.
    term: Term,
    records: u32,
    /// Whether any entry was dropped or rewritten.
    changed: bool,
    numbers: BTreeMap<Vec<u8>, Numbers>,
}

impl Remains {
    /// Nothing yet of segments that follow the record with this checksum.
    pub(super) fn new(previous: u32) -> Self {
        Remains {
            bytes: vec![0; COMPACTED_HEADER_BYTES],
            chain: previous,
            term: Term::ALONE,
            records: 0,
            changed: false,
            numbers: BTreeMap::new(),
        }
    }

    /// Takes in what the numbers of the next segment were.
    pub(super) fn count(&mut self, all: &[Numbered<'_>]) {
        for Numbered { tag, first, next, position } in all {
            let fresh = Numbers { first: *first, next: *next, position: *position };
            self.numbers.entry(tag.as_bytes().to_vec()).and_modify(|known| known.next = *next).or_insert(fresh);
        }
    }

    /// Takes in what survives of the entries of the next record; says how many were dropped.
    pub(super) fn take_in(&mut self, record: RecordView<'_>, survivals: &[Survival]) -> u64 {
        debug_assert_eq!(record.header.entries as usize, survivals.len());
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

    /// Writes an entry with another body behind the others of the record that begins at `begin`; gives back where in that record
    /// the part is that has a checksum of its own.
    fn rewrite(&mut self, entry: &Entry<'_>, body: &[u8], begin: usize) -> Option<Range<usize>> {
        let tags: Vec<_> = entry.tags.iter().collect();
        // Where the tag's numbers begin is of no concern any more: this entry has one.
        let sequenced = entry.sequence.map(|origin| Sequenced { origin, count: entry.count });
        let new = NewEntry { kind: entry.kind, tags: &tags, sequenced, body: &[body] };
        let (layout, at) = (EntryLayout::of(&new, None), self.bytes.len());
        self.bytes.resize(at + layout.length, 0);
        layout.write(&new, entry.sequence, &mut self.bytes[at..]);
        let written = EntryHeader::parse(&self.bytes[at..]).expect("an entry that was written can be read");
        written.own_part(at - begin).map(|(part, _)| part)
    }

    fn seal(&mut self, begin: usize, kind: RecordKind, header: RecordHeader, own_parts: &[Range<usize>]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let record = &mut self.bytes[begin..];
        let length = u32::try_from(record.len()).expect("a compacted segment is shorter than 4 GiB");
        self.chain = RecordHeader { length, previous: self.chain, ..header }.seal_as(kind, record, own_parts);
        self.records += 1;
    }

    /// The whole file, of the segment that `of` describes but for its length, and its header.
    pub(super) fn finish(mut self, of: SegmentHeader, compacted: Compacted) -> (Vec<u8>, SegmentHeader) {
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
        let bytes = self.bytes.len() as u64;
        let compacted = Compacted { records: self.records, ..compacted };
        let header = SegmentHeader { bytes, compacted: Some(compacted), ..of };
        self.bytes[..COMPACTED_HEADER_BYTES].copy_from_slice(&header.encode_compacted(compacted));
        (self.bytes, header)
    }

    /// Whether anything is other than it was.
    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// How many bytes are there so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
