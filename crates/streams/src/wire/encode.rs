//! Writes one record at the end of a batch.
//!
//! A record begins with its own length. The length is computed first, so every byte is written
//! once, at its final place. Two functions have the same result. [`NewRecord::write`] follows the
//! format and writes every record. [`NewRecord::write_short`] writes records without headers whose
//! numbers fit into registers, which are nearly all.

use super::Header;
use super::varint::{self, Short, zigzag};

/// The bytes of a word: stored at once, even when only some of them count.
const WORD_BYTES: usize = 8;

/// The most bytes that a short record takes besides its key and value: five numbers of three bytes,
/// the attributes, the number of headers, and a word for the bytes stored after the last number.
pub(super) const SHORT_BEYOND_BYTES: usize = 5 * 3 + 2 + WORD_BYTES;

/// The limit of the numbers of a short record, in zigzag form. The record's length, which is their
/// sum, is then short as well.
const NUMBER_LIMIT: u64 = varint::SHORT_LIMIT / 4;

/// The stored length of a missing key.
const NO_KEY: Short = Short::new(zigzag(-1));

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewRecord<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a [Header<'a>],
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i64,
}

impl NewRecord<'_> {
    /// Writes the record to the front of `out`, and returns its length in bytes. Writes nothing and
    /// returns `None` when the record is not short, or `out` is too small.
    #[inline]
    pub(super) fn write_short(&self, out: &mut [u8]) -> Option<usize> {
        let timestamp = zigzag(self.timestamp_delta);
        let offset = zigzag(self.offset_delta);
        let (key, key_bytes) = zigzag_length(self.key);
        let (value, value_bytes) = zigzag_length(self.value);
        if (timestamp | offset | key | value) >= NUMBER_LIMIT || !self.headers.is_empty() {
            return None;
        }
        let out = out.get_mut(..key_bytes + value_bytes + SHORT_BEYOND_BYTES)?;
        let attributes = Short::new(0);
        let header_count = Short::new(0);
        let (timestamp, offset, value) = (Short::new(timestamp), Short::new(offset), Short::new(value));
        let key = if self.key.is_some() { Short::new(key) } else { NO_KEY };
        let numbers = attributes.length + timestamp.length + offset.length + key.length + value.length;
        let body_bytes = numbers + key_bytes + value_bytes + header_count.length;
        let length = Short::new(2 * body_bytes as u64);
        let mut at = put_word(out, 0, length.then(attributes).then(timestamp));
        match self.key {
            None => at = put_word(out, at, offset.then(key).then(value)),
            Some(bytes) => {
                at = put_word(out, at, offset.then(key));
                at = put_bytes(out, at, bytes);
                at = put_word(out, at, value);
            }
        }
        at = put_bytes(out, at, self.value.unwrap_or_default());
        out[at] = header_count.bytes as u8;
        debug_assert_eq!(at + 1, length.length + body_bytes, "a record has the length that was computed");
        Some(at + 1)
    }

    /// Returns the number of bytes after the length.
    pub(super) fn body_bytes(&self) -> usize {
        let headers = self.headers.iter();
        1 + varint::length(self.timestamp_delta)
            + varint::length(self.offset_delta)
            + nullable_bytes(self.key)
            + nullable_bytes(self.value)
            + varint::length(self.headers.len() as i64)
            + headers.map(|header| nullable_bytes(Some(header.key)) + nullable_bytes(header.value)).sum::<usize>()
    }

    /// Writes the record. `out` has exactly its length.
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
