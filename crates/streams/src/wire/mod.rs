//! The Kafka record batch, format v2, written and read by hand.
//!
//! ```text
//! records ──BatchBuilder──▶ bytes ──Batch::parse──▶ Batch ──records()──▶ BatchRecord, Header
//!                                                     └──prefix()──▶ the same bytes at their offset
//! ```
//!
//! [`Batch::parse`] checks received bytes once; a [`Batch`] is the proof of that. Nothing here
//! decompresses: reading a compressed batch returns [`CompressedBatch`].
//!
//! The source is Kafka's protocol guide, section "Record Batch" (KIP-98, KIP-82).

mod attributes;
mod batch;
mod builder;
mod checksum;
mod encode;
mod layout;
mod prefix;
mod record;
mod remains;
mod varint;

pub use attributes::{Attributes, Codec};
pub use batch::{Batch, BatchError, CompressedBatch};
pub use builder::{BATCH_BYTES_MAX, BatchBuilder, BatchFull};
pub use layout::HEADER_BYTES;
pub use prefix::PREFIX_BYTES;
pub use record::{BatchRecord, BatchRecords, Header, Headers, RecordError};
