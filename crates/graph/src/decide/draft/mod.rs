//! The changes of the commands decided so far, as an overlay of the state.
//!
//! A later command of a commit sees the changes of earlier ones, while the state stays unchanged.
//! Invariant: the draft answers as the state would after applying the effects pushed before. The
//! changes of the last command are not recorded, because no command follows.

mod edges;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use hashbrown::HashMap;
use quire_model::{Effects, Place, Position, ResourceClaim};

use crate::check::{check_edge_type, check_graph, check_kind};
use crate::codec::{EdgeKey, Effect};
use crate::hashing::Seed;
use crate::names::Names;
use crate::state::{Graph, Graphs};
use crate::{BlockId, GraphLimit, Refusal, Version};

/// The state, and the commit in the making over it.
pub(crate) struct Draft<'a> {
    state: &'a Graphs,
    /// Most commits are about one graph.
    first: Option<GraphDraft<'a>>,
    others: Option<BTreeMap<&'a str, GraphDraft<'a>>>,
    created: u32,
    /// Edges that the commit deletes with their blocks, or reads in order to delete them.
    edges_deleted: usize,
    commands: usize,
    is_last: bool,
}

impl<'a> Draft<'a> {
    /// A draft over this state, for a commit of `commands` commands.
    pub(crate) fn new(state: &'a Graphs, commands: usize) -> Self {
        Draft { state, first: None, others: None, created: 0, edges_deleted: 0, commands, is_last: false }
    }

    /// The command with this index is next.
    pub(crate) fn begin(&mut self, index: usize) {
        self.is_last = index + 1 == self.commands;
    }

    /// The graph with this name, if it exists.
    pub(crate) fn existing(&mut self, name: &'a str) -> Result<Option<&mut GraphDraft<'a>>, Refusal> {
        if !self.is_known(name) {
            let Some(number) = self.state.names.number(name) else {
                // The name of an existing graph was checked before.
                check_graph(name)?;
                return Ok(None);
            };
            self.add(GraphDraft::new(name, number, self.state.seed, Some(&self.state.graphs[number as usize])));
        }
        Ok(Some(self.known(name)))
    }

    /// The graph with this name, made if need be.
    pub(crate) fn open(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<&mut GraphDraft<'a>, Refusal> {
        if self.existing(name)?.is_none() {
            let number = self.state.names.count() + self.created;
            effects.claim(ResourceClaim::Graph)?;
            Effect::GraphNamed { graph: number, name }.push(&[], effects);
            self.created += 1;
            self.add(GraphDraft::new(name, number, self.state.seed, None));
        }
        let commands = self.commands;
        let graph = self.known(name);
        // Each command adds the two ends of an edge at most.
        let slots = graph.base.map_or(0, |base| base.adjacency.slots() as usize);
        GraphLimit::Blocks.check(slots.saturating_add(2 * commands))?;
        Ok(graph)
    }

    fn is_known(&self, name: &str) -> bool {
        self.first.as_ref().is_some_and(|first| first.name == name)
            || self.others.as_ref().is_some_and(|others| others.contains_key(name))
    }

    fn add(&mut self, graph: GraphDraft<'a>) {
        match &self.first {
            None => self.first = Some(graph),
            Some(_) => {
                self.others.get_or_insert_default().insert(graph.name, graph);
            }
        }
    }

    /// A graph that was added.
    fn known(&mut self, name: &str) -> &mut GraphDraft<'a> {
        let graph = match (&mut self.first, &mut self.others) {
            (Some(first), None) => first,
            (Some(first), Some(_)) if first.name == name => first,
            (_, others) => others.as_mut().and_then(|others| others.get_mut(name)).expect("the name was added"),
        };
        debug_assert_eq!(graph.name, name);
        graph.is_noted = !self.is_last;
        graph
    }
}

/// One graph under change.
pub(crate) struct GraphDraft<'a> {
    name: &'a str,
    pub(crate) number: u32,
    seed: u64,
    base: Option<&'a Graph>,
    deleted_version_max: Version,
    /// The first position as of which it can be read.
    pub(crate) history_from: Position,
    /// Whether what happens is noted.
    is_noted: bool,
    /// The noted changes, if there are any.
    noted: Option<Box<NotedChanges<'a>>>,
}

