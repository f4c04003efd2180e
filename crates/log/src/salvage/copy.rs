//! The new log of a salvage: segments that follow each other without gaps in positions and chain.

use std::collections::BTreeMap;

use quire_model::{Position, Sequence, Tag, Timestamp};

use crate::compaction::{RemainsWriter, Survival};
use crate::error::Result;
use crate::identity::Identity;
use crate::mark::Term;
use crate::packed::pack;
use crate::record::RecordView;
use crate::sealed::{Numbers, TagNumbers};
use crate::segment::{CompactedRange, SegmentHeader, segment_name};
use crate::storage::directory::Directory;

/// The size, in bytes, from which a rewritten segment is divided. A segment is shorter than 4 GiB,
/// and a surviving record is longer than the original.
const DIVIDED_FROM: usize = 1 << 30;

/// The highest number that a tag begins with.
const ORIGIN_MAX: u64 = 1;

/// The most numbers that a damaged entry is believed to take. A damaged count may be anything.
const STATED_MAX: u32 = 1 << 20;

/// See the module.
pub(super) struct Copy {
    directory: Directory,
    identity: Identity,
    /// The position after the last segment, and the checksum that the next segment names.
    pub(super) end: Position,
    pub(super) chain: u32,
    pub(super) time: Timestamp,
    pub(super) term: Term,
    /// The numbers that the tags have reached.
    pub(super) numbers: KeptNumbers,
    pub(super) copied: u64,
    pub(super) rewritten: u64,
}

/// The end of a segment: the facts that the next segment follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentEnd {
    /// The position after the segment.
    pub(super) end: Position,
    /// The checksum that the next segment names.
    pub(super) chain: u32,
    pub(super) time: Timestamp,
    pub(super) term: Term,
}

/// The numbers of tags.
#[derive(Debug, Default)]
pub(super) struct KeptNumbers(BTreeMap<Vec<u8>, Numbers>);

impl KeptNumbers {
    /// Adds the numbers of a record's entries.
    pub(super) fn add(&mut self, record: RecordView<'_>) {
        let position = record.header.position;
        for (_, entry) in record.entries() {
            if let (Some(first), Some(tag)) = (entry.sequence, entry.tags.first()) {
                let fresh = Numbers { first, next: entry.next_sequence(), position };
                self.raised(tag.as_bytes(), fresh);
            }
        }
    }

    /// Notes that a tag had reached the number `next` at `position`.
    pub(super) fn raise(&mut self, tag: &[u8], next: Sequence, position: Position) {
        self.raised(tag, Numbers { first: next, next, position });
    }

    /// Notes the numbers that an entry of the damaged record at `position` states, if they continue
    /// those of its tag: nothing else verifies them. `before` are the numbers of earlier segments.
    pub(super) fn raise_if_next(
        &mut self,
        tag: Tag<'_>,
        first: Sequence,
        count: u32,
        position: Position,
        before: &KeptNumbers,
    ) {
        let reached = self.next(tag.as_bytes()).or_else(|| before.next(tag.as_bytes()));
        let continues = reached.map_or(first.get() <= ORIGIN_MAX, |reached| reached == first);
        if continues && count <= STATED_MAX {
            self.raise(tag.as_bytes(), Sequence::new(first.get() + u64::from(count)), position);
        }
    }

    fn raised(&mut self, tag: &[u8], numbers: Numbers) {
        match self.0.get_mut(tag) {
            Some(known) => known.next = known.next.max(numbers.next),
            None => drop(self.0.insert(tag.to_vec(), numbers)),
        }
    }

    /// Notes that a tag gives the number `next` after `position`, whatever it reached before.
    pub(super) fn set(&mut self, tag: &[u8], next: Sequence, position: Position) {
        self.0.insert(tag.to_vec(), Numbers { first: next, next, position });
    }

