//! Links between blocks, in memory: 62 bytes per block and about 38 per edge.
//!
//! ```text
//! Adjacency ── index      id → slot                                hash tables, seeded
//!         ├── nodes      slot → id, version, place, kind, lists   56 bytes each
//!         ├── outgoing   sorted lists of (edge type, target, place)
//!         └── incoming   sorted lists of (edge type, source)
//! ```
//!
//! A **slot** is the small number by which edges refer to a block. It belongs to one block as long
//! as the block exists or has edges, and is then reused for another. Invariant: `incoming` holds
//! exactly the reverses of `outgoing`'s edges.
//!
//! Every node has the last record that changed it or its edges ([`Node::changed`]). A reader as of
//! an earlier position compares the positions, and reads the log when the node is newer.

mod index;
mod lists;
mod node;
mod pages;
mod runs;
mod stored;

use alloc::vec::Vec;

use quire_model::{Place, Position};

use crate::memory::MemorySource;
use crate::{BlockId, End};
use index::Index;
use lists::{Elements, List, Lists, Probe, edge_type};
pub(crate) use node::{Facts, INDEX_MAX, Node, POSITION_MAX};
use node::{NODE_WORDS, PlaceWord};
use pages::Pages;

/// Words of an outgoing edge: key, target's slot, place.
const OUTGOING: usize = 5;
/// Words of an incoming edge: key, source's slot.
const INCOMING: usize = 3;

/// Nodes by slot.
type Nodes = Pages<NODE_WORDS, 13>;

impl Nodes {
    #[inline]
    fn id(&self, slot: u32) -> BlockId {
        node::id_of(self.get(slot))
    }

    #[inline]
    fn node(&self, slot: u32) -> Node {
        Node::of(self.get(slot))
    }

    fn set(&mut self, slot: u32, node: Node) {
        *self.get_mut(slot) = node.packed();
    }

    #[inline]
    fn set_outgoing(&mut self, slot: u32, list: List) {
        node::set_outgoing(self.get_mut(slot), list);
    }

    #[inline]
    fn set_incoming(&mut self, slot: u32, list: List) {
        node::set_incoming(self.get_mut(slot), list);
    }

    /// Notes the last record that changed a node.
    #[inline]
    fn touch(&mut self, slot: u32, position: Position) {
        node::touch(self.get_mut(slot), position);
    }

    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Node)) {
        let mut node = self.node(slot);
        change(&mut node);
        self.set(slot, node);
    }
}

/// An edge by its ends' slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) edge_type: u16,
    pub(crate) far: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Adjacency {
    index: Index,
    nodes: Nodes,
    /// Free slots; the last is the next.
    free: Vec<u32>,
    outgoing: Lists<OUTGOING>,
    incoming: Lists<INCOMING>,
    pub(crate) blocks: usize,
    pub(crate) edges: usize,
    /// The last record that freed a slot. Slots looked up before it must be looked up again.
    pub(crate) slots_freed: Position,
}

impl Adjacency {
    pub(crate) fn new(seed: u64, source: &MemorySource) -> Self {
        Adjacency {
            index: Index::new(seed, 0, source.clone()),
            nodes: Pages::new(source.clone()),
            free: Vec::new(),
            outgoing: Lists::new(source.clone()),
            incoming: Lists::new(source.clone()),
            blocks: 0,
            edges: 0,
            slots_freed: Position::ZERO,
        }
    }

    /// The slot of a block that exists or has edges.
    #[inline]
    pub(crate) fn slot(&self, id: BlockId) -> Option<u32> {
        self.index.find(id, |slot| self.nodes.id(slot))
    }

    /// The hash of an id, under the seed.
    pub(crate) fn hash(&self, id: BlockId) -> u64 {
        self.index.hash(id)
    }

    /// The node in a slot.
    #[inline]
    pub(crate) fn node(&self, slot: u32) -> Node {
        self.nodes.node(slot)
    }

    /// The id of the block in a slot.
    #[inline]
    pub(crate) fn id(&self, slot: u32) -> BlockId {
        self.nodes.id(slot)
    }

