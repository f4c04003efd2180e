//! The graphs as they stand: where each block's newest content is, and who is linked to whom.
//!
//! ```text
//! Graphs ── name → number ── Graph ── blocks     id → version, place, kind          hash map
//!                              ├──── outgoing   (source, edge type, target) → place  ordered map
//!                              ├──── incoming   (target, edge type, source)          ordered set
//!                              └──── kinds, edge types: name → number
//! ```
//!
//! Invariant: `incoming` holds exactly the reverses of `outgoing`'s keys. One ordered map for all edges of a graph, not a
//! list a block: a block's neighbours are a range of it in a defined order, and an edge more costs the same at a block
//! with a million as at a block with one. Nothing that a user can see depends on the order of the hash map.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use hashbrown::HashMap;
use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, Denied, Effects, Entry, History, Model, ModelId, Place};

use crate::codec::EdgeKey;
use crate::id::BuildIdHasher;
use crate::names::Names;
use crate::{BlockId, Command, Refusal, Reply, Version, apply, checkpoint, decide};

/// Every graph of a shard: the state of the model.
#[derive(Debug, Default)]
pub struct Graphs {
    pub(crate) names: Names,
    /// By number.
    pub(crate) graphs: Vec<Graph>,
}

impl Graphs {
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
#[derive(Debug, Default)]
pub struct Graph {
    pub(crate) blocks: HashMap<BlockId, Slot, BuildIdHasher>,
    /// Keys have the source near. The place is that of the entry with the properties.
    pub(crate) outgoing: BTreeMap<EdgeKey, Place>,
    /// Keys have the target near.
    pub(crate) incoming: BTreeSet<EdgeKey>,
    pub(crate) kinds: Names,
    pub(crate) edge_types: Names,
    /// The highest version ever deleted. Blocks begin above it.
    pub(crate) deleted_version_max: Version,
}

/// What is known of a block without reading the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) version: Version,
    /// Where the newest content is.
    pub(crate) place: Place,
    pub(crate) kind: u32,
    /// Whether the entry there has a name.
    pub(crate) is_named: bool,
}

impl Graph {
    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.outgoing.len()
    }

    /// Takes a block and its edges out.
    pub(crate) fn remove_block(&mut self, id: BlockId) {
        let slot = self.blocks.remove(&id).expect("only a block that is there is deleted");
        self.deleted_version_max = self.deleted_version_max.max(slot.version);
        for (key, _) in self.outgoing.extract_if(edges_of(id), |_, _| true) {
            self.incoming.remove(&key.reversed());
        }
        for key in self.incoming.extract_if(edges_of(id), |_| true) {
            self.outgoing.remove(&key.reversed());
        }
    }
}

/// The keys of all edges with this end near.
fn edges_of(near: BlockId) -> RangeInclusive<EdgeKey> {
    let first = EdgeKey { near, edge_type: u32::MIN, far: BlockId::MIN };
    let last = EdgeKey { near, edge_type: u32::MAX, far: BlockId::MAX };
    first..=last
}

impl Model for Graphs {
    const ID: ModelId = ModelId::GRAPH;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn decide(
        &self,
        history: &dyn History,
        _at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Denied<Refusal>> {
        decide::decide(self, history, commands, effects, replies)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        apply::apply(self, entry);
    }

    fn save(&self, out: &mut Encoder) {
        checkpoint::save(self, out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        checkpoint::load(from)
    }
}
