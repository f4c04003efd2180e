//! Places in the log, and what a node must not forget.

use std::fmt;
use std::num::NonZeroU64;

use quire_log::Term;
use quire_model::Position;

/// The number of a node. No two nodes of a cluster ever have the same number.
pub type NodeId = NonZeroU64;

/// A record of the agreed log: its position and the term in which a leader appended it. Two logs
/// that have a record of the same place have the same records up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordPlace {
    /// The record's position; [`Position::ZERO`] before the first.
    pub position: Position,
    /// The term in which it was appended.
    pub term: Term,
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of term {}", self.position, self.term)
    }
}

/// The latest term that a node has seen, and the node that it voted for in that term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vote {
    /// The term.
    pub term: Term,
    /// The node that got the vote of this term.
    pub node: Option<NodeId>,
}

/// The role of a node in its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRole {
    /// It appends what the leader sends.
    Follower,
    /// It asks for votes, or whether it would get them.
    Candidate,
    /// It appends, and decides which records are published.
    Leader,
}

/// The role of a node, its term, and the leader that it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeState {
    /// The role.
    pub role: NodeRole,
    /// The term.
    pub term: Term,
    /// The leader of the term, as far as the node knows.
    pub leader: Option<NodeId>,
}
