//! The life-cycle events of a queue as a read-only topic with one partition.
//!
//! | of the record | is |
//! |---|---|
//! | offset | the event's number in the queue, from 0 |
//! | time | when it happened, in whole milliseconds |
//! | key | the job's id; none when it happened to the queue |
//! | value | the payload of an enqueued job, the result of a completed one, the progress that a heartbeat told; else empty |
//! | headers | `event`; `kind`, `state`, `attempt`, `until_ms`, and `worker`, `error` or `reason`, where there is one |
//!
//! As with event stores, each fetch makes one batch.

use bytes::BytesMut;
use quire::jobs::{LifeEvent, QueueLog};
use quire::streams::wire::{BatchBuilder, BatchFull, Header};
use quire::streams::{PartitionOffsets, StreamReadError, TimeOffset};
use quire::{Error, History, LongReading, ReadView, Sequence};

use crate::by_time::{at, first_at, latest};
use crate::errors::KafkaError;
use crate::partition::{FetchSpace, put};

/// An upper bound of the size of a batch's header, of a record's fields, and of a header with its
/// name and number.
const BATCH_BYTES: usize = 64;
const RECORD_BYTES: usize = 32;
const HEADER_BYTES: usize = 32;

/// The maximum number of headers of an event.
const HEADERS_MAX: usize = 6;

/// A queue, read as a topic.
#[derive(Debug)]
pub(crate) struct JobTopic {
    log: QueueLog,
}

impl JobTopic {
    /// Finds an existing queue.
    pub(crate) fn of(view: &ReadView<'_>, queue: &str) -> Result<Self, KafkaError> {
        view.jobs.queue_log(queue).map(|log| JobTopic { log }).ok_or_else(KafkaError::unknown_topic)
    }

    /// The bytes of the tag of its events.
    pub(crate) fn tag(&self) -> Box<[u8]> {
        self.log.tag().tag().as_bytes().into()
    }

    /// The first and next offsets.
    pub(crate) fn offsets(&self, history: &dyn History) -> Result<PartitionOffsets, KafkaError> {
        let (start, next) = self.log.bounds(history).map_err(unreadable)?;
        Ok(PartitionOffsets { start, next })
    }

    /// Makes a batch of the events from offset `from` on, up to `space` bytes. Returns the offset
    /// after the batch.
    pub(crate) fn fetch(
        &self,
        history: &dyn History,
        from: Sequence,
        room: FetchSpace,
        out: &mut BytesMut,
    ) -> Result<Option<Sequence>, KafkaError> {
        // If the event with this number exists, the offset is in range. Otherwise the range of the
        // queue's numbers is checked.
        let first = self.log.events_from(history, from).map_err(unreadable)?;
        if first.first().is_none_or(|event| event.number != from) {
            let PartitionOffsets { start, next } = self.offsets(history)?;
            if from < start || from > next {
                return Err(StreamReadError::OffsetOutOfRange { from, start, next }.into());
            }
        }
        let (mut looked, mut reading) = (Some(first), LongReading::new(history));
        let mut batch = BatchBuilder::new();
        let (mut base, mut wanted) = (from, from);
        'entries: loop {
            let events = looked.take().map_or_else(|| self.log.events_from(reading.history(), wanted), Ok);
            let events = match events {
                Ok(events) => events,
                // The events before an unreadable one are returned. The next fetch begins at it and
                // reports it.
                Err(_) if batch.record_count() > 0 => break,
                Err(error) => return Err(unreadable(error)),
            };
            if events.is_empty() {
                break;
            }
            for event in &events {
                if batch.record_count() == 0 {
                    (base, wanted) = (event.number, event.number);
                }
                // The offsets in a batch are dense, so an unreadable event ends it. The next fetch
                // continues with the next batch.
                let is_next = event.number == wanted;
                if !is_next || !room.takes(batch.bytes(), bytes_max(event)) || add(&mut batch, event).is_err() {
                    break 'entries;
                }
                wanted = Sequence::new(event.number.get() + 1);
            }
            reading.let_go();
        }
        let Some(batch) = batch.finish() else { return Ok(None) };
        put(out, batch, base);
        Ok(Some(wanted))
    }

    /// Returns the first event that is not earlier: a log is ordered by time.
    pub(crate) fn offset_at_time(
        &self,
        history: &dyn History,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, KafkaError> {
        let PartitionOffsets { start, next } = self.offsets(history)?;
        first_at((start.get(), next.get()), timestamp_ms, |number| self.first_from(history, number))
    }

    /// Returns the first event with the latest time.
    pub(crate) fn latest_record(&self, history: &dyn History) -> Result<Option<TimeOffset>, KafkaError> {
        let PartitionOffsets { start, next } = self.offsets(history)?;
        latest((start.get(), next.get()), |number| self.first_from(history, number))
    }

    fn first_from(&self, history: &dyn History, number: u64) -> Result<Option<TimeOffset>, KafkaError> {
        let events = self.log.events_from(history, Sequence::new(number)).map_err(unreadable)?;
        Ok(events.first().map(|event| at(event.number.get(), time_ms(event))))
    }
}

/// Adds an event as a record.
fn add(batch: &mut BatchBuilder, event: &LifeEvent) -> Result<(), BatchFull> {
    let step = &event.step;
    let (name, attempt) = (step.event.name().replace(' ', "_"), step.attempt.to_string());
    let until = step.until.map(|until| until.as_millis().to_string());
    let mut headers = vec![Header::new("event", name.as_bytes())];
    headers.extend((!event.kind.is_empty()).then(|| Header::new("kind", event.kind.as_bytes())));
    headers.extend(step.state.map(|state| Header::new("state", state.name().as_bytes())));
    headers.extend((step.attempt > 0).then(|| Header::new("attempt", attempt.as_bytes())));
    headers.extend(until.as_ref().map(|until| Header::new("until_ms", until.as_bytes())));
    headers.extend((!step.note.is_empty()).then(|| Header::new(step.event.note_name(), step.note.as_bytes())));
    let key = event.job.map(|job| job.to_string());
    batch.add(key.as_deref().map(str::as_bytes), Some(&event.data), &headers, time_ms(event))
}

/// An upper bound of the bytes that this event adds to a batch.
fn bytes_max(event: &LifeEvent) -> usize {
    BATCH_BYTES
        + RECORD_BYTES
        + HEADERS_MAX * HEADER_BYTES
        + event.kind.len()
        + event.step.note.len()
        + event.data.len()
}

fn time_ms(event: &LifeEvent) -> i64 {
    i64::try_from(event.step.time.as_millis()).unwrap_or(i64::MAX)
}

fn unreadable(error: impl Into<Error>) -> KafkaError {
    error.into().into()
}
