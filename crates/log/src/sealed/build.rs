//! Building the index of a segment from its records alone. Each record is verified on the way.
//!
//! The same records always give the same bytes.

use hashbrown::HashTable;
use quire_model::{Position, Sequence, Tag, Timestamp};

use super::filter::TagFilter;
use super::header::IndexHeader;
use super::lists;
use crate::record::{RecordFault, RecordKind, RecordView};
use crate::segment::{SegmentHeader, TagHash};

/// A flag in the count of a tag whose list is numbered.
pub(super) const NUMBERED: u32 = 1 << 31;

/// An index, ready to be written.
#[derive(Debug)]
pub(crate) struct BuiltIndex {
    pub(crate) header: IndexHeader,
    /// Header and checksums of the body.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// The bytes of a segment's header and records. An offset counts in the image of a packed segment,
/// and otherwise in the file.
pub(crate) trait RecordSource {
    /// The end of the last record.
    fn end(&self) -> usize;

    /// The bytes from `offset` on: at least the record that begins there, if one does.
    ///
    /// # Errors
    /// [`RecordFault::End`] beyond the last record, and the reason why a frame cannot be unpacked.
    fn bytes_from(&self, offset: usize) -> Result<&[u8], RecordFault>;

    /// The byte of the file to report for a damaged byte of the image: the byte itself, or its
    /// frame.
    fn byte_of(&self, offset: usize) -> usize;
}

impl RecordSource for [u8] {
    fn end(&self) -> usize {
        self.len()
    }

    fn bytes_from(&self, offset: usize) -> Result<&[u8], RecordFault> {
        self.get(offset..).ok_or(RecordFault::End)
    }

    fn byte_of(&self, offset: usize) -> usize {
        offset
    }
}

/// A damaged record. `offset` is its first byte in the file, or that of its frame.
#[derive(Debug)]
pub(crate) struct BadRecord {
    pub(crate) offset: usize,
    pub(crate) position: Position,
    pub(crate) fault: RecordFault,
}

/// The numbers that the entries of a segment take from a tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) first: Sequence,
    pub(crate) next: Sequence,
    /// The position of the first entry.
    pub(crate) position: Position,
}

/// Encodes the numbers of tags, which come in the order of the tags' bytes.
pub(crate) fn numbers_encoded<'t>(all: impl Iterator<Item = (&'t [u8], Numbers)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut previous: Option<&[u8]> = None;
    for (tag, numbers) in all {
        assert!(previous.is_none_or(|previous| previous < tag), "tags are in the order of their bytes");
        previous = Some(tag);
        out.extend_from_slice(&u16::try_from(tag.len()).expect("a tag is short").to_le_bytes());
        out.extend_from_slice(tag);
        out.extend_from_slice(&numbers.first.get().to_le_bytes());
        out.extend_from_slice(&numbers.next.get().to_le_bytes());
        out.extend_from_slice(&numbers.position.get().to_le_bytes());
    }
    out
}

/// The content of an index under construction.
#[derive(Debug, Default)]
struct Contents<'s> {
    /// Of each record: its position above the segment's first, its offset, its first ordinal.
    records: Vec<[u32; 3]>,
    /// Of each entry: its offset, the number of its record.
    entries: Vec<[u32; 2]>,
    postings: Vec<(u64, u32)>,
    /// The tags with sequences, in the order of their first entries.
    numbered: Vec<TagNumbering<'s>>,
    /// Indexes into `numbered`.
    by_hash: HashTable<u32>,
    /// The last tag with a sequence, its hash and its index in `numbered`. Consecutive entries
    /// often carry the same tag.
    last: Option<(Tag<'s>, TagHash, u32)>,
    /// The numbers of a compacted segment's tags, including dropped entries.
    dropped: Option<&'s [u8]>,
}

/// The entries with sequences of the tags of one hash.
#[derive(Debug)]
struct TagNumbering<'s> {
    hash: TagHash,
    ordinals: Vec<u32>,
    /// The first number of each entry.
    firsts: Vec<u64>,
    /// The tags: one, except that two may collide.
    tags: Vec<(Tag<'s>, Numbers)>,
}

