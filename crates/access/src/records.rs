//! Records of a partition for one response, within limits of records, bytes and memory.
//!
//! A compressed batch is decompressed up to the first requested record, and further only as far as
//! that is cheap. If the batch yields no record within this limit, the read waits for its turn,
//! starts again, and decompresses as far as necessary. So the memory of a read depends on the
//! records it returns and their place in the batch, not on the size of the batch. The decompressed
//! bytes are claimed before they are made.
//!
//! A record that is too large for a response is reported by its offset instead, so that a client
//! gets past it.

use std::fmt::Display;
use std::ops::ControlFlow;

use quire::streams::wire::{BatchRecord, Codec, RecordError};
use quire::streams::{Partition, StoredBatch, StreamReadError};
use quire::{Database, History, OPENED_BYTES_MAX, Operation, Resource, ResourceKind, Sequence, steps_of_bytes};

use crate::budget::{BudgetRefusal, ByteClaim};

/// Default of [`RecordsRead::bytes_max`].
pub const RECORDS_BYTES_DEFAULT: usize = 1 << 20;

/// Maximum of [`RecordsRead::bytes_max`]. Larger records are reported and not returned.
pub const RECORDS_BYTES_MAX: usize = 16 << 20;

/// How many bytes of a batch are decompressed without a turn.
const OPENED_BYTES_FREE: usize = 1 << 20;

/// How much further a batch is decompressed where that did not suffice.
const OPENED_GROWTH: usize = 8;

/// The records to read.
#[derive(Debug, Clone)]
pub struct RecordsRead {
    /// The name of the topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: Sequence,
    /// Maximum number of records.
    pub limit: usize,
    /// Maximum bytes of batches that are read, after the first batch, and of records that are
    /// returned, after the first.
    pub bytes_max: usize,
}

/// How far a batch may be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decompression {
    /// As far as it is cheap.
    Cheap,
    /// As far as necessary. The caller limits how many reads do this at a time.
    Full,
}

/// The end of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsEnd {
    /// The records that are too large for a response.
    pub skipped: Vec<LargeRecord>,
    /// Where the next read continues.
    pub next_offset: Sequence,
}

/// A record that is too large for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeRecord {
    /// The offset of the record.
    pub offset: Sequence,
    /// The size of the record.
    pub bytes: usize,
}

/// Why nothing could be read.
#[derive(Debug)]
pub enum RecordsError {
    /// The topic does not exist.
    UnknownTopic,
    /// The partition or the offset does not exist, or the log is unreadable.
    Partition(StreamReadError),
    /// An error of the database.
    Database(quire::Error),
    /// A producer wrote an unreadable batch.
    InvalidBatch {
        /// The offset of the batch.
        offset: Sequence,
        /// The offset after the batch, to continue with.
        next_offset: Sequence,
        /// The reason.
        message: String,
    },
    /// There is too little memory for the first record.
    Memory {
        /// The reason.
        refusal: BudgetRefusal,
        /// The offset of the record or its batch.
        offset: Sequence,
        /// The offset after it, to continue with if it will never fit.
        next_offset: Sequence,
    },
}

/// Receives a record at its offset.
pub type RecordVisitor<'v> = dyn FnMut(u64, &BatchRecord<'_>) + 'v;

impl RecordsRead {
    /// Reads the records, and passes each to `visit`. Their bytes are added to `claim`. `None` when
    /// the limit of [`Decompression::Cheap`] leaves no record to return.
    ///
    /// # Errors
    /// When there is an error and no record before it.
    pub fn read(
        &self,
        database: &Database,
        decompression: Decompression,
        claim: &mut ByteClaim,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<Option<RecordsEnd>, RecordsError> {
        let RecordsRead { topic, partition, from, limit, bytes_max } = self;
        let history = database.history();
        let resource = Resource::new(ResourceKind::Topic, topic);
        let found = database.read_published_for(resource, Operation::Read, |view| {
            let found = view.streams.topic_named(topic)?;
            Some(view.streams.partition(found.id, *partition))
        });
        let found = found.map_err(RecordsError::Database)?.ok_or(RecordsError::UnknownTopic)?;
        let found: Partition = found.map_err(RecordsError::Partition)?;
        let opened_bytes_max = match decompression {
            Decompression::Cheap => OPENED_BYTES_FREE,
            Decompression::Full => OPENED_BYTES_MAX,
        };
        let mut reading = RecordsReading {
            history: &history,
            visit,
            count: 0,
            end: RecordsEnd { skipped: Vec::new(), next_offset: *from },
            limit: *limit,
            bytes_left: *bytes_max,
            opened_bytes_max,
            claim,
            refused: None,
        };
        let mut failed = None;
        let visited = found.fetch(&history, *from, *bytes_max, &mut |stored| match reading.batch(&stored) {
            Ok(flow) => flow,
            Err(end) => {
                failed = Some(end);
                ControlFlow::Break(())
            }
        });
        visited.map_err(RecordsError::Partition)?;
        let (count, end) = (reading.len(), reading.end);
        if let Some(refused) = reading.refused {
            return Err(refused);
        }
        match failed {
            // The records before an unreadable batch are returned. The next read begins at that
            // batch and reports it.
            Some(failed) if count == 0 => match failed {
                BatchEnd::Failed(error) => Err(error),
                BatchEnd::Closed => Ok(None),
            },
            _ => Ok(Some(end)),
        }
    }
}

/// Why a batch, or the rest of it, was not visited.
enum BatchEnd {
    Failed(RecordsError),
    /// It would have to be decompressed beyond the limit.
    Closed,
}

/// A read in progress.
struct RecordsReading<'r, 'v> {
    history: &'r dyn History,
    visit: &'r mut RecordVisitor<'v>,
    /// How many records were visited.
    count: usize,
    end: RecordsEnd,
    limit: usize,
    bytes_left: usize,
    opened_bytes_max: usize,
    claim: &'r mut ByteClaim,
    /// Why the first record does not fit.
    refused: Option<RecordsError>,
}

impl RecordsReading<'_, '_> {
    fn len(&self) -> usize {
        self.count + self.end.skipped.len()
    }

