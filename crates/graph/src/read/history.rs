//! The history of a block and of a graph: versions, earlier positions, and the feed of changes.

use alloc::vec::Vec;

use quire_model::{Entry, History, LongReading, Place, Position, ReadError, Timestamp};

use super::neighbours::Neighbour;
use super::past::Past;
use crate::Wants;
use crate::adjacency::Node;
use crate::codec::Effect;
use crate::names::narrow;
use crate::survival::BoundedHistory;
use crate::{Block, BlockId, Direction, Edge, End, Graph, tags};

/// Something that happened to a graph.
#[derive(Debug, Clone, Copy)]
pub struct GraphChange<'a> {
    /// The place of the change in the log.
    pub place: Place,
    /// When it was committed.
    pub time: Timestamp,
    /// The change.
    pub what: GraphChangeKind<'a>,
}

/// A change of a graph.
#[derive(Debug, Clone, Copy)]
pub enum GraphChangeKind<'a> {
    /// A block was put.
    BlockPut(Block<'a>),
    /// A block was deleted, and its edges.
    BlockDeleted {
        /// The block.
        block: BlockId,
    },
    /// An edge was put.
    EdgePut {
        /// The block that the edge leaves.
        source: BlockId,
        /// Its type.
        edge_type: &'a str,
        /// The block that the edge enters.
        target: BlockId,
        /// Its properties.
        properties: &'a [u8],
    },
    /// An edge was deleted.
    EdgeDeleted {
        /// The block that the edge left.
        source: BlockId,
        /// Its type.
        edge_type: &'a str,
        /// The block that the edge entered.
        target: BlockId,
    },
}

impl Graph {
    /// The last record that changed a block that is there, or the edges of one that is or is not
    /// there; [`Position::MAX`] when nothing is known of it.
    pub fn changed(&self, id: BlockId) -> Position {
        self.adjacency.find(id).map_or(Position::MAX, Node::changed)
    }

