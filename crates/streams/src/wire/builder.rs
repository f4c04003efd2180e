//! Puts records together to a batch, in one pass and without an allocation a record.
//!
//! A record begins with its own length. The length is computed from the lengths of the parts, so
//! every byte is written once, at its final place. The buffer stays filled to its capacity, and
//! `length` is the end of the batch. So reserving space for a record is one comparison, and the
//! buffer is reused for the next batch.

use alloc::vec::Vec;
use core::fmt;

use super::checksum::checksum;
use super::encode::{NewRecord, SHORT_BEYOND_BYTES};
use super::layout::{
    ATTRIBUTES, BASE_OFFSET, BASE_SEQUENCE, BASE_TIMESTAMP, BATCH_LENGTH, CHECKSUM, HEADER_BYTES, LAST_OFFSET_DELTA,
    LEADER_EPOCH, MAGIC, MAGIC_V2, MAX_TIMESTAMP, PRODUCER_EPOCH, PRODUCER_ID, RECORD_COUNT, set_field,
};
use super::{Batch, Header, varint};

/// The most bytes a batch can have: its length is a signed 32-bit number. The log's own limit is
/// lower.
pub const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// Encodes records into a batch. Not compressed, not of an idempotent producer, counting from
/// offset 0.
#[derive(Debug, Clone, Default)]
pub struct BatchBuilder {
    /// Filled to the capacity. Bytes from `length` on have no meaning.
    buffer: Vec<u8>,
    /// The length of the batch in the buffer; 0 before the first record. The header stays free
    /// until the end.
    length: usize,
    count: u32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl BatchBuilder {
    /// An empty one. It allocates with the first record.
    pub fn new() -> Self {
        BatchBuilder::default()
    }

    /// Adds a record; `timestamp_ms` counts milliseconds since 1970.
    ///
    /// # Errors
    /// [`BatchFull`] when the batch would be larger than [`BATCH_BYTES_MAX`]; it is as it was then.
    #[inline]
    pub fn add(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
        timestamp_ms: i64,
    ) -> Result<(), BatchFull> {
        let start = self.length.max(HEADER_BYTES);
        if self.count == 0 {
            self.base_timestamp_ms = timestamp_ms;
            self.max_timestamp_ms = timestamp_ms;
        }
        let record = NewRecord {
            key,
            value,
            headers,
            timestamp_delta: timestamp_ms.wrapping_sub(self.base_timestamp_ms),
            offset_delta: i64::from(self.count),
        };
        let short = self.buffer.get_mut(start..).and_then(|room| record.write_short(room));
        let end = match short {
            Some(record_bytes) => start + record_bytes,
            None => self.add_long(start, &record)?,
        };
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        self.length = end;
        self.count += 1;
        Ok(())
    }

    /// Writes a record that is not short, or for which the buffer had too little space. Returns the
    /// end of the record.
    #[cold]
    fn add_long(&mut self, start: usize, record: &NewRecord<'_>) -> Result<usize, BatchFull> {
        let body_bytes = record.body_bytes();
        let end = start + varint::length(body_bytes as i64) + body_bytes;
        if end > BATCH_BYTES_MAX {
            return Err(BatchFull { bytes: end });
        }
        // The next batch most often has as many bytes, so the buffer gets space for a short record
        // after them.
        let wanted = end + SHORT_BEYOND_BYTES;
        if wanted > self.buffer.len() {
            let room = wanted.max(self.buffer.len() * 2);
            self.buffer.resize(room.clamp(1024, BATCH_BYTES_MAX), 0);
        }
        record.write(&mut self.buffer[start..end], body_bytes);
        Ok(end)
    }

    /// Returns the number of records added since the batch was begun.
    pub fn record_count(&self) -> u32 {
        self.count
    }

    /// Returns the length of the batch up to now, in bytes, with its header; 0 without a record.
    pub fn bytes(&self) -> usize {
        self.length
    }

    /// Returns the bytes of memory of the buffer.
    pub fn capacity_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Completes the batch, as it may be sent to anyone; `None` when no record was added.
    /// [`BatchBuilder::clear`] begins the next one.
    pub fn finish(&mut self) -> Option<Batch<'_>> {
        self.finish_without_checksum()?;
        let batch = &mut self.buffer[..self.length];
        let checksum = checksum(batch);
        set_field(batch, CHECKSUM, checksum.to_be_bytes());
        Some(Batch::sealed(batch))
    }

    /// Completes the batch for a log on this machine, which has checksums of its own.
    /// [`Batch::prefix`] computes the batch's checksum when the batch is sent. `None` when no
    /// record was added.
    #[inline]
    pub fn finish_without_checksum(&mut self) -> Option<Batch<'_>> {
        if self.count == 0 {
            return None;
        }
        let batch = &mut self.buffer[..self.length];
        let batch_bytes = batch.len();
        let header = batch.first_chunk_mut::<HEADER_BYTES>().expect("records follow the header");
        let behind_length = i32::try_from(batch_bytes - LEADER_EPOCH).expect("`add` keeps to BATCH_BYTES_MAX");
        set_field(header, BASE_OFFSET, 0i64.to_be_bytes());
        set_field(header, BATCH_LENGTH, behind_length.to_be_bytes());
        set_field(header, LEADER_EPOCH, (-1i32).to_be_bytes());
        set_field(header, MAGIC, [MAGIC_V2]);
        set_field(header, ATTRIBUTES, 0i16.to_be_bytes());
        set_field(header, LAST_OFFSET_DELTA, (self.count - 1).to_be_bytes());
        set_field(header, BASE_TIMESTAMP, self.base_timestamp_ms.to_be_bytes());
        set_field(header, MAX_TIMESTAMP, self.max_timestamp_ms.to_be_bytes());
        set_field(header, PRODUCER_ID, (-1i64).to_be_bytes());
        set_field(header, PRODUCER_EPOCH, (-1i16).to_be_bytes());
        set_field(header, BASE_SEQUENCE, (-1i32).to_be_bytes());
        set_field(header, RECORD_COUNT, self.count.to_be_bytes());
        set_field(header, CHECKSUM, [0; 4]);
        Some(Batch::stored(batch))
    }

    /// Begins the next batch, in the same buffer.
    pub fn clear(&mut self) {
        self.length = 0;
        self.count = 0;
    }
}

/// The record does not fit into the batch any more; the batch can be finished without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFull {
    /// The length that the batch would have, in bytes.
    pub bytes: usize,
}

impl fmt::Display for BatchFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit of {BATCH_BYTES_MAX} bytes per record batch is exceeded: got {}", self.bytes)
    }
}

impl core::error::Error for BatchFull {}
