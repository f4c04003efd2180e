//! What a node reports of itself and of the others.

use std::fmt;

use quire_log::Term;
use quire_model::Position;
use quire_system::ClusterMember;

use crate::agreement::{NodeId, NodeRole};

/// The state of a node, as of its last tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its role.
    pub role: NodeRole,
    /// The term.
    pub term: Term,
    /// The leader that it knows.
    pub leader: Option<NodeId>,
    /// The last record that is appended here.
    pub appended: Position,
    /// The last record that is on the disk here.
    pub durable: Position,
    /// The last record that is published here.
    pub published: Position,
    /// How often this node began to lead.
    pub elections_won: u64,
    /// The number of damaged places that were found in its log since it was opened.
    pub damaged: u64,
    /// Whether it leaves the office of the leader to other voters, because of the damage.
    pub is_held_back: bool,
    /// The members that are not removed, in the order of their numbers.
    pub members: Vec<MemberStatus>,
    /// Why the node has stopped, if it has.
    pub failure: Option<String>,
    /// Whether it has stopped because it needs all files: the others no longer have each record
    /// that it lacks.
    pub needs_files: bool,
}

/// A member, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its number.
    pub node: NodeId,
    /// The member.
    pub member: ClusterMember,
    /// Whether it is connected with this node. A node is connected with itself.
    pub is_connected: bool,
    /// The last record that it has on its disk, where this node leads.
    pub acknowledged: Option<Position>,
}

/// Something that an operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeNotice {
    /// The role, the term or the leader has changed.
    Office {
        /// The role.
        role: NodeRole,
        /// The term.
        term: Term,
        /// The leader, if it is known.
        leader: Option<NodeId>,
    },
    /// A connection with a node is open.
    Connected {
        /// The node.
        node: NodeId,
    },
    /// A connection with a node has ended.
    Disconnected {
        /// The node.
        node: NodeId,
        /// Why, unless the node closed it.
        reason: Option<String>,
    },
    /// A node can't be reached, or refuses this one.
    Unreachable {
        /// The node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A connection was refused.
    Refused {
        /// Why.
        reason: String,
    },
    /// A node sent a message that contradicts the log.
    Contradiction {
        /// The node.
        node: NodeId,
        /// How.
        reason: String,
    },
    /// The log has damage. The node leaves the office of the leader to others.
    Damaged {
        /// The number of damaged places.
        places: u64,
    },
    /// The node does not become a member yet.
    NotJoined {
        /// Why.
        reason: String,
        /// Whether trying again does not help.
        is_final: bool,
    },
    /// The node has stopped.
    Failed {
        /// Why.
        reason: String,
    },
    /// The node has stopped: the leader no longer has the records that follow its last one.
    NeedsFiles,
}

impl NodeNotice {
    /// Whether an operator should look at it.
    pub fn is_warning(&self) -> bool {
        !matches!(self, NodeNotice::Office { .. } | NodeNotice::Connected { .. } | NodeNotice::NeedsFiles)
    }
}

impl fmt::Display for NodeNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeNotice::NeedsFiles => {
                f.write_str("the leader no longer has the next records of this node, which needs all files of it")
            }
            NodeNotice::Office { role, term, leader } => {
                let term = term.get();
                match (role, leader) {
                    (NodeRole::Leader, _) => write!(f, "this node leads in term {term}"),
                    (NodeRole::Candidate, _) => write!(f, "this node asks for votes in term {term}"),
                    (NodeRole::Follower, Some(leader)) => write!(f, "node {leader} leads in term {term}"),
                    (NodeRole::Follower, None) => write!(f, "no leader is known in term {term}"),
                }
            }
            NodeNotice::Connected { node } => write!(f, "connected with node {node}"),
            NodeNotice::Disconnected { node, reason: None } => write!(f, "node {node} closed the connection"),
            NodeNotice::Disconnected { node, reason: Some(reason) } => {
                write!(f, "the connection with node {node} has ended: {reason}")
            }
            NodeNotice::Unreachable { node, reason } => write!(f, "node {node} can't be reached: {reason}"),
            NodeNotice::Refused { reason } => write!(f, "a connection was refused: {reason}"),
            NodeNotice::Contradiction { node, reason } => {
                write!(f, "a message of node {node} was refused: {reason}")
            }
            NodeNotice::Damaged { places } => write!(
                f,
                "damaged places in the log: {places}; this node does not lead while another voter can; replace it"
            ),
            NodeNotice::NotJoined { reason, .. } => write!(f, "this node is not a member yet: {reason}"),
            NodeNotice::Failed { reason } => write!(f, "the node has stopped: {reason}"),
        }
    }
}

/// Takes notices, such as a log. Called by the threads of the node: it must return at once.
pub trait NodeObserver: fmt::Debug + Send + Sync {
    /// Takes a notice.
    fn note(&self, notice: &NodeNotice);
}
