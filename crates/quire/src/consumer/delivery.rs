//! A delivery: records of one partition, copied out of the log once, in one buffer.
//!
//! The consumer reads and validates the records when it makes the delivery. Iterating over them
//! parses nothing and allocates nothing. The next delivery reuses the buffers of a delivery that
//! was acknowledged.

use std::ops::ControlFlow;
use std::time::SystemTime;

use quire_model::Sequence;
use quire_shard::opened;

use crate::streams::wire::Headers;
use crate::streams::{Committer, StoredBatch};
use crate::time::time_of_milliseconds;
use crate::{Error, ErrorKind, Result};

/// Size limit of a delivery, in bytes, whatever the settings. The batch that reaches this size is
/// the last of the delivery.
const BYTES_MAX: usize = 1 << 30;

/// Records of one partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub partition: u32,
    /// Number of records before the first that were deleted before this group read them.
    pub lost: u64,
    /// The offset that the group commits for this delivery.
    pub(super) next: Sequence,
    /// The committer that received the delivery, and commits for it.
    pub(super) by: Committer,
    /// Record batches, one after the other.
    bytes: Vec<u8>,
    spans: Vec<RecordSpan>,
}

/// Position of a record in the buffer. An absent key or value begins at [`ABSENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordSpan {
    offset: Sequence,
    timestamp_ms: i64,
    key: (u32, u32),
    value: (u32, u32),
    headers: (u32, u32),
    header_count: u32,
}

const ABSENT: (u32, u32) = (u32::MAX, u32::MAX);

/// A record of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveredRecord<'d> {
    /// The record's offset.
    pub offset: Sequence,
    /// The record's time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The record's key.
    pub key: Option<&'d [u8]>,
    /// The record's value; `None` is a tombstone.
    pub value: Option<&'d [u8]>,
    /// The record's headers.
    pub headers: Headers<'d>,
}

impl DeliveredRecord<'_> {
    /// Returns the record's time.
    pub fn time(&self) -> SystemTime {
        time_of_milliseconds(self.timestamp_ms)
    }
}

impl Delivery {
    /// Returns a delivery without records, which reuses the buffers of `spare`.
    pub(super) fn empty(partition: u32, by: Committer, spare: Option<Delivery>) -> Self {
        let (mut bytes, mut spans) = spare.map_or_else(Default::default, |spare| (spare.bytes, spare.spans));
        bytes.clear();
        spans.clear();
        Delivery { partition, lost: 0, next: Sequence::new(0), by, bytes, spans }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether the delivery has no records. A consumer hands out no empty delivery.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the records, in order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = DeliveredRecord<'_>> + DoubleEndedIterator {
        let part = |(from, to): (u32, u32)| &self.bytes[from as usize..to as usize];
        let present = move |range| (range != ABSENT).then(|| part(range));
        self.spans.iter().map(move |span| DeliveredRecord {
            offset: span.offset,
            timestamp_ms: span.timestamp_ms,
            key: present(span.key),
            value: present(span.value),
            headers: Headers::moved(span.header_count as usize, part(span.headers)),
        })
    }

    /// Returns the offset of the first record.
    pub(super) fn first(&self) -> Sequence {
        self.spans.first().expect("a returned delivery has a record").offset
    }

    /// Returns the offset of the last record.
    pub(super) fn last(&self) -> Sequence {
        self.spans.last().expect("a returned delivery has a record").offset
    }

    /// Adds the records of a batch from offset `from`, up to `records_max` in the delivery. Returns
    /// whether there may be more. A batch that is unreadable adds nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the batch is unreadable.
    pub(super) fn add(
        &mut self,
        stored: &StoredBatch<'_>,
        from: Sequence,
        records_max: usize,
    ) -> Result<ControlFlow<()>> {
        let invalid = |message: String| {
            Error::new(ErrorKind::Invalid, format!("in the batch at offset {}, {message}", stored.base_offset))
        };
        let opened = opened(&stored.batch).map_err(|error| invalid(error.to_string()))?;
        let (bytes_before, spans_before) = (self.bytes.len(), self.spans.len());
        self.bytes.extend_from_slice(&opened);
        self.spans.reserve(stored.batch.record_count() as usize);
        let buffer = &self.bytes[..];
        let place = |part: &[u8]| {
            let start = part.as_ptr().addr() - buffer.as_ptr().addr();
            (start as u32, (start + part.len()) as u32)
        };
        let mut met = Ok(ControlFlow::Continue(()));
        for record in stored.batch.records_from(&buffer[bytes_before..]) {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    met = Err(invalid(error.to_string()));
                    break;
                }
            };
            let offset = Sequence::new(stored.base_offset.get() + u64::from(record.offset_delta));
            if offset < from {
                continue;
            }
            if self.spans.len() == records_max {
                self.next = offset;
                met = Ok(ControlFlow::Break(()));
                break;
            }
            self.spans.push(RecordSpan {
                offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key.map_or(ABSENT, place),
                value: record.value.map_or(ABSENT, place),
                headers: place(record.headers.bytes()),
                header_count: record.headers.len() as u32,
            });
        }
        match met {
            Ok(ControlFlow::Continue(())) => {
                self.next = stored.next_offset();
                let is_full = self.spans.len() >= records_max || self.bytes.len() >= BYTES_MAX;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }
            met => {
                if met.is_err() {
                    self.bytes.truncate(bytes_before);
                    self.spans.truncate(spans_before);
                }
                met
            }
        }
    }
}
