//! A view of one batch. The bytes of a [`Batch`] have a consistent length, format, checksum and
//! counts. A batch built in this process may get its checksum later; it is 0 until then.
//!
//! The records inside are read only on demand. Their content is a matter of producers and
//! consumers, and [`Batch::records`] never reads beyond the bytes.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::checksum::checksum;
use super::layout::{
    ATTRIBUTES, BASE_OFFSET, BASE_SEQUENCE, BASE_TIMESTAMP, BATCH_LENGTH, CHECKSUM, HEADER_BYTES, LAST_OFFSET_DELTA,
    LEADER_EPOCH, MAGIC, MAGIC_V2, MAX_TIMESTAMP, PRODUCER_EPOCH, PRODUCER_ID, RECORD_BYTES_MIN, RECORD_COUNT, field,
    set_field,
};
use super::{Attributes, BatchRecord, BatchRecords, Codec};

/// One record batch of format v2, borrowed.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    /// The checksum, when it is known to be that of the bytes.
    // An `Option` instead of a flag beside the header: the seven bytes of padding after a flag
    // would be copied separately, and the copy would stall.
    verified: Option<u32>,
    keys: KeyPresence,
}

/// The hash of the bytes: it does not depend on the facts that are known about them.
impl Hash for Batch<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

/// Facts about the keys of a batch's records, known without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPresence {
    /// The keys were not read.
    Unread,
    /// Each record has a key.
    All,
    /// The first record without a key.
    NoneOf(u32),
}

