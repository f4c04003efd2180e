//! What Kafka calls topics: our topics, and event stores and queues under names that Kafka allows.
//!
//! The event store `air/flights` is the topic `air.flights`. A topic of that name, when there is one, hides it; of two
//! stores that come out the same (`a.b` and `a/b`), the first in the order of names is meant. Kafka's topic ids are made
//! of the database's own number and ours, so that they are the same after every restart and can be read back without a
//! table.
//!
//! The life-cycle events of the queue `air/delays` are the topic `jobs.air.delays`; a topic or a store of that name hides it.

use std::collections::HashSet;

use quire::events::StoreNumber;
use quire::jobs::QueueLog;
use quire::streams::{TOPIC_NAME_BYTES_MAX, TopicId, TopicInfo};
use quire::{OUTSIDE_QUEUE, View};
use uuid::Uuid;

/// What a topic name or topic id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream {
        id: TopicId,
        partitions: u32,
    },
    /// An event store, by its own name. It has one partition, and can't be produced to.
    Events {
        store: String,
        number: StoreNumber,
    },
    /// The life-cycle events of a queue, by its own name. It has one partition, and can't be produced to.
    Jobs {
        queue: String,
        number: u32,
    },
}

impl Topic {
    pub(crate) fn partitions(&self) -> u32 {
        match self.kind {
            Kind::Stream { partitions, .. } => partitions,
            Kind::Events { .. } | Kind::Jobs { .. } => 1,
        }
    }
}

/// Every topic, with those of event stores and then those of queues behind the others.
pub(crate) fn all(database: u128, view: &View<'_>) -> Vec<Topic> {
    let mut topics: Vec<Topic> = view.streams.topics().map(|topic| stream(database, topic)).collect();
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

/// The topic of this name.
pub(crate) fn named(database: u128, view: &View<'_>, name: &str) -> Option<Topic> {
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

/// The topic with this id.
pub(crate) fn with_uuid(database: u128, view: &View<'_>, uuid: Uuid) -> Option<Topic> {
    let name = match Numbered::of(database, uuid)? {
        Numbered::Stream(id) => view.streams.topic(id)?.name.to_owned(),
        Numbered::Events(number) => topic_name(view.events.stores().find(|(_, candidate)| *candidate == number)?.0)?,
        Numbered::Jobs(number) => queue_topic_name(view.jobs.queue_log_numbered(number)?.name())?,
    };
    named(database, view, &name).filter(|topic| topic.uuid == uuid)
}

/// The name of what a group committed an offset in.
pub(crate) fn name_of(database: u128, view: &View<'_>, topic: TopicId) -> Option<String> {
    let Some(outside) = topic.as_outside() else { return Some(view.streams.topic(topic)?.name.to_owned()) };
    let name = if outside & OUTSIDE_QUEUE == 0 {
        topic_name(view.events.stores().find(|(_, candidate)| candidate.get() == outside)?.0)?
    } else {
        let number = outside & !OUTSIDE_QUEUE;
        queue_topic_name(view.jobs.queue_log_numbered(number)?.name())?
    };
    // A topic or another store may have the name.
    (named(database, view, &name)?.kind.outside() == Some(outside)).then_some(name)
}

/// What a topic id names; it need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbered {
    Stream(TopicId),
    Events(StoreNumber),
    Jobs(u32),
}

/// The bits that tell event stores' and queues' numbers from topics'.
const EVENTS: u128 = 1 << 32;
const JOBS: u128 = 1 << 33;

/// What the names of queues' topics begin with.
const QUEUE_PREFIX: &str = "jobs.";

impl Kind {
    /// The number under which groups keep their offsets in it; `None` for a topic of its own.
    pub(crate) fn outside(&self) -> Option<u32> {
        match self {
            Kind::Stream { .. } => None,
            Kind::Events { number, .. } => Some(number.get()),
            Kind::Jobs { number, .. } => Some(OUTSIDE_QUEUE | number),
        }
    }
}

impl Numbered {
    /// What this id names, when it is one of this database.
    pub(crate) fn of(database: u128, uuid: Uuid) -> Option<Self> {
        let number = (uuid.as_u128() ^ database).checked_sub(1)?;
        let low = u32::try_from(number & !(EVENTS | JOBS)).ok()?;
        match number & (EVENTS | JOBS) {
            0 => Some(Numbered::Stream(TopicId::new(low))),
            EVENTS => Some(Numbered::Events(StoreNumber::new(low))),
            JOBS => Some(Numbered::Jobs(low)),
            _ => None,
        }
    }
}

fn stream(database: u128, topic: TopicInfo<'_>) -> Topic {
    let uuid = Uuid::from_u128(database ^ (u128::from(topic.id.get()) + 1));
    let kind = Kind::Stream { id: topic.id, partitions: topic.partitions };
    Topic { name: topic.name.to_owned(), uuid, kind }
}

fn events(database: u128, name: String, store: &str, number: StoreNumber) -> Topic {
    let uuid = Uuid::from_u128(database ^ ((EVENTS | u128::from(number.get())) + 1));
    Topic { name, uuid, kind: Kind::Events { store: store.to_owned(), number } }
}

fn jobs(database: u128, name: String, queue: &QueueLog) -> Topic {
    let uuid = Uuid::from_u128(database ^ ((JOBS | u128::from(queue.number())) + 1));
    Topic { name, uuid, kind: Kind::Jobs { queue: queue.name().to_owned(), number: queue.number() } }
}

/// The topic name of a queue; `None` when it is too long for Kafka.
fn queue_topic_name(queue: &str) -> Option<String> {
    let name = format!("{QUEUE_PREFIX}{}", queue.replace('/', "."));
    (name.len() <= TOPIC_NAME_BYTES_MAX).then_some(name)
}

/// The topic name of a store; `None` for the few that Kafka has no name for.
fn topic_name(store: &str) -> Option<String> {
    let name = store.replace('/', ".");
    (name.len() <= TOPIC_NAME_BYTES_MAX && name != "." && name != "..").then_some(name)
}

fn is_named(store: &str, name: &str) -> bool {
    name.len() <= TOPIC_NAME_BYTES_MAX
        && !matches!(name, "." | "..")
        && store.bytes().map(|byte| if byte == b'/' { b'.' } else { byte }).eq(name.bytes())
}