    /// The node of a block that exists or has edges.
    #[inline]
    pub(crate) fn find(&self, id: BlockId) -> Option<Node> {
        self.slot(id).map(|slot| self.nodes.node(slot))
    }

    /// Returns the number of slots, taken or free.
    pub(crate) fn slots(&self) -> u32 {
        self.nodes.len()
    }

    /// Returns the place of an edge's entry; `None` when the edge does not exist.
    #[inline]
    pub(crate) fn edge(&self, source: BlockId, edge_type: u16, target: BlockId) -> Option<Place> {
        self.edge_from(self.slot(source)?, edge_type, target)
    }

    /// The same, of the block in a slot.
    #[inline]
    pub(crate) fn edge_from(&self, source: u32, edge_type: u16, target: BlockId) -> Option<Place> {
        let list = self.nodes.node(source).outgoing;
        let spot = self.outgoing.seek(list, &Probe::new(edge_type, target), |slot| self.nodes.id(slot)).ok()?;
        let [.., low, high] = *self.outgoing.element(list, spot);
        Some(PlaceWord::from_bits((u64::from(high) << 32) | u64::from(low)).get())
    }

    /// The edges at this end of a block, of types from `first` to `last`, in order; after `after`
    /// when given.
    #[inline]
    pub(crate) fn hops(
        &self,
        slot: u32,
        end: End,
        (first, last): (u16, u16),
        after: Option<(u16, BlockId)>,
    ) -> Hops<'_> {
        let node = self.nodes.node(slot);
        let edges = match end {
            End::Target => Edges::Outgoing(from(&self.outgoing, node.outgoing, &self.nodes, first, after)),
            End::Source => Edges::Incoming(from(&self.incoming, node.incoming, &self.nodes, first, after)),
        };
        Hops { edges, last }
    }

    /// Prefetches the id of the block in a slot; the returned value has no meaning.
    #[inline]
    pub(crate) fn touch_id(&self, slot: u32) -> u32 {
        node::touch_id(self.nodes.get(slot))
    }

    /// Prefetches the edge lists of a node; the returned value has no meaning.
    #[inline]
    pub(crate) fn touch_lists(&self, slot: u32) -> u32 {
        node::touch_lists(self.nodes.get(slot))
    }

    /// Prefetches the first `count` edges of a node; the returned value has no meaning.
    #[inline]
    pub(crate) fn touch_edges(&self, slot: u32, end: End, count: usize) -> u32 {
        let node = self.nodes.node(slot);
        match end {
            End::Target => self.outgoing.touch(node.outgoing, count),
            End::Source => self.incoming.touch(node.incoming, count),
        }
    }

    /// Returns the number of edges of these types in this direction.
    pub(crate) fn degree(&self, slot: u32, end: End, (first, last): (u16, u16)) -> usize {
        let node = self.nodes.node(slot);
        match end {
            End::Target => count(&self.outgoing, node.outgoing, &self.nodes, first, last),
            End::Source => count(&self.incoming, node.incoming, &self.nodes, first, last),
        }
    }

    /// Applies a put block, which may have been found in this slot before.
    pub(crate) fn put_block(&mut self, id: BlockId, facts: Facts, found: Option<u32>) {
        let slot = self.slot_found(id, found);
        self.blocks += usize::from(!self.nodes.node(slot).is_block());
        self.nodes.change(slot, |node| node.put(facts));
    }

    /// Applies a put edge, whose ends may have been found in these slots before.
    pub(crate) fn put_edge(
        &mut self,
        source: BlockId,
        edge_type: u16,
        target: BlockId,
        place: Place,
        found: Option<[u32; 2]>,
    ) {
        let near = self.slot_found(source, found.map(|[near, _]| near));
        let far = self.slot_found(target, found.map(|[_, far]| far));
        let position = place.position;
        let place = PlaceWord::new(place).bits();
        let (probe, list) = (Probe::new(edge_type, target), self.nodes.node(near).outgoing);
        let [key, prefix] = probe.words();
        let element = [key, prefix, far, place as u32, (place >> 32) as u32];
        match self.outgoing.seek(list, &probe, |slot| self.nodes.id(slot)) {
            Ok(spot) => self.outgoing.replace(list, spot, element),
            Err(spot) => {
                let list = self.outgoing.insert(list, spot, element);
                self.nodes.set_outgoing(near, list);
                let (probe, list) = (Probe::new(edge_type, source), self.nodes.node(far).incoming);
                let [key, prefix] = probe.words();
                let spot = self.incoming.seek(list, &probe, |slot| self.nodes.id(slot));
                let spot = spot.expect_err("an edge is in both lists or in none");
                let list = self.incoming.insert(list, spot, [key, prefix, near]);
                self.nodes.set_incoming(far, list);
                self.edges += 1;
            }
        }
        self.nodes.touch(near, position);
        self.nodes.touch(far, position);
    }

    /// Removes an existing edge.
    pub(crate) fn delete_edge(&mut self, source: BlockId, edge_type: u16, target: BlockId, position: Position) {
        let ends = self.slot(source).zip(self.slot(target));
        let (near, far) = ends.expect("only an existing edge is deleted");
        self.remove_outgoing(near, edge_type, target);
        self.remove_incoming(far, edge_type, source);
        self.edges -= 1;
        let ends = [near, far];
        for slot in &ends[..if near == far { 1 } else { 2 }] {
            self.nodes.touch(*slot, position);
            self.release(*slot, position);
        }
    }

    /// Removes an existing block, and its edges.
    pub(crate) fn delete_block(&mut self, id: BlockId, position: Position) -> Facts {
        let slot = self.slot(id).expect("only an existing block is deleted");
        let facts = self.nodes.node(slot).facts().expect("only an existing block is deleted");
        for hop in self.far_ends(slot, End::Target) {
            self.remove_incoming(hop.far, hop.edge_type, id);
            self.cut(slot, hop.far, position);
        }
        self.outgoing.clear(self.nodes.node(slot).outgoing);
        self.nodes.set_outgoing(slot, List::NONE);
        // Edges to the block itself were deleted with the outgoing ones.
        for hop in self.far_ends(slot, End::Source) {
            self.remove_outgoing(hop.far, hop.edge_type, id);
            self.cut(slot, hop.far, position);
        }
        // The remaining edges: those to the block itself are already removed.
        self.incoming.clear(self.nodes.node(slot).incoming);
        self.nodes.set_incoming(slot, List::NONE);
        self.nodes.change(slot, Node::delete);
        self.nodes.touch(slot, position);
        self.blocks -= 1;
        self.release(slot, position);
        facts
    }

    /// The edges at one end of a node, in the memory order of the blocks at the other end. Scanning
    /// a million of them is several times as fast in this order.
    fn far_ends(&self, slot: u32, end: End) -> Vec<Hop> {
        let mut hops: Vec<Hop> = self.hops(slot, end, (u16::MIN, u16::MAX), None).collect();
        hops.sort_unstable_by_key(|hop| (hop.far, hop.edge_type));
        hops
    }

    /// Updates the node at the far end of an edge of a block that is being deleted.
    fn cut(&mut self, deleted: u32, far: u32, position: Position) {
        self.edges -= 1;
        if far != deleted {
            self.nodes.touch(far, position);
            self.release(far, position);
        }
    }

    fn remove_outgoing(&mut self, near: u32, edge_type: u16, target: BlockId) {
        let list = self.nodes.node(near).outgoing;
        let spot = self.outgoing.seek(list, &Probe::new(edge_type, target), |slot| self.nodes.id(slot));
        let list = self.outgoing.remove(list, spot.expect("an edge is in both lists"));
        self.nodes.set_outgoing(near, list);
    }

    fn remove_incoming(&mut self, near: u32, edge_type: u16, source: BlockId) {
        let list = self.nodes.node(near).incoming;
        let spot = self.incoming.seek(list, &Probe::new(edge_type, source), |slot| self.nodes.id(slot));
        let list = self.incoming.remove(list, spot.expect("an edge is in both lists"));
        self.nodes.set_incoming(near, list);
    }

    /// The slot of a block. The noted slot is checked first, and a missing block gets a new slot.
    #[inline]
    fn slot_found(&mut self, id: BlockId, found: Option<u32>) -> u32 {
        match found {
            Some(slot) if slot < self.slots() && node::is_of(self.nodes.get(slot), id) => slot,
            _ => self.slot_or_new(id),
        }
    }

    fn slot_or_new(&mut self, id: BlockId) -> u32 {
        if let Some(slot) = self.slot(id) {
            return slot;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.nodes.extend(1),
        };
        self.nodes.set(slot, Node::end(id));
        self.index.add(id, slot, |slot| self.nodes.id(slot));
        slot
    }

    /// Frees the slot of a node that is no block and has no edges.
    fn release(&mut self, slot: u32, position: Position) {
        let node = self.nodes.node(slot);
        if node.is_used() && !node.is_block() && !node.has_edges() {
            self.index.remove(node.id, slot);
            self.nodes.set(slot, Node::FREE);
            self.free.push(slot);
            self.slots_freed = position;
        }
    }

    /// The source of its memory.
    pub(crate) fn source(&self) -> &MemorySource {
        self.nodes.source()
    }

    /// Returns the lent bytes of its memory.
    pub(crate) fn lent_bytes(&self) -> usize {
        self.index.lent_bytes() + self.nodes.lent_bytes() + self.outgoing.lent_bytes() + self.incoming.lent_bytes()
    }

    /// Returns the bytes of its memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.nodes.memory_bytes()
            + self.free.capacity() * size_of::<u32>()
            + self.outgoing.memory_bytes()
            + self.incoming.memory_bytes()
    }
}

