//! The vocabulary of permissions: the things that a command touches, and the operations on them.
//!
//! The front ends name a [`Resource`] and an [`Operation`] for each part of a request. The model
//! `system` decides by its rules whether a principal may perform the operation. The words are those
//! of Kafka, extended by the kinds of Quire.

use core::fmt;

/// The kind of a resource. Its number is part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// A topic.
    Topic = 0,
    /// A consumer group.
    Group = 1,
    /// The id of a transactional producer.
    TransactionalId = 2,
    /// The cluster, as Kafka clients see it: [`Resource::CLUSTER`].
    Cluster = 3,
    /// An event store.
    Store = 4,
    /// A queue.
    Queue = 5,
    /// A graph.
    Graph = 6,
    /// A space. A rule on the space `acme` also covers `acme/…` of stores, queues and graphs, and
    /// `acme.…` of topics, groups and transactional ids.
    Space = 7,
    /// The administration of the database: [`Resource::DATABASE`], [`Resource::BACKUP`] and
    /// [`Resource::ACCESS`].
    Admin = 8,
}

impl ResourceKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [ResourceKind; 9] = [
        ResourceKind::Topic,
        ResourceKind::Group,
        ResourceKind::TransactionalId,
        ResourceKind::Cluster,
        ResourceKind::Store,
        ResourceKind::Queue,
        ResourceKind::Graph,
        ResourceKind::Space,
        ResourceKind::Admin,
    ];

    /// The number of the kind.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number; `None` for an unknown number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name of the kind, such as `transactional_id`.
    pub const fn name(self) -> &'static str {
        match self {
            ResourceKind::Topic => "topic",
            ResourceKind::Group => "group",
            ResourceKind::TransactionalId => "transactional_id",
            ResourceKind::Cluster => "cluster",
            ResourceKind::Store => "store",
            ResourceKind::Queue => "queue",
            ResourceKind::Graph => "graph",
            ResourceKind::Space => "space",
            ResourceKind::Admin => "admin",
        }
    }

    /// The kind of this name; `None` for an unknown name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The character that separates the components of names of this kind. A space covers names by
    /// whole components. `None` if the kind belongs to no space.
    pub const fn separator(self) -> Option<char> {
        match self {
            ResourceKind::Topic | ResourceKind::Group | ResourceKind::TransactionalId => Some('.'),
            ResourceKind::Store | ResourceKind::Queue | ResourceKind::Graph | ResourceKind::Space => Some('/'),
            ResourceKind::Cluster | ResourceKind::Admin => None,
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An operation on a resource. Its number is part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Every operation. A rule may name it; a request names one of the others.
    All = 0,
    /// Read data: consume, read events, fetch and acknowledge jobs, walk a graph.
    Read = 1,
    /// Write data: produce, append, enqueue, put and link blocks.
    Write = 2,
    /// Create the resource.
    Create = 3,
    /// Delete the resource or its data.
    Delete = 4,
    /// Change the settings or the state of the resource.
    Alter = 5,
    /// See that the resource exists, and its properties.
    Describe = 6,
    /// Act as a member of the cluster.
    ClusterAction = 7,
    /// Read Kafka configurations.
    DescribeConfigs = 8,
    /// Change Kafka configurations.
    AlterConfigs = 9,
    /// Produce with an idempotent producer. [`Operation::Write`] on a topic suffices since Kafka
    /// 3.0 (KIP-679).
    IdempotentWrite = 10,
}

impl Operation {
    /// Every operation, in the order of the numbers.
    pub const ALL: [Operation; 11] = [
        Operation::All,
        Operation::Read,
        Operation::Write,
        Operation::Create,
        Operation::Delete,
        Operation::Alter,
        Operation::Describe,
        Operation::ClusterAction,
        Operation::DescribeConfigs,
        Operation::AlterConfigs,
        Operation::IdempotentWrite,
    ];

    /// The number of the operation.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The operation with this number; `None` for an unknown number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name of the operation, such as `describe_configs`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::All => "all",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Create => "create",
            Operation::Delete => "delete",
            Operation::Alter => "alter",
            Operation::Describe => "describe",
            Operation::ClusterAction => "cluster_action",
            Operation::DescribeConfigs => "describe_configs",
            Operation::AlterConfigs => "alter_configs",
            Operation::IdempotentWrite => "idempotent_write",
        }
    }

    /// The operation of this name; `None` for an unknown name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The operations of which an allowed one also allows this one. They never include
    /// [`Operation::All`], which allows and denies every operation.
    ///
    /// As in Kafka, a client that may read, write, delete or alter a resource may describe it, and
    /// one that may change configurations may read them. A denial implies no other denial.
    pub const fn allowed_by(self) -> &'static [Operation] {
        match self {
            Operation::Describe => {
                &[Operation::Describe, Operation::Read, Operation::Write, Operation::Delete, Operation::Alter]
            }
            Operation::DescribeConfigs => &[Operation::DescribeConfigs, Operation::AlterConfigs],
            Operation::All => &[],
            Operation::Read => &[Operation::Read],
            Operation::Write => &[Operation::Write],
            Operation::Create => &[Operation::Create],
            Operation::Delete => &[Operation::Delete],
            Operation::Alter => &[Operation::Alter],
            Operation::ClusterAction => &[Operation::ClusterAction],
            Operation::AlterConfigs => &[Operation::AlterConfigs],
            Operation::IdempotentWrite => &[Operation::IdempotentWrite],
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A thing that a request touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource<'a> {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name. A front end resolves the names that its clients use to the thing first: the Kafka
    /// topic `air.flights` that shows the event store `air/flights` is that store.
    pub name: &'a str,
}

