//! The remainder of a batch that lost records: the other records keep their offsets, as Kafka's log
//! cleaner writes it.
//!
//! First and last offset stay, and so do the producer's numbers; the count shows that records are
//! missing. A delete horizon replaces the base timestamp (KIP-534), and the times of the records
//! are relative to it.

use alloc::vec::Vec;

use super::checksum::checksum;
use super::encode::NewRecord;
use super::layout::{
    ATTRIBUTES, BASE_TIMESTAMP, BATCH_LENGTH, CHECKSUM, HEADER_BYTES, LEADER_EPOCH, MAX_TIMESTAMP, RECORD_COUNT,
    set_field,
};
use super::{Batch, BatchRecord, Codec, RecordError, varint};

impl Batch<'_> {
    /// Returns this batch with the records for which `stays` is true, uncompressed; `None` when it
    /// is true for none. `opened` is the batch's decompressed records. [`Batch::prefix`] or
    /// [`Batch::sealed_bytes`] computes the checksum.
    ///
    /// # Errors
    /// When the records can't be read.
    pub fn remains(
        &self,
        opened: &[u8],
        delete_horizon_ms: Option<i64>,
        stays: &mut dyn FnMut(&BatchRecord<'_>) -> bool,
    ) -> Result<Option<Vec<u8>>, RecordError> {
        let base_timestamp_ms = delete_horizon_ms.unwrap_or(self.base_timestamp_ms());
        let mut bytes = self.bytes()[..HEADER_BYTES].to_vec();
        let (mut count, mut max_timestamp_ms) = (0u32, i64::MIN);
        let mut headers = Vec::new();
        for record in self.records_from(opened) {
            let record = record?;
            if !stays(&record) {
                continue;
            }
            headers.clear();
            headers.extend(record.headers.iter());
            let new = NewRecord {
                key: record.key,
                value: record.value,
                headers: &headers,
                timestamp_delta: record.timestamp_ms.wrapping_sub(base_timestamp_ms),
                offset_delta: i64::from(record.offset_delta),
            };
            let (start, body_bytes) = (bytes.len(), new.body_bytes());
            bytes.resize(start + varint::length(body_bytes as i64) + body_bytes, 0);
            new.write(&mut bytes[start..], body_bytes);
            count += 1;
            max_timestamp_ms = max_timestamp_ms.max(record.timestamp_ms);
        }
        if count == 0 {
            return Ok(None);
        }
        let mut attributes = self.attributes().with_codec(Codec::None);
        if delete_horizon_ms.is_some() {
            attributes = attributes.with_delete_horizon();
        }
        let length = i32::try_from(bytes.len() - LEADER_EPOCH)
            .expect("the remains are no longer than the batch, except for times");
        set_field(&mut bytes, BATCH_LENGTH, length.to_be_bytes());
        set_field(&mut bytes, ATTRIBUTES, attributes.bits().to_be_bytes());
        set_field(&mut bytes, BASE_TIMESTAMP, base_timestamp_ms.to_be_bytes());
        set_field(&mut bytes, MAX_TIMESTAMP, max_timestamp_ms.to_be_bytes());
        set_field(&mut bytes, RECORD_COUNT, count.to_be_bytes());
        set_field(&mut bytes, CHECKSUM, [0; 4]);
        Ok(Some(bytes))
    }

    /// Its bytes, with the checksum that they ought to carry.
    pub fn sealed_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        let checksum = checksum(&bytes);
        set_field(&mut bytes, CHECKSUM, checksum.to_be_bytes());
        bytes
    }
}
