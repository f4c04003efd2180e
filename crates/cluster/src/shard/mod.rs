//! The node of a cluster whose records are those of a shard.

mod changes;
mod node;
mod packet;
mod terms;

pub use changes::ChangeRefusal;
pub use node::{NodeIdentity, ShardNode};
pub use packet::{InvalidPacket, PeerPacket};
