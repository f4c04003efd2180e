//! The topic names under which Kafka clients see topics, event stores and queues.
//!
//! | object | topic name |
//! |---|---|
//! | topic `a.b` | `a.b` |
//! | event store `a/b` | `a.b` |
//! | queue `a/b` | `jobs.a.b` |
//!
//! A commit cannot give two objects one topic name (see [`claims`](crate::claims)). A database from
//! an earlier version may have such objects. The first one is shown, in the order of the table, and
//! then in the order of the objects' names. The others are hidden.

use std::fmt;

use quire_model::{NameKind, dotted};

use crate::events::StoreNumber;
use crate::jobs::QueueLog;
use crate::models::Models;
use crate::streams::{TOPIC_NAME_BYTES_MAX, TopicInfo};

/// The start of the topic names of queues.
const QUEUE_PREFIX: &str = "jobs.";

/// An object that has a topic name.
#[derive(Debug, Clone)]
pub enum TopicOwner<'v> {
    /// A topic.
    Topic(TopicInfo<'v>),
    /// An event store.
    Store(&'v str, StoreNumber),
    /// A queue: its life-cycle events.
    Queue(QueueLog),
}

/// An object that Kafka clients do not see, because another one has its topic name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenObject {
    /// The topic name.
    pub topic: String,
    /// The kind and the name of the object.
    pub hidden: (NameKind, String),
    /// The kind and the name of the object that is shown.
    pub shown: (NameKind, String),
}

impl fmt::Display for HiddenObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HiddenObject { topic, hidden: (hidden, hidden_name), shown: (shown, shown_name) } = self;
        write!(
            f,
            "Kafka clients do not see {hidden} {hidden_name:?}: its topic name {topic:?} shows {shown} {shown_name:?}"
        )
    }
}

impl TopicOwner<'_> {
    /// The kind of the object.
    pub fn kind(&self) -> NameKind {
        match self {
            TopicOwner::Topic(_) => NameKind::Topic,
            TopicOwner::Store(..) => NameKind::Store,
            TopicOwner::Queue(_) => NameKind::Queue,
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        match self {
            TopicOwner::Topic(topic) => topic.name,
            TopicOwner::Store(name, _) => name,
            TopicOwner::Queue(queue) => queue.name(),
        }
    }

    fn is(&self, other: &TopicOwner<'_>) -> bool {
        self.kind() == other.kind() && self.name() == other.name()
    }
}

/// The topic name of an object. `None` for the few that Kafka does not allow.
pub fn topic_name(kind: NameKind, name: &str) -> Option<String> {
    let topic = match kind {
        NameKind::Topic => name.to_owned(),
        NameKind::Store => dotted(name),
        NameKind::Queue => format!("{QUEUE_PREFIX}{}", dotted(name)),
    };
    (topic.len() <= TOPIC_NAME_BYTES_MAX && topic != "." && topic != "..").then_some(topic)
}

/// Whether this is the topic name of a queue, if there is one.
pub(crate) fn is_queue_topic(topic: &str) -> bool {
    topic.starts_with(QUEUE_PREFIX)
}

/// Whether a queue of this name has this topic name, if it has any.
pub(crate) fn is_topic_of_queue(topic: &str, queue: &str) -> bool {
    let dotted = queue.bytes().map(|byte| if byte == b'/' { b'.' } else { byte });
    topic.strip_prefix(QUEUE_PREFIX).is_some_and(|form| dotted.eq(form.bytes()))
}

/// The objects with this topic name. The first one is shown.
pub(crate) fn owners<'v>(models: &'v Models, topic: &str) -> impl Iterator<Item = TopicOwner<'v>> {
    let is_allowed = topic.len() <= TOPIC_NAME_BYTES_MAX && !matches!(topic, "." | "..");
    let form = Some(topic).filter(|_| is_allowed);
    let topics = form.and_then(|topic| models.streams.topic_named(topic)).map(TopicOwner::Topic);
    let stores = form.into_iter().flat_map(|form| models.events.stores_dotted(form));
    let queues = form.and_then(|topic| topic.strip_prefix(QUEUE_PREFIX));
    let queues = queues.into_iter().flat_map(|form| models.jobs.queue_logs_dotted(form));
    let stores = stores.map(|(name, number)| TopicOwner::Store(name, number));
    topics.into_iter().chain(stores).chain(queues.map(TopicOwner::Queue))
}

/// The objects that other objects hide.
pub(crate) fn hidden(models: &Models) -> Vec<HiddenObject> {
    let stores = models.events.stores().map(|(name, number)| TopicOwner::Store(name, number));
    let objects = stores.chain(models.jobs.queue_logs().map(TopicOwner::Queue));
    let hidden = objects.filter_map(|object| {
        let topic = topic_name(object.kind(), object.name())?;
        let shown = owners(models, &topic).next().filter(|shown| !shown.is(&object))?;
        let (kind, name) = (shown.kind(), shown.name().to_owned());
        drop(shown);
        Some(HiddenObject { topic, hidden: (object.kind(), object.name().to_owned()), shown: (kind, name) })
    });
    hidden.collect()
}