/// The elements of a list from the first of a type on, or after an edge.
#[inline]
fn from<'a, const WORDS: usize>(
    lists: &'a Lists<WORDS>,
    list: List,
    nodes: &'a Nodes,
    first: u16,
    after: Option<(u16, BlockId)>,
) -> Elements<'a, WORDS> {
    let id_of = |slot| nodes.id(slot);
    let spot = match after {
        Some((edge_type, id)) if edge_type >= first => {
            let probe = Probe::new(edge_type, id);
            match lists.seek(list, &probe, id_of) {
                Ok(spot) => {
                    let mut behind = lists.iter(list, Some(spot));
                    behind.next();
                    return behind;
                }
                Err(spot) => Some(spot),
            }
        }
        _ if first == 0 => None,
        _ => Some(begin(lists, list, nodes, first)),
    };
    lists.iter(list, spot)
}

/// Returns the spot where the edges of a type begin.
fn begin<const WORDS: usize>(lists: &Lists<WORDS>, list: List, nodes: &Nodes, edge_type: u16) -> lists::Spot {
    match lists.seek(list, &Probe::new(edge_type, BlockId::MIN), |slot| nodes.id(slot)) {
        Ok(spot) | Err(spot) => spot,
    }
}

fn count<const WORDS: usize>(lists: &Lists<WORDS>, list: List, nodes: &Nodes, first: u16, last: u16) -> usize {
    let before = |edge_type: u16| lists.rank(list, begin(lists, list, nodes, edge_type));
    let end = last.checked_add(1).map_or(list.length as usize, before);
    end - if first == 0 { 0 } else { before(first) }
}

/// The edges of a node in one direction, up to those of a last type.
#[derive(Debug)]
pub(crate) struct Hops<'a> {
    edges: Edges<'a>,
    last: u16,
}

#[derive(Debug)]
enum Edges<'a> {
    Outgoing(Elements<'a, OUTGOING>),
    Incoming(Elements<'a, INCOMING>),
}

impl Iterator for Hops<'_> {
    type Item = Hop;

    #[inline]
    fn next(&mut self) -> Option<Hop> {
        let hop = match &mut self.edges {
            Edges::Outgoing(elements) => elements.next().map(hop),
            Edges::Incoming(elements) => elements.next().map(hop),
        };
        hop.filter(|hop| hop.edge_type <= self.last)
    }
}

#[inline]
fn hop<const WORDS: usize>(element: &[u32; WORDS]) -> Hop {
    Hop { edge_type: edge_type(element), far: element[2] }
}
