//! An entry as bytes.

use std::ops::Range;

use quire_model::{BodyChecksum, Entry, EntryKind, ModelId, NewEntry, Place, Sequence, Tags, Timestamp};

use crate::checksum::crc32c_append;

const FLAG_SEQUENCED: u8 = 1;
const FLAG_OWN_CHECKSUM: u8 = 2;
const FLAG_COUNT: u8 = 4;
const FLAGS: u8 = FLAG_SEQUENCED | FLAG_OWN_CHECKSUM | FLAG_COUNT;
const PLAIN_BYTES: usize = 10;
const SEQUENCE_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;
const OWN_CHECKSUM_BYTES: usize = 8;

/// Smallest last piece of a body, in bytes, that [`EntryLayout::write`] sums while it copies it.
/// The checksum of the record then does not read the piece a second time.
const COMPUTED_BYTES_MIN: usize = 64 << 10;

/// Bytes that are summed and then copied at once: half of the first-level cache.
const SUMMED_AT_ONCE: usize = 16 << 10;

/// The fixed part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// Bytes of the whole entry.
    pub(crate) length: usize,
    kind: EntryKind,
    sequence: Option<Sequence>,
    count: u32,
    own_checksum: Option<BodyChecksum>,
    /// Offsets within the entry at which the tags and the body begin.
    tags_at: usize,
    body_at: usize,
}

impl EntryHeader {
    /// Reads and verifies the header at the start of `bytes`. Returns `None` when the header
    /// contradicts itself or exceeds `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = EntryHeader::read(bytes)?;
        let sound = header.body_at <= header.length
            && header.length <= bytes.len()
            && bytes[7] & !FLAGS == 0
            && header.own_checksum.is_none_or(|own| own.bytes <= header.length - header.body_at)
            && tags_are_sound(&bytes[header.tags_at..header.body_at], bytes[6])
            && header.sequence.is_none() == (header.count == 0)
            && (header.sequence.is_none() || bytes[6] > 0)
            && ((bytes[7] & FLAG_COUNT != 0) == (header.count > 1));
        sound.then_some(header)
    }

    /// Reads the header at the start of `bytes` without verifying it.
    #[inline(always)]
    fn read(bytes: &[u8]) -> Option<Self> {
        let fixed = bytes.first_chunk::<PLAIN_BYTES>()?;
        let length = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]) as usize;
        let kind = EntryKind { model: ModelId::new(fixed[4]), kind: fixed[5] };
        let tag_bytes = usize::from(u16::from_le_bytes([fixed[8], fixed[9]]));
        let (mut sequence, mut count, mut own_checksum) = (None, 0, None);
        let mut tags_at = PLAIN_BYTES;
        if fixed[7] & FLAG_SEQUENCED != 0 {
            let number = bytes.get(tags_at..)?.first_chunk::<SEQUENCE_BYTES>()?;
            sequence = Some(Sequence::new(u64::from_le_bytes(*number)));
            count = 1;
            tags_at += SEQUENCE_BYTES;
        }
        if fixed[7] & FLAG_COUNT != 0 {
            count = u32::from_le_bytes(*bytes.get(tags_at..)?.first_chunk::<COUNT_BYTES>()?);
            tags_at += COUNT_BYTES;
        }
        if fixed[7] & FLAG_OWN_CHECKSUM != 0 {
            let own = bytes.get(tags_at..)?.first_chunk::<OWN_CHECKSUM_BYTES>()?;
            let crc32c = u32::from_le_bytes(own[..4].try_into().expect("four bytes"));
            let bytes = u32::from_le_bytes(own[4..].try_into().expect("four bytes"));
            own_checksum = Some(BodyChecksum { crc32c, bytes: bytes as usize });
            tags_at += OWN_CHECKSUM_BYTES;
        }
        Some(EntryHeader { length, kind, sequence, count, own_checksum, tags_at, body_at: tags_at + tag_bytes })
    }

    /// Returns the range and the checksum of the part that carries its own checksum, for an entry
    /// that begins at `offset`.
    pub(crate) fn own_part(&self, offset: usize) -> Option<(Range<usize>, u32)> {
        let end = offset + self.length;
        debug_assert!(self.own_checksum.is_none_or(|own| own.bytes <= self.length - self.body_at));
        self.own_checksum.map(|own| (end - own.bytes..end, own.crc32c))
    }
}

fn tags_are_sound(mut encoded: &[u8], count: u8) -> bool {
    for _ in 0..count {
        let Some((tag, rest)) = Tags::split_first(encoded) else { return false };
        if tag.is_empty() || tag.len() > quire_model::TAG_BYTES_MAX {
            return false;
        }
        encoded = rest;
    }
    encoded.is_empty()
}

/// Returns the bytes that a count takes. A count of 1 is not stored.
#[inline]
fn count_bytes(count: u32) -> usize {
    if count > 1 { COUNT_BYTES } else { 0 }
}

/// The layout of an entry that is about to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryLayout {
    /// Bytes of the whole entry.
    pub(crate) length: usize,
    tag_bytes: usize,
    pub(crate) own_checksum: Option<BodyChecksum>,
    /// Whether [`EntryLayout::write`] computes the checksum of the body's last piece.
    computes: bool,
}