/// Builds the index of the segment with these records.
pub(crate) fn build<R: RecordSource + ?Sized>(records: &R, of: &SegmentHeader) -> Result<BuiltIndex, BadRecord> {
    let mut contents = Contents::default();
    let mut offset = of.records_at();
    let (mut before, mut time) = (of.before(), Timestamp::ZERO);
    while offset < records.end() {
        let bad = |fault| BadRecord { offset: records.byte_of(offset), position: before.position.next(), fault };
        let bytes = records.bytes_from(offset).map_err(bad)?;
        let record = RecordView::verify(bytes).map_err(bad)?;
        match (record.kind(), of.compacted) {
            (RecordKind::Commit, None) => record.header.follows(before).map_err(bad)?,
            (RecordKind::Remains, Some(_)) => record.header.follows_remains(before).map_err(bad)?,
            (RecordKind::Numbers, Some(_)) => record.header.follows_remains(before).map_err(bad)?,
            _ => return Err(bad(RecordFault::Kind(bytes[36]))),
        }
        match record.kind() {
            RecordKind::Numbers => contents.dropped = Some(record.numbers()),
            _ => contents.add(record, offset, of),
        }
        (before, time) = (record.header.mark(), record.header.time);
        offset += record.header.length as usize;
        debug_assert!(offset <= records.end(), "a record ends at {offset}, beyond {}", records.end());
    }
    let (position, chain) = (before.position.next(), before.chain);
    match of.compacted {
        None => Ok(contents.encode(of, position, chain, time, offset)),
        Some(compacted) => {
            // The last record contains the numbers. They are missing if the file lost its end.
            let found = contents.records.len() + usize::from(contents.dropped.is_some());
            if found != compacted.records as usize || contents.dropped.is_none() {
                return Err(BadRecord { offset: records.byte_of(offset), position, fault: RecordFault::End });
            }
            Ok(contents.encode(of, compacted.end, compacted.chain, compacted.last_time, offset))
        }
    }
}

impl<'s> Contents<'s> {
    fn add(&mut self, record: RecordView<'s>, offset: usize, of: &SegmentHeader) {
        let record_number = narrow(self.records.len());
        let position = record.header.position;
        let above = u32::try_from(position.get() - of.first.get()).expect("a segment holds fewer than 2^32 records");
        let seed = of.identity.seed();
        debug_assert!(
            self.records.last().is_none_or(|[before, at, _]| *before < above && (*at as usize) < offset),
            "record {position} at byte {offset} follows {:?}",
            self.records.last()
        );
        self.records.push([above, narrow(offset), narrow(self.entries.len())]);
        for (entry_offset, entry) in record.entries() {
            let ordinal = narrow(self.entries.len());
            self.entries.push([narrow(offset + entry_offset), record_number]);
            let mut tags = entry.tags.iter();
            if let Some(sequence) = entry.sequence
                && let Some(tag) = tags.next()
            {
                let (hash, index) = self.numbered_of(tag, seed);
                self.postings.push((hash.get(), ordinal));
                let fresh = Numbers { first: sequence, next: entry.next_sequence(), position };
                self.numbered[index as usize].add(tag, ordinal, fresh);
            }
            self.postings.extend(tags.map(|tag| (TagHash::of(tag, seed).get(), ordinal)));
        }
    }

    /// The hash of a tag with sequences, and its index in `numbered`.
    fn numbered_of(&mut self, tag: Tag<'s>, seed: u64) -> (TagHash, u32) {
        if let Some((last, hash, index)) = self.last
            && last == tag
        {
            return (hash, index);
        }
        let hash = TagHash::of(tag, seed);
        let found = self.by_hash.find(hash.get(), |index| self.numbered[*index as usize].hash == hash);
        let index = found.copied().unwrap_or_else(|| {
            let index = narrow(self.numbered.len());
            self.numbered.push(TagNumbering {
                hash,
                ordinals: Vec::new(),
                firsts: Vec::new(),
                tags: Vec::with_capacity(1),
            });
            let hash_of = |index: &u32| self.numbered[*index as usize].hash.get();
            self.by_hash.insert_unique(hash.get(), index, hash_of);
            index
        });
        self.last = Some((tag, hash, index));
        (hash, index)
    }

