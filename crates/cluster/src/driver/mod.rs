//! The node as it runs in a process: a thread that drives the agreement, and the connections.
//!
//! ```text
//! append, sync of the log ─┐                             ┌─▶ links ─▶ other nodes
//! packets of other nodes ──┼─▶ DriverMailbox ─▶ driver ──┼─▶ Log::publish
//! commands ────────────────┘                    │ tick   └─▶ NodeStatus
//! ```
//! The thread of the driver never waits for the disk, except to save a vote: a thread of the log
//! syncs records. So heartbeats are on time while a sync runs.

mod events;
mod handle;
mod status;
mod thread;

pub use events::ChangeOutcome;
pub(crate) use events::{DriverEvent, DriverMailbox, JoinOutcome, LeaderAddress};
pub use handle::{NodeParts, RunningMember};
pub use status::{MemberStatus, NodeNotice, NodeObserver, NodeStatus};