    /// A block as of a position; `None` when it was not there.
    ///
    /// # Errors
    /// When an entry can't be read, and as [`Graph::check_history`], as all reads of the past.
    pub fn block_at<'a>(
        &'a self,
        history: &'a dyn History,
        id: BlockId,
        at: Position,
    ) -> Result<Option<Block<'a>>, ReadError> {
        self.check_history(at)?;
        let found = Past::at(history, self.number, at).block(id)?;
        Ok(found.map(|(entry, put)| self.shown(entry, put)))
    }

    /// Whether a block was there as of a position. Reads the log only when the block has changed
    /// since.
    ///
    /// # Errors
    /// The errors of [`Graph::block_at`].
    pub fn contains_at(&self, history: &dyn History, id: BlockId, at: Position) -> Result<bool, ReadError> {
        self.check_history(at)?;
        if self.changed(id) <= at {
            return Ok(self.contains(id));
        }
        Ok(Past::at(history, self.number, at).block(id)?.is_some())
    }

    /// Whether a block was there as of a position, or was missing and had edges.
    ///
    /// # Errors
    /// The errors of [`Graph::block_at`].
    pub fn knows_at(&self, history: &dyn History, id: BlockId, at: Position) -> Result<bool, ReadError> {
        self.check_history(at)?;
        if self.changed(id) <= at {
            return Ok(self.adjacency.find(id).is_some());
        }
        let past = Past::at(history, self.number, at);
        let has_edges = |end| past.edges(id, end).map(|edges| !edges.is_empty());
        Ok(past.block(id)?.is_some() || has_edges(End::Target)? || has_edges(End::Source)?)
    }

    /// The edge of this type from `source` to `target` as of a position; `None` when it was not
    /// there.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn edge_at<'a>(
        &self,
        history: &'a dyn History,
        source: BlockId,
        edge_type: &str,
        target: BlockId,
        at: Position,
    ) -> Result<Option<Edge<'a>>, ReadError> {
        self.check_history(at)?;
        if self.changed(source) <= at {
            return self.edge(history, source, edge_type, target);
        }
        let Some(edge_type) = self.edge_types.number(edge_type).map(narrow) else { return Ok(None) };
        Past::at(history, self.number, at).edge(source, edge_type, target)
    }

    /// Shows the puts and deletions of a block before a place, newest first, until `show` breaks.
    /// They include all changes since the beginning of the graph's history, the version at that
    /// beginning, and older ones, up to a deletion, as the [`Retention`](crate::Retention) keeps.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn versions(
        &self,
        history: &dyn History,
        id: BlockId,
        before: Place,
        show: &mut dyn FnMut(&GraphChange<'_>) -> Wants,
    ) -> Result<(), ReadError> {
        let tag = tags::block(self.number, id);
        let kept_from = self.versions_from(id);
        let (mut before, mut reading) = (before, LongReading::new(history));
        while let Some(entry) = reading.history().previous(&[tag.tag()], before)? {
            let history = reading.history();
            let old = BoundedHistory { history, graph: self.number, history_from: self.history_from };
            let is_shown = match Effect::of(&entry) {
                _ if entry.place.position >= self.history_from => true,
                Effect::BlockPut(put) => old.shows_version(entry.place, id, put.version, kept_from)?,
                _ => false,
            };
            if !is_shown {
                break;
            }
            before = entry.place;
            if show(&self.change(entry)).is_break() {
                break;
            }
            reading.let_go();
        }
        Ok(())
    }

    /// The neighbours of a block as of a position, in the order of [`Graph::neighbours`]. Costs
    /// time in the changes of the block's edges when there were any since.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn neighbours_at<'a>(
        &'a self,
        history: &dyn History,
        block: BlockId,
        direction: Direction,
        edge_types: &[&str],
        after: Option<Neighbour<'_>>,
        at: Position,
    ) -> Result<Vec<Neighbour<'a>>, ReadError> {
        let types = self.types(edge_types);
        let is_behind = |neighbour: &Neighbour<'_>| {
            let rank = |of: &Neighbour<'_>| (of.end == End::Source, self.edge_types.number(of.edge_type), of.block);
            after.is_none_or(|after| rank(neighbour) > rank(&after))
        };
        self.check_history(at)?;
        let past = Past::at(history, self.number, at);
        let mut found = Vec::new();
        for end in direction.ends() {
            let edges = past.edges(block, *end)?;
            let edges = edges.into_iter().filter(|(edge_type, _)| types.contains(*edge_type));
            let neighbours = edges.map(|(edge_type, block)| Neighbour {
                block,
                edge_type: self.edge_type_name(edge_type),
                end: *end,
            });
            found.extend(neighbours.filter(is_behind));
        }
        Ok(found)
    }

    /// Shows every change of the graph from a place on up to a position, in order, until `show`
    /// breaks. Returns where to continue. [`Place::START`] begins with the start of the kept
    /// history.
    ///
    /// # Errors
    /// When an entry can't be read, and [`ReadErrorKind::Gone`](quire_model::ReadErrorKind::Gone)
    /// when the graph's history begins behind that place: changes may be missing from there on.
    pub fn changes(
        &self,
        history: &dyn History,
        at: Position,
        from: Place,
        show: &mut dyn FnMut(&GraphChange<'_>) -> Wants,
    ) -> Result<Place, ReadError> {
        let from = if from == Place::START { Place::new(self.history_from, 0) } else { from };
        self.check_changes(from)?;
        let tag = tags::graph(self.number);
        let mut from = from;
        while let Some(entry) = history.next(&[tag.tag()], from)? {
            if entry.place.position > at {
                break;
            }
            from = entry.place.after();
            if show(&self.change(entry)).is_break() {
                break;
            }
        }
        Ok(from)
    }

    fn change<'a>(&'a self, entry: Entry<'a>) -> GraphChange<'a> {
        let edge_type = |number: u32| self.edge_types.name(number);
        let what = match Effect::of(&entry) {
            Effect::BlockPut(put) => GraphChangeKind::BlockPut(self.shown(entry, put)),
            Effect::BlockDeleted { id, .. } => GraphChangeKind::BlockDeleted { block: id },
            Effect::EdgePut { key, properties, .. } => GraphChangeKind::EdgePut {
                source: key.near,
                edge_type: edge_type(key.edge_type),
                target: key.far,
                properties,
            },
            Effect::EdgeDeleted { key, .. } => {
                GraphChangeKind::EdgeDeleted { source: key.near, edge_type: edge_type(key.edge_type), target: key.far }
            }
            _ => panic!("entry {} names something, and changes no graph", entry.place),
        };
        GraphChange { place: entry.place, time: entry.time, what }
    }
}
