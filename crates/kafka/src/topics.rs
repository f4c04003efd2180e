//! Kafka topics: real topics, and event stores and queues under names that Kafka allows.
//!
//! The event store `air/flights` is the topic `air.flights`. A real topic of that name hides it. If
//! two stores map to one name (`a.b` and `a/b`), the topic is the first in the order of names.
//!
//! A topic id consists of the database's id and the topic's number. So it is the same after every
//! restart, and can be resolved without a table.
//!
//! The life-cycle events of the queue `air/delays` are the topic `jobs.air.delays`; a topic or a
//! store of that name hides it.

use std::collections::HashSet;

use quire::events::StoreNumber;
use quire::jobs::QueueLog;
use quire::streams::{TOPIC_NAME_BYTES_MAX, TopicId, TopicInfo};
use quire::{OUTSIDE_QUEUE, ReadView};
use uuid::Uuid;

/// The meaning of a topic name or topic id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KafkaTopic {
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
    pub(crate) kind: TopicKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopicKind {
    Stream {
        id: TopicId,
        partitions: u32,
    },
    /// An event store, by its own name. It has one partition, and can't be produced to.
    Events {
        store: String,
        number: StoreNumber,
    },
    /// The life-cycle events of a queue, by its own name. It has one partition, and can't be
    /// produced to.
    Jobs {
        queue: String,
        number: u32,
    },
}

impl KafkaTopic {
    pub(crate) fn partitions(&self) -> u32 {
        match self.kind {
            TopicKind::Stream { partitions, .. } => partitions,
            TopicKind::Events { .. } | TopicKind::Jobs { .. } => 1,
        }
    }
}

/// Returns every topic: real ones, then event stores, then queues.
pub(crate) fn all(database: u128, view: &ReadView<'_>) -> Vec<KafkaTopic> {
    let mut topics: Vec<KafkaTopic> = view.streams.topics().map(|topic| stream(database, topic)).collect();
    let mut taken: HashSet<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    for (store, number) in view.events.stores() {
        if let Some(name) = topic_name(store)
            && taken.insert(name.clone())
        {
            topics.push(events(database, name, store, number));
        }
    }
    for queue in view.jobs.queue_logs() {
        if let Some(name) = queue_topic_name(queue.name())
            && taken.insert(name.clone())
        {
            topics.push(jobs(database, name, &queue));
        }
    }
    topics
}

/// Finds the topic of this name.
pub(crate) fn named(database: u128, view: &ReadView<'_>, name: &str) -> Option<KafkaTopic> {
    if let Some(topic) = view.streams.topic_named(name) {
        return Some(stream(database, topic));
    }
    if let Some((store, number)) = view.events.stores().find(|(store, _)| is_named(store, name)) {
        return Some(events(database, name.to_owned(), store, number));
    }
    if name.len() > TOPIC_NAME_BYTES_MAX {
        return None;
    }
    let queue = name.strip_prefix(QUEUE_PREFIX)?;
    let queue = view.jobs.queue_logs().find(|log| is_named(log.name(), queue))?;
    Some(jobs(database, name.to_owned(), &queue))
}

/// Finds the topic with this id.
pub(crate) fn with_uuid(database: u128, view: &ReadView<'_>, uuid: Uuid) -> Option<KafkaTopic> {
    let name = match ResourceNumber::of(database, uuid)? {
        ResourceNumber::Stream(id) => view.streams.topic(id)?.name.to_owned(),
        ResourceNumber::Events(number) => {
            topic_name(view.events.stores().find(|(_, candidate)| *candidate == number)?.0)?
        }
        ResourceNumber::Jobs(number) => queue_topic_name(view.jobs.queue_log_numbered(number)?.name())?,
    };
    named(database, view, &name).filter(|topic| topic.uuid == uuid)
}

