//! The graph model: blocks, typed edges between them, and bounded walks along those.
//!
//! ```text
//! Command ──decide──▶ Draft ──▶ Effect ──the log──▶ entries ──apply──▶ Graphs
//!                     (overlay)  (codec)                                 │
//!                   Graph: block · edge · neighbours · list · versions · walk ◀┘
//! ```
//!
//! * A [`Graph`] has a name like `air/routes` and exists from the first put on.
//! * A **block** has a [`BlockId`] of 16 bytes (given, or the hash of a name), a [`Version`], a
//!   kind, a source, tags, metadata and content. A put replaces all of it; older versions stay in
//!   the log as long as the graph's [`Retention`] says.
//! * An **edge** is directed and unique per source, edge type and target; putting it again replaces
//!   its properties.
//! * Deleting a block deletes its edges, in both directions. Writers wait meanwhile, so a block
//!   with very many edges is first rid of them in parts ([`DeleteEdges`]).
//!
//! Content, metadata and properties stay in the log. The state ([`Graphs`]) has what finding and
//! walking need ([`Graph::neighbours`], [`Graph::walk`]). A [`Walker`] stays at one position while
//! writers continue; it reads later changes from the log. Earlier positions ([`Graph::block_at`],
//! [`Graph::neighbours_at`]) and the feed of changes ([`Graph::changes`]) are read from the log,
//! too. Metadata and properties are JSON or empty. This crate checks that, and keeps them byte for
//! byte.
//!
//! # Example
//! ```
//! use quire_graph::{BlockId, Command, Direction, Graphs, PutBlock, PutEdge};
//! use quire_model::{Timestamp, memory::World};
//!
//! let mut world: World<Graphs> = World::new();
//! let commands = [
//!     Command::PutBlock(PutBlock { content: b"New York", ..PutBlock::new("air/routes", "JFK", "airport") }),
//!     Command::PutBlock(PutBlock::new("air/routes", "LAX", "airport")),
//!     Command::PutEdge(PutEdge::new("air/routes", "JFK", "flies_to", "LAX")),
//! ];
//! world.commit(Timestamp::from_millis(1), &commands).expect("accepted");
//!
//! let graph = world.model.graph("air/routes").expect("it was just made");
//! let next = graph.neighbours(BlockId::of_name("JFK"), Direction::Outgoing, &["flies_to"], None).next();
//! let lax = graph.block(&world.log, next.expect("one edge").block)?.expect("it is there");
//! assert_eq!((lax.name, lax.version.get()), (Some("LAX"), 1));
//! # Ok::<(), quire_model::ReadError>(())
//! ```

#![no_std]

extern crate alloc;

// The vocabulary.
mod direction;
mod id;
mod json;
mod slot_lookups;

mod command;
mod refusal;

mod check;

// Entries as bytes, and the state.
mod codec;
mod reply_codec;
mod tags;

mod adjacency;
mod hashing;
mod memory;
mod names;
mod state;

// In the order of a write, then of a read.
mod touches;

mod decide;

mod applicable;
mod apply;
mod checkpoint;
mod retention;
mod survival;

mod read;
mod walk;

mod model;

pub use check::check_graph;
pub use command::{
    BlockRef, Command, DeleteBlock, DeleteEdge, DeleteEdges, PutBlock, PutEdge, Reply, Retention, SetRetention,
    TrimHistory,
};
pub use direction::{Direction, End};
pub use id::{BlockId, ParseBlockIdError, Version};
pub use json::NotJson;
pub use memory::{Lender, Memory, Piece, SlabSource};
pub use read::{Block, Edge, GraphChange, GraphChangeKind, GraphEntry, ListCursor, ListPlan, Neighbour, Wants};
pub use refusal::{GraphLimit, Refusal};
pub use retention::RetainedGraph;
pub use slot_lookups::SlotLookups;
pub use state::{Graph, Graphs};
pub use survival::SupersededEntry;
pub use walk::{
    BlockFilter, PathCost, PathWalker, Paths, TopologicalOrder, TraversalOrder, Visit, Walk, WalkBound, WalkPlan,
    WalkProgress, WalkStep, WalkedEdge, Walker, truncate_sets,
};
