//! The records of an uncompressed batch, read in place.
//!
//! ```text
//! length │ attributes │ timestamp delta │ offset delta │ key length, key │ value length, value │ count, headers
//!        └ 0, one byte                                   (-1: no key)      (-1: no value)
//! a header: key length, key │ value length, value (-1: no value)
//! ```
//!
//! Every number except the attributes is a zigzag varint. Every length is compared with the bytes
//! that remain: invalid bytes end the iteration with a [`RecordError`], never with a panic. A
//! record is checked whole before it is returned, so reading its headers cannot fail.

use core::fmt;

use super::Batch;
use super::varint::{short_at, take_i32, take_i64, unzigzag, zigzag};

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRecord<'a> {
    /// Its offset, counted from the batch's base offset.
    pub offset_delta: u32,
    /// Its time: milliseconds since 1970, -1 when it has none.
    pub timestamp_ms: i64,
    /// Its key, which decides its partition and what compaction keeps.
    pub key: Option<&'a [u8]>,
    /// Its value. A record without one deletes its key.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// A header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name: UTF-8 by Kafka's rule, which not every producer keeps. A record may have several
    /// of the same name.
    pub key: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// A header with a value.
    pub const fn new(key: &'a str, value: &'a [u8]) -> Self {
        Header { key: key.as_bytes(), value: Some(value) }
    }
}

/// The headers of a record, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    count: u32,
    /// Holds `count` whole headers.
    encoded: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Returns the number of headers.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the record has no headers.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of the headers.
    pub const fn bytes(&self) -> &'a [u8] {
        self.encoded
    }

    /// Headers whose [`Headers::bytes`] were put elsewhere.
    ///
    /// # Panics
    /// When iterated, if the bytes are not this number of headers.
    pub const fn moved(count: usize, bytes: &'a [u8]) -> Self {
        Headers { count: count as u32, encoded: bytes }
    }

    /// The headers, in order.
    pub fn iter(self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut rest = self.encoded;
        (0..self.count).map(move |_| header(&mut rest).expect("a record is checked before it is returned"))
    }
}

/// The records of a batch, in order. The iteration ends after the first error.
#[derive(Debug, Clone)]
pub struct BatchRecords<'a> {
    rest: &'a [u8],
    index: u32,
    count: u32,
    /// The least offset delta that the next record may have: they ascend.
    offset_delta_min: u32,
    last_offset_delta: u32,
    base_timestamp_ms: i64,
    /// The time of every record, when the broker set it.
    append_time_ms: Option<i64>,
}

impl<'a> BatchRecords<'a> {
    pub(super) fn new(batch: &Batch<'_>, records: &'a [u8]) -> Self {
        BatchRecords {
            rest: records,
            index: 0,
            count: batch.record_count(),
            offset_delta_min: 0,
            last_offset_delta: batch.last_offset_delta(),
            base_timestamp_ms: batch.base_timestamp_ms(),
            append_time_ms: batch.attributes().is_append_time().then(|| batch.max_timestamp_ms()),
        }
    }

    /// The next record, if it is like nearly every one: its numbers are short, and it has no
    /// headers. Of any other nothing is taken.
    #[inline(always)]
    fn short_record(&mut self) -> Option<BatchRecord<'a>> {
        let (length, at) = short_at(self.rest, 0)?;
        let end = at + unsigned(length)?;
        let record = self.rest.get(..end)?;
        let attributes_bytes = 1;
        let (timestamp_delta, at) = short_at(record, at + attributes_bytes)?;
        let (offset_delta, at) = short_at(record, at)?;
        let offset_delta = unsigned(offset_delta)? as u32;
        let (key, at) = short_nullable(record, at)?;
        let (value, at) = short_nullable(record, at)?;
        let in_order = (self.offset_delta_min..=self.last_offset_delta).contains(&offset_delta);
        let no_headers = [0];
        if !in_order || record.get(at..)? != no_headers {
            return None;
        }
        self.rest = &self.rest[end..];
        self.offset_delta_min = offset_delta + 1;
        // Empty parts have a place, too, for callers that keep the places.
        let headers = Headers { count: 0, encoded: &record[end..] };
        Some(BatchRecord {
            offset_delta,
            timestamp_ms: self.timestamp_ms(unzigzag(timestamp_delta)),
            key,
            value,
            headers,
        })
    }

    #[inline(always)]
    fn timestamp_ms(&self, delta: i64) -> i64 {
        self.append_time_ms.unwrap_or(self.base_timestamp_ms.wrapping_add(delta))
    }

    /// Any record: the format as it reads.
    fn record(&mut self) -> Result<BatchRecord<'a>, &'static str> {
        let length = take_i32(&mut self.rest).and_then(|length| usize::try_from(length).ok());
        let (mut body, rest) =
            length.and_then(|length| self.rest.split_at_checked(length)).ok_or("a length within the batch")?;
        let (_attributes, after) = body.split_first().ok_or("attributes")?;
        body = after;
        let timestamp_delta = take_i64(&mut body).ok_or("a timestamp delta")?;
        let offset_delta = take_i32(&mut body).and_then(|delta| u32::try_from(delta).ok()).ok_or("an offset delta")?;
        if offset_delta < self.offset_delta_min || offset_delta > self.last_offset_delta {
            return Err("an offset after the previous one, within the batch");
        }
        let key = nullable(&mut body).ok_or("a key within the record")?;
        let value = nullable(&mut body).ok_or("a value within the record")?;
        let count = take_i32(&mut body).and_then(|count| u32::try_from(count).ok()).ok_or("a header count")?;
        let headers = Headers { count, encoded: body };
        for _ in 0..count {
            header(&mut body).ok_or("a header within the record")?;
        }
        if !body.is_empty() {
            return Err("the end of the record");
        }
        self.rest = rest;
        self.offset_delta_min = offset_delta + 1;
        Ok(BatchRecord { offset_delta, timestamp_ms: self.timestamp_ms(timestamp_delta), key, value, headers })
    }

    /// Returns the next record when it is not short.
    #[inline(never)]
    fn next_of_any(&mut self) -> Option<Result<BatchRecord<'a>, RecordError>> {
        let index = self.index;
        let failed = |expected| RecordError { index, expected };
        if index == self.count {
            let surplus = !core::mem::take(&mut self.rest).is_empty();
            return surplus.then(|| Err(failed("the end of the batch")));
        }
        let record = self.record();
        if record.is_ok() {
            self.index += 1;
        } else {
            self.index = self.count;
            self.rest = &[];
        }
        Some(record.map_err(failed))
    }
}

