//! What the node of a cluster offers to the front ends of its database.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use quire_model::Position;

use crate::error::Result;
use crate::leader::NodeOffice;
use crate::system::ClusterMember;

/// A change of the cluster that is carried out.
pub type ClusterChange = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// The node of a database that runs.
pub trait ClusterControl: fmt::Debug + Send + Sync {
    /// The state of the node.
    fn status(&self) -> ClusterStatus;

    /// Waits until a majority has confirmed that this node leads. A read that begins afterwards
    /// sees every commit that was acknowledged before this call, on any node.
    fn confirm(&self) -> ClusterChange;

    /// Removes a member. Only the leader does.
    fn remove(&self, node: u64) -> ClusterChange;

    /// Hands the office over, to this node or to the one that is closest. Only the leader does.
    fn transfer(&self, node: Option<u64>) -> ClusterChange;
}

/// The part of a node in its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterRole {
    /// It leads.
    Leader,
    /// It follows.
    Follower,
    /// It asks for votes.
    Candidate,
}

/// The state of a node, as of its last tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The node, the term and the leader.
    pub office: NodeOffice,
    /// The role.
    pub role: ClusterRole,
    /// The last record that is appended here.
    pub appended: Position,
    /// The last record that is on the disk here.
    pub durable: Position,
    /// The last record that is published here.
    pub published: Position,
    /// How often this node began to lead since it was started.
    pub elections_won: u64,
    /// The members that are not removed, in the order of their numbers.
    pub members: Vec<MemberProgress>,
}

/// A member, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProgress {
    /// Its number.
    pub node: u64,
    /// The member.
    pub member: ClusterMember,
    /// Whether it is connected with this node. A node is connected with itself.
    pub is_connected: bool,
    /// The last record that it has on its disk, where this node leads.
    pub acknowledged: Option<Position>,
}

impl ClusterRole {
    /// Its name: `leader`, `follower` or `candidate`.
    pub const fn name(self) -> &'static str {
        match self {
            ClusterRole::Leader => "leader",
            ClusterRole::Follower => "follower",
            ClusterRole::Candidate => "candidate",
        }
    }
}