    fn encode(
        mut self,
        of: &SegmentHeader,
        end: Position,
        chain: u32,
        time: Timestamp,
        records_end: usize,
    ) -> BuiltIndex {
        assert!(
            self.records.is_sorted_by(|one, next| one[0] < next[0] && one[1] < next[1]),
            "records are in log order"
        );
        assert!(self.entries.is_sorted_by(|one, next| one[0] < next[0]), "entries are in log order");
        let mut body = Vec::with_capacity(self.records.len() * 12 + self.entries.len() * 16 + self.postings.len() * 8);
        body.extend(self.records.iter().flatten().flat_map(|number| number.to_le_bytes()));
        body.extend(self.entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
        self.postings.sort_unstable();
        // Two tags of one entry with the same hash count once.
        self.postings.dedup();
        let (mut hashes, mut lists, mut ordinals) = (Vec::new(), Vec::new(), Vec::new());
        for postings in self.postings.chunk_by(|one, other| one.0 == other.0) {
            let hash = postings[0].0;
            ordinals.clear();
            ordinals.extend(postings.iter().map(|(_, ordinal)| *ordinal));
            // Numbers are kept only if every entry has one and they rise. Colliding tags may break
            // this.
            let numbered = self.by_hash.find(hash, |index| self.numbered[*index as usize].hash.get() == hash);
            let numbers = numbered.map(|index| &self.numbered[*index as usize]).filter(|numbered| {
                numbered.ordinals == ordinals && numbered.firsts.is_sorted_by(|before, after| before < after)
            });
            let (count, value) = match ordinals[..] {
                [only] => (1, only),
                _ => (narrow(ordinals.len()) | if numbers.is_some() { NUMBERED } else { 0 }, narrow(lists.len())),
            };
            if ordinals.len() > 1 {
                lists::write(&mut lists, &ordinals, numbers.map(|numbered| numbered.firsts.as_slice()));
            }
            hashes.push(hash);
            body.extend_from_slice(&hash.to_le_bytes());
            body.extend_from_slice(&count.to_le_bytes());
            body.extend_from_slice(&value.to_le_bytes());
        }
        let numbered = match self.dropped {
            Some(dropped) => dropped.to_vec(),
            None => {
                let mut all: Vec<_> = self.numbered.iter().flat_map(|numbered| &numbered.tags).collect();
                all.sort_unstable_by_key(|(tag, _)| *tag);
                numbers_encoded(all.into_iter().map(|(tag, numbers)| (tag.as_bytes(), *numbers)))
            }
        };
        assert!(hashes.is_sorted_by(|one, next| one < next), "each hash has one row, in order");
        let filter = TagFilter::of(&hashes).encode();
        let header = IndexHeader {
            identity: of.identity,
            segment: of.crc(),
            first: of.first,
            end,
            time,
            chain,
            records: narrow(self.records.len()),
            entries: narrow(self.entries.len()),
            tags: narrow(hashes.len()),
            records_end: narrow(records_end),
            compacted: of.compacted.is_some(),
            lists_bytes: lists.len() as u64,
            numbered_bytes: numbered.len() as u64,
            filter_bytes: filter.len() as u64,
        };
        assert_eq!(body.len(), header.lists_at(), "the parts of fixed width end where the lists begin");
        body.extend_from_slice(&lists);
        body.extend_from_slice(&numbered);
        body.extend_from_slice(&filter);
        BuiltIndex { head: header.encode(&body), header, body }
    }
}

impl<'s> TagNumbering<'s> {
    /// Adds an entry and its numbers.
    fn add(&mut self, tag: Tag<'s>, ordinal: u32, numbers: Numbers) {
        debug_assert!(self.ordinals.last().is_none_or(|last| *last < ordinal), "ordinal {ordinal} is out of order");
        self.ordinals.push(ordinal);
        self.firsts.push(numbers.first.get());
        match self.tags.iter_mut().find(|(known, _)| *known == tag) {
            Some((_, known)) => known.next = numbers.next,
            None => self.tags.push((tag, numbers)),
        }
    }
}

/// Narrows an offset or a count within a segment, which is shorter than 4 GiB.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("a segment is shorter than 4 GiB")
}
