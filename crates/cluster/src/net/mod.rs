//! The connections between nodes.
//!
//! ```text
//! connect ─▶ hello ─▶ welcome ─▶ packets, both ways      a member, to each member that it knows
//!              │
//!              └────▶ refused, with the reason           another database, another directory
//! ```
//! A node that needs all files gets them over a connection of its own:
//!
//! ```text
//! connect ─▶ hello ─▶ welcome ─▶ files … end, or the address of the leader
//! ```
//! A node that does not lead forwards requests of its clients, each over a connection of its own:
//!
//! ```text
//! connect ─▶ hello ─▶ welcome ─▶ client ─▶ request and response, as the front end has them
//! ```
//! A node sends a packet over any connection with its receiver. A packet may be lost: `raft` sends
//! it again.

mod connection;
mod fetch;
mod forward;
mod frame;
mod hello;
mod join;
mod links;
mod table;

pub(crate) use connection::PeerNetwork;
pub use fetch::{FetchedFiles, NodeFiles, fetch_files};
pub(crate) use forward::LeaderLine;
pub(crate) use frame::{FrameKind, frame};
pub use hello::{ClusterIdentity, PeerIdentity};
pub(crate) use join::join;
pub use join::{JoinError, discover};
pub(crate) use links::PeerLinks;
pub(crate) use table::MemberTable;
