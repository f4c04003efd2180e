//! A partition handle: reads records from the log alone, independent of later changes of the state.
//!
//! A partition is the entries of its tag. Its high watermark follows the number of the tag's last
//! entry and is stored nowhere else, so the two always agree. No read here waits for new records.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use quire_model::{Entry, History, LongReading, Place, Position, ReadError, Sequence, Timestamp};

use super::error::StreamReadError;
use crate::tag::partition_tag;
use crate::wire::{Batch, BatchRecords};
use crate::{PartitionTag, TopicId};

/// An existing partition. See [`Streams::partition`](crate::Streams::partition).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    tag: PartitionTag,
    /// Records before this offset are deleted, or not wanted by the caller.
    start: Sequence,
    /// Whether records in the middle may have been removed, so that a gap in the offsets is no
    /// damage.
    has_holes: bool,
}

/// The first and the next offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The offset of the first record; the next offset when there are no records. For a compacted
    /// topic (now or earlier), the offset before which records were deleted. A consumer that reads
    /// from this offset gets the newest record of each key.
    pub start: Sequence,
    /// The offset that the next record gets: the high watermark.
    pub next: Sequence,
}

/// The readable range of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionReach {
    /// The first offset, and the offset after the last readable batch.
    pub offsets: PartitionOffsets,
    /// The error after the readable part. `None` when the partition ends there.
    pub unreadable: Option<ReadError>,
}

/// A batch and its place in the partition.
#[derive(Debug, Clone, Copy)]
pub struct StoredBatch<'a> {
    /// The offset of its first record. The batch's own bytes contain 0: see [`Batch::prefix`].
    pub base_offset: Sequence,
    /// When it was appended.
    pub time: Timestamp,
    /// Its place in the log.
    pub place: Place,
    /// The batch, as its producer sent it.
    pub batch: Batch<'a>,
}

impl<'a> StoredBatch<'a> {
    pub(crate) fn new(entry: &Entry<'a>) -> Self {
        let base_offset = entry.sequence.expect("every batch has its offsets");
        StoredBatch { base_offset, time: entry.time, place: entry.place, batch: Batch::stored(entry.body) }
    }

    /// The offset after its last record.
    pub fn next_offset(&self) -> Sequence {
        Sequence::new(self.base_offset.get() + u64::from(self.batch.last_offset_delta()) + 1)
    }
}

/// The result of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchSummary {
    /// The offset of the next fetch: after the last batch, or the requested offset when there was
    /// no batch.
    pub next_offset: Sequence,
    /// The bytes of the returned batches.
    pub bytes: usize,
}

impl FetchSummary {
    /// Visits the batch of an entry, if it fits into `bytes_max` with the earlier ones. The first
    /// batch always fits.
    fn take(
        &mut self,
        found: &Entry<'_>,
        bytes_max: usize,
        visit: &mut dyn FnMut(StoredBatch<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let bytes = self.bytes.saturating_add(found.body.len());
        if self.bytes > 0 && bytes > bytes_max {
            return ControlFlow::Break(());
        }
        let stored = StoredBatch::new(found);
        *self = FetchSummary { next_offset: stored.next_offset(), bytes };
        visit(stored)
    }
}

/// A record found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOffset {
    /// Its offset.
    pub offset: Sequence,
    /// Its time: milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl Partition {
    pub(crate) fn new(topic: TopicId, partition: u32, start: Sequence, has_holes: bool) -> Self {
        Partition { tag: partition_tag(topic, partition), start, has_holes }
    }

    /// The same partition, read from an offset on.
    pub(crate) fn from(self, offset: Sequence) -> Self {
        Partition { start: self.start.max(offset), ..self }
    }

    /// The tag of its batches.
    pub fn tag(&self) -> PartitionTag {
        self.tag
    }

    /// The partition's first offset at the time of the look-up, whether or not it has records.
    pub(crate) fn start(&self) -> Sequence {
        self.start
    }

    /// Returns the first and the next offset of the partition.
    ///
    /// # Errors
    /// When its last batch can't be read.
    pub fn offsets(&self, history: &dyn History) -> Result<PartitionOffsets, ReadError> {
        let PartitionReach { offsets, unreadable } = self.reach(history)?;
        unreadable.map_or(Ok(offsets), Err)
    }

