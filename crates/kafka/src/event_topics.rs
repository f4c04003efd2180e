//! An event store as a read-only topic with one partition.
//!
//! | of the record | is |
//! |---|---|
//! | offset | the event's position, so the first is 1 |
//! | time | when it was recorded, in whole milliseconds |
//! | key | none |
//! | value | its data |
//! | headers | `type`; `tag`, once for each; `id`; `metadata`, unless empty |
//!
//! The store holds no batches: each fetch makes one batch. A batch fits the space that the fetch
//! has left, unless a single event is larger.

use bytes::BytesMut;
use quire::events::{EventPosition, EventView, Query, ReadOptions, Selection, StoreNumber};
use quire::streams::wire::{BatchBuilder, Header};
use quire::streams::{PartitionOffsets, StreamReadError, TimeOffset};
use quire::{Error, History, LongReading, ReadView, Sequence};

use crate::by_time::{at, first_at, latest};
use crate::errors::KafkaError;
use crate::partition::{FetchSpace, put};

/// An upper bound of the size of a batch's header, and of a record besides its event.
const BATCH_BYTES: usize = 64;
const RECORD_BYTES: usize = 32;
const HEADER_BYTES: usize = 16;

/// An event store, read as a topic.
#[derive(Debug)]
pub(crate) struct EventTopic {
    number: StoreNumber,
    selection: Selection,
}

impl EventTopic {
    /// Finds an existing store.
    pub(crate) fn of(view: &ReadView<'_>, store: &str, number: StoreNumber) -> Result<Self, KafkaError> {
        let selection = view.events.select(store, &Query::all()).map_err(|_| KafkaError::unknown_topic())?;
        Ok(EventTopic { number, selection })
    }

    /// The bytes of the tag under which the log records trims and erasures of the store.
    pub(crate) fn changes_tag(&self) -> Box<[u8]> {
        self.number.changes_tag()
    }

    /// The bytes of the tag of its events.
    pub(crate) fn tag(&self) -> Option<Box<[u8]>> {
        self.selection.store_tag().map(|tag| tag.as_bytes().into())
    }

    /// The first and next offsets. An empty store begins and ends at 1.
    pub(crate) fn offsets(&self, history: &dyn History) -> Result<PartitionOffsets, KafkaError> {
        let mut reading = self
            .selection
            .read(history, ReadOptions { limit: Some(1), ..ReadOptions::default() })
            .map_err(unreadable)?;
        let next = reading.head().next();
        // An unreadable event keeps its offset. A reader of it gets an error, and the other events
        // stay readable.
        let start = reading.next().map_or(next, |first| first.map_or(EventPosition::new(1), |event| event.position));
        Ok(PartitionOffsets { start: Sequence::new(start.get()), next: Sequence::new(next.get()) })
    }

    /// Makes a batch of the events from offset `from` on, up to `space` bytes. Offset 0, where
    /// clients expect every topic to begin, is read as 1. If it were refused, a consumer that
    /// starts there would continue at the end. Returns the offset after the batch.
    pub(crate) fn fetch(
        &self,
        history: &dyn History,
        from: Sequence,
        room: FetchSpace,
        out: &mut BytesMut,
    ) -> Result<Option<Sequence>, KafkaError> {
        let PartitionOffsets { start, next } = self.offsets(history)?;
        let from = from.max(Sequence::new(1));
        if from < start || from > next {
            return Err(StreamReadError::OffsetOutOfRange { from, start, next }.into());
        }
        let mut batch = BatchBuilder::new();
        let mut base = EventPosition::ZERO;
        let mut after = EventPosition::new(from.get() - 1);
        let mut reading = LongReading::new(history);
        'histories: loop {
            let options = ReadOptions { after, ..ReadOptions::default() };
            let from = after;
            let events = match self.selection.read(reading.history(), options) {
                Ok(events) => events,
                // The events before an unreadable one are returned. The next fetch begins at it and
                // reports it.
                Err(_) if batch.record_count() > 0 => break,
                Err(error) => return Err(unreadable(error)),
            };
            for event in events {
                let event = match event {
                    Ok(event) => event,
                    Err(_) if batch.record_count() > 0 => break 'histories,
                    Err(error) => return Err(unreadable(error)),
                };
                if batch.record_count() == 0 {
                    base = event.position;
                }
                // The offsets in a batch are dense, so an erased event ends it. The next fetch
                // continues with the next batch.
                let is_next = event.position.get() == base.get() + u64::from(batch.record_count());
                if !is_next || !room.takes(batch.bytes(), bytes_max(&event)) || add(&mut batch, &event).is_err() {
                    break 'histories;
                }
                after = event.position;
                if reading.history().holds_too_much() {
                    break;
                }
            }
            if after == from {
                break;
            }
            reading.let_go();
        }
        let end = Sequence::new(base.get() + u64::from(batch.record_count()));
        let Some(batch) = batch.finish() else { return Ok(None) };
        put(out, batch, Sequence::new(base.get()));
        Ok(Some(end))
    }

    /// Returns the first event that is not earlier: events of one store are ordered by time.
    pub(crate) fn offset_at_time(
        &self,
        history: &dyn History,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, KafkaError> {
        let PartitionOffsets { start, next } = self.offsets(history)?;
        first_at((start.get(), next.get()), timestamp_ms, |position| self.first_from(history, position))
    }

    /// Returns the first event with the latest time.
    pub(crate) fn latest_record(&self, history: &dyn History) -> Result<Option<TimeOffset>, KafkaError> {
        let PartitionOffsets { start, next } = self.offsets(history)?;
        latest((start.get(), next.get()), |position| self.first_from(history, position))
    }

    fn first_from(&self, history: &dyn History, position: u64) -> Result<Option<TimeOffset>, KafkaError> {
        let after = EventPosition::new(position - 1);
        let options = ReadOptions { after, limit: Some(1), ..ReadOptions::default() };
        let event =
            self.selection.read(history, options).map_err(unreadable)?.next().transpose().map_err(unreadable)?;
        Ok(event.map(|event| at(event.position.get(), time_ms(&event))))
    }
}

/// Adds an event as a record.
fn add(batch: &mut BatchBuilder, event: &EventView<'_>) -> Result<(), quire::streams::wire::BatchFull> {
    let id = event.id().to_string();
    let mut headers = vec![Header::new("type", event.event_type.as_bytes())];
    headers.extend(event.tags().map(|tag| Header::new("tag", tag)));
    headers.push(Header::new("id", id.as_bytes()));
    if !event.metadata.is_empty() {
        headers.push(Header::new("metadata", event.metadata));
    }
    batch.add(None, Some(event.data), &headers, time_ms(event))
}

/// An upper bound of the bytes that this event adds to a batch.
fn bytes_max(event: &EventView<'_>) -> usize {
    let id_bytes = 36;
    let tags: usize = event.tags().map(|tag| HEADER_BYTES + tag.len()).sum();
    let others = 3 * HEADER_BYTES + event.event_type.len() + id_bytes + event.metadata.len();
    BATCH_BYTES + RECORD_BYTES + others + tags + event.data.len()
}

fn time_ms(event: &EventView<'_>) -> i64 {
    i64::try_from(event.time.as_millis()).unwrap_or(i64::MAX)
}

fn unreadable(error: impl Into<Error>) -> KafkaError {
    error.into().into()
}
