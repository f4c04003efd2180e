//! A block and its edges as of an earlier place, read from the log.
//!
//! The state in memory is the newest. Older facts are found by scanning the tags of the block back
//! from the place: the first entry of an edge decides whether it existed, unless a later deletion
//! of one of its ends removed it. That costs reading every change of the block's edges, where the
//! state costs nothing.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::{Entry, History, Place, Position, ReadError};

use crate::codec::{BlockPut, Effect};
use crate::names::narrow;
use crate::{BlockId, Edge, End, tags};

/// One graph, as it was before a place.
#[derive(Clone, Copy)]
pub(crate) struct Past<'h> {
    history: &'h dyn History,
    graph: u32,
    before: Place,
}

impl<'h> Past<'h> {
    /// The state after the record at this position, which is not before the graph's history
    /// ([`Graph::check_history`]).
    ///
    /// [`Graph::check_history`]: crate::Graph::check_history
    pub(crate) fn at(history: &'h dyn History, graph: u32, position: Position) -> Self {
        let before = if position == Position::MAX { Place::END } else { Place::new(position.next(), 0) };
        Past { history, graph, before }
    }

    /// The put of the version that a block had; `None` when it was not there.
    pub(crate) fn block(&self, id: BlockId) -> Result<Option<(Entry<'h>, BlockPut<'h>)>, ReadError> {
        let newest = self.history.previous(&[tags::block(self.graph, id).tag()], self.before)?;
        Ok(newest.and_then(|entry| match Effect::of(&entry) {
            Effect::BlockPut(put) => Some((entry, put)),
            _ => None,
        }))
    }

    /// An edge as of the position; `None` when it did not exist then.
    pub(crate) fn edge(&self, source: BlockId, edge_type: u16, target: BlockId) -> Result<Option<Edge<'h>>, ReadError> {
        let tags = [tags::source(self.graph, source), tags::target(self.graph, target)];
        let tags = tags.each_ref().map(|tag| tag.tag());
        let mut before = self.before;
        // Entries with both tags put or delete an edge between the two, or delete the block that
        // both are.
        while let Some(entry) = self.history.previous(&tags, before)? {
            before = entry.place;
            let (key, properties) = match Effect::of(&entry) {
                Effect::EdgePut { key, properties, .. } => (key, Some(properties)),
                Effect::EdgeDeleted { key, .. } => (key, None),
                _ => return Ok(None),
            };
            if narrow(key.edge_type) != edge_type {
                continue;
            }
            let Some(properties) = properties else { return Ok(None) };
            for end in [source, target] {
                let deleted = self.history.previous(&[tags::deleted(self.graph, end).tag()], self.before)?;
                if deleted.is_some_and(|deleted| deleted.place > entry.place) {
                    return Ok(None);
                }
            }
            return Ok(Some(Edge { properties, time: entry.time, place: entry.place }));
        }
        Ok(None)
    }

    /// The edges whose far block is this end of them: types and far blocks, in order.
    pub(crate) fn edges(&self, near: BlockId, end: End) -> Result<Vec<(u16, BlockId)>, ReadError> {
        let tag = match end {
            End::Target => tags::source(self.graph, near),
            End::Source => tags::target(self.graph, near),
        };
        let mut newest: BTreeMap<(u16, BlockId), Option<Place>> = BTreeMap::new();
        let mut before = self.before;
        while let Some(entry) = self.history.previous(&[tag.tag()], before)? {
            let (key, put) = match Effect::of(&entry) {
                Effect::EdgePut { key, .. } => (key, Some(entry.place)),
                Effect::EdgeDeleted { key, .. } => (key, None),
                // The block's own deletion took all edges of before.
                _ => break,
            };
            let far = if end == End::Target { key.far } else { key.near };
            newest.entry((narrow(key.edge_type), far)).or_insert(put);
            before = entry.place;
        }
        let mut edges = Vec::with_capacity(newest.len());
        for ((edge_type, far), put) in newest {
            let Some(put) = put else { continue };
            let deleted = self.history.previous(&[tags::deleted(self.graph, far).tag()], self.before)?;
            if far == near || deleted.is_none_or(|deleted| deleted.place < put) {
                edges.push((edge_type, far));
            }
        }
        Ok(edges)
    }
}