    /// The start of the partition, and the end of its readable part: for readers of a partition
    /// that lost its last batches.
    ///
    /// # Errors
    /// When no batch near its end can be read.
    pub fn reach(&self, history: &dyn History) -> Result<PartitionReach, ReadError> {
        let (last, unreadable) = self.last_readable(history)?;
        // Trimmed records may be deleted from the log, too.
        let next = last.map_or(Sequence::new(0), |last| last.next_sequence()).max(self.start);
        if self.has_holes {
            return Ok(PartitionReach { offsets: PartitionOffsets { start: self.start, next }, unreadable });
        }
        let start = match history.seek(self.tag.tag(), self.start) {
            Ok(first) => first.and_then(|first| first.sequence).map_or(next, |first| first.max(self.start)),
            Err(error) if error.is_of_request() => return Err(error),
            // The damaged entry exists, and its reader gets the error; the other entries are
            // readable.
            Err(_) => self.start,
        };
        Ok(PartitionReach { offsets: PartitionOffsets { start, next }, unreadable })
    }

    /// The last batch that can be read, and why no later one could, if there is one.
    fn last_readable<'h>(&self, history: &'h dyn History) -> Result<(Option<Entry<'h>>, Option<ReadError>), ReadError> {
        let (mut before, mut met) = (Place::END, None);
        for _ in 0..LOOKS_BACK_MAX {
            let error = match history.previous(&[self.tag.tag()], before) {
                Ok(last) => return Ok((last, met)),
                Err(error) => error,
            };
            match error.begins {
                Some(begins) if begins < before => before = begins,
                _ => return Err(met.unwrap_or(error)),
            }
            met.get_or_insert(error);
        }
        Err(met.expect("it was looked for more than once"))
    }

    /// The offset of the first record at or after `start` that was committed at or after a
    /// position. Without such a record, the next offset.
    ///
    /// # Errors
    /// When the log can't be read.
    pub(crate) fn first_at(
        &self,
        history: &dyn History,
        start: Sequence,
        position: Position,
    ) -> Result<Sequence, ReadError> {
        let first = history.next(&[self.tag.tag()], Place::new(position, 0))?;
        let first = match first.and_then(|first| first.sequence) {
            Some(first) => first,
            None => self.offsets(history)?.next,
        };
        Ok(start.max(first))
    }

    /// Visits the stored batches, beginning with the one that contains offset `from`. Ends when the
    /// next batch would exceed `bytes_max`, at the end of the partition, or when `visit` breaks.
    /// The first batch is visited whatever its size, and may begin before `from`; the caller skips
    /// its earlier records.
    ///
    /// # Errors
    /// [`StreamReadError::OffsetOutOfRange`] when `from` lies before the first record or after the
    /// end. At the end, the read succeeds with no batch. [`StreamReadError::Unreadable`] when the
    /// log can't be read at `from`.
    pub fn fetch(
        &self,
        history: &dyn History,
        from: Sequence,
        bytes_max: usize,
        visit: &mut dyn FnMut(StoredBatch<'_>) -> ControlFlow<()>,
    ) -> Result<FetchSummary, StreamReadError> {
        let mut fetched = FetchSummary { next_offset: from, bytes: 0 };
        let entry = history.seek(self.tag.tag(), from)?;
        // A batch that contains `from` proves that `from` is in range. Otherwise, the ends of the
        // partition decide.
        if from < self.start || entry.is_none_or(|entry| StoredBatch::new(&entry).base_offset > from) {
            let PartitionReach { offsets: PartitionOffsets { start, next }, unreadable } = self.reach(history)?;
            match unreadable {
                // The requested offset may be in the unreadable part.
                Some(error) if from >= next => return Err(error.into()),
                _ if from < start || from > next => {
                    return Err(StreamReadError::OffsetOutOfRange { from, start, next });
                }
                _ => {}
            }
        }
        let Some(first) = entry else { return Ok(fetched) };
        let (mut behind, mut bytes) = (first.place.after(), first.body.len());
        if fetched.take(&first, bytes_max, visit).is_break() {
            return Ok(fetched);
        }
        let (mut reading, tags, mut count) = (LongReading::new(history), [self.tag.tag()], 1);
        loop {
            // A reader that continues after the first batch probably reads many. Batches that will
            // not fit are not looked up.
            let fit = bytes_max.saturating_sub(fetched.bytes) / bytes.max(1) + 1;
            let mut few = Vec::new();
            // Batches before the unreadable one are readable; the next fetch begins at it and
            // returns the error.
            let read = reading.history().next_few(&tags, behind, (FEW_TIMES * count).min(FEW_MAX).min(fit), &mut few);
            let Some(last) = few.last().filter(|_| read.is_ok()) else { return Ok(fetched) };
            (behind, bytes, count) = (last.place.after(), last.body.len(), few.len());
            for found in &few {
                if fetched.take(found, bytes_max, visit).is_break() {
                    return Ok(fetched);
                }
            }
            drop(few);
            reading.let_go();
        }
    }

    /// Visits the stored batches in order, beginning with the one that contains offset `from`,
    /// until `visit` breaks. For many batches, this is faster than [`Partition::fetch`]: it is a
    /// [scan](History::scan). The first batch may begin before `from`; the caller skips its earlier
    /// records.
    ///
    /// # Errors
    /// When the log can't be read. The batches before were visited.
    pub fn scan(
        &self,
        history: &dyn History,
        from: Sequence,
        visit: &mut dyn FnMut(StoredBatch<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.each(history, from, &mut |entry| visit(StoredBatch::new(entry)))
    }

    /// Visits the entries of the partition in order, beginning with the one that contains an
    /// offset.
    ///
    /// # Errors
    /// When the log can't be read.
    pub(crate) fn each(
        &self,
        history: &dyn History,
        from: Sequence,
        visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let mut reading = LongReading::new(history);
        let first = reading.history().seek(self.tag.tag(), from)?;
        let mut from = first.map(|first| first.place);
        while let Some(place) = from.take() {
            let current = reading.history();
            current.scan(&[self.tag.tag()], place, Place::END, &mut |found| {
                if visit(found).is_break() {
                    return ControlFlow::Break(());
                }
                if !current.holds_too_much() {
                    return ControlFlow::Continue(());
                }
                // Another reader continues after this one releases its unpacked records.
                from = Some(found.place.after());
                ControlFlow::Break(())
            })?;
            reading.let_go();
        }
        Ok(())
    }

    /// The first record that is not earlier than `timestamp_ms`; `None` when every record is.
    ///
    /// Producers set any times, so this scans the batches from the beginning that the caller looked
    /// up: see [`Streams::partition_from_time`](crate::Streams::partition_from_time).
    ///
    /// `open` decompresses the records of the candidate batch, as far as needed and at most
    /// [`LOOKED_THROUGH_BYTES_MAX`]. If that is not sufficient, the batch's base timestamp is used,
    /// which may be earlier.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn offset_at_time(
        &self,
        history: &dyn History,
        timestamp_ms: i64,
        open: OpenUpTo<'_>,
    ) -> Result<Option<TimeOffset>, ReadError> {
        let mut first = Ok(None);
        self.each(history, self.start, &mut |found| {
            let stored = StoredBatch::new(found);
            if stored.batch.max_timestamp_ms() >= timestamp_ms {
                first = self.first_at_time(history, &stored, timestamp_ms, open);
            }
            if matches!(first, Ok(None)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        first
    }

    /// Returns the first batch at or after offset `from` with a record of this time or later; the
    /// end when there is none.
    pub(crate) fn first_batch_at(
        &self,
        history: &dyn History,
        from: Sequence,
        timestamp_ms: i64,
    ) -> Result<Sequence, ReadError> {
        let mut start = from;
        self.each(history, from, &mut |found| {
            let stored = StoredBatch::new(found);
            // Records without a time have that of their commit.
            let time_ms = match stored.batch.max_timestamp_ms() {
                ..0 => i64::try_from(stored.time.as_millis()).unwrap_or(i64::MAX),
                time_ms => time_ms,
            };
            if time_ms >= timestamp_ms {
                return ControlFlow::Break(());
            }
            start = stored.next_offset();
            ControlFlow::Continue(())
        })?;
        Ok(start)
    }

    /// The first of the records with the latest time; `None` in an empty partition. `hint` is the
    /// offset of its batch, from [`Streams::latest_batch`](crate::Streams::latest_batch). Without a
    /// hint, this reads every batch. `open` is as in [`Partition::offset_at_time`].
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn latest_record(
        &self,
        history: &dyn History,
        hint: Option<Sequence>,
        open: OpenUpTo<'_>,
    ) -> Result<Option<TimeOffset>, ReadError> {
        let from = match hint {
            Some(hint) => hint,
            None => {
                let mut latest: Option<(i64, Sequence)> = None;
                self.each(history, self.start, &mut |found| {
                    let stored = StoredBatch::new(found);
                    let time_ms = stored.batch.max_timestamp_ms();
                    if latest.is_none_or(|(latest_ms, _)| latest_ms < time_ms) {
                        latest = Some((time_ms, stored.base_offset));
                    }
                    ControlFlow::Continue(())
                })?;
                let Some((_, offset)) = latest else { return Ok(None) };
                offset
            }
        };
        let Some(found) = history.seek(self.tag.tag(), from)? else { return Ok(None) };
        let stored = StoredBatch::new(&found);
        self.first_at_time(history, &stored, stored.batch.max_timestamp_ms(), open)
    }

    /// Returns the first existing record of the batch at or after a time; `None` when all such
    /// records are deleted. A batch may state a max timestamp that no record has, be unreadable, or
    /// be too large to decompress. The result is then the start of the batch, so that no record is
    /// skipped.
    fn first_at_time(
        &self,
        history: &dyn History,
        stored: &StoredBatch<'_>,
        timestamp_ms: i64,
        open: OpenUpTo<'_>,
    ) -> Result<Option<TimeOffset>, ReadError> {
        let search = |records: BatchRecords<'_>| self.search(stored.base_offset, records, timestamp_ms);
        let mut searched = stored.batch.records().map_or(TimeSearch::Unknown, search);
        if stored.batch.records().is_err() {
            for bytes_max in OPENED_BYTES {
                let Some(opened) = open(&stored.batch, bytes_max) else { break };
                history.claim(quire_model::steps_of_bytes(opened.len()))?;
                searched = search(stored.batch.records_from(&opened));
                if searched != TimeSearch::Unknown || opened.len() < bytes_max {
                    break;
                }
            }
        }
        Ok(match searched {
            TimeSearch::Found(found) => Some(found),
            TimeSearch::Deleted => None,
            TimeSearch::Unknown => Some(TimeOffset {
                offset: stored.base_offset.max(self.start),
                timestamp_ms: stored.batch.base_timestamp_ms(),
            }),
        })
    }

    fn search(&self, base_offset: Sequence, records: BatchRecords<'_>, timestamp_ms: i64) -> TimeSearch {
        let mut searched = TimeSearch::Unknown;
        for record in records {
            let Ok(record) = record else { return TimeSearch::Unknown };
            if record.timestamp_ms >= timestamp_ms {
                let offset = Sequence::new(base_offset.get() + u64::from(record.offset_delta));
                if offset >= self.start {
                    return TimeSearch::Found(TimeOffset { offset, timestamp_ms: record.timestamp_ms });
                }
                searched = TimeSearch::Deleted;
            }
        }
        searched
    }
}

/// The result of searching the records of a batch for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeSearch {
    /// The first existing record at or after the time.
    Found(TimeOffset),
    /// Every record at or after the time is deleted.
    Deleted,
    /// No record is at or after the time, or some records could not be read.
    Unknown,
}

/// The most unreadable batches that are skipped to find the last readable one. All batches of a
/// lost segment are skipped at once.
const LOOKS_BACK_MAX: u32 = 64;

/// The most batches that a fetch looks up at a time. The number grows by this factor each time.
const FEW_MAX: usize = 64;
const FEW_TIMES: usize = 8;

/// The bytes of a batch that are decompressed to find a record by its time. The first value is
/// small, because the record is often near the beginning.
const OPENED_BYTES: [usize; 3] = [1 << 20, 8 << 20, LOOKED_THROUGH_BYTES_MAX];

/// The largest number of bytes of a compressed batch that are searched for a time.
pub const LOOKED_THROUGH_BYTES_MAX: usize = 64 << 20;

/// Decompresses the records of a batch; `None` when it can't.
pub type Open<'o> = &'o mut dyn FnMut(&Batch<'_>) -> Option<Vec<u8>>;

/// Decompresses the records of a batch, at most the given number of bytes; `None` on failure.
pub type OpenUpTo<'o> = &'o mut dyn FnMut(&Batch<'_>, usize) -> Option<Vec<u8>>;