impl<'a> Batch<'a> {
    /// Checks that these bytes are one whole batch as a producer may send it, and nothing else.
    ///
    /// # Errors
    /// [`BatchError`] with the invalid value. The checks do not cover the base offset and the
    /// leader epoch: the log sets them.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let magic = *bytes.get(MAGIC).ok_or(BatchError::TooShort { bytes: bytes.len() })?;
        if magic != MAGIC_V2 {
            return Err(BatchError::Magic { magic });
        }
        if bytes.len() < HEADER_BYTES {
            return Err(BatchError::TooShort { bytes: bytes.len() });
        }
        let length = i32::from_be_bytes(field(bytes, BATCH_LENGTH));
        if usize::try_from(length) != Ok(bytes.len() - LEADER_EPOCH) {
            return Err(BatchError::Length { length, length_met: bytes.len() - LEADER_EPOCH });
        }
        let computed = checksum(bytes);
        let batch = Batch { bytes, verified: Some(computed), keys: KeyPresence::Unread };
        if batch.checksum() != computed {
            return Err(BatchError::Checksum { stated: batch.checksum(), computed });
        }
        batch.check_counts()?;
        Ok(batch)
    }

    fn check_counts(self) -> Result<(), BatchError> {
        let codec_number = self.attributes().codec_number();
        let codec = self.attributes().codec().ok_or(BatchError::Codec { number: codec_number })?;
        if self.attributes().has_delete_horizon() {
            return Err(BatchError::DeleteHorizon);
        }
        if self.attributes().is_append_time() {
            return Err(BatchError::AppendTime);
        }
        let count = i32::from_be_bytes(field(self.bytes, RECORD_COUNT));
        let last_offset_delta = i32::from_be_bytes(field(self.bytes, LAST_OFFSET_DELTA));
        if count < 1 || last_offset_delta != count - 1 {
            return Err(BatchError::Count { count, last_offset_delta });
        }
        // Without this limit, a batch of a few bytes could take a billion offsets.
        let records_bytes = self.bytes.len() - HEADER_BYTES;
        let decompressed_bytes_max = records_bytes.saturating_mul(codec.bytes_per_byte_max());
        if count as usize > decompressed_bytes_max / RECORD_BYTES_MIN {
            return Err(BatchError::TooFewBytes { count, records_bytes });
        }
        Ok(())
    }

    /// A batch that was checked before it was stored. The log's checksum covers its bytes.
    ///
    /// # Panics
    /// When the bytes can't contain a header of format v2: stored batches always do.
    pub fn stored(bytes: &'a [u8]) -> Self {
        assert!(bytes.len() >= HEADER_BYTES, "a stored batch holds its header, not {} bytes", bytes.len());
        assert_eq!(bytes[MAGIC], MAGIC_V2, "a stored batch has format v2");
        Batch { bytes, verified: None, keys: KeyPresence::Unread }
    }

    /// A batch whose checksum was computed of these bytes.
    pub(super) fn sealed(bytes: &'a [u8]) -> Self {
        let batch = Batch::stored(bytes);
        Batch { verified: Some(batch.checksum()), ..batch }
    }

    /// The whole batch, as the producer sent it.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The offset of the first record, as the producer wrote it: usually 0. The log knows the
    /// offset of a stored batch.
    pub fn base_offset(&self) -> i64 {
        i64::from_be_bytes(field(self.bytes, BASE_OFFSET))
    }

    /// The epoch of the partition's leader, -1 when unknown.
    pub fn leader_epoch(&self) -> i32 {
        i32::from_be_bytes(field(self.bytes, LEADER_EPOCH))
    }

    /// The CRC-32C in the header; 0 when it is yet to be computed, or happens to be that.
    pub fn checksum(&self) -> u32 {
        u32::from_be_bytes(field(self.bytes, CHECKSUM))
    }

    /// The CRC-32C in the header and the number of bytes that it covers, at the end of the batch.
    /// `None` unless this process verified or computed it.
    pub fn verified_checksum(&self) -> Option<(u32, usize)> {
        self.verified.map(|checksum| (checksum, self.bytes.len() - ATTRIBUTES))
    }

    /// The attribute bits.
    pub fn attributes(&self) -> Attributes {
        Attributes::from_bits(u16::from_be_bytes(field(self.bytes, ATTRIBUTES)))
    }

    /// Returns the codec of the records.
    pub fn codec(&self) -> Codec {
        self.attributes().codec().expect("a batch with an unknown codec is refused")
    }

    /// Whether the batch is a marker for consumers instead of data.
    pub fn is_control(&self) -> bool {
        self.attributes().is_control()
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes().is_transactional()
    }

    /// The offset of the last record, counted from the first: a batch takes one more offsets than
    /// this.
    pub fn last_offset_delta(&self) -> u32 {
        u32::from_be_bytes(field(self.bytes, LAST_OFFSET_DELTA))
    }

    /// The time that the records' times are counted from: milliseconds since 1970, -1 when they
    /// have none.
    pub fn base_timestamp_ms(&self) -> i64 {
        i64::from_be_bytes(field(self.bytes, BASE_TIMESTAMP))
    }

    /// The latest time of a record: milliseconds since 1970, -1 when they have none.
    pub fn max_timestamp_ms(&self) -> i64 {
        i64::from_be_bytes(field(self.bytes, MAX_TIMESTAMP))
    }

    /// The id of an idempotent producer, -1 of any other.
    pub fn producer_id(&self) -> i64 {
        i64::from_be_bytes(field(self.bytes, PRODUCER_ID))
    }

    /// The epoch of an idempotent producer, -1 of any other.
    pub fn producer_epoch(&self) -> i16 {
        i16::from_be_bytes(field(self.bytes, PRODUCER_EPOCH))
    }

    /// The first record's number in an idempotent producer's count, -1 of any other.
    pub fn base_sequence(&self) -> i32 {
        i32::from_be_bytes(field(self.bytes, BASE_SEQUENCE))
    }

    /// Returns the time from which records without a value may be removed, in milliseconds since
    /// 1970.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.attributes().has_delete_horizon().then(|| self.base_timestamp_ms())
    }

    /// Returns the number of records, at least 1. After a compaction it is less than the number of
    /// offsets.
    pub fn record_count(&self) -> u32 {
        u32::from_be_bytes(field(self.bytes, RECORD_COUNT))
    }

    /// The bytes of the records, compressed or not.
    pub fn records_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The records of an uncompressed batch.
    ///
    /// # Errors
    /// [`CompressedBatch`] with the codec; see [`Batch::records_from`].
    pub fn records(&self) -> Result<BatchRecords<'a>, CompressedBatch> {
        match self.codec() {
            Codec::None => Ok(self.records_from(self.records_bytes())),
            codec => Err(CompressedBatch { codec }),
        }
    }

    /// Whether [`Batch::first_without_key`] has an answer: for a compressed batch, only after its
    /// keys were noted.
    pub fn has_known_keys(&self) -> bool {
        self.keys != KeyPresence::Unread || self.codec() == Codec::None
    }

    /// The first record without a key. For a compressed batch, it is known only after
    /// [`Batch::noting_keys`].
    pub fn first_without_key(&self) -> Option<u32> {
        match self.keys {
            KeyPresence::Unread => first_without_key(self.records().into_iter().flatten().map_while(Result::ok)),
            KeyPresence::All => None,
            KeyPresence::NoneOf(record) => Some(record),
        }
    }

    /// Returns this batch with knowledge about which records have keys. `opened` is its
    /// decompressed records.
    #[must_use]
    pub fn noting_keys(self, opened: &[u8]) -> Self {
        let keyless = first_without_key(self.records_from(opened).map_while(Result::ok));
        Batch { keys: keyless.map_or(KeyPresence::All, KeyPresence::NoneOf), ..self }
    }

    /// The same batch with its records compressed to `compressed` by this codec. [`Batch::prefix`]
    /// computes the checksum when the batch is sent.
    pub fn with_records(&self, codec: Codec, compressed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + compressed.len());
        bytes.extend_from_slice(&self.bytes[..HEADER_BYTES]);
        bytes.extend_from_slice(compressed);
        let length = i32::try_from(bytes.len() - LEADER_EPOCH).expect("compressed records are smaller than others");
        set_field(&mut bytes, BATCH_LENGTH, length.to_be_bytes());
        set_field(&mut bytes, ATTRIBUTES, self.attributes().with_codec(codec).bits().to_be_bytes());
        set_field(&mut bytes, CHECKSUM, [0; 4]);
        bytes
    }

    /// The header of the same batch whose records have this time, that of its append.
    /// [`Batch::prefix`] computes the checksum when the batch is sent.
    pub fn header_with_append_time(&self, time_ms: i64) -> [u8; HEADER_BYTES] {
        let mut header = *self.bytes.first_chunk().expect("a batch holds its header");
        set_field(&mut header, ATTRIBUTES, self.attributes().with_append_time().bits().to_be_bytes());
        set_field(&mut header, MAX_TIMESTAMP, time_ms.to_be_bytes());
        set_field(&mut header, CHECKSUM, [0; 4]);
        header
    }

    /// The records of this batch, from what its [`Batch::records_bytes`] decompress to.
    pub fn records_from<'b>(&self, decompressed: &'b [u8]) -> BatchRecords<'b> {
        BatchRecords::new(self, decompressed)
    }
}

