//! What a group's keeper is asked, and what it answers. Nothing here shares the memory of a request.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use tokio::sync::oneshot;

/// An ask, with where its answer goes. Who asked may have gone meanwhile.
#[derive(Debug)]
pub(super) enum Ask {
    Join(Box<Join>, oneshot::Sender<Result<Joined, NotJoined>>),
    Sync(Sync, oneshot::Sender<Result<Synced, ResponseError>>),
    Heartbeat(Who, oneshot::Sender<Result<(), ResponseError>>),
    Leave(Vec<Identity>, oneshot::Sender<Vec<Result<(), ResponseError>>>),
    MayCommit(Option<Who>, oneshot::Sender<Result<(), ResponseError>>),
    Describe(oneshot::Sender<Described>),
}

/// Who joins, and how.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    /// The member's id; empty for one that has none yet.
    pub(crate) member: String,
    /// The name of a static member.
    pub(crate) instance: Option<String>,
    pub(crate) client: String,
    pub(crate) host: String,
    /// How long it may be silent.
    pub(crate) session_timeout: Duration,
    /// How long it may take to join again when others come or go.
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    /// The ways in which it can share partitions, the one that it likes most first, each with what its leader needs to know.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// Whether a member without an id is given one first, to join with (KIP-394).
    pub(crate) id_first: bool,
    /// Whether the member understands that it leads, and is to share nothing out.
    pub(crate) can_skip: bool,
}

/// A member of the current generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member: String,
    /// Everyone, for the leader: id, instance, what was said about the protocol.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
    pub(crate) skip_assignment: bool,
}

/// Why someone did not join, and the id that they are to join with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotJoined {
    pub(crate) code: ResponseError,
    pub(crate) member: String,
}

/// Who says to be a member of which generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}

/// A member that asks what it is to read, or a leader that says what everyone is.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) who: Who,
    /// What the member takes the group's protocol for, when it says.
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// What a member is to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// A member that leaves: by its id, or by its instance.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
}

/// A group, to be shown.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// As Kafka calls it.
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
