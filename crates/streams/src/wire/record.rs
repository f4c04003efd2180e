//! The records within an uncompressed batch, read where they lie.
//!
//! ```text
//! length │ attributes │ timestamp delta │ offset delta │ key length, key │ value length, value │ count, headers
//!        └ 0, one byte                                   (-1: no key)      (-1: no value)
//! a header: key length, key │ value length, value (-1: no value)
//! ```
//!
//! Every number but the attributes is a zigzag varint. Every length is held against the bytes that are there: garbage
//! ends the walk with a [`RecordError`], never with a panic. A record is checked whole before it is handed out, so its
//! headers can be walked without further errors.

use core::fmt;

use super::Batch;
use super::varint::{take_i32, take_i64};

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset, counted from the batch's base offset.
    pub offset_delta: u32,
    /// Its time: milliseconds since 1970, -1 when it has none.
    pub timestamp_ms: i64,
    /// Its key, which decides its partition and what compaction keeps.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` says that the key is gone.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers<'a>,
}

/// A header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name: UTF-8 by Kafka's rule, which not every producer keeps. A record may have several of the same name.
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
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes that they lie in.
    pub const fn bytes(&self) -> &'a [u8] {
        self.encoded
    }

    /// Headers whose [`Headers::bytes`] were put elsewhere.
    ///
    /// # Panics
    /// When walked, if these are not the bytes of so many headers.
    pub const fn moved(count: usize, bytes: &'a [u8]) -> Self {
        Headers { count: count as u32, encoded: bytes }
    }

    /// The headers, one after the other.
    pub fn iter(self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut rest = self.encoded;
        (0..self.count).map(move |_| header(&mut rest).expect("a record is checked before it is handed out"))
    }
}

/// The records of a batch, one after the other; it ends behind the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
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

impl<'a> Records<'a> {
    pub(super) fn new(batch: &Batch<'_>, records: &'a [u8]) -> Self {
        Records {
            rest: records,
            index: 0,
            count: batch.record_count(),
            offset_delta_min: 0,
            last_offset_delta: batch.last_offset_delta(),
            base_timestamp_ms: batch.base_timestamp_ms(),
            append_time_ms: batch.attributes().is_append_time().then(|| batch.max_timestamp_ms()),
        }
    }

    #[inline]
    fn record(&mut self) -> Result<Record<'a>, &'static str> {
        let length = take_i32(&mut self.rest).and_then(|length| usize::try_from(length).ok());
        let (mut body, rest) =
            length.and_then(|length| self.rest.split_at_checked(length)).ok_or("a length within the batch")?;
        let (_attributes, after) = body.split_first().ok_or("attributes")?;
        body = after;
        let timestamp_delta = take_i64(&mut body).ok_or("a timestamp delta")?;
        let offset_delta = take_i32(&mut body).and_then(|delta| u32::try_from(delta).ok()).ok_or("an offset delta")?;
        if offset_delta < self.offset_delta_min || offset_delta > self.last_offset_delta {
            return Err("an offset behind the one before and within the batch");
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
        let timestamp_ms = self.append_time_ms.unwrap_or(self.base_timestamp_ms.wrapping_add(timestamp_delta));
        Ok(Record { offset_delta, timestamp_ms, key, value, headers })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
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

impl core::iter::FusedIterator for Records<'_> {}

/// A length and so many bytes; the length -1 stands for nothing. The outer `None` when they are not there.
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
    /// Which record of the batch, from 0.
    pub index: u32,
    /// What was expected and not there.
    pub expected: &'static str,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} can't be read: expected {}", self.index, self.expected)
    }
}

impl core::error::Error for RecordError {}
