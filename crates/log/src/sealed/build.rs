//! Making the index of a segment: from its records alone, each of which is verified on the way.
//!
//! The same records give the same bytes, whenever and wherever the index is made.

use hashbrown::HashTable;
use quire_model::{Position, Sequence, Tag, Timestamp};

use super::filter::Filter;
use super::header::IndexHeader;
use super::lists;
use crate::record::{Fault, RecordKind, RecordView};
use crate::segment::{SegmentHeader, TagHash};

/// In the tag table: the count of a tag whose list is numbered.
pub(super) const NUMBERED: u32 = 1 << 31;

/// An index as it goes into its file.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) header: IndexHeader,
    /// Header and checksums of the body.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// The bytes of a segment's header and records. An offset is one in its image; of a segment that is not packed, in its file.
pub(crate) trait Records {
    /// Where the last record ends.
    fn end(&self) -> usize;

    /// The bytes from one on: the record that begins there, if one does, and perhaps some behind it.
    ///
    /// # Errors
    /// [`Fault::End`] when there are none, and why what holds them can't be unpacked.
    fn bytes_from(&self, offset: usize) -> Result<&[u8], Fault>;

    /// The byte of the file that is to be told when one of the image is damaged: where it stands, or the frame that holds it.
    fn byte_of(&self, offset: usize) -> usize;
}

impl Records for [u8] {
    fn end(&self) -> usize {
        self.len()
    }

    fn bytes_from(&self, offset: usize) -> Result<&[u8], Fault> {
        self.get(offset..).ok_or(Fault::End)
    }

    fn byte_of(&self, offset: usize) -> usize {
        offset
    }
}

/// A record that is not as it was written: the first byte of it in the file, or of the frame that it is packed in.
#[derive(Debug)]
pub(crate) struct BadRecord {
    pub(crate) offset: usize,
    pub(crate) position: Position,
    pub(crate) fault: Fault,
}

/// The numbers of a tag that entries of a segment hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) first: Sequence,
    pub(crate) next: Sequence,
    /// The position of the first entry.
    pub(crate) position: Position,
}

/// The numbers of tags, which come in the order of their bytes.
pub(crate) fn numbers_encoded<'t>(all: impl Iterator<Item = (&'t [u8], Numbers)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, numbers) in all {
        out.extend_from_slice(&u16::try_from(tag.len()).expect("a tag is short").to_le_bytes());
        out.extend_from_slice(tag);
        out.extend_from_slice(&numbers.first.get().to_le_bytes());
        out.extend_from_slice(&numbers.next.get().to_le_bytes());
        out.extend_from_slice(&numbers.position.get().to_le_bytes());
    }
    out
}

/// What the records of a segment add up to.
#[derive(Debug, Default)]
struct Contents<'s> {
    /// Position above the segment's first, byte offset, first ordinal.
    records: Vec<[u32; 3]>,
    /// Byte offset, number of the record.
    entries: Vec<[u32; 2]>,
    postings: Vec<(u64, u32)>,
    /// What numbers are taken of, in the order of the first ones.
    numbered: Vec<NumberedTag<'s>>,
    /// Indexes into `numbered`.
    by_hash: HashTable<u32>,
    /// The tag that numbers were taken of last, its hash and its index into `numbered`: many entries in a row carry the same.
    last: Option<(Tag<'s>, TagHash, u32)>,
    /// The numbers of a compacted segment's tags, entries that are gone included.
    dropped: Option<&'s [u8]>,
}

/// The entries that take numbers of the tags of one hash.
#[derive(Debug)]
struct NumberedTag<'s> {
    hash: TagHash,
    ordinals: Vec<u32>,
    /// The first number of each.
    firsts: Vec<u64>,
    /// Of each tag: one, but that two may collide.
    tags: Vec<(Tag<'s>, Numbers)>,
}

/// Makes the index of the segment whose records these are.
pub(crate) fn build<R: Records + ?Sized>(records: &R, of: &SegmentHeader) -> Result<Built, BadRecord> {
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
            _ => return Err(bad(Fault::Kind(bytes[36]))),
        }
        match record.kind() {
            RecordKind::Numbers => contents.dropped = Some(record.numbers()),
            _ => contents.take_in(record, offset, of),
        }
        (before, time) = (record.header.mark(), record.header.time);
        offset += record.header.length as usize;
    }
    let (position, chain) = (before.position.next(), before.chain);
    match of.compacted {
        None => Ok(contents.encode(of, position, chain, time, offset)),
        Some(compacted) => {
            // The last record holds the numbers: a file that lost its end has none.
            let found = contents.records.len() + usize::from(contents.dropped.is_some());
            if found != compacted.records as usize || contents.dropped.is_none() {
                return Err(BadRecord { offset: records.byte_of(offset), position, fault: Fault::End });
            }
            Ok(contents.encode(of, compacted.end, compacted.chain, compacted.last_time, offset))
        }
    }
}

impl<'s> Contents<'s> {
    fn take_in(&mut self, record: RecordView<'s>, offset: usize, of: &SegmentHeader) {
        let record_number = narrow(self.records.len());
        let position = record.header.position;
        let above = u32::try_from(position.get() - of.first.get()).expect("a segment holds fewer than 2^32 records");
        let seed = of.identity.seed();
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
                self.numbered[index as usize].take(tag, ordinal, fresh);
            }
            self.postings.extend(tags.map(|tag| (TagHash::of(tag, seed).get(), ordinal)));
        }
    }

    /// The hash of a tag that numbers are taken of, and where what they are is kept.
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
            self.numbered.push(NumberedTag {
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

    fn encode(mut self, of: &SegmentHeader, end: Position, chain: u32, time: Timestamp, records_end: usize) -> Built {
        let mut body = Vec::with_capacity(self.records.len() * 12 + self.entries.len() * 16 + self.postings.len() * 8);
        body.extend(self.records.iter().flatten().flat_map(|number| number.to_le_bytes()));
        body.extend(self.entries.iter().flatten().flat_map(|number| number.to_le_bytes()));
        self.postings.sort_unstable();
        // Two tags of one entry that collide count as one.
        self.postings.dedup();
        let (mut hashes, mut lists, mut ordinals) = (Vec::new(), Vec::new(), Vec::new());
        for postings in self.postings.chunk_by(|one, other| one.0 == other.0) {
            let hash = postings[0].0;
            ordinals.clear();
            ordinals.extend(postings.iter().map(|(_, ordinal)| *ordinal));
            // Only of a list whose entries all give numbers, in rising order, are they kept: tags that collide may not.
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
        let filter = Filter::of(&hashes).encode();
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
        body.extend_from_slice(&lists);
        body.extend_from_slice(&numbered);
        body.extend_from_slice(&filter);
        Built { head: header.encode(&body), header, body }
    }
}

impl<'s> NumberedTag<'s> {
    /// Takes in an entry, and its numbers.
    fn take(&mut self, tag: Tag<'s>, ordinal: u32, numbers: Numbers) {
        self.ordinals.push(ordinal);
        self.firsts.push(numbers.first.get());
        match self.tags.iter_mut().find(|(known, _)| *known == tag) {
            Some((_, known)) => known.next = numbers.next,
            None => self.tags.push((tag, numbers)),
        }
    }
}

/// Offsets and counts within a segment, which is shorter than 4 GiB, as is what is said of its entries.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("a segment is shorter than 4 GiB")
}