impl<'a> Resource<'a> {
    /// The cluster, under the name that Kafka gives it.
    pub const CLUSTER: Resource<'static> = Resource::new(ResourceKind::Cluster, "kafka-cluster");
    /// The database as a whole: statistics, checkpoints, compactions, settings.
    pub const DATABASE: Resource<'static> = Resource::new(ResourceKind::Admin, "database");
    /// Backups of the database. A backup holds the data of every principal.
    pub const BACKUP: Resource<'static> = Resource::new(ResourceKind::Admin, "backup");
    /// The principals, credentials, roles and rules of the database.
    pub const ACCESS: Resource<'static> = Resource::new(ResourceKind::Admin, "access");

    /// The resource of this kind and name.
    pub const fn new(kind: ResourceKind, name: &'a str) -> Self {
        Resource { kind, name }
    }
}

/// Shows as `store acme/orders`.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number_and_by_its_name() {
        for (number, kind) in (0..).zip(ResourceKind::ALL) {
            assert_eq!(kind.number(), number);
            assert_eq!(ResourceKind::of_number(number), Some(kind));
            assert_eq!(ResourceKind::of_name(&kind.to_string()), Some(kind));
        }
        assert_eq!(ResourceKind::of_number(9), None);
        assert_eq!(ResourceKind::of_name("Topic"), None);
    }

    #[test]
    fn an_operation_is_found_by_its_number_and_by_its_name() {
        for (number, operation) in (0..).zip(Operation::ALL) {
            assert_eq!(operation.number(), number);
            assert_eq!(Operation::of_number(number), Some(operation));
            assert_eq!(Operation::of_name(&operation.to_string()), Some(operation));
        }
        assert_eq!(Operation::of_number(11), None);
        assert_eq!(Operation::of_name("any"), None);
    }

    #[test]
    fn each_operation_except_all_allows_itself_and_changing_implies_describing() {
        for operation in Operation::ALL {
            let is_named = operation != Operation::All;
            assert_eq!(operation.allowed_by().contains(&operation), is_named);
            assert!(!operation.allowed_by().contains(&Operation::All));
        }
        assert!(Operation::Describe.allowed_by().contains(&Operation::Alter));
        assert!(!Operation::Alter.allowed_by().contains(&Operation::Describe));
        assert!(!Operation::Describe.allowed_by().contains(&Operation::Create));
        assert!(Operation::DescribeConfigs.allowed_by().contains(&Operation::AlterConfigs));
    }

    #[test]
    fn a_resource_shows_its_kind_and_its_name() {
        assert_eq!(Resource::new(ResourceKind::Store, "acme/orders").to_string(), "store acme/orders");
        assert_eq!(Resource::ACCESS.to_string(), "admin access");
    }
}