    /// Adds the numbers of later records.
    pub(super) fn merge(&mut self, later: &KeptNumbers) {
        later.0.iter().for_each(|(tag, numbers)| self.raised(tag, *numbers));
    }

    /// The tags, and the numbers that they give next.
    pub(super) fn reached(&self) -> impl Iterator<Item = (Tag<'_>, Sequence)> {
        self.0.iter().map(|(tag, numbers)| (Tag::new(tag), numbers.next))
    }

    /// The number that a tag has reached.
    pub(super) fn next(&self, tag: &[u8]) -> Option<Sequence> {
        self.0.get(tag).map(|numbers| numbers.next)
    }

    fn all(&self) -> Vec<TagNumbers<'_>> {
        let all = self.0.iter();
        let numbers = all.map(|(tag, numbers)| {
            let Numbers { first, next, position } = *numbers;
            TagNumbers { tag: Tag::new(tag), first, next, position }
        });
        numbers.collect()
    }
}

impl Copy {
    /// An empty copy of the log `identity`.
    pub(super) fn new(directory: Directory, identity: Identity) -> Self {
        let beginning = identity.beginning();
        Copy {
            directory,
            identity,
            end: beginning.position.next(),
            chain: beginning.chain,
            time: Timestamp::ZERO,
            term: beginning.term,
            numbers: KeptNumbers::default(),
            copied: 0,
            rewritten: 0,
        }
    }

    /// Copies the whole segment that comes next: `used` bytes, and zeros up to `bytes`.
    pub(super) fn copy_whole(&mut self, used: &[u8], bytes: u64, numbers: &KeptNumbers, end: SegmentEnd) -> Result<()> {
        assert!(end.end >= self.end, "positions of a copy never fall");
        self.directory.write_whole_in_pieces(&segment_name(self.end), |file| {
            file.write_at(used, 0)?;
            file.set_bytes(bytes)
        })?;
        self.copied += 1;
        self.follow(numbers, end);
        Ok(())
    }

    /// Writes a segment of these records, which stands for all positions up to its end.
    pub(super) fn rewrite<'r>(
        &mut self,
        records: impl Iterator<Item = RecordView<'r>>,
        numbers: &KeptNumbers,
        end: SegmentEnd,
        packs: bool,
    ) -> Result<()> {
        assert!(end.end > self.end, "a rewritten segment has positions");
        let mut remains = RemainsWriter::new(self.chain);
        for record in records {
            if remains.bytes() > DIVIDED_FROM {
                let part = SegmentEnd {
                    end: record.header.position,
                    chain: record.header.previous,
                    time: self.time.max(record.header.time),
                    term: self.term,
                };
                let full = std::mem::replace(&mut remains, RemainsWriter::new(part.chain));
                self.put(full, part, packs)?;
            }
            remains.add(record, &vec![Survival::Whole; record.header.entries as usize]);
        }
        remains.count(&numbers.all());
        self.put(remains, end, packs)?;
        self.follow(numbers, end);
        Ok(())
    }

    fn put(&mut self, remains: RemainsWriter, end: SegmentEnd, packs: bool) -> Result<()> {
        let first = self.end;
        let of = SegmentHeader {
            identity: self.identity,
            previous: self.chain,
            first,
            time: self.time,
            bytes: 0,
            compacted: None,
        };
        let compacted =
            CompactedRange { end: end.end, chain: end.chain, last_time: end.time, records: 0, packed: None };
        let (image, header) = remains.finish(of, compacted);
        let file = packs.then(|| pack(&image, &header)).flatten().unwrap_or(image);
        self.directory.write_whole(&segment_name(first), &[&file])?;
        self.rewritten += 1;
        (self.end, self.chain, self.time) = (end.end, end.chain, end.time);
        Ok(())
    }

    fn follow(&mut self, numbers: &KeptNumbers, end: SegmentEnd) {
        self.numbers.merge(numbers);
        (self.end, self.chain, self.time, self.term) = (end.end, end.chain, end.time, end.term);
    }
}
