//! What the commands decided so far make of the state, laid over it.
//!
//! A later command of a commit sees what an earlier one does, while the state stays as it is. Invariant: a question
//! asked of the draft has the answer that the state would give after applying the effects pushed so far. What the last
//! command of the commit does is not noted, since nobody asks any more.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::{Effects, Place};

use crate::codec::{EdgeKey, Effect};
use crate::names::Names;
use crate::state::{Graph, Graphs};
use crate::{BlockId, Limit, Refusal, Version};

/// The state, and the commit in the making over it.
pub(crate) struct Draft<'a> {
    state: &'a Graphs,
    graphs: Vec<GraphDraft<'a>>,
    by_name: BTreeMap<&'a str, usize>,
    created: u32,
    commands: usize,
    is_last: bool,
}

impl<'a> Draft<'a> {
    /// Over this state, for a commit of so many commands.
    pub(crate) fn new(state: &'a Graphs, commands: usize) -> Self {
        Draft { state, graphs: Vec::new(), by_name: BTreeMap::new(), created: 0, commands, is_last: false }
    }

    /// The command with this index is next.
    pub(crate) fn begin(&mut self, index: usize) {
        self.is_last = index + 1 == self.commands;
    }

    /// The graph with this name, if it is there.
    pub(crate) fn existing(&mut self, name: &'a str) -> Option<&mut GraphDraft<'a>> {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => {
                let number = self.state.names.number(name)?;
                let base = Some(&self.state.graphs[number as usize]);
                self.add(name, GraphDraft::new(number, base))
            }
        };
        let graph = &mut self.graphs[index];
        graph.is_noted = !self.is_last;
        Some(graph)
    }

    fn add(&mut self, name: &'a str, graph: GraphDraft<'a>) -> usize {
        self.graphs.push(graph);
        if self.commands > 1 {
            self.by_name.insert(name, self.graphs.len() - 1);
        }
        self.graphs.len() - 1
    }

    /// The graph with this name, made if need be.
    pub(crate) fn open(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<&mut GraphDraft<'a>, Refusal> {
        let is_there = self.existing(name).is_some();
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            // A single command does not fill the map.
            None if is_there => self.graphs.len() - 1,
            None => {
                let number = self.state.names.count() + self.created;
                Limit::Graphs.check(number as usize + 1)?;
                Effect::GraphNamed { graph: number, name }.push(&[], effects);
                self.created += 1;
                self.add(name, GraphDraft::new(number, None))
            }
        };
        let graph = &mut self.graphs[index];
        graph.is_noted = !self.is_last;
        // Each command adds the two ends of an edge at most.
        let slots = graph.base.map_or(0, |base| base.adjacency.slots() as usize);
        Limit::Blocks.check(slots.saturating_add(2 * self.commands))?;
        Ok(graph)
    }
}

/// One graph under change.
pub(crate) struct GraphDraft<'a> {
    pub(crate) number: u32,
    base: Option<&'a Graph>,
    kinds: BTreeMap<&'a str, u32>,
    edge_types: BTreeMap<&'a str, u32>,
    blocks: BTreeMap<BlockId, Option<BlockDraft<'a>>>,
    /// When the edge was last put or deleted, and whether it is there since.
    edges: BTreeMap<EdgeKey, (u32, bool)>,
    /// When the block, and with it all its edges of before, was last deleted.
    cleared: BTreeMap<BlockId, u32>,
    deleted_version_max: Version,
    /// Counts changes, to tell which of two came later.
    clock: u32,
    /// Whether what happens is noted.
    is_noted: bool,
}

/// A block as the commit would leave it.
#[derive(Clone, Copy)]
pub(crate) struct BlockDraft<'a> {
    pub(crate) version: Version,
    pub(crate) name: DraftName<'a>,
}

/// Where the name of a block is.
#[derive(Clone, Copy)]
pub(crate) enum DraftName<'a> {
    Known(Option<&'a str>),
    /// In the entry there.
    At(Place),
}

