//! The entries that a graph's history no longer needs.
//!
//! ```text
//! before the history begins: what the graph as of its beginning does not rest on    goes
//!                            a deletion                                             goes behind all that it hides
//! from there on:             everything, the record that it begins with, too            stays
//! ```
//!
//! A client that has followed the changes up to there continues without a gap.
//!
//! This reads the log, because the state knows only the newest place of each block and edge. Reads
//! as of a position use the newest entry before it, so they must never find an old put whose
//! deletion was removed.
//!
//! Hence the invariant: for each block and each edge, the newest entry up to the beginning of the
//! history survives, unless it is a deletion and no older entry remains.
//!
//! An entry is removed because of a newer entry, or, if it is a deletion, because no older entry
//! remains. The newest entry is never removed because of a newer one, so no two entries are removed
//! because of each other.

use quire_model::{Entry, History, Place, Position, ReadError};

use crate::adjacency::Node;
use crate::codec::{EdgeKey, Effect};
use crate::names::narrow;
use crate::{BlockId, Graph, Graphs, Version, tags};

/// The largest number of entries between the same two blocks that are searched for one of the same
/// edge. If none is found, the entry is kept.
const LOOKS_MAX: usize = 64;

/// An entry that the newest state does not rest on, from before a graph's history begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededEntry {
    graph: u32,
    history_from: Position,
    /// The first version of the block that is kept, however old.
    versions_from: Version,
}

impl Graphs {
    /// Returns the question to the log about an entry that may no longer count.
    pub fn superseded(&self, entry: &Entry<'_>) -> Option<SupersededEntry> {
        let (graph, id) = match Effect::of(entry) {
            Effect::BlockPut(put) => (self.old(put.graph, entry)?, Some(put.id)),
            Effect::BlockDeleted { graph, .. } | Effect::EdgeDeleted { graph, .. } => (self.old(graph, entry)?, None),
            Effect::EdgePut { graph, key, .. } => {
                let graph = self.old(graph, entry)?;
                if graph.adjacency.edge(key.near, narrow(key.edge_type), key.far) == Some(entry.place) {
                    return None;
                }
                (graph, None)
            }
            _ => return None,
        };
        let newest = id.and_then(|id| graph.adjacency.find(id)).and_then(Node::facts);
        if newest.is_some_and(|newest| newest.place == entry.place) {
            return None;
        }
        let versions_from = id.map_or(Version::ABSENT, |id| graph.versions_from(id));
        Some(SupersededEntry { graph: graph.number, history_from: graph.history_from, versions_from })
    }

    fn old(&self, graph: u32, entry: &Entry<'_>) -> Option<&Graph> {
        Some(&self.graphs[graph as usize]).filter(|graph| entry.place.position < graph.history_from)
    }
}

impl Graph {
    /// The first kept version of a block, however old; `None` for a missing block.
    pub(crate) fn versions_from(&self, id: BlockId) -> Version {
        match self.version(id) {
            Version::ABSENT => Version::new(u64::MAX),
            newest => Version::new(newest.get().saturating_sub(self.retention.versions.max(1) - 1)),
        }
    }
}

impl SupersededEntry {
    /// Whether a read can still reach the entry. `history` has all of the log.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn is_needed(&self, history: &dyn History, entry: &Entry<'_>) -> Result<bool, ReadError> {
        let past = BoundedHistory { history, graph: self.graph, history_from: self.history_from };
        match Effect::of(entry) {
            Effect::BlockPut(put) => past.shows_version(entry.place, put.id, put.version, self.versions_from),
            Effect::BlockDeleted { id, .. } => past.needs_block_deletion(entry.place, id),
            Effect::EdgePut { key, .. } => Ok(!past.is_edge_replaced(entry.place, key)?),
            Effect::EdgeDeleted { key, .. } => {
                Ok(!past.is_edge_replaced(entry.place, key)? && past.has_older_edge(entry.place, key)?)
            }
            _ => Ok(true),
        }
    }
}

/// The log of a graph, and the beginning of its history.
#[derive(Clone, Copy)]
pub(crate) struct BoundedHistory<'h> {
    pub(crate) history: &'h dyn History,
    pub(crate) graph: u32,
    pub(crate) history_from: Position,
}

impl<'h> BoundedHistory<'h> {
    /// The first entry after a place with these tags, if it is not after the beginning of the
    /// history.
    fn replacing(&self, tags: &[quire_model::Tag<'_>], place: Place) -> Result<Option<Entry<'h>>, ReadError> {
        let next = self.history.next(tags, place.after())?;
        Ok(next.filter(|next| next.place.position <= self.history_from))
    }

    /// Whether a put is the version with which the history begins, or one of the newest versions,
    /// from `versions_from` on, of a block that was not deleted since.
    pub(crate) fn shows_version(
        &self,
        place: Place,
        id: BlockId,
        version: Version,
        versions_from: Version,
    ) -> Result<bool, ReadError> {
        if self.replacing(&[tags::block(self.graph, id).tag()], place)?.is_none() {
            return Ok(true);
        }
        // An edge whose block was deleted later does not count, even when the block is put again.
        // So a removed entry never counts later.
        Ok(version >= versions_from && self.history.next(&[tags::deleted(self.graph, id).tag()], place)?.is_none())
    }

    fn needs_block_deletion(&self, place: Place, id: BlockId) -> Result<bool, ReadError> {
        if self.replacing(&[tags::deleted(self.graph, id).tag()], place)?.is_some() {
            return Ok(false);
        }
        for tag in [tags::block, tags::source, tags::target] {
            if self.history.previous(&[tag(self.graph, id).tag()], place)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a newer entry, at or before the beginning of the history, replaced or deleted the
    /// edge.
    fn is_edge_replaced(&self, place: Place, key: EdgeKey) -> Result<bool, ReadError> {
        for end in [key.near, key.far] {
            if self.replacing(&[tags::deleted(self.graph, end).tag()], place)?.is_some() {
                return Ok(true);
            }
        }
        let tags = [tags::source(self.graph, key.near), tags::target(self.graph, key.far)];
        let tags = tags.each_ref().map(|tag| tag.tag());
        let mut behind = place;
        for _ in 0..LOOKS_MAX {
            let Some(newer) = self.replacing(&tags, behind)? else { return Ok(false) };
            if is_of_edge(&newer, key) {
                return Ok(true);
            }
            behind = newer.place;
        }
        Ok(false)
    }

    /// Whether there may be an older entry of an edge.
    fn has_older_edge(&self, place: Place, key: EdgeKey) -> Result<bool, ReadError> {
        let tags = [tags::source(self.graph, key.near), tags::target(self.graph, key.far)];
        let tags = tags.each_ref().map(|tag| tag.tag());
        let mut before = place;
        for _ in 0..LOOKS_MAX {
            let Some(older) = self.history.previous(&tags, before)? else { return Ok(false) };
            if is_of_edge(&older, key) {
                return Ok(true);
            }
            before = older.place;
        }
        Ok(true)
    }
}

/// Whether an entry between two blocks is of this edge.
fn is_of_edge(entry: &Entry<'_>, edge: EdgeKey) -> bool {
    match Effect::of(entry) {
        Effect::EdgePut { key, .. } | Effect::EdgeDeleted { key, .. } => key == edge,
        // Both entries are of the same block.
        _ => true,
    }
}
