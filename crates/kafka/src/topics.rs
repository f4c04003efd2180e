//! What Kafka calls topics: our topics, and event stores under names that Kafka allows.
//!
//! The event store `air/flights` is the topic `air.flights`. A topic of that name, when there is one, hides it; of two
//! stores that come out the same (`a.b` and `a/b`), the first in the order of names is meant. Kafka's topic ids are made
//! of the database's own number and ours, so that they are the same after every restart and can be read back without a
//! table.

use std::collections::HashSet;

use quire::View;
use quire::events::StoreNumber;
use quire::streams::{TOPIC_NAME_BYTES_MAX, TopicId, TopicInfo};
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
}

impl Topic {
    pub(crate) fn partitions(&self) -> u32 {
        match self.kind {
            Kind::Stream { partitions, .. } => partitions,
            Kind::Events { .. } => 1,
        }
    }
}

/// Every topic, with those of event stores behind the others.
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
    topics
}

/// The topic of this name.
pub(crate) fn named(database: u128, view: &View<'_>, name: &str) -> Option<Topic> {
    if let Some(topic) = view.streams.topic_named(name) {
        return Some(stream(database, topic));
    }
    let (store, number) = view.events.stores().find(|(store, _)| is_named(store, name))?;
    Some(events(database, name.to_owned(), store, number))
}

/// The topic with this id.
pub(crate) fn with_uuid(database: u128, view: &View<'_>, uuid: Uuid) -> Option<Topic> {
    let name = match Numbered::of(database, uuid)? {
        Numbered::Stream(id) => view.streams.topic(id)?.name.to_owned(),
        Numbered::Events(number) => topic_name(view.events.stores().find(|(_, candidate)| *candidate == number)?.0)?,
    };
    named(database, view, &name).filter(|topic| topic.uuid == uuid)
}

/// The name of what a group committed an offset in.
pub(crate) fn name_of(database: u128, view: &View<'_>, topic: TopicId) -> Option<String> {
    let Some(number) = topic.as_outside() else { return Some(view.streams.topic(topic)?.name.to_owned()) };
    let (store, number) = view.events.stores().find(|(_, candidate)| candidate.get() == number)?;
    let name = topic_name(store)?;
    // A topic or another store may have the name.
    let meant = named(database, view, &name)?;
    matches!(meant.kind, Kind::Events { number: it, .. } if it == number).then_some(name)
}

/// What a topic id names; it need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbered {
    Stream(TopicId),
    Events(StoreNumber),
}

/// The bit that tells event stores' numbers from topics'.
const EVENTS: u128 = 1 << 32;

impl Numbered {
    /// What this id names, when it is one of this database.
    pub(crate) fn of(database: u128, uuid: Uuid) -> Option<Self> {
        let number = (uuid.as_u128() ^ database).checked_sub(1)?;
        let low = u32::try_from(number & !EVENTS).ok()?;
        Some(if number & EVENTS == 0 {
            Numbered::Stream(TopicId::new(low))
        } else {
            Numbered::Events(StoreNumber::new(low))
        })
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
