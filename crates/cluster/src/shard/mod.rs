//! The node of a cluster whose records are those of a shard.

mod node;
mod packet;
mod terms;

pub use node::{NodeIdentity, NodeNames, ShardNode};
pub use packet::{InvalidPacket, PeerPacket};
