//! The state of all graphs: the place of each block's newest content, and the edges between blocks.
//!
//! ```text
//! Graphs ── name → number ── Graph ── adjacency   blocks and edges, in compact form
//!                              └──── kinds, edge types: name → number
//! ```
//!
//! No result depends on the seed of the hash tables. The opener of the database draws the seed, so
//! that clients cannot choose ids that collide.

use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::Position;

use crate::adjacency::Adjacency;
use crate::memory::{Memory, MemorySource};
use crate::names::Names;
use crate::{Retention, Version};

/// Every graph of a shard: the state of the model.
#[derive(Debug, Default)]
pub struct Graphs {
    pub(crate) seed: u64,
    /// The memory of large arrays; without it they have no bound.
    pub(crate) memory: MemorySource,
    pub(crate) names: Names,
    /// By number.
    pub(crate) graphs: Vec<Graph>,
    /// The record that last trimmed a history, since the state was loaded.
    pub(crate) trimmed_at: Position,
}

impl Graphs {
    /// Creates an empty state. `seed` seeds the hash tables; users must not know it. `memory`
    /// bounds the heap memory.
    pub fn new(seed: u64, memory: Option<Arc<Memory>>) -> Self {
        Graphs { seed, memory, ..Graphs::default() }
    }

    /// The graph with this name; `None` when nothing was ever put into one.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        self.names.number(name).map(|number| &self.graphs[number as usize])
    }

    /// The number of graphs.
    pub fn count(&self) -> u64 {
        u64::from(self.names.count())
    }

    /// Every graph by name, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Graph)> {
        self.names.iter().map(|(name, number)| (name, &self.graphs[number as usize]))
    }
}

/// One graph: blocks and the edges between them.
#[derive(Debug)]
pub struct Graph {
    pub(crate) number: u32,
    pub(crate) adjacency: Adjacency,
    pub(crate) kinds: Names,
    pub(crate) edge_types: Names,
    /// The highest version ever deleted. Blocks begin above it.
    pub(crate) deleted_version_max: Version,
    pub(crate) retention: Retention,
    /// The first position as of which it can be read.
    pub(crate) history_from: Position,
}

impl Graph {
    pub(crate) fn new(number: u32, seed: u64, memory: &MemorySource) -> Self {
        Graph {
            number,
            adjacency: Adjacency::new(seed, memory),
            kinds: Names::default(),
            edge_types: Names::default(),
            deleted_version_max: Version::ABSENT,
            retention: Retention::ALL,
            history_from: Position::ZERO,
        }
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        self.adjacency.blocks
    }

    /// Returns the number of edges.
    pub fn edge_count(&self) -> usize {
        self.adjacency.edges
    }

    /// The kinds that its blocks ever had, in the order in which it first saw them.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = &str> {
        self.kinds.in_order()
    }

    /// The types that its edges ever had, in the order in which it first saw them.
    pub fn edge_types(&self) -> impl ExactSizeIterator<Item = &str> {
        self.edge_types.in_order()
    }

    /// Returns the bytes of memory that the graph takes: about 62 a block and 38 an edge.
    pub fn memory_bytes(&self) -> usize {
        self.adjacency.memory_bytes()
    }

    /// Returns the part of these bytes that is lent instead of on the heap: see [`Memory`].
    pub fn memory_lent_bytes(&self) -> usize {
        self.adjacency.lent_bytes()
    }
}
