//! The events of one queue by their numbers, as a Kafka topic of the queue shows them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use quire_model::{History, Place, ReadError, Sequence, TagBuf};

use super::event::{LifeEvent, told};
use crate::Jobs;
use crate::codec::queue_tag;
use crate::id::QueueId;
use crate::read::names::QueueNames;

/// The life-cycle events of a queue, without gaps except for deleted events.
#[derive(Debug, Clone)]
pub struct QueueLog {
    queue: QueueId,
    name: Arc<str>,
}

impl Jobs {
    /// The events of a queue; `None` for an unknown queue.
    pub fn queue_log(&self, queue: &str) -> Option<QueueLog> {
        let (name, queue) = self.queue_ids.get_key_value(queue)?;
        Some(QueueLog { queue: *queue, name: Arc::clone(name) })
    }

    /// The events of the queue with this [number](QueueLog::number); `None` when no such queue
    /// exists.
    pub fn queue_log_numbered(&self, number: u32) -> Option<QueueLog> {
        let queue = self.queues.get(&QueueId(number)).filter(|queue| queue.destroyed_at.is_none())?;
        Some(QueueLog { queue: QueueId(number), name: Arc::clone(&queue.name) })
    }

    /// The events of the queues whose names have this dotted form (`air.delays` for `air/delays`),
    /// in the order of their names.
    pub fn queue_logs_dotted(&self, form: &str) -> impl Iterator<Item = QueueLog> {
        // A name is less than each other name of which it is the form.
        let own = self.queue_ids.get_key_value(form).map(|(name, _)| &**name).filter(|name| !name.contains('/'));
        own.into_iter().chain(self.dotted.of(form)).filter_map(|name| self.queue_log(name))
    }

    /// The number of queues.
    pub fn queue_count(&self) -> u64 {
        self.queue_ids.len() as u64
    }

    /// The events of the queues from `name` on, which need not exist. Callers that list many queues
    /// ask for a few at a time.
    pub fn queue_logs_from(&self, name: &str) -> impl Iterator<Item = QueueLog> {
        let from = self.queue_ids.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        from.map(|(name, queue)| QueueLog { queue: *queue, name: Arc::clone(name) })
    }

    /// The events of every queue, by name.
    pub fn queue_logs(&self) -> impl Iterator<Item = QueueLog> {
        self.queue_ids.iter().map(|(name, queue)| QueueLog { queue: *queue, name: Arc::clone(name) })
    }
}

impl QueueLog {
    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the queue. It is never given twice: a new queue of the same name has another
    /// number.
    pub fn number(&self) -> u32 {
        self.queue.0
    }

    /// The tag of the events.
    pub fn tag(&self) -> TagBuf {
        queue_tag(self.queue)
    }

    /// The number of the first event that still exists, and the number of the next new event.
    ///
    /// # Errors
    /// When the last entry cannot be read. When the first cannot be read, the numbers begin at 0: a
    /// reader that begins there gets the error.
    pub fn bounds(&self, history: &dyn History) -> Result<(Sequence, Sequence), ReadError> {
        let tag = self.tag();
        let Some(last) = history.previous(&[tag.tag()], Place::END)? else { return Ok(Default::default()) };
        let next = last.next_sequence();
        let first = match history.next(&[tag.tag()], Place::START) {
            Ok(first) => first.and_then(|entry| entry.sequence).unwrap_or(next),
            Err(error) if error.is_of_request() => return Err(error),
            Err(_) => Sequence::new(0),
        };
        Ok((first, next))
    }

    /// The events of the entry that contains this number, or of the first later entry, from this
    /// number on; none at the end.
    ///
    /// # Errors
    /// When the entry can't be read.
    pub fn events_from(&self, history: &dyn History, number: Sequence) -> Result<Vec<LifeEvent>, ReadError> {
        let Some(entry) = history.seek(self.tag().tag(), number)? else { return Ok(Vec::new()) };
        let first = entry.sequence.unwrap_or_default();
        let skip = u32::try_from(number.get().saturating_sub(first.get())).unwrap_or(u32::MAX);
        let mut names = QueueNames::with(self.queue, Arc::clone(&self.name));
        let mut events = Vec::new();
        for told in told(&entry, skip, |_, _| true)? {
            events.extend(told.whole(history, &mut names, &entry, |_, _| true)?);
        }
        Ok(events)
    }
}
