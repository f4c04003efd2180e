//! The permissions that requests need, in Kafka's terms.
//!
//! ```text
//! name of a topic ──▶ the object that it shows: topic, event store or queue ──▶ operation on the object
//! name of a group, transactional id, cluster ─────────────────────────────────▶ operation on it
//! ```
//!
//! Each API needs the permissions that Apache Kafka requires for it. A request that lacks one for
//! an item gets the error for this item; the other items are answered.

use quire::{Database, Operation, PermissionRefusal, PermittedView, Resource, ResourceKind};

use crate::errors::KafkaError;
use crate::topics::KafkaTopic;

/// A group, after a check that the client may use it. The coordinator of groups takes no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PermittedGroup<'g>(&'g str);

impl<'g> PermittedGroup<'g> {
    /// Checks that the client of `database` may perform the operation on the group.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn check(database: &Database, name: &'g str, operation: Operation) -> Result<Self, KafkaError> {
        database.check_permission(Resource::new(ResourceKind::Group, name), operation)?;
        Ok(PermittedGroup(name))
    }

    /// The groups of these that the client may list: every one with the permission to describe the
    /// cluster, else each that it may describe.
    pub(crate) fn listed(database: &Database, names: impl IntoIterator<Item = &'g str>) -> Vec<Self> {
        let lists_all = database.permits(Resource::CLUSTER, Operation::Describe);
        let is_listed =
            |name: &&str| lists_all || database.permits(Resource::new(ResourceKind::Group, name), Operation::Describe);
        names.into_iter().filter(is_listed).map(PermittedGroup).collect()
    }

    /// The name of the group.
    pub(crate) fn name(self) -> &'g str {
        self.0
    }
}

/// Checks that the client may perform the operation on the object that the topic shows. The error
/// names that object to clients that may see it, and else the topic.
///
/// # Errors
/// The error for the client.
pub(crate) fn check_topic(
    view: &PermittedView<'_>,
    topic: &KafkaTopic,
    operation: Operation,
) -> Result<(), KafkaError> {
    let object = topic.resource();
    if view.permits(object.kind, object.name, operation) {
        return Ok(());
    }
    let is_shown = shows_topic(view, topic);
    let named = if is_shown { object } else { Resource::new(ResourceKind::Topic, &topic.name) };
    let refusal = PermissionRefusal::new(named, operation);
    view.note_denial(&refusal);
    Err(refusal.into())
}

/// Returns whether the client may describe the object that the topic shows.
pub(crate) fn shows_topic(view: &PermittedView<'_>, topic: &KafkaTopic) -> bool {
    let object = topic.resource();
    view.shows(object.kind, object.name)
}

/// Checks that the client may perform the operation on a topic that does not exist.
///
/// # Errors
/// The error for the client.
pub(crate) fn check_missing_topic(
    view: &PermittedView<'_>,
    name: &str,
    operation: Operation,
) -> Result<(), KafkaError> {
    Ok(view.check(ResourceKind::Topic, name, operation)?)
}

/// The operations that Kafka knows on a kind of resources. Responses report the permitted ones as
/// bits, by Kafka's numbers (KIP-430).
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthorizedOperations(&'static [Operation]);

impl AuthorizedOperations {
    pub(crate) const TOPIC: Self = AuthorizedOperations(&[
        Operation::Read,
        Operation::Write,
        Operation::Create,
        Operation::Delete,
        Operation::Alter,
        Operation::Describe,
        Operation::DescribeConfigs,
        Operation::AlterConfigs,
    ]);
    pub(crate) const GROUP: Self = AuthorizedOperations(&[Operation::Read, Operation::Delete, Operation::Describe]);
    pub(crate) const CLUSTER: Self = AuthorizedOperations(&[
        Operation::Create,
        Operation::Alter,
        Operation::Describe,
        Operation::ClusterAction,
        Operation::DescribeConfigs,
        Operation::AlterConfigs,
        Operation::IdempotentWrite,
    ]);

    /// The bits of the permitted operations.
    fn mask(self, permits: impl Fn(Operation) -> bool) -> i32 {
        let permitted = self.0.iter().filter(|operation| permits(**operation));
        permitted.fold(0, |mask, operation| mask | 1 << kafka_number(*operation))
    }

    /// The bits of the operations that the client of `database` may perform on the resource.
    pub(crate) fn on(self, database: &Database, resource: Resource<'_>) -> i32 {
        self.mask(|operation| database.permits(resource, operation))
    }
}

/// A topic that the client may describe, and the bits of the operations that it may perform on the
/// object that the topic shows.
pub(crate) struct DescribableTopic {
    pub(crate) topic: KafkaTopic,
    pub(crate) operations: i32,
}

impl DescribableTopic {
    /// Finds the operations that the client may perform.
    pub(crate) fn of(view: &PermittedView<'_>, topic: KafkaTopic) -> Self {
        let object = topic.resource();
        let operations =
            AuthorizedOperations::TOPIC.mask(|operation| view.permits(object.kind, object.name, operation));
        DescribableTopic { operations, topic }
    }
}

/// Kafka's number of an operation.
pub(crate) fn kafka_number(operation: Operation) -> i8 {
    // 0 is unknown, and 1 is any, which only filters of rules use.
    operation.number().cast_signed() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_operations_are_those_of_kafka() {
        let numbers = [
            (Operation::All, 2),
            (Operation::Read, 3),
            (Operation::Write, 4),
            (Operation::Create, 5),
            (Operation::Delete, 6),
            (Operation::Alter, 7),
            (Operation::Describe, 8),
            (Operation::ClusterAction, 9),
            (Operation::DescribeConfigs, 10),
            (Operation::AlterConfigs, 11),
            (Operation::IdempotentWrite, 12),
        ];
        assert_eq!(Operation::ALL.map(|operation| (operation, kafka_number(operation))), numbers);
        assert_eq!(AuthorizedOperations::TOPIC.mask(|_| true), 3_576);
        assert_eq!(AuthorizedOperations::GROUP.mask(|_| true), 328);
        assert_eq!(AuthorizedOperations::CLUSTER.mask(|_| true), 8_096);
        assert_eq!(AuthorizedOperations::TOPIC.mask(|operation| operation == Operation::Read), 1 << 3);
    }
}