impl<'a> Iterator for BatchRecords<'a> {
    type Item = Result<BatchRecord<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count && self.rest.is_empty() {
            return None;
        }
        if self.index < self.count
            && let Some(record) = self.short_record()
        {
            self.index += 1;
            return Some(Ok(record));
        }
        self.next_of_any()
    }
}

impl core::iter::FusedIterator for BatchRecords<'_> {}

/// Decodes a length from its zigzag form; `None` when it is negative.
#[inline(always)]
fn unsigned(zigzag: u64) -> Option<usize> {
    zigzag.is_multiple_of(2).then_some(zigzag as usize / 2)
}

/// As [`nullable`], for bytes at `at` whose length is short. Also returns the offset after them.
#[inline(always)]
fn short_nullable(from: &[u8], at: usize) -> Option<(Option<&[u8]>, usize)> {
    let (length, at) = short_at(from, at)?;
    if length == zigzag(-1) {
        return Some((None, at));
    }
    let end = at + unsigned(length)?;
    from.get(at..end).map(|bytes| (Some(bytes), end))
}

/// A length and that many bytes; the length -1 means none. The outer `None` when they are missing.
#[inline]
fn nullable<'a>(from: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = take_i32(from)?;
    if length == -1 {
        return Some(None);
    }
    let (bytes, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    Some(Some(bytes))
}

fn header<'a>(from: &mut &'a [u8]) -> Option<Header<'a>> {
    // A header's key may be empty, but not missing.
    let key = nullable(from)??;
    let value = nullable(from)?;
    Some(Header { key, value })
}

/// A record that is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// The index of the record in the batch, from 0.
    pub index: u32,
    /// The expected value.
    pub expected: &'static str,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid record {}: expected {}", self.index, self.expected)
    }
}

impl core::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::varint::put;

    fn number_of(value: i64) -> Vec<u8> {
        let mut bytes = Vec::from([0; 10]);
        let end = put(&mut bytes, 0, value);
        bytes.truncate(end);
        bytes
    }

    fn records(rest: &[u8], offset_delta_min: u32, append_time: bool) -> BatchRecords<'_> {
        BatchRecords {
            rest,
            index: 0,
            count: 2,
            offset_delta_min,
            last_offset_delta: 3,
            base_timestamp_ms: 1_000,
            append_time_ms: append_time.then_some(7),
        }
    }

    /// The bytes of a record, some of which may be others.
    fn nearly_a_record() -> impl Strategy<Value = Vec<u8>> {
        let length = || prop_oneof![3 => 0..200i64, 2 => Just(-1), 1 => -3..0i64];
        let number = || prop_oneof![3 => Just(0u8), 2 => Just(1), 2 => 0..9u8, 1 => any::<u8>()];
        let changes = prop::collection::vec((any::<prop::sample::Index>(), number()), 0..3);
        (length(), length(), number(), number(), number(), changes).prop_map(
            |(key, value, timestamp, offset, count, changes)| {
                let mut record = Vec::from([0, timestamp, offset]);
                for length in [key, value] {
                    record.extend(number_of(length));
                    record.extend((0..length).map(|byte| byte as u8));
                }
                record.push(count);
                record.splice(0..0, number_of(record.len() as i64));
                changes.iter().for_each(|(at, byte)| *at.get_mut(&mut record) = *byte);
                record
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_read_as_short_equals_the_general_parse(bytes in nearly_a_record(), min in 0..4u32, append_time: bool) {
            let (mut short, mut any) = (records(&bytes, min, append_time), records(&bytes, min, append_time));
            match short.short_record() {
                Some(record) => {
                    prop_assert_eq!(any.record(), Ok(record));
                    let empty = record.headers.bytes().as_ptr_range();
                    prop_assert!(empty.is_empty() && bytes.as_ptr_range().contains(&empty.start.wrapping_sub(1)));
                    prop_assert_eq!((short.rest, short.offset_delta_min), (any.rest, any.offset_delta_min));
                }
                None => prop_assert_eq!((short.rest, short.offset_delta_min), (&bytes[..], min)),
            }
        }
    }

    #[test]
    fn records_without_headers_are_read_as_short() {
        for (key, value) in [(None, Some(&[7; 300][..])), (Some(&b"key"[..]), None)] {
            let mut builder = crate::wire::BatchBuilder::new();
            builder.add(key, value, &[], 5).unwrap();
            let batch = builder.finish().unwrap();
            let record = batch.records().unwrap().short_record().unwrap();
            assert_eq!((record.key, record.value, record.timestamp_ms), (key, value, 5));
        }
    }
}
