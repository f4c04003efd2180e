//! The commands of the graphs, and the replies.
//!
//! Commands borrow their data; it is copied only into the log. They are validated by `decide`.

use alloc::string::String;
use core::time::Duration;

use quire_model::{Position, millis_of};

use crate::check::{check_block, check_edge, check_edge_type, check_graph, check_kind, check_put, check_tags};
use crate::{BlockId, GraphLimit, Refusal, Version};

/// Names a block by its id, or by the name that its id is the hash of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockRef<'c> {
    /// By id.
    Id(BlockId),
    /// By name: 1 to 1,024 bytes of any script. A block put by name keeps it, also when it is put
    /// by id later.
    Name(&'c str),
}

impl BlockRef<'_> {
    /// The id.
    pub fn id(self) -> BlockId {
        match self {
            BlockRef::Id(id) => id,
            BlockRef::Name(name) => BlockId::of_name(name),
        }
    }

    /// The name by which the command gives the block, for a refusal.
    pub(crate) fn given_name(self) -> Option<String> {
        match self {
            BlockRef::Name(name) => Some(name.into()),
            BlockRef::Id(_) => None,
        }
    }
}

impl From<BlockId> for BlockRef<'_> {
    fn from(id: BlockId) -> Self {
        BlockRef::Id(id)
    }
}

impl<'c> From<&'c str> for BlockRef<'c> {
    fn from(name: &'c str) -> Self {
        BlockRef::Name(name)
    }
}

/// One change of one graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command<'c> {
    /// Puts a block: creates it, or replaces all of it.
    PutBlock(PutBlock<'c>),
    /// Deletes a block and its edges.
    DeleteBlock(DeleteBlock<'c>),
    /// Puts an edge: creates it, or replaces its properties.
    PutEdge(PutEdge<'c>),
    /// Deletes an edge.
    DeleteEdge(DeleteEdge<'c>),
    /// Deletes edges of a block.
    DeleteEdges(DeleteEdges<'c>),
    /// Sets how much of its past a graph keeps.
    SetRetention(SetRetention<'c>),
    /// Lets go of a graph's past before a position.
    TrimHistory(TrimHistory<'c>),
}

impl Command<'_> {
    /// Whether the command only removes data. A full disk keeps some space for such commands.
    pub fn frees_space(&self) -> bool {
        !matches!(self, Command::PutBlock(_) | Command::PutEdge(_))
    }

    /// Checks everything about the command that does not depend on the state: names, sizes, JSON. A
    /// client that splits many commands over several commits checks all of them before the first.
    ///
    /// # Errors
    /// The refusals of `decide` that do not depend on the state.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Command::PutBlock(put) => {
                check_put(put)?;
                check_tags(put)?;
                check_graph(put.graph)?;
                check_kind(put.kind)
            }
            Command::PutEdge(put) => {
                check_edge(put)?;
                check_graph(put.graph)?;
                check_edge_type(put.edge_type)
            }
            Command::DeleteBlock(DeleteBlock { graph, block }) => {
                check_block(*block)?;
                check_graph(graph)
            }
            Command::DeleteEdge(delete) => {
                check_block(delete.source)?;
                check_block(delete.target)?;
                check_graph(delete.graph)?;
                check_edge_type(delete.edge_type)
            }
            Command::DeleteEdges(delete) => {
                check_block(delete.block)?;
                GraphLimit::EdgesDeleted.check(delete.count_max)?;
                check_graph(delete.graph)
            }
            Command::SetRetention(SetRetention { graph, .. }) | Command::TrimHistory(TrimHistory { graph, .. }) => {
                check_graph(graph)
            }
        }
    }
}

/// Puts a block: creates it, or replaces all of it but its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PutBlock<'c> {
    /// The graph, created when missing. Like `air/routes`: 1 to 255 of `A-Z a-z 0-9 . _ -`,
    /// in segments that `/` parts, and neither `.` nor `..`.
    pub graph: &'c str,
    /// The block.
    pub block: BlockRef<'c>,
    /// The kind, such as `airport`: 1 to 255 bytes without control characters.
    pub kind: &'c str,
    /// The origin of the block, like `file://src/main.rs#L10`; may be empty.
    pub source: &'c str,
    /// A set of tags; order and repetition mean nothing.
    pub tags: &'c [&'c str],
    /// Metadata: JSON (RFC 8259) of at most 127 levels and 1,048,576 bytes, kept to the byte; or
    /// empty.
    pub metadata: &'c [u8],
    /// The content; may be empty. As much as a record holds.
    pub content: &'c [u8],
    /// The version that the block must have for the put to be accepted; [`Version::ABSENT`]: it
    /// must not be there. `None` puts in any case.
    pub expect: Option<Version>,
}

impl<'c> PutBlock<'c> {
    /// A block with nothing in it, to be put in any case.
    pub fn new(graph: &'c str, block: impl Into<BlockRef<'c>>, kind: &'c str) -> Self {
        PutBlock { graph, block: block.into(), kind, source: "", tags: &[], metadata: &[], content: &[], expect: None }
    }
}