/// The topic name for a group's committed offset.
pub(crate) fn name_of(database: u128, view: &ReadView<'_>, topic: TopicId) -> Option<String> {
    let Some(outside) = topic.as_outside() else { return Some(view.streams.topic(topic)?.name.to_owned()) };
    let name = if outside & OUTSIDE_QUEUE == 0 {
        topic_name(view.events.stores().find(|(_, candidate)| candidate.get() == outside)?.0)?
    } else {
        let number = outside & !OUTSIDE_QUEUE;
        queue_topic_name(view.jobs.queue_log_numbered(number)?.name())?
    };
    // A real topic or another store may have the name.
    (named(database, view, &name)?.kind.outside() == Some(outside)).then_some(name)
}

/// The resource that a topic id names; it may not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceNumber {
    Stream(TopicId),
    Events(StoreNumber),
    Jobs(u32),
}

/// The bits of a topic id that mark the numbers of event stores and queues.
const EVENTS: u128 = 1 << 32;
const JOBS: u128 = 1 << 33;

/// The prefix of queue topics.
const QUEUE_PREFIX: &str = "jobs.";

impl TopicKind {
    /// The number under which groups commit offsets in it; `None` for a real topic.
    pub(crate) fn outside(&self) -> Option<u32> {
        match self {
            TopicKind::Stream { .. } => None,
            TopicKind::Events { number, .. } => Some(number.get()),
            TopicKind::Jobs { number, .. } => Some(OUTSIDE_QUEUE | number),
        }
    }
}

impl ResourceNumber {
    /// Resolves this id, if it is one of this database.
    pub(crate) fn of(database: u128, uuid: Uuid) -> Option<Self> {
        let number = (uuid.as_u128() ^ database).checked_sub(1)?;
        let low = u32::try_from(number & !(EVENTS | JOBS)).ok()?;
        match number & (EVENTS | JOBS) {
            0 => Some(ResourceNumber::Stream(TopicId::new(low))),
            EVENTS => Some(ResourceNumber::Events(StoreNumber::new(low))),
            JOBS => Some(ResourceNumber::Jobs(low)),
            _ => None,
        }
    }
}

fn stream(database: u128, topic: TopicInfo<'_>) -> KafkaTopic {
    let uuid = Uuid::from_u128(database ^ (u128::from(topic.id.get()) + 1));
    let kind = TopicKind::Stream { id: topic.id, partitions: topic.partitions };
    KafkaTopic { name: topic.name.to_owned(), uuid, kind }
}

fn events(database: u128, name: String, store: &str, number: StoreNumber) -> KafkaTopic {
    let uuid = Uuid::from_u128(database ^ ((EVENTS | u128::from(number.get())) + 1));
    KafkaTopic { name, uuid, kind: TopicKind::Events { store: store.to_owned(), number } }
}

fn jobs(database: u128, name: String, queue: &QueueLog) -> KafkaTopic {
    let uuid = Uuid::from_u128(database ^ ((JOBS | u128::from(queue.number())) + 1));
    KafkaTopic { name, uuid, kind: TopicKind::Jobs { queue: queue.name().to_owned(), number: queue.number() } }
}

/// The topic name of a queue; `None` when it is too long for Kafka.
fn queue_topic_name(queue: &str) -> Option<String> {
    let name = format!("{QUEUE_PREFIX}{}", queue.replace('/', "."));
    (name.len() <= TOPIC_NAME_BYTES_MAX).then_some(name)
}

/// The topic name of a store; `None` for the few whose name Kafka does not allow.
fn topic_name(store: &str) -> Option<String> {
    let name = store.replace('/', ".");
    (name.len() <= TOPIC_NAME_BYTES_MAX && name != "." && name != "..").then_some(name)
}

fn is_named(store: &str, name: &str) -> bool {
    name.len() <= TOPIC_NAME_BYTES_MAX
        && !matches!(name, "." | "..")
        && store.bytes().map(|byte| if byte == b'/' { b'.' } else { byte }).eq(name.bytes())
}
