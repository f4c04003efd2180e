//! Writes one record behind the others of its batch.
//!
//! A record begins with its own length, so its numbers are known before anything is written, and every byte is written
//! once, at its final place. There are two ways with the same result: [`NewRecord::write`] is the format as it reads,
//! for every record; [`NewRecord::write_short`] is for nearly every record, whose numbers are short enough to be put
//! together in registers and whose headers are none.

use super::Header;
use super::varint::{self, Short, zigzag};

/// How many bytes beyond the record [`NewRecord::write_short`] may write: it stores whole words, and the next one begins
/// where the number in the last one ended.
pub(super) const WORD_BYTES: usize = 8;

/// The limit of numbers that make a short record, in zigzag form: its length, the sum of them, is then short as well.
const NUMBER_LIMIT: u64 = varint::SHORT_LIMIT / 4;

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRecord<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a [Header<'a>],
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i64,
}

/// The numbers of a short record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    length: Short,
    /// Attributes, timestamp delta, offset delta.
    head: Short,
    key_length: Short,
    value_length: Short,
    pub(super) record_bytes: usize,
}

impl NewRecord<'_> {
    /// The numbers, when they are short and there are no headers.
    #[inline]
    pub(super) fn numbers(&self) -> Option<Numbers> {
        let timestamp = zigzag(self.timestamp_delta);
        let offset = zigzag(self.offset_delta);
        let (key, key_bytes) = zigzag_length(self.key);
        let (value, value_bytes) = zigzag_length(self.value);
        if (timestamp | offset | key | value) >= NUMBER_LIMIT || !self.headers.is_empty() {
            return None;
        }
        let attributes = Short { bytes: 0, length: 1 };
        let head = attributes.then(Short::new(timestamp)).then(Short::new(offset));
        let key_length = Short::new(key);
        let value_length = Short::new(value);
        let header_count_bytes = 1;
        let body_bytes =
            head.length + key_length.length + key_bytes + value_length.length + value_bytes + header_count_bytes;
        let length = Short::new(2 * body_bytes as u64);
        Some(Numbers { length, head, key_length, value_length, record_bytes: length.length + body_bytes })
    }

    /// Writes a short record to the front of `out`, which has room for it and [`WORD_BYTES`] more.
    #[inline]
    pub(super) fn write_short(&self, out: &mut [u8], numbers: &Numbers) {
        let mut at = put_word(out, 0, numbers.length);
        at = put_word(out, at, numbers.head);
        match self.key {
            None => at = put_word(out, at, numbers.key_length.then(numbers.value_length)),
            Some(key) => {
                at = put_word(out, at, numbers.key_length);
                at = put_bytes(out, at, key);
                at = put_word(out, at, numbers.value_length);
            }
        }
        at = put_bytes(out, at, self.value.unwrap_or_default());
        out[at] = 0;
        debug_assert_eq!(at + 1, numbers.record_bytes, "a record has the length that was computed");
    }

    /// How many bytes follow the length.
    pub(super) fn body_bytes(&self) -> usize {
        let headers = self.headers.iter();
        1 + varint::length(self.timestamp_delta)
            + varint::length(self.offset_delta)
            + nullable_bytes(self.key)
            + nullable_bytes(self.value)
            + varint::length(self.headers.len() as i64)
            + headers.map(|header| nullable_bytes(Some(header.key)) + nullable_bytes(header.value)).sum::<usize>()
    }

    /// Writes the record; `out` is exactly its room.
    pub(super) fn write(&self, out: &mut [u8], body_bytes: usize) {
        let mut at = varint::put(out, 0, body_bytes as i64);
        out[at] = 0;
        at = varint::put(out, at + 1, self.timestamp_delta);
        at = varint::put(out, at, self.offset_delta);
        at = put_nullable(out, at, self.key);
        at = put_nullable(out, at, self.value);
        at = varint::put(out, at, self.headers.len() as i64);
        for header in self.headers {
            at = put_nullable(out, at, Some(header.key));
            at = put_nullable(out, at, header.value);
        }
        debug_assert_eq!(at, out.len(), "a record has the length that was computed");
    }
}

/// The length as it is written, in zigzag form, and how many bytes follow it.
#[inline]
fn zigzag_length(bytes: Option<&[u8]>) -> (u64, usize) {
    bytes.map_or((zigzag(-1), 0), |bytes| (2 * bytes.len() as u64, bytes.len()))
}

fn nullable_bytes(value: Option<&[u8]>) -> usize {
    value.map_or(1, |value| varint::length(value.len() as i64) + value.len())
}

fn put_nullable(out: &mut [u8], at: usize, value: Option<&[u8]>) -> usize {
    let Some(value) = value else { return varint::put(out, at, -1) };
    let at = varint::put(out, at, value.len() as i64);
    put_bytes(out, at, value)
}

/// Stores a whole word, of which the number's bytes count.
#[inline]
fn put_word(out: &mut [u8], at: usize, number: Short) -> usize {
    out[at..at + WORD_BYTES].copy_from_slice(&number.bytes.to_le_bytes());
    at + number.length
}

#[inline]
fn put_bytes(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    out[at..end].copy_from_slice(bytes);
    end
}