/// Deletes a block and all edges from and to it. A commit deletes a limited number of edges
/// ([`GraphLimit::EdgesDeleted`]); for a block with more, first delete edges in several commits
/// with [`DeleteEdges`]. Deleting a missing block does nothing; edges that were put with
/// `allow_missing` then stay.
///
/// [`GraphLimit::EdgesDeleted`]: crate::GraphLimit::EdgesDeleted
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeleteBlock<'c> {
    /// The graph.
    pub graph: &'c str,
    /// The block.
    pub block: BlockRef<'c>,
}

/// Puts an edge: creates it, or replaces its properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PutEdge<'c> {
    /// The graph, created when missing.
    pub graph: &'c str,
    /// The block that the edge leaves.
    pub source: BlockRef<'c>,
    /// The type, such as `flies_to` or `calls`: 1 to 255 bytes without control characters. The set
    /// is open.
    pub edge_type: &'c str,
    /// The block that the edge enters; may be the source.
    pub target: BlockRef<'c>,
    /// Properties: JSON (RFC 8259) of at most 127 levels and 1,048,576 bytes, kept to the byte; or
    /// empty.
    pub properties: &'c [u8],
    /// Whether the edge may be put although one of its blocks is not there.
    pub allow_missing: bool,
}

impl<'c> PutEdge<'c> {
    /// An edge without properties between blocks that must be there.
    pub fn new(
        graph: &'c str,
        source: impl Into<BlockRef<'c>>,
        edge_type: &'c str,
        target: impl Into<BlockRef<'c>>,
    ) -> Self {
        let (source, target) = (source.into(), target.into());
        PutEdge { graph, source, edge_type, target, properties: &[], allow_missing: false }
    }
}

/// Deletes an edge. Does nothing when the edge does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeleteEdge<'c> {
    /// The graph.
    pub graph: &'c str,
    /// The block that the edge leaves.
    pub source: BlockRef<'c>,
    /// The edge type.
    pub edge_type: &'c str,
    /// The block that the edge enters.
    pub target: BlockRef<'c>,
}

/// Deletes at most `count_max` edges from and to a block, which need not exist: outgoing ones
/// first, in the order of [`Graph::neighbours`](crate::Graph::neighbours). Does nothing when it has
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeleteEdges<'c> {
    /// The graph.
    pub graph: &'c str,
    /// The block.
    pub block: BlockRef<'c>,
    /// The most edges to delete. Other writers wait until all are deleted.
    pub count_max: usize,
}

/// The retention of a graph's history. Current blocks and edges always stay.
///
/// The history of a graph begins at a position
/// ([`Graph::history_from`](crate::Graph::history_from)) after that time. Reads as of an earlier
/// position are refused. A compaction removes entries that only such reads would need: replaced
/// versions of blocks and edges, deleted blocks and edges, and the deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retention {
    /// The time for which earlier states of the graph can be read, in milliseconds; `None` means
    /// forever. A longer walk, or a longer list in pages, is refused before it ends.
    pub history_ms: Option<u64>,
    /// The number of newest versions of an existing block that are kept, however old they are: see
    /// [`Graph::versions`](crate::Graph::versions). 0 counts as 1.
    pub versions: u64,
}

impl Retention {
    /// Everything, for ever: the default of a graph.
    pub const ALL: Retention = Retention { history_ms: None, versions: 1 };
}

impl Retention {
    /// Returns the retention that keeps this much history, and no other old version of a block.
    pub fn history(kept: Duration) -> Self {
        Retention { history_ms: Some(millis_of(kept)), ..Retention::ALL }
    }

    /// Sets the number of newest versions of a block that are kept, however old they are.
    #[must_use]
    pub fn versions(mut self, versions: u64) -> Self {
        self.versions = versions;
        self
    }
}

impl Default for Retention {
    fn default() -> Self {
        Retention::ALL
    }
}

/// Sets how much history a graph keeps. Trimmed history does not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetRetention<'c> {
    /// The graph, created when missing.
    pub graph: &'c str,
    /// The new retention.
    pub retention: Retention,
}

/// Lets go of a graph's past before a position. Nothing happens when the graph is not there, or its
/// history begins there or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrimHistory<'c> {
    /// The graph.
    pub graph: &'c str,
    /// The first position as of which the graph can be read; at most that of the commit itself.
    pub from: Position,
}

/// The answer to an accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The block is as put.
    BlockPut {
        /// Its id.
        block: BlockId,
        /// The version of the put block.
        version: Version,
        /// Whether it was not there before.
        created: bool,
    },
    /// The block is not there, nor are the edges it had.
    BlockDeleted {
        /// Its id.
        block: BlockId,
        /// The version that was deleted; [`Version::ABSENT`] when the block was not there.
        version: Version,
    },
    /// The edge is as put.
    EdgePut {
        /// Whether it was not there before.
        created: bool,
    },
    /// The edge is not there.
    EdgeDeleted {
        /// Whether it was there before.
        existed: bool,
    },
    /// The edges are not there.
    EdgesDeleted {
        /// The number of deleted edges.
        count: usize,
        /// Whether the block has others.
        is_more: bool,
    },
    /// The retention was set.
    RetentionSet,
    /// The history was trimmed.
    HistoryTrimmed {
        /// The first position as of which the graph can be read; [`Position::ZERO`] while its whole
        /// history is kept.
        from: Position,
    },
}
