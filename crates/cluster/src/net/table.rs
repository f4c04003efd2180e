//! What a node knows of the members, to decide which nodes it speaks with.

use std::collections::BTreeMap;

use quire_system::{ClusterMember, MemberRole};
use tokio::sync::watch;

use super::hello::{ClusterIdentity, HelloPurpose, PeerHello, PeerIdentity};
use crate::agreement::NodeId;

/// The members by their numbers, with those that were removed.
pub(crate) type KnownMembers = BTreeMap<NodeId, ClusterMember>;

/// See the module. The driver replaces the members, and the connections follow.
#[derive(Debug)]
pub(crate) struct MemberTable {
    pub(super) cluster: ClusterIdentity,
    pub(super) own: PeerIdentity,
    members: watch::Sender<KnownMembers>,
}

impl MemberTable {
    pub(crate) fn new(cluster: ClusterIdentity, own: PeerIdentity, members: KnownMembers) -> Self {
        MemberTable { cluster, own, members: watch::Sender::new(members) }
    }

    pub(crate) fn cluster(&self) -> ClusterIdentity {
        self.cluster
    }

    pub(crate) fn own(&self) -> PeerIdentity {
        self.own
    }

    pub(crate) fn replace(&self, members: KnownMembers) {
        self.members.send_replace(members);
    }

    pub(super) fn watch(&self) -> watch::Receiver<KnownMembers> {
        self.members.subscribe()
    }

    pub(crate) fn members(&self) -> KnownMembers {
        self.members.borrow().clone()
    }

    /// The member of this number, removed or not.
    pub(crate) fn member(&self, node: NodeId) -> Option<ClusterMember> {
        self.members.borrow().get(&node).cloned()
    }

    /// Checks whether this node speaks with the one that says hello.
    ///
    /// # Errors
    /// The reason, for the other node.
    pub(super) fn admit(&self, hello: &PeerHello) -> Result<(), String> {
        let (own, from) = (self.own, hello.from);
        if let Some(other) = hello.cluster.filter(|other| *other != self.cluster) {
            let (database, id) = (self.cluster.database, other.database);
            return Err(match database == id {
                true => format!(
                    "node {} and node {} belong to different clusters with copies of one database: one was recovered or restored; check the addresses, or join with an empty directory and a number that no node has had",
                    own.node, from.node
                ),
                false => format!(
                    "node {} belongs to database {database:032x}, and node {} to database {id:032x}; check the addresses",
                    own.node, from.node
                ),
            });
        }
        if let HelloPurpose::Replicate { to } = hello.purpose {
            if to.node != own.node {
                return Err(format!("this is node {}, not node {}; check the addresses", own.node, to.node));
            }
            if to.incarnation != own.incarnation {
                return Err(format!("node {} has another data directory than the member; {REPLACED}", own.node));
            }
        }
        if from.node == own.node && from.incarnation != own.incarnation {
            return Err(format!("number {} belongs to another node; {REPLACED}", from.node));
        }
        match self.member(from.node) {
            Some(known) if known.role == MemberRole::Removed => {
                Err(format!("node {} was removed from the cluster; join with a number that no node has had", from.node))
            }
            Some(known) if known.incarnation != from.incarnation => {
                Err(format!("node {} has another data directory than the member; {REPLACED}", from.node))
            }
            None if hello.purpose == HelloPurpose::Forward => {
                Err(format!("node {} is no member of the cluster", from.node))
            }
            _ => Ok(()),
        }
    }
}

const REPLACED: &str = "remove the member, and join with a number that no node has had";

#[cfg(test)]
mod tests {
    use quire_system::MemberAddresses;

    use super::*;

    fn identity(node: u64, incarnation: u128) -> PeerIdentity {
        PeerIdentity { node: NodeId::new(node).expect("not zero"), incarnation }
    }

    #[test]
    fn only_members_of_the_same_database_and_directory_are_admitted() {
        let member = |role| ClusterMember { role, incarnation: 20, addresses: MemberAddresses::default() };
        let two = identity(2, 20);
        let four = identity(4, 20);
        let members = BTreeMap::from([(two.node, member(MemberRole::Voter)), (four.node, member(MemberRole::Removed))]);
        let cluster = |database, founder| ClusterIdentity { database, founder };
        let table = MemberTable::new(cluster(7, 1), identity(1, 10), members);
        let replicate = |database, from, to| {
            let cluster = Some(cluster(database, 1));
            let hello = PeerHello { cluster, from, purpose: HelloPurpose::Replicate { to } };
            table.admit(&hello).err().unwrap_or_default()
        };
        let own = identity(1, 10);
        assert_eq!(replicate(7, two, own), "");
        assert_eq!(replicate(7, identity(3, 30), own), "", "a member that this node does not know yet");
        assert!(replicate(8, two, own).contains("belongs to database 00000000000000000000000000000007"));
        assert!(replicate(7, two, identity(5, 10)).contains("this is node 1, not node 5"));
        assert!(replicate(7, two, identity(1, 11)).contains("node 1 has another data directory"));
        assert!(replicate(7, identity(2, 21), own).contains("node 2 has another data directory"));
        assert!(replicate(7, identity(1, 99), own).contains("number 1 belongs to another node"));
        assert!(replicate(7, four, own).contains("node 4 was removed"));
        for purpose in [HelloPurpose::Replicate { to: own }, HelloPurpose::Join, HelloPurpose::Fetch] {
            let hello = PeerHello { cluster: Some(cluster(7, 2)), from: two, purpose };
            let refused = table.admit(&hello).expect_err("a restored copy makes a cluster of its own");
            assert!(refused.contains("different clusters with copies of one database"), "{refused}");
        }
        let forward = |from| {
            let hello = PeerHello { cluster: Some(cluster(7, 1)), from, purpose: HelloPurpose::Forward };
            table.admit(&hello).err().unwrap_or_default()
        };
        assert_eq!(forward(two), "");
        assert!(forward(identity(3, 30)).contains("node 3 is no member"), "only members speak for clients");
        let join = |from| {
            let hello = PeerHello { cluster: None, from, purpose: HelloPurpose::Join };
            table.admit(&hello).err().unwrap_or_default()
        };
        assert_eq!(join(identity(9, 90)), "");
        assert_eq!(join(two), "", "a member announces its addresses");
        assert!(join(identity(2, 21)).contains("another data directory"));
        assert!(join(identity(1, 3)).contains("number 1 belongs to another node"));
    }
}