    /// Visits the requested records of a batch that were not visited before.
    fn batch(&mut self, stored: &StoredBatch<'_>) -> Result<ControlFlow<()>, BatchEnd> {
        let (offset, next_offset) = (stored.base_offset, stored.next_offset());
        let invalid = |error: &dyn Display| {
            let message = format!("batch at offset {offset}: {error}");
            // A client that continues can skip the whole batch.
            BatchEnd::Failed(RecordsError::InvalidBatch { offset, next_offset, message })
        };
        if stored.batch.codec() == Codec::None {
            return self.opened(stored, stored.batch.records_bytes()).map_err(|error| invalid(&error));
        }
        let mut opened_bytes = OPENED_BYTES_FREE;
        loop {
            match self.claim.grow(opened_bytes) {
                Ok(()) => {}
                Err(_) if self.len() > 0 => return Ok(ControlFlow::Break(())),
                Err(refusal) => return Err(BatchEnd::Failed(RecordsError::Memory { refusal, offset, next_offset })),
            }
            let opened = quire::open_batch_up_to(&stored.batch, opened_bytes).map_err(|error| invalid(&error));
            let claimed = opened.and_then(|opened| {
                let claimed = self.history.claim(steps_of_bytes(opened.len()));
                let failed = |error| BatchEnd::Failed(RecordsError::Database(quire::Error::from(error)));
                claimed.map(|()| opened).map_err(failed)
            });
            let read = claimed.map(|opened| (self.opened(stored, &opened), opened.len()));
            self.claim.shrink_to(self.claim.bytes().saturating_sub(opened_bytes));
            match read? {
                (Ok(flow), _) => return Ok(flow),
                // The record is invalid, or extends beyond the decompressed bytes.
                (Err(error), opened) if opened < opened_bytes => return Err(invalid(&error)),
                (Err(_), _) if self.len() > 0 => return Ok(ControlFlow::Break(())),
                (Err(_), _) if opened_bytes == OPENED_BYTES_MAX => {
                    return Err(invalid(&format_args!("the records exceed {OPENED_BYTES_MAX} bytes")));
                }
                (Err(_), _) if opened_bytes >= self.opened_bytes_max => return Err(BatchEnd::Closed),
                (Err(_), _) => opened_bytes = (opened_bytes * OPENED_GROWTH).min(self.opened_bytes_max),
            }
        }
    }

    /// Visits the requested records in the decompressed part of a batch.
    fn opened(&mut self, stored: &StoredBatch<'_>, opened: &[u8]) -> Result<ControlFlow<()>, RecordError> {
        for record in stored.batch.records_from(opened) {
            let record = record?;
            let offset = Sequence::new(stored.base_offset.get() + u64::from(record.offset_delta));
            if offset < self.end.next_offset {
                continue;
            }
            let next_offset = Sequence::new(offset.get() + 1);
            let bytes = record_bytes(&record);
            let is_first = self.len() == 0;
            if bytes > RECORDS_BYTES_MAX && self.len() < self.limit {
                self.end.skipped.push(LargeRecord { offset, bytes });
                self.end.next_offset = next_offset;
                continue;
            }
            if self.len() == self.limit || (bytes > self.bytes_left && !is_first) {
                return Ok(ControlFlow::Break(()));
            }
            if let Err(refusal) = self.claim.grow(bytes) {
                self.refused = is_first.then_some(RecordsError::Memory { refusal, offset, next_offset });
                return Ok(ControlFlow::Break(()));
            }
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            (self.visit)(offset.get(), &record);
            self.count += 1;
            self.end.next_offset = next_offset;
        }
        // A compacted batch may end with offsets whose records were deleted.
        self.end.next_offset = stored.next_offset();
        let is_full = self.len() == self.limit;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The size of a record in bytes.
fn record_bytes(record: &BatchRecord<'_>) -> usize {
    let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    of(record.key) + of(record.value) + record.headers.bytes().len()
}
