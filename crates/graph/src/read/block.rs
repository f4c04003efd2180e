//! Reads of single blocks and edges.
//!
//! The state has the place, the log has the bytes. A result borrows both, and nothing is copied.

use core::fmt;

use quire_model::{Entry, History, Place, ReadError, Tags, Timestamp};

use crate::adjacency::Node;
use crate::codec::{BlockPut, EdgeKey, Effect};
use crate::names::narrow;
use crate::{BlockId, Graph, Version, tags};

/// A block as it is read back.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// Its id.
    pub id: BlockId,
    /// Its version.
    pub version: Version,
    /// Its name, when it was ever put by name.
    pub name: Option<&'a str>,
    /// The kind.
    pub kind: &'a str,
    /// The origin; empty when none was given.
    pub source: &'a str,
    /// Its metadata.
    pub metadata: &'a [u8],
    /// Its content.
    pub content: &'a [u8],
    /// When this version was put.
    pub time: Timestamp,
    /// The place of this version in the log.
    pub place: Place,
    tags: Tags<'a>,
}

impl<'a> Block<'a> {
    /// Its tags, in order, each once.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        tags::users(self.tags)
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("id", &self.id)
            .field("version", &self.version)
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("source", &self.source)
            .field("metadata_bytes", &self.metadata.len())
            .field("content_bytes", &self.content.len())
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// An edge as it is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<'a> {
    /// Its properties.
    pub properties: &'a [u8],
    /// When it was last put.
    pub time: Timestamp,
    /// The place of that change in the log.
    pub place: Place,
}

impl Graph {
    /// Whether a block exists. Does not read the log.
    #[inline]
    pub fn contains(&self, id: BlockId) -> bool {
        self.adjacency.find(id).is_some_and(Node::is_block)
    }

    /// Whether an edge exists. Does not read the log.
    #[inline]
    pub fn has_edge(&self, source: BlockId, edge_type: &str, target: BlockId) -> bool {
        let edge_type = self.edge_types.number(edge_type).map(narrow);
        edge_type.is_some_and(|edge_type| self.adjacency.edge(source, edge_type, target).is_some())
    }

    /// The version of a block; [`Version::ABSENT`] when it is not there. Does not read the log.
    #[inline]
    pub fn version(&self, id: BlockId) -> Version {
        self.adjacency.find(id).and_then(Node::facts).map_or(Version::ABSENT, |facts| facts.version)
    }

    /// A block; `None` when it is not there.
    ///
    /// # Errors
    /// When its entry can't be read.
    pub fn block<'a>(&'a self, history: &'a dyn History, id: BlockId) -> Result<Option<Block<'a>>, ReadError> {
        let Some(facts) = self.adjacency.find(id).and_then(Node::facts) else { return Ok(None) };
        let (entry, put) = block_entry(history, facts.place)?;
        assert_eq!((put.id, put.version), (id, facts.version), "entry {} is the block's newest", facts.place);
        Ok(Some(self.shown(entry, put)))
    }

    /// A block of its entry.
    pub(crate) fn shown<'a>(&'a self, entry: Entry<'a>, put: BlockPut<'a>) -> Block<'a> {
        Block {
            id: put.id,
            version: put.version,
            name: put.name,
            kind: self.kinds.name(put.kind),
            source: put.source,
            metadata: put.metadata,
            content: put.content,
            time: entry.time,
            place: entry.place,
            tags: entry.tags,
        }
    }

    /// The edge of this type from `source` to `target`; `None` when it is not there.
    ///
    /// # Errors
    /// When its entry can't be read.
    pub fn edge<'a>(
        &self,
        history: &'a dyn History,
        source: BlockId,
        edge_type: &str,
        target: BlockId,
    ) -> Result<Option<Edge<'a>>, ReadError> {
        let Some(edge_type) = self.edge_types.number(edge_type) else { return Ok(None) };
        let asked = EdgeKey { near: source, edge_type, far: target };
        let Some(place) = self.adjacency.edge(source, narrow(edge_type), target) else { return Ok(None) };
        let entry = entry(history, place)?;
        let Effect::EdgePut { key, properties, .. } = Effect::of(&entry) else { panic!("entry {place} puts an edge") };
        assert_eq!(key, asked, "entry {place} is the edge's newest");
        Ok(Some(Edge { properties, time: entry.time, place }))
    }
}

/// The entry of a block's put at this place.
#[inline]
pub(crate) fn block_entry(history: &dyn History, place: Place) -> Result<(Entry<'_>, BlockPut<'_>), ReadError> {
    let entry = entry(history, place)?;
    let Some(put) = BlockPut::of(&entry) else { panic!("entry {place} puts a block") };
    Ok((entry, put))
}

/// The entry at a place from the state. A missing entry is damage: retention keeps every entry that
/// the state refers to.
#[inline]
fn entry(history: &dyn History, place: Place) -> Result<Entry<'_>, ReadError> {
    history.entry(place)?.ok_or_else(|| gone(place))
}

#[cold]
fn gone(place: Place) -> ReadError {
    ReadError::damaged(Some(place), "the graph's state refers to it, but the log no longer has it")
}