/// The changes of the commit's earlier commands to a graph.
struct NotedChanges<'a> {
    kinds: BTreeMap<&'a str, u32>,
    edge_types: BTreeMap<&'a str, u32>,
    blocks: HashMap<BlockId, Option<BlockDraft<'a>>, Seed>,
    /// When the edge was last put or deleted, and whether it exists since then.
    edges: HashMap<EdgeKey, (u32, bool), Seed>,
    /// When the block was last deleted, together with its earlier edges.
    cleared: HashMap<BlockId, u32, Seed>,
    /// Counts changes, to order them.
    clock: u32,
}

/// A block as the commit would leave it.
#[derive(Clone, Copy)]
pub(crate) struct BlockDraft<'a> {
    pub(crate) version: Version,
    pub(crate) name: DraftName<'a>,
}

/// The source of a block's name.
#[derive(Clone, Copy)]
pub(crate) enum DraftName<'a> {
    Known(Option<&'a str>),
    /// The entry at this place has the name.
    At(Place),
}

impl<'a> GraphDraft<'a> {
    fn new(name: &'a str, number: u32, seed: u64, base: Option<&'a Graph>) -> Self {
        let deleted_version_max = base.map_or(Version::ABSENT, |base| base.deleted_version_max);
        let history_from = base.map_or(Position::ZERO, |base| base.history_from);
        GraphDraft { name, number, seed, base, deleted_version_max, history_from, is_noted: true, noted: None }
    }

    /// The state's slot of a block, existing or missing.
    pub(crate) fn slot(&self, id: BlockId) -> Option<u32> {
        self.base?.adjacency.slot(id)
    }

