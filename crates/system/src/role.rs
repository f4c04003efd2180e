//! The built-in roles. Their rules are part of the program, so an upgrade may extend them.

use alloc::vec::Vec;

use quire_model::{Operation, Resource, ResourceKind};

use crate::{AccessRule, RulePattern};

/// A role that exists in every database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BuiltInRole {
    /// Everything.
    Admin,
    /// Settings and the state of the database and of its topics, stores, queues and graphs. No
    /// data, no backup, no access rules.
    Operator,
    /// Lists, settings and statistics.
    Monitor,
    /// Reads topics, event stores and graphs, with any consumer group.
    Reader,
    /// Works jobs: fetches, acknowledges and fails them.
    Worker,
    /// Writes to topics, event stores, queues and graphs.
    Producer,
}

impl BuiltInRole {
    /// Every built-in role.
    pub const ALL: [BuiltInRole; 6] = [
        BuiltInRole::Admin,
        BuiltInRole::Operator,
        BuiltInRole::Monitor,
        BuiltInRole::Reader,
        BuiltInRole::Worker,
        BuiltInRole::Producer,
    ];

    /// The name of the role.
    pub const fn name(self) -> &'static str {
        match self {
            BuiltInRole::Admin => "admin",
            BuiltInRole::Operator => "operator",
            BuiltInRole::Monitor => "monitor",
            BuiltInRole::Reader => "reader",
            BuiltInRole::Worker => "worker",
            BuiltInRole::Producer => "producer",
        }
    }

    /// The built-in role of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The rules of the role.
    pub fn rules(self) -> Vec<AccessRule> {
        use Operation as O;
        use ResourceKind as K;
        let every = |operations: &[Operation], kinds: &[ResourceKind]| -> Vec<AccessRule> {
            let each = |kind: &ResourceKind| {
                let kind = *kind;
                operations.iter().map(move |operation| AccessRule::allow(*operation, kind, RulePattern::Any))
            };
            kinds.iter().flat_map(each).collect()
        };
        let database =
            |operation| AccessRule::allow(operation, K::Admin, RulePattern::Literal(Resource::DATABASE.name.into()));
        match self {
            BuiltInRole::Admin => every(&[O::All], &K::ALL),
            BuiltInRole::Operator => {
                let mut rules = every(
                    &[O::Describe, O::Alter, O::Create, O::DescribeConfigs, O::AlterConfigs],
                    &[K::Topic, K::Cluster, K::Store, K::Queue, K::Graph, K::Space],
                );
                rules.extend(every(&[O::Describe], &[K::Group, K::TransactionalId]));
                rules.push(database(O::All));
                rules
            }
            BuiltInRole::Monitor => {
                let mut rules = every(
                    &[O::Describe],
                    &[K::Topic, K::Group, K::TransactionalId, K::Cluster, K::Store, K::Queue, K::Graph, K::Space],
                );
                rules.extend(every(&[O::DescribeConfigs], &[K::Topic, K::Cluster]));
                rules.push(database(O::Describe));
                rules
            }
            BuiltInRole::Reader => every(&[O::Read], &[K::Topic, K::Group, K::Store, K::Graph]),
            BuiltInRole::Worker => every(&[O::Read], &[K::Queue]),
            BuiltInRole::Producer => {
                let mut rules = every(&[O::Write], &[K::Topic, K::TransactionalId, K::Store, K::Queue, K::Graph]);
                rules.extend(every(&[O::IdempotentWrite], &[K::Cluster]));
                rules
            }
        }
    }
}
