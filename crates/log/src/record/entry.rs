//! An entry as bytes.

use quire_model::{Entry, EntryKind, ModelId, NewEntry, Place, Sequence, Tags, Timestamp};

const FLAG_SEQUENCED: u8 = 1;
const PLAIN_BYTES: usize = 12;
const SEQUENCED_BYTES: usize = 24;

/// Where the bytes of a sequenced entry's first tag begin: behind the fixed part and the tag's length.
pub(crate) const SEQUENCED_TAG_AT: usize = SEQUENCED_BYTES + 2;

/// The fixed part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// Bytes of the whole entry.
    pub(crate) length: usize,
    kind: EntryKind,
    sequence: Option<Sequence>,
    count: u32,
    /// Where the tags begin, and the body.
    tags_at: usize,
    body_at: usize,
}

impl EntryHeader {
    /// Reads and verifies the header that these bytes begin with; `None` when it contradicts itself or the bytes at hand.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = EntryHeader::read(bytes)?;
        let sound = header.body_at <= header.length
            && header.length <= bytes.len()
            && tags_are_sound(&bytes[header.tags_at..header.body_at], bytes[6])
            && (header.sequence.is_none() || (header.count > 0 && bytes[6] > 0));
        sound.then_some(header)
    }

    /// Reads the header that these bytes begin with; what it says is to be trusted only when it was verified before.
    fn read(bytes: &[u8]) -> Option<Self> {
        let fixed = bytes.first_chunk::<PLAIN_BYTES>()?;
        let length = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]) as usize;
        let kind = EntryKind { model: ModelId::new(fixed[4]), kind: fixed[5] };
        let tag_bytes = usize::from(u16::from_le_bytes([fixed[8], fixed[9]]));
        let (sequence, count, tags_at) = if fixed[7] & FLAG_SEQUENCED == 0 {
            (None, 0, PLAIN_BYTES)
        } else {
            let rest = bytes.get(PLAIN_BYTES..SEQUENCED_BYTES)?;
            let count = u32::from_le_bytes(rest[..4].try_into().expect("four bytes"));
            let sequence = u64::from_le_bytes(rest[4..].try_into().expect("eight bytes"));
            (Some(Sequence::new(sequence)), count, SEQUENCED_BYTES)
        };
        Some(EntryHeader { length, kind, sequence, count, tags_at, body_at: tags_at + tag_bytes })
    }
}

fn tags_are_sound(mut encoded: &[u8], count: u8) -> bool {
    for _ in 0..count {
        let Some((length, rest)) = encoded.split_first_chunk::<2>() else { return false };
        let length = usize::from(u16::from_le_bytes(*length));
        let Some(rest) = rest.get(length..) else { return false };
        if length == 0 || length > quire_model::TAG_BYTES_MAX {
            return false;
        }
        encoded = rest;
    }
    encoded.is_empty()
}

/// The bytes that an entry will take.
pub(crate) fn entry_bytes(entry: &NewEntry<'_>) -> usize {
    let fixed = if entry.sequenced.is_some() { SEQUENCED_BYTES } else { PLAIN_BYTES };
    fixed + tag_bytes(entry) + entry.body.iter().map(|piece| piece.len()).sum::<usize>()
}

fn tag_bytes(entry: &NewEntry<'_>) -> usize {
    entry.tags.iter().map(|tag| 2 + tag.as_bytes().len()).sum()
}

/// Writes an entry into room made by `room`, which is given the number of bytes that are needed.
///
/// # Panics
/// When there are more than 255 tags, or they take more than 64 KiB: models limit what they take.
pub(crate) fn write_entry<'b>(
    entry: &NewEntry<'_>,
    sequence: Option<Sequence>,
    room: impl FnOnce(usize) -> &'b mut [u8],
) {
    let length = entry_bytes(entry);
    let out = room(length);
    let tag_count = u8::try_from(entry.tags.len()).expect("an entry has at most 255 tags");
    let tag_bytes = u16::try_from(tag_bytes(entry)).expect("the tags of an entry take less than 64 KiB");
    let flags = if sequence.is_some() { FLAG_SEQUENCED } else { 0 };
    // Longer ones do not fit a record, which the caller checks; the length is then never read.
    let stored_length = u32::try_from(length).unwrap_or(u32::MAX);
    out[0..4].copy_from_slice(&stored_length.to_le_bytes());
    out[4..8].copy_from_slice(&[entry.kind.model.get(), entry.kind.kind, tag_count, flags]);
    out[8..10].copy_from_slice(&tag_bytes.to_le_bytes());
    out[10..12].copy_from_slice(&[0, 0]);
    let mut at = PLAIN_BYTES;
    if let (Some(sequence), Some(sequenced)) = (sequence, entry.sequenced) {
        out[12..16].copy_from_slice(&sequenced.count.to_le_bytes());
        out[16..24].copy_from_slice(&sequence.get().to_le_bytes());
        at = SEQUENCED_BYTES;
    }
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    for tag in entry.tags {
        let bytes = tag.as_bytes();
        put(&u16::try_from(bytes.len()).expect("a tag is at most 512 bytes").to_le_bytes());
        put(bytes);
    }
    for piece in entry.body {
        put(piece);
    }
}

/// The entry that these verified bytes begin with, and how many bytes it takes.
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
