//! The table of requests that a topic of an event store or a queue does not support, with what to
//! use instead.
//!
//! Metadata lists such a topic, so the answer is not "unknown topic". The error is not retriable
//! either, because it is permanent.

use kafka_protocol::ResponseError;
use quire::{Database, Operation};

use crate::broker::Broker;
use crate::errors::KafkaError;
use crate::permissions::check_topic;
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

impl TopicOperation {
    /// The permission that the operation needs.
    fn needs(self) -> Operation {
        match self {
            TopicOperation::Create => Operation::Create,
            TopicOperation::Produce => Operation::Write,
            TopicOperation::MorePartitions => Operation::Alter,
            TopicOperation::OtherSettings => Operation::AlterConfigs,
            TopicOperation::Delete | TopicOperation::FewerRecords => Operation::Delete,
        }
    }
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
/// support it. The commit looked for a topic, so the permission for the store or queue is checked
/// here.
pub(crate) fn explained(broker: &Broker, name: &str, wants: TopicOperation, failure: KafkaError) -> KafkaError {
    explained_by(&broker.database(), name, wants, failure)
}

/// Like [`explained`], for a response that is built after its request.
pub(crate) fn explained_by(database: &Database, name: &str, wants: TopicOperation, failure: KafkaError) -> KafkaError {
    if !matches!(failure.code, ResponseError::UnknownTopicOrPartition | ResponseError::TopicAuthorizationFailed) {
        return failure;
    }
    let id = database.id();
    let found = database.read_published_permitted(|view| {
        let topic = topics::named(id, view, name)?;
        let refusal = refusal(&topic, wants)?;
        Some(check_topic(view, &topic, wants.needs()).err().unwrap_or(refusal))
    });
    found.ok().flatten().unwrap_or(failure)
}
