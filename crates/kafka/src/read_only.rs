//! The table of requests that a topic of an event store or a queue does not support, with what to
//! use instead.
//!
//! Metadata lists such a topic, so the answer is not "unknown topic". The error is not retriable
//! either, because it is permanent.

use kafka_protocol::ResponseError;

use crate::broker::Broker;
use crate::errors::KafkaError;
use crate::topics::{self, KafkaTopic, TopicKind};

/// An operation on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicOperation {
    /// Creates a real topic of this name, which would hide the store or queue.
    Create,
    Produce,
    Delete,
    MorePartitions,
    OtherSettings,
    FewerRecords,
}

/// A topic that hides a store or a queue can be created only through the embedded API, not by a
/// client.
const CREATE_INSTEAD: &str = "choose another topic name";

/// Why an existing topic does not support an operation; `None` for a real topic.
pub(crate) fn refusal(topic: &KafkaTopic, wants: TopicOperation) -> Option<KafkaError> {
    let (is, instead) = match &topic.kind {
        TopicKind::Stream { .. } => return None,
        TopicKind::Events { store, .. } => {
            let instead = match wants {
                TopicOperation::Create => CREATE_INSTEAD,
                TopicOperation::Produce => "append events to it instead",
                TopicOperation::Delete => "a store can't be deleted: use `quire events trim` to delete its events",
                TopicOperation::MorePartitions => "it has exactly one partition, which orders its events",
                TopicOperation::OtherSettings => "use `quire events retain` to set its retention",
                TopicOperation::FewerRecords => "use `quire events trim` to delete its events",
            };
            (format!("topic {} is read-only: it is the event store {store}", topic.name), instead)
        }
        TopicKind::Jobs { queue, .. } => {
            let instead = match wants {
                TopicOperation::Create => CREATE_INSTEAD,
                TopicOperation::Produce => "enqueue jobs instead",
                TopicOperation::MorePartitions => "it has exactly one partition, which orders its events",
                TopicOperation::Delete | TopicOperation::FewerRecords => "the history of a queue can't be deleted",
                TopicOperation::OtherSettings => "a queue has no topic settings",
            };
            (format!("topic {} is read-only: it is the history of queue {queue}", topic.name), instead)
        }
    };
    let code = match wants {
        TopicOperation::Create => ResponseError::TopicAlreadyExists,
        _ => ResponseError::PolicyViolation,
    };
    Some(KafkaError::new(code, format!("{is}; {instead}")))
}

/// The failure of a command on this topic, or the reason why the topic of a store or queue does not
/// support it.
pub(crate) fn explained(broker: &Broker, name: &str, wants: TopicOperation, failure: KafkaError) -> KafkaError {
    if failure.code != ResponseError::UnknownTopicOrPartition {
        return failure;
    }
    let database = broker.database.id();
    let topic = broker.database.read_published(|view| topics::named(database, view, name));
    topic.ok().flatten().and_then(|topic| refusal(&topic, wants)).unwrap_or(failure)
}
