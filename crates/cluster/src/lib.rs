//! Replication: the nodes of a cluster agree on the records of one log.
//!
//! The log of each node has the same records at the same positions. One node, the leader, appends;
//! the others append what it sends them. A record is published when a majority of the voters has it
//! on disk. The consensus is Raft, by the crate `raft`; see `docs/agreement.md`.
//!
//! ```text
//! leader    append ─▶ Agreement::appended ─▶ send ───────────────▶ publish, by a majority
//!                                             │            ▲
//! follower                                    ▼            │ reply, after the sync
//!                              Agreement::receive ─▶ MemberNode::take ─▶ Agreement::synced
//! ```
//!
//! A server runs a [`RunningMember`]: a thread that drives the agreement, and connections to the
//! other nodes.
//!
//! An [`Agreement`] has no thread, no clock and no socket: its owner calls it, and it calls the
//! [`MemberNode`], such as the [`ShardNode`] of a database. So a simulation drives the same code as
//! a server.

#![cfg(target_os = "linux")]

mod agreement;

mod shard;

mod net;

mod driver;

pub use agreement::{
    Agreement, AgreementSettings, MemberChange, MemberNode, MemberSet, NodeId, NodeRole, NodeState, PeerMessage,
    RecordPlace, Shipment, Vote,
};
pub use driver::{ChangeOutcome, MemberStatus, NodeNotice, NodeObserver, NodeParts, NodeStatus, RunningMember};
pub use net::{ClusterIdentity, FetchedFiles, JoinError, NodeFiles, PeerIdentity, discover, fetch_files};
pub use shard::{ChangeRefusal, InvalidPacket, NodeIdentity, PeerPacket, ShardNode};
