//! Reads: blocks and edges, lists, neighbours, and all of these as of an earlier position.
//!
//! They are methods of [`Graph`](crate::Graph). The state has the places of entries; the log has
//! their bytes.

mod block;
mod find;
mod graph_entry;
mod history;
mod neighbours;
mod past;

pub(crate) use block::block_entry;
pub use block::{Block, Edge};
pub use find::{ListCursor, ListPlan, Wants};
pub use graph_entry::GraphEntry;
pub use history::{GraphChange, GraphChangeKind};
pub use neighbours::Neighbour;
pub(crate) use neighbours::Types;
pub(crate) use past::Past;
