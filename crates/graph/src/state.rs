//! The graphs as they stand: where each block's newest content is, and who is linked to whom.
//!
//! ```text
//! Graphs ── name → number ── Graph ── adjacency   blocks and edges, in compact form
//!                              └──── kinds, edge types: name → number
//! ```
//!
//! Nothing that a user can see depends on the seed of the hash tables; it is drawn by whoever opens a database, so that
//! nobody can choose ids that collide.

use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Position, Timestamp};

use crate::adjacency::Adjacency;
use crate::codec::is_setting;
use crate::looked::Looked;
use crate::memory::{Memory, Source};
use crate::names::Names;
use crate::{Command, Refusal, Reply, Retention, Version, apply, checkpoint, decide};

/// Every graph of a shard: the state of the model.
#[derive(Debug, Default)]
pub struct Graphs {
    pub(crate) seed: u64,
    /// Where large arrays are; nothing bounds them when it is absent.
    pub(crate) memory: Source,
    pub(crate) names: Names,
    /// By number.
    pub(crate) graphs: Vec<Graph>,
    /// The record that let go of a past last, since the state was loaded.
    pub(crate) trimmed_at: Position,
}

impl Graphs {
    /// No graphs yet; hash tables are seeded with this number, which users should not know. `memory` bounds what is kept on
    /// the heap.
    pub fn new(seed: u64, memory: Option<Arc<Memory>>) -> Self {
        Graphs { seed, memory, ..Graphs::default() }
    }

    /// [`Model::load`], with a seed, and a bound on memory.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_with(from: &mut Decoder<'_>, seed: u64, memory: Option<Arc<Memory>>) -> Result<Self, CodecError> {
        checkpoint::load(from, seed, memory)
    }

    /// [`Model::save`], in parts of about a megabyte, so that the bytes of a large state are never in memory all at once.
    pub fn save_in_parts(&self, sink: &mut dyn FnMut(&[u8])) {
        checkpoint::save(self, sink);
    }

    /// [`Model::decide`], which notes where it found what it asked for.
    ///
    /// # Errors
    /// As [`Model::decide`].
    pub fn decide_noting(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        looked: &mut Looked,
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        decide::decide(self, history, at, commands, looked, effects, replies)
    }

    /// [`Model::apply`], of the entries that were just decided, in order: they are looked for where they were found.
    pub fn apply_noted(&mut self, entry: &Entry<'_>, looked: &mut Looked) {
        apply::apply(self, entry, looked);
    }

    /// The graph with this name; `None` when nothing was ever put into one.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        self.names.number(name).map(|number| &self.graphs[number as usize])
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
    pub(crate) fn new(number: u32, seed: u64, memory: &Source) -> Self {
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

    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.adjacency.blocks
    }

    /// How many edges there are.
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

    /// How much memory the graph takes, in bytes: about 62 a block and 38 an edge.
    pub fn memory_bytes(&self) -> usize {
        self.adjacency.memory_bytes()
    }

    /// How many of these bytes are not on the heap but in pieces that were lent: see [`Memory`].
    pub fn memory_lent_bytes(&self) -> usize {
        self.adjacency.lent_bytes()
    }
}

impl Model for Graphs {
    const ID: ModelId = ModelId::GRAPH;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        self.decide_noting(history, at, commands, &mut Looked::default(), effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.apply_noted(entry, &mut Looked::default());
    }

    /// What was replaced or deleted survives here: whether as-of reads need it, the log says ([`Graphs::superseded`]).
    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        !is_setting(entry.kind)
    }

    fn save(&self, out: &mut Encoder) {
        checkpoint::save(self, &mut |part| {
            out.raw(part);
        });
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        checkpoint::load(from, 0, None)
    }
}
