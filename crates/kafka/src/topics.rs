//! Kafka topics: real topics, and event stores and queues under names that Kafka allows.
//!
//! The event store `air/flights` is the topic `air.flights`. The life-cycle events of the queue
//! `air/delays` are the topic `jobs.air.delays`. The database gives each topic name to one object,
//! and says which one it shows ([`ReadView::topic_owner`]).
//!
//! A topic id consists of the database's id and the topic's number. So it is the same after every
//! restart, and can be resolved without a table.

use std::collections::HashSet;

use quire::events::StoreNumber;
use quire::streams::TopicId;
use quire::{NameKind, OUTSIDE_QUEUE, ReadView, TopicOwner, topic_name};
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
    let topics = view.streams.topics().map(TopicOwner::Topic);
    let stores = view.events.stores().map(|(name, number)| TopicOwner::Store(name, number));
    let owners = topics.chain(stores).chain(view.jobs.queue_logs().map(TopicOwner::Queue));
    let mut taken = HashSet::new();
    let topics = owners.filter_map(|owner| {
        let name = topic_name(owner.kind(), owner.name())?;
        taken.insert(name.clone()).then(|| shown(database, name, &owner))
    });
    topics.collect()
}

/// Finds the topic of this name.
pub(crate) fn named(database: u128, view: &ReadView<'_>, name: &str) -> Option<KafkaTopic> {
    view.topic_owner(name).map(|owner| shown(database, name.to_owned(), &owner))
}

/// Finds the topic with this id.
pub(crate) fn with_uuid(database: u128, view: &ReadView<'_>, uuid: Uuid) -> Option<KafkaTopic> {
    let name = match ResourceNumber::of(database, uuid)? {
        ResourceNumber::Stream(id) => view.streams.topic(id)?.name.to_owned(),
        ResourceNumber::Events(number) => topic_name(NameKind::Store, view.events.store_name(number)?)?,
        ResourceNumber::Jobs(number) => topic_name(NameKind::Queue, view.jobs.queue_log_numbered(number)?.name())?,
    };
    named(database, view, &name).filter(|topic| topic.uuid == uuid)
}

/// The topic name for a group's committed offset.
pub(crate) fn name_of(database: u128, view: &ReadView<'_>, topic: TopicId) -> Option<String> {
    let Some(outside) = topic.as_outside() else { return Some(view.streams.topic(topic)?.name.to_owned()) };
    let name = if outside & OUTSIDE_QUEUE == 0 {
        topic_name(NameKind::Store, view.events.store_name(StoreNumber::new(outside))?)?
    } else {
        let number = outside & !OUTSIDE_QUEUE;
        topic_name(NameKind::Queue, view.jobs.queue_log_numbered(number)?.name())?
    };
    // In a database from an earlier version, another object may have the name.
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

/// The topic that shows this object.
fn shown(database: u128, name: String, owner: &TopicOwner<'_>) -> KafkaTopic {
    let (number, kind) = match owner {
        TopicOwner::Topic(topic) => {
            let kind = TopicKind::Stream { id: topic.id, partitions: topic.partitions };
            (u128::from(topic.id.get()), kind)
        }
        TopicOwner::Store(store, number) => {
            let kind = TopicKind::Events { store: (*store).to_owned(), number: *number };
            (EVENTS | u128::from(number.get()), kind)
        }
        TopicOwner::Queue(queue) => {
            let kind = TopicKind::Jobs { queue: queue.name().to_owned(), number: queue.number() };
            (JOBS | u128::from(queue.number()), kind)
        }
    };
    KafkaTopic { name, uuid: Uuid::from_u128(database ^ (number + 1)), kind }
}
