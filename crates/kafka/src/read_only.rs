//! What of a topic that is an event store or a queue is not done through this protocol, and what to use instead: the one table.
//!
//! Metadata lists such a topic, so "no such topic" would not be true; and to who sees it, it is no error that may pass.

use kafka_protocol::ResponseError;

use crate::broker::Broker;
use crate::errors::Failure;
use crate::topics::{self, Kind, Topic};

/// What a client wants of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// A topic of its own under this name, which would hide it.
    Create,
    Produce,
    Delete,
    MorePartitions,
    OtherSettings,
    FewerRecords,
}

/// A topic that hides a store or a queue is made by who has the database open and means it, and not by a client.
const CREATE_INSTEAD: &str = "a topic of its own takes another name";

/// Why a topic that is there does not do that; `None` for a topic of its own.
pub(crate) fn refusal(topic: &Topic, wants: Wants) -> Option<Failure> {
    let (is, instead) = match &topic.kind {
        Kind::Stream { .. } => return None,
        Kind::Events { store, .. } => {
            let instead = match wants {
                Wants::Create => CREATE_INSTEAD,
                Wants::Produce => "append events to it instead",
                Wants::Delete => "a store is not deleted; `quire events trim` lets go of its events",
                Wants::MorePartitions => "it has one partition, in which its events are in order",
                Wants::OtherSettings => "`quire events retain` says for how long its events are kept",
                Wants::FewerRecords => "`quire events trim` lets go of its events",
            };
            (format!("topic {} is the event store {store}, and read-only", topic.name), instead)
        }
        Kind::Jobs { queue, .. } => {
            let instead = match wants {
                Wants::Create => CREATE_INSTEAD,
                Wants::Produce => "enqueue jobs instead",
                Wants::MorePartitions => "it has one partition, in which its events are in order",
                Wants::Delete | Wants::FewerRecords => "what happened is not deleted",
                Wants::OtherSettings => "a queue has no settings of a topic",
            };
            (format!("topic {} tells what happens in queue {queue}, and is read-only", topic.name), instead)
        }
    };
    let code = match wants {
        Wants::Create => ResponseError::TopicAlreadyExists,
        _ => ResponseError::PolicyViolation,
    };
    Some(Failure::new(code, format!("{is}; {instead}")))
}

/// A failure of a command on a topic of this name, or why it could not be, when the name is that of a store or a queue.
pub(crate) fn explained(broker: &Broker, name: &str, wants: Wants, failure: Failure) -> Failure {
    if failure.code != ResponseError::UnknownTopicOrPartition {
        return failure;
    }
    let database = broker.database.id();
    let topic = broker.database.read_published(|view| topics::named(database, view, name));
    topic.ok().flatten().and_then(|topic| refusal(&topic, wants)).unwrap_or(failure)
}
