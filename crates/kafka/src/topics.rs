//! Kafka topics: real topics, and event stores and queues under names that Kafka allows.
//!
//! The event store `air/flights` is the topic `air.flights`. The life-cycle events of the queue
//! `air/delays` are the topic `jobs.air.delays`. The database gives each topic name to one object,
//! and says which one it shows ([`ReadView::topic_owner`]).
//!
//! A client needs its permissions for the object that a topic shows, whatever the name of the
//! topic.
//!
//! A topic id consists of the database's id and the topic's number. So it is the same after every
//! restart, and can be resolved without a table.

use quire::events::StoreNumber;
use quire::streams::TopicId;
use quire::{
    NameKind, OUTSIDE_QUEUE, Operation, PermittedView, ReadView, Resource, ResourceKind, TopicOwner, topic_name,
};
use uuid::Uuid;

use crate::errors::KafkaError;
use crate::permissions::{check_missing_topic, check_topic, shows_topic};

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

    /// The object that the topic shows.
    pub(crate) fn resource(&self) -> Resource<'_> {
        match &self.kind {
            TopicKind::Stream { .. } => Resource::new(ResourceKind::Topic, &self.name),
            TopicKind::Events { store, .. } => Resource::new(ResourceKind::Store, store),
            TopicKind::Jobs { queue, .. } => Resource::new(ResourceKind::Queue, queue),
        }
    }
}

/// Finds the topic of this name, for an operation of a client on it.
///
/// # Errors
/// When the client may not perform the operation, or the topic does not exist. A client that may
/// not perform it on any topic of this name does not learn whether it exists.
pub(crate) fn permitted(
    database: u128,
    view: &PermittedView<'_>,
    name: &str,
    operation: Operation,
) -> Result<KafkaTopic, KafkaError> {
    match named(database, view, name) {
        Some(topic) => check_topic(view, &topic, operation).map(|()| topic),
        None => Err(check_missing_topic(view, name, operation).err().unwrap_or_else(KafkaError::unknown_topic)),
    }
}

/// Finds the topic with this id, for an operation of a client on it.
///
/// # Errors
/// When the topic does not exist, or the client may not perform the operation. Ids can be guessed,
/// so a topic that the client may not describe has the answer of an unknown id (KIP-516).
pub(crate) fn permitted_by_id(
    database: u128,
    view: &PermittedView<'_>,
    uuid: Uuid,
    operation: Operation,
) -> Result<KafkaTopic, KafkaError> {
    let is_shown = |topic: &KafkaTopic| check_topic(view, topic, Operation::Describe).is_ok();
    let topic = with_uuid(database, view, uuid).filter(is_shown).ok_or_else(KafkaError::unknown_topic_id)?;
    check_topic(view, &topic, operation).map(|()| topic)
}

/// The topic that shows this object. `None` when another object has its name, or Kafka allows no
/// such name.
pub(crate) fn of_owner(database: u128, view: &ReadView<'_>, owner: &TopicOwner<'_>) -> Option<KafkaTopic> {
    let topic = shown(database, topic_name(owner.kind(), owner.name())?, owner);
    named(database, view, &topic.name).filter(|found| found.uuid == topic.uuid)
}

/// Finds the topic of this name.
pub(crate) fn named(database: u128, view: &ReadView<'_>, name: &str) -> Option<KafkaTopic> {
    view.topic_owner(name).map(|owner| shown(database, name.to_owned(), &owner))
}

/// Finds the topic with this id.
fn with_uuid(database: u128, view: &ReadView<'_>, uuid: Uuid) -> Option<KafkaTopic> {
    let name = match ResourceNumber::of(database, uuid)? {
        ResourceNumber::Stream(id) => view.streams.topic(id)?.name.to_owned(),
        ResourceNumber::Events(number) => topic_name(NameKind::Store, view.events.store_name(number)?)?,
        ResourceNumber::Jobs(number) => topic_name(NameKind::Queue, view.jobs.queue_log_numbered(number)?.name())?,
    };
    named(database, view, &name).filter(|topic| topic.uuid == uuid)
}

/// The topic name for a group's committed offset, if the client may describe the topic.
pub(crate) fn name_of(database: u128, view: &PermittedView<'_>, topic: TopicId) -> Option<String> {
    let name = match topic.as_outside() {
        None => view.streams.topic(topic)?.name.to_owned(),
        Some(outside) if outside & OUTSIDE_QUEUE == 0 => {
            topic_name(NameKind::Store, view.events.store_name(StoreNumber::new(outside))?)?
        }
        Some(outside) => {
            let number = outside & !OUTSIDE_QUEUE;
            topic_name(NameKind::Queue, view.jobs.queue_log_numbered(number)?.name())?
        }
    };
    // In a database from an earlier version, another object may have the name.
    let found = named(database, view, &name).filter(|found| found.kind.outside() == topic.as_outside())?;
    shows_topic(view, &found).then_some(name)
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
