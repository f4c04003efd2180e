//! The brokers that clients are told of: this server alone, or the members of its cluster.
//!
//! One member leads every partition and coordinates every group. The leader epoch is the term.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::BrokerId;
use quire::Database;

use crate::broker::{BROKER_ID, Broker};
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;

/// The number of the leader while there is none.
const NO_LEADER: i32 = -1;

/// The brokers, and the one that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerList {
    leader: i32,
    /// This broker.
    pub(crate) own: i32,
    pub(crate) epoch: i32,
    pub(crate) nodes: Vec<BrokerNode>,
}

/// A broker, as clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerNode {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl BrokerList {
    /// The leader, or that there is none.
    pub(crate) fn leader_id(&self) -> BrokerId {
        self.leader.into()
    }

    /// The leader, if there is one that clients can reach.
    pub(crate) fn leader(&self) -> Option<&BrokerNode> {
        self.nodes.iter().find(|node| node.id == self.leader)
    }

    /// The ids of all brokers, each of which has every record.
    pub(crate) fn ids(&self) -> Vec<BrokerId> {
        self.nodes.iter().map(|node| node.id.into()).collect()
    }
}

impl Broker {
    /// The brokers, for the client of this connection.
    pub(crate) fn brokers(&self, ends: Endpoints) -> BrokerList {
        let own = |id| {
            let (host, port) = self.address(ends);
            BrokerNode { id, host, port }
        };
        let Ok(Some(cluster)) = self.owner().cluster() else {
            return BrokerList { leader: BROKER_ID, own: BROKER_ID, epoch: 0, nodes: vec![own(BROKER_ID)] };
        };
        let is_advertised = self.settings().advertised.get(ends.listener).is_some();
        let nodes = cluster.members.iter().filter_map(|(node, member)| {
            if *node == cluster.office.node && is_advertised {
                return Some(own(id_of(*node)));
            }
            let (host, port) = member.addresses.kafka.rsplit_once(':')?;
            let host = host.trim_matches(['[', ']']).to_owned();
            Some(BrokerNode { id: id_of(*node), host, port: port.parse().ok()? })
        });
        let leader = cluster.office.leader.map_or(NO_LEADER, id_of);
        let own = id_of(cluster.office.node);
        BrokerList { leader, own, epoch: leader_epoch(self.owner()), nodes: nodes.collect() }
    }

    /// The id of this broker.
    pub(crate) fn own_id(&self) -> i32 {
        self.owner().cluster().ok().flatten().map_or(BROKER_ID, |cluster| id_of(cluster.office.node))
    }

    /// The ids of all brokers, in their order. Each has every record.
    pub(crate) fn all_ids(&self) -> Vec<i32> {
        match self.owner().cluster() {
            Ok(Some(cluster)) => cluster.members.iter().map(|(node, _)| id_of(*node)).collect(),
            _ => vec![BROKER_ID],
        }
    }

    /// Checks the brokers that a client assigns to a partition. Every broker gets every record,
    /// whichever a client names.
    ///
    /// # Errors
    /// When it names none, an unknown one, or one twice.
    pub(crate) fn check_assigned(known: &[i32], assigned: &[BrokerId]) -> Result<(), KafkaError> {
        let mut ids: Vec<i32> = assigned.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        let is_valid =
            !ids.is_empty() && ids.iter().all(|id| known.contains(id)) && ids.windows(2).all(|w| w[0] != w[1]);
        let invalid = || {
            let message = format!("assign each partition to brokers of {known:?}, each at most once");
            KafkaError::new(ResponseError::InvalidReplicaAssignment, message)
        };
        is_valid.then_some(()).ok_or_else(invalid)
    }

    /// Whether this server answers requests that only a leader answers.
    pub(crate) fn serves(&self) -> bool {
        self.owner().serves()
    }
}

/// The id of the broker of a node.
pub(crate) fn id_of(node: u64) -> i32 {
    i32::try_from(node).unwrap_or(i32::MAX)
}

/// The leader epoch of every partition: 0 on a server alone, and the term of a cluster.
pub(crate) fn leader_epoch(database: &Database) -> i32 {
    database.term().map_or(0, |term| i32::try_from(term).unwrap_or(i32::MAX))
}

/// Checks the epoch that a client knows. A negative one is not known.
///
/// # Errors
/// The client must ask for metadata again.
pub(crate) fn check_epoch(database: &Database, known: i32) -> Result<(), KafkaError> {
    match leader_epoch(database) {
        epoch if known > epoch => Err(KafkaError::unknown_epoch(known)),
        epoch if (0..epoch).contains(&known) => Err(KafkaError::fenced_epoch(known, epoch)),
        _ => Ok(()),
    }
}
