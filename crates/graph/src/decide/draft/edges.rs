//! The edges of one block as the commit would leave them, and how many of them a commit may delete.
//!
//! Deleting a block or its edges makes the graph's other writers wait for each edge. So a commit
//! counts the earlier edges that it deletes this way or reads for it. Its own edges are bounded by
//! its commands.

use alloc::vec::Vec;

use super::{Draft, GraphDraft};
use crate::codec::EdgeKey;
use crate::{BlockId, BlockRef, End, GraphLimit, Refusal};

/// Edges of a block.
pub(crate) struct EdgesOf {
    pub(crate) edges: Vec<EdgeKey>,
    /// Whether there are more.
    pub(crate) is_more: bool,
    /// The number of scanned edges.
    pub(crate) looked_at: usize,
}

impl Draft<'_> {
    /// Adds to the number of edges of this block that the commit deleted or read.
    pub(crate) fn count_deleted(&mut self, block: BlockRef<'_>, edges: usize) -> Result<(), Refusal> {
        self.edges_deleted += edges;
        if self.edges_deleted > GraphLimit::EdgesDeleted.max() {
            let (block, name) = (block.id(), block.given_name());
            return Err(Refusal::TooManyEdges { block, name, edges: self.edges_deleted });
        }
        Ok(())
    }
}

impl GraphDraft<'_> {
    /// Returns the number of edges that the deletion of a block removes from the state. An edge
    /// from a block to itself counts twice.
    pub(crate) fn edges_of_before(&self, id: BlockId) -> usize {
        if self.is_cleared(id) {
            return 0;
        }
        let slot_and_adjacency = self.base.and_then(|base| Some((base.adjacency.slot(id)?, &base.adjacency)));
        slot_and_adjacency.map_or(0, |(slot, adjacency)| {
            let every = (u16::MIN, u16::MAX);
            adjacency.degree(slot, End::Target, every) + adjacency.degree(slot, End::Source, every)
        })
    }

    /// The first `count_max` edges of a block: outgoing ones before incoming ones, in the order of
    /// neighbours.
    pub(crate) fn edges_of(&self, id: BlockId, count_max: usize) -> EdgesOf {
        let mut looked_at = 0;
        let before = self.edges_before(id).inspect(|_| looked_at += 1).filter(|key| self.has_edge(*key));
        let mut edges: Vec<EdgeKey> = before.take(count_max + 1).collect();
        // The extra edge only shows that there are more.
        looked_at -= usize::from(edges.len() > count_max);
        if let Some(noted) = &self.noted {
            looked_at += noted.edges.len();
            let was_before = |key: EdgeKey| !self.is_cleared(id) && self.is_in_base(self.slot(key.near), key);
            let is_put = |key: &EdgeKey| (key.near == id || key.far == id) && !was_before(*key) && self.has_edge(*key);
            edges.extend(noted.edges.keys().copied().filter(is_put));
            // The written order must not depend on the order in a hash table.
            edges.sort_unstable_by_key(|key| match key.near == id {
                true => (false, key.edge_type, key.far),
                false => (true, key.edge_type, key.near),
            });
        }
        let is_more = edges.len() > count_max;
        edges.truncate(count_max);
        EdgesOf { edges, is_more, looked_at }
    }

    /// The edges that the state has of a block, those to itself once; none when the commit deleted
    /// the block.
    fn edges_before(&self, id: BlockId) -> impl Iterator<Item = EdgeKey> {
        let base = self.base.filter(|_| !self.is_cleared(id));
        let slot_and_adjacency = base.and_then(|base| Some((base.adjacency.slot(id)?, &base.adjacency)));
        slot_and_adjacency.into_iter().flat_map(move |(slot, adjacency)| {
            let hops = |end| adjacency.hops(slot, end, (u16::MIN, u16::MAX), None);
            let outgoing = hops(End::Target).map(move |hop| (id, hop.edge_type, adjacency.id(hop.far)));
            let incoming = hops(End::Source).map(move |hop| (adjacency.id(hop.far), hop.edge_type, id));
            let incoming = incoming.filter(|(near, _, far)| near != far);
            let key = |(near, edge_type, far)| EdgeKey { near, edge_type: u32::from(edge_type), far };
            outgoing.chain(incoming).map(key)
        })
    }
}