fn first_without_key<'r>(mut records: impl Iterator<Item = BatchRecord<'r>>) -> Option<u32> {
    records.find(|record| record.key.is_none()).map(|record| record.offset_delta)
}

impl PartialEq for Batch<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Batch<'_> {}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("base_offset", &self.base_offset())
            .field("record_count", &self.record_count())
            .field("attributes", &self.attributes())
            .field("max_timestamp_ms", &self.max_timestamp_ms())
            .field("producer_id", &self.producer_id())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The records are compressed, and this crate does not decompress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressedBatch {
    /// With what.
    pub codec: Codec,
}

impl fmt::Display for CompressedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the records are compressed with {}", self.codec)
    }
}

impl core::error::Error for CompressedBatch {}

/// Why bytes are not a batch that may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes are shorter than a header.
    TooShort {
        /// The number of bytes found.
        bytes: usize,
    },
    /// Another format: 0 and 1 are what producers wrote before Kafka 0.11.
    Magic {
        /// Its number.
        magic: u8,
    },
    /// The header states another length: the bytes were cut, or hold more than one batch.
    Length {
        /// The length in the header.
        length: i32,
        /// The expected value.
        length_met: usize,
    },
    /// The bytes are damaged.
    Checksum {
        /// The checksum in the header.
        stated: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A codec that Kafka does not have.
    Codec {
        /// Its number.
        number: u8,
    },
    /// The batch has a delete horizon, which only brokers may set.
    DeleteHorizon,
    /// The batch has the timestamp type LogAppendTime, which only brokers may set.
    AppendTime,
    /// The batch has no record, or the number of offsets differs from the number of records.
    Count {
        /// The number of records in the header.
        count: i32,
        /// The last offset it states, counted from the first.
        last_offset_delta: i32,
    },
    /// This number of records does not fit into this number of bytes.
    TooFewBytes {
        /// The number of records in the header.
        count: i32,
        /// The number of bytes after the header.
        records_bytes: usize,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::TooShort { bytes } => {
                write!(f, "invalid record batch: it has {bytes} bytes, its header alone has 61")
            }
            BatchError::Magic { magic: magic @ 0..=1 } => {
                write!(
                    f,
                    "message format {magic} is not supported: the producer must send format 2 (Kafka 0.11 or later)"
                )
            }
            BatchError::Magic { magic } => write!(f, "unknown message format {magic}: format 2 is supported"),
            BatchError::Length { length, length_met } => {
                write!(f, "invalid record batch: its length is {length}, but {length_met} bytes follow")
            }
            BatchError::Checksum { stated, computed } => {
                write!(f, "invalid record batch: its checksum is {computed:08x}, its header states {stated:08x}")
            }
            BatchError::Codec { number } => write!(f, "unknown compression codec {number}"),
            BatchError::DeleteHorizon => write!(f, "invalid record batch: producers cannot set the delete horizon"),
            BatchError::AppendTime => {
                write!(f, "invalid record batch: producers cannot set the timestamp type to LogAppendTime")
            }
            BatchError::Count { count, last_offset_delta } => {
                write!(f, "invalid record batch: {count} records cannot end at offset delta {last_offset_delta}")
            }
            BatchError::TooFewBytes { count, records_bytes } => {
                write!(f, "invalid record batch: {count} records cannot be in {records_bytes} bytes")
            }
        }
    }
}

impl core::error::Error for BatchError {}
