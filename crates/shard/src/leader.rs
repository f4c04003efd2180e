//! Which node of a cluster leads.

use std::fmt;

use quire_log::Term;

use crate::system::MemberAddresses;

/// The leader of a cluster, as clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterLeader {
    /// Its number.
    pub node: u64,
    /// Its addresses; empty while this node does not know them.
    pub addresses: MemberAddresses,
}

impl fmt::Display for ClusterLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node)?;
        if self.addresses.http.is_empty() { Ok(()) } else { write!(f, " (HTTP at {})", self.addresses.http) }
    }
}

/// Which node a shard is, and which one leads, as far as it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOffice {
    /// The number of this node.
    pub node: u64,
    /// The term.
    pub term: Term,
    /// The leader, if it is known.
    pub leader: Option<u64>,
}