impl<'a> GraphDraft<'a> {
    fn new(number: u32, base: Option<&'a Graph>) -> Self {
        GraphDraft {
            number,
            base,
            kinds: BTreeMap::new(),
            edge_types: BTreeMap::new(),
            blocks: BTreeMap::new(),
            edges: BTreeMap::new(),
            cleared: BTreeMap::new(),
            deleted_version_max: base.map_or(Version::ABSENT, |base| base.deleted_version_max),
            clock: 0,
            is_noted: true,
        }
    }

    /// The block, if it is there.
    pub(crate) fn block(&self, id: BlockId) -> Option<BlockDraft<'a>> {
        if let Some(block) = self.blocks.get(&id) {
            return *block;
        }
        let facts = self.base?.adjacency.find(id)?.facts()?;
        let name = if facts.is_named { DraftName::At(facts.place) } else { DraftName::Known(None) };
        Some(BlockDraft { version: facts.version, name })
    }

    /// The version that a block gets which now has (or, being absent, has not) this one.
    pub(crate) fn next_version(&self, found: Version) -> Version {
        if found == Version::ABSENT { self.deleted_version_max.next() } else { found.next() }
    }

    pub(crate) fn put_block(&mut self, id: BlockId, version: Version, name: Option<&'a str>) {
        if self.is_noted {
            self.blocks.insert(id, Some(BlockDraft { version, name: DraftName::Known(name) }));
        }
    }

    pub(crate) fn delete_block(&mut self, id: BlockId, version: Version) {
        if !self.is_noted {
            return;
        }
        self.clock += 1;
        self.blocks.insert(id, None);
        self.cleared.insert(id, self.clock);
        self.deleted_version_max = self.deleted_version_max.max(version);
    }

    /// Whether the edge is there.
    pub(crate) fn has_edge(&self, key: EdgeKey) -> bool {
        let cleared = |id| self.cleared.get(id).copied().unwrap_or(0);
        let cleared = cleared(&key.near).max(cleared(&key.far));
        match self.edges.get(&key) {
            Some((changed, is_there)) => *changed > cleared && *is_there,
            None => cleared == 0 && self.base.is_some_and(|base| is_there(base, key)),
        }
    }

    /// Puts or deletes an edge.
    pub(crate) fn set_edge(&mut self, key: EdgeKey, is_there: bool) {
        if self.is_noted {
            self.clock += 1;
            self.edges.insert(key, (self.clock, is_there));
        }
    }

    /// The number of this kind, given if need be.
    pub(crate) fn kind(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<u32, Refusal> {
        let (base, graph) = (self.base.map(|base| &base.kinds), self.number);
        numbered(base, &mut self.kinds, name, Limit::Kinds, |number| {
            Effect::KindNamed { graph, number, name }.push(&[], effects);
        })
    }

    /// The number of this edge type, given if need be.
    pub(crate) fn edge_type(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<u32, Refusal> {
        let (base, graph) = (self.base.map(|base| &base.edge_types), self.number);
        numbered(base, &mut self.edge_types, name, Limit::EdgeTypes, |number| {
            Effect::EdgeTypeNamed { graph, number, name }.push(&[], effects);
        })
    }

    /// The number of this edge type, if it has one.
    pub(crate) fn known_edge_type(&self, name: &str) -> Option<u32> {
        self.edge_types.get(name).copied().or_else(|| self.base?.edge_types.number(name))
    }
}

fn is_there(graph: &Graph, key: EdgeKey) -> bool {
    // A type that this commit names has no edges yet.
    let edge_type = u16::try_from(key.edge_type).ok().filter(|_| key.edge_type < graph.edge_types.count());
    edge_type.is_some_and(|edge_type| graph.adjacency.edge(key.near, edge_type, key.far).is_some())
}

fn numbered<'a>(
    base: Option<&Names>,
    new: &mut BTreeMap<&'a str, u32>,
    name: &'a str,
    limit: Limit,
    give: impl FnOnce(u32),
) -> Result<u32, Refusal> {
    if let Some(number) = new.get(name).copied().or_else(|| base?.number(name)) {
        return Ok(number);
    }
    let number = base.map_or(0, Names::count) + u32::try_from(new.len()).expect("limits keep catalogues small");
    limit.check(number as usize + 1)?;
    give(number);
    new.insert(name, number);
    Ok(number)
}
