//! The requests to a group's task, and their replies. None of them keeps the memory of a client's
//! request.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use quire_access::budget::ByteClaim;
use tokio::sync::oneshot;

/// A request, with the channel for its reply. The sender may have disconnected meanwhile.
#[derive(Debug)]
pub(super) enum GroupRequest {
    Join(Box<Join>, oneshot::Sender<Result<JoinReply, JoinRefusal>>),
    Sync(Sync, oneshot::Sender<Result<SyncReply, ResponseError>>),
    Heartbeat(ClaimedMember, oneshot::Sender<Result<(), ResponseError>>),
    Leave(Vec<MemberIdentity>, oneshot::Sender<Vec<Result<(), ResponseError>>>),
    MayCommit(Option<ClaimedMember>, oneshot::Sender<Result<(), ResponseError>>),
    Describe(oneshot::Sender<GroupStatus>),
    /// The connection of a member has ended.
    Abandon(String),
}

/// A member that joins.
#[derive(Debug)]
pub(crate) struct Join {
    /// The member's id; empty for a member without one.
    pub(crate) member: String,
    /// The instance id of a static member.
    pub(crate) instance: Option<String>,
    pub(crate) client: String,
    pub(crate) host: String,
    /// The session timeout.
    pub(crate) session_timeout: Duration,
    /// How long the member may take to rejoin in a rebalance.
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    /// The assignment protocols that the member supports, in its order of preference, each with
    /// metadata for the leader.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// Whether a member without an id first gets an id, and then joins with it (KIP-394).
    pub(crate) id_first: bool,
    /// Whether the member understands that it leads without having to send assignments.
    pub(crate) can_skip: bool,
    /// The memory of the member.
    pub(crate) claim: ByteClaim,
}

/// A member of the current generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinReply {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member: String,
    /// For the leader: id, instance id and protocol metadata of every member.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
    pub(crate) skip_assignment: bool,
}

/// Why a member did not join, and the id that it must join with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinRefusal {
    pub(crate) code: ResponseError,
    pub(crate) member: String,
}

/// A claimed membership in a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimedMember {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}

/// A request of a member for its assignment, or of the leader with all assignments.
#[derive(Debug)]
pub(crate) struct Sync {
    pub(crate) who: ClaimedMember,
    /// The group's protocol according to the member, if stated.
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
    /// The memory of the assignments.
    pub(crate) claim: ByteClaim,
}

/// A member's assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncReply {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// A member that leaves: by its id, or by its instance id.
#[derive(Debug, Clone)]
pub(crate) struct MemberIdentity {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
}

/// A group's description.
#[derive(Debug, Clone)]
pub(crate) struct GroupStatus {
    /// Kafka's name of the state.
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) members: Vec<DescribedMember>,
}

#[derive(Debug, Clone)]
pub(crate) struct DescribedMember {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client: String,
    pub(crate) host: String,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}