impl EntryLayout {
    /// Lays out an entry. The layout keeps `given`, the checksum that the body came with. A body
    /// whose last piece is long gets a checksum in any case.
    #[inline]
    pub(crate) fn of(entry: &NewEntry<'_>, given: Option<BodyChecksum>) -> Self {
        let last = entry.body.last().map_or(0, |piece| piece.len());
        let computes = given.is_none() && last >= COMPUTED_BYTES_MIN;
        let own_checksum = if computes { Some(BodyChecksum { crc32c: 0, bytes: last }) } else { given };
        let numbers = entry.sequenced.map_or(0, |sequenced| SEQUENCE_BYTES + count_bytes(sequenced.count));
        let own = if own_checksum.is_some() { OWN_CHECKSUM_BYTES } else { 0 };
        let tag_bytes = entry.tags.iter().map(|tag| Tags::bytes_of(*tag)).sum();
        let body_bytes: usize = entry.body.iter().map(|piece| piece.len()).sum();
        debug_assert!(own_checksum.is_none_or(|own| own.bytes <= body_bytes), "a checksum covers the end of the body");
        let length = PLAIN_BYTES + numbers + own + tag_bytes + body_bytes;
        EntryLayout { length, tag_bytes, own_checksum, computes }
    }

    /// Writes the entry to `out`, whose length is that of the layout. `sequence` is the number of a
    /// sequenced entry.
    ///
    /// # Panics
    /// When the entry has more than 255 tags or more than 64 KiB of tags. Models enforce both
    /// limits.
    #[inline]
    pub(crate) fn write(self, entry: &NewEntry<'_>, sequence: Option<Sequence>, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.length, "the caller reserves the length of the layout");
        debug_assert_eq!(sequence.is_some(), entry.sequenced.is_some(), "only a sequenced entry has a number");
        debug_assert!(sequence.is_none() || !entry.tags.is_empty(), "a sequence counts within the first tag");
        let tag_count = u8::try_from(entry.tags.len()).expect("an entry has at most 255 tags");
        let tag_bytes =
            u16::try_from(self.tag_bytes).expect("the tags of an entry take less than 64 KiB").to_le_bytes();
        let numbers = sequence.zip(entry.sequenced).map(|(sequence, sequenced)| (sequence, sequenced.count));
        let flags = if numbers.is_some() { FLAG_SEQUENCED } else { 0 }
            | if numbers.is_some_and(|(_, count)| count > 1) { FLAG_COUNT } else { 0 }
            | if self.own_checksum.is_some() { FLAG_OWN_CHECKSUM } else { 0 };
        // A longer entry does not fit in a record; the caller refuses it and never reads its
        // length.
        let narrow = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let length = narrow(self.length);
        let (plain, rest) = out.split_first_chunk_mut::<PLAIN_BYTES>().expect("space for the whole entry");
        plain[0..4].copy_from_slice(&length);
        plain[4..8].copy_from_slice(&[entry.kind.model.get(), entry.kind.kind, tag_count, flags]);
        plain[8..10].copy_from_slice(&tag_bytes);
        let mut rest = rest;
        if let Some((sequence, count)) = numbers {
            rest = put(rest, &sequence.get().to_le_bytes());
            if count > 1 {
                rest = put(rest, &count.to_le_bytes());
            }
        }
        let mut own = None;
        if let Some(BodyChecksum { crc32c, bytes }) = self.own_checksum {
            let (checksum, behind) = rest.split_first_chunk_mut::<4>().expect("space for the whole entry");
            *checksum = crc32c.to_le_bytes();
            own = Some(checksum);
            rest = put(behind, &narrow(bytes));
        }
        for tag in entry.tags {
            rest = Tags::put(*tag, rest);
        }
        match (entry.body, own) {
            ([pieces @ .., last], Some(checksum)) if self.computes => {
                rest = pieces.iter().fold(rest, |rest, piece| put(rest, piece));
                let (crc, behind) = put_summed(rest, last);
                *checksum = crc.to_le_bytes();
                rest = behind;
            }
            (pieces, _) => rest = pieces.iter().fold(rest, |rest, piece| put(rest, piece)),
        }
        debug_assert!(rest.is_empty(), "an entry fills its space");
    }
}

/// Copies `bytes` to the front of `out` and returns the rest of `out`.
#[inline]
fn put<'o>(out: &'o mut [u8], bytes: &[u8]) -> &'o mut [u8] {
    let (target, rest) = out.split_at_mut(bytes.len());
    target.copy_from_slice(bytes);
    rest
}

/// As [`put`], and returns the checksum of `bytes`. Works in small pieces, so that a piece is still
/// in the cache when it is copied.
fn put_summed<'o>(mut out: &'o mut [u8], bytes: &[u8]) -> (u32, &'o mut [u8]) {
    let mut crc = 0;
    for piece in bytes.chunks(SUMMED_AT_ONCE) {
        crc = crc32c_append(crc, piece);
        out = put(out, piece);
    }
    (crc, out)
}

/// Returns the entry at the start of the verified `bytes`, and its length.
#[inline(always)]
pub(crate) fn entry_at(bytes: &[u8], place: Place, time: Timestamp) -> (Entry<'_>, usize) {
    let header = EntryHeader::read(bytes).expect("the entries of a record are verified with it");
    let entry = Entry {
        place,
        time,
        kind: header.kind,
        sequence: header.sequence,
        count: header.count,
        tags: Tags::from_encoded(&bytes[header.tags_at..header.body_at]),
        body: &bytes[header.body_at..header.length],
    };
    (entry, header.length)
}