    /// The block, if it exists.
    pub(crate) fn block(&self, id: BlockId) -> Option<BlockDraft<'a>> {
        self.block_in(self.slot(id), id)
    }

    /// The block with this slot of the state, if it exists.
    pub(crate) fn block_in(&self, slot: Option<u32>, id: BlockId) -> Option<BlockDraft<'a>> {
        if let Some(block) = self.noted.as_ref().and_then(|noted| noted.blocks.get(&id)) {
            return *block;
        }
        let facts = self.base?.adjacency.node(slot?).facts()?;
        let name = if facts.is_named { DraftName::At(facts.place) } else { DraftName::Known(None) };
        Some(BlockDraft { version: facts.version, name })
    }

    /// Whether the block with this slot of the state exists.
    pub(crate) fn has_block_in(&self, slot: Option<u32>, id: BlockId) -> bool {
        if let Some(block) = self.noted.as_ref().and_then(|noted| noted.blocks.get(&id)) {
            return block.is_some();
        }
        self.base.zip(slot).is_some_and(|(base, slot)| base.adjacency.node(slot).is_block())
    }

    /// The version that a block gets which now has (or, being absent, has not) this one.
    pub(crate) fn next_version(&self, found: Version) -> Version {
        if found == Version::ABSENT { self.deleted_version_max.next() } else { found.next() }
    }

    pub(crate) fn put_block(&mut self, id: BlockId, version: Version, name: Option<&'a str>) {
        if let Some(noted) = self.noting() {
            noted.blocks.insert(id, Some(BlockDraft { version, name: DraftName::Known(name) }));
        }
    }

    pub(crate) fn delete_block(&mut self, id: BlockId, version: Version) {
        self.deleted_version_max = self.deleted_version_max.max(version);
        if let Some(noted) = self.noting() {
            noted.clock += 1;
            noted.blocks.insert(id, None);
            noted.cleared.insert(id, noted.clock);
        }
    }

    /// Whether the edge exists.
    pub(crate) fn has_edge(&self, key: EdgeKey) -> bool {
        self.has_edge_from(self.slot(key.near), key)
    }

    /// Whether the edge exists. `slot` is the state's slot of its source.
    pub(crate) fn has_edge_from(&self, source: Option<u32>, key: EdgeKey) -> bool {
        let Some(noted) = &self.noted else { return self.is_in_base(source, key) };
        let cleared = |id| noted.cleared.get(id).copied().unwrap_or(0);
        let cleared = cleared(&key.near).max(cleared(&key.far));
        match noted.edges.get(&key) {
            Some((changed, is_there)) => *changed > cleared && *is_there,
            None => cleared == 0 && self.is_in_base(source, key),
        }
    }

    /// Whether the edge was there before the commit.
    fn is_in_base(&self, source: Option<u32>, key: EdgeKey) -> bool {
        self.base.zip(source).is_some_and(|(base, source)| is_there(base, source, key))
    }

    /// Whether the commit deleted the block, and with it all its edges of before.
    fn is_cleared(&self, id: BlockId) -> bool {
        self.noted.as_ref().is_some_and(|noted| noted.cleared.contains_key(&id))
    }

    /// Puts or deletes an edge.
    pub(crate) fn set_edge(&mut self, key: EdgeKey, is_there: bool) {
        if let Some(noted) = self.noting() {
            noted.clock += 1;
            noted.edges.insert(key, (noted.clock, is_there));
        }
    }

    /// The number of this kind, given if need be.
    pub(crate) fn kind(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<u32, Refusal> {
        let known = self.noted.as_ref().and_then(|noted| noted.kinds.get(name).copied());
        if let Some(number) = known.or_else(|| self.base?.kinds.number(name)) {
            return Ok(number);
        }
        check_kind(name)?;
        let graph = self.number;
        let (base, new) = (self.base.map(|base| &base.kinds), &mut self.noted().kinds);
        let number = next_number(base, new.len(), GraphLimit::Kinds)?;
        Effect::KindNamed { graph, number, name }.push(&[], effects);
        new.insert(name, number);
        Ok(number)
    }

    /// Gives an edge type that has none a number.
    pub(crate) fn name_edge_type(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<u32, Refusal> {
        let graph = self.number;
        let (base, new) = (self.base.map(|base| &base.edge_types), &mut self.noted().edge_types);
        let number = next_number(base, new.len(), GraphLimit::EdgeTypes)?;
        Effect::EdgeTypeNamed { graph, number, name }.push(&[], effects);
        new.insert(name, number);
        Ok(number)
    }

    /// The number of this edge type, if it has one.
    pub(crate) fn known_edge_type(&self, name: &str) -> Result<Option<u32>, Refusal> {
        let known = self.noted.as_ref().and_then(|noted| noted.edge_types.get(name).copied());
        let known = known.or_else(|| self.base?.edge_types.number(name));
        if known.is_none() {
            // One that has a number was checked.
            check_edge_type(name)?;
        }
        Ok(known)
    }

    /// The changes to add to, when changes are noted.
    fn noting(&mut self) -> Option<&mut NotedChanges<'a>> {
        if self.is_noted { Some(self.noted()) } else { None }
    }

    fn noted(&mut self) -> &mut NotedChanges<'a> {
        let seed = Seed(self.seed);
        self.noted.get_or_insert_with(|| {
            Box::new(NotedChanges {
                kinds: BTreeMap::new(),
                edge_types: BTreeMap::new(),
                blocks: HashMap::with_hasher(seed),
                edges: HashMap::with_hasher(seed),
                cleared: HashMap::with_hasher(seed),
                clock: 0,
            })
        })
    }
}

fn is_there(graph: &Graph, source: u32, key: EdgeKey) -> bool {
    // A type that this commit names has no edges yet.
    let edge_type = u16::try_from(key.edge_type).ok().filter(|_| key.edge_type < graph.edge_types.count());
    edge_type.is_some_and(|edge_type| graph.adjacency.edge_from(source, edge_type, key.far).is_some())
}

/// The number that the next name gets.
fn next_number(base: Option<&Names>, new: usize, limit: GraphLimit) -> Result<u32, Refusal> {
    let number = base.map_or(0, Names::count) + u32::try_from(new).expect("limits keep catalogues small");
    limit.check(number as usize + 1)?;
    Ok(number)
}
