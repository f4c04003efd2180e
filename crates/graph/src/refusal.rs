//! Why a command is refused, the limits, and the checks of what users give as names.
//!
//! A refusal has the facts that conflict, so that a caller can act without another read. Oversized
//! input is described by its size, never quoted.

use alloc::string::String;
use core::fmt;

use quire_model::{ClaimRefusal, Position, Stop};

use crate::adjacency::{INDEX_MAX, POSITION_MAX};
use crate::json::NotJson;
use crate::{BlockId, End, Version};

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The block does not have the version that the put expects.
    VersionMismatch {
        /// The block.
        block: BlockId,
        /// Its name, when the command gave it.
        name: Option<String>,
        /// The expected version; [`Version::ABSENT`] expects that the block does not exist.
        expected: Version,
        /// The current version; [`Version::ABSENT`] when the block does not exist.
        found: Version,
    },
    /// A block of the edge is not there.
    MissingBlock {
        /// The block.
        block: BlockId,
        /// Its name, when the command gave it.
        name: Option<String>,
        /// The end of the edge at which the missing block would be.
        end: End,
    },
    /// The commit deletes more edges than others should wait for ([`GraphLimit::EdgesDeleted`]).
    TooManyEdges {
        /// The block that has them, or the last of them.
        block: BlockId,
        /// Its name, when the command gave it.
        name: Option<String>,
        /// The number of edges that the commit deletes or scans, up to and with those of this
        /// block.
        edges: usize,
    },
    /// The new start of the history is after the end of the log.
    AheadOfLog {
        /// The requested beginning of the history.
        from: Position,
        /// The position of the commit, and the last at which it may.
        at: Position,
    },
    /// A name is not of the form that its kind of name has.
    InvalidName {
        /// The name.
        name: String,
        /// The rule for such names.
        rule: &'static str,
    },
    /// Metadata or properties are not JSON.
    NotJson {
        /// `metadata` or `properties`.
        field: &'static str,
        /// Why they are not.
        reason: NotJson,
    },
    /// Something is larger, or there are more, than the limit allows.
    OverLimit {
        /// The limit.
        limit: GraphLimit,
        /// The number that the command would reach.
        found: usize,
    },
    /// The database has as many graphs as it may.
    Claim(ClaimRefusal),
}

impl From<ClaimRefusal> for Refusal {
    fn from(refusal: ClaimRefusal) -> Self {
        Refusal::Claim(refusal)
    }
}

impl From<Refusal> for Stop<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::VersionMismatch { block, name, expected, found } => {
                let block = BlockLabel { block, name };
                match (*expected, *found) {
                    (Version::ABSENT, found) => write!(f, "block {block} already exists, with version {found}"),
                    (expected, Version::ABSENT) => {
                        write!(f, "block {block} not found, expected version {expected}")
                    }
                    (expected, found) => {
                        write!(f, "version {expected} of block {block} is stale, current version is {found}")
                    }
                }
            }
            Refusal::MissingBlock { block, name, end } => {
                let end = if *end == End::Target { "target" } else { "source" };
                write!(f, "{end} block {} of the edge not found", BlockLabel { block, name })
            }
            Refusal::TooManyEdges { block, name, edges } => {
                let (block, limit) = (BlockLabel { block, name }, GraphLimit::EdgesDeleted);
                write!(
                    f,
                    "{limit} of {} is exceeded: with those of block {block}, the commit deletes {edges} edges; delete edges \
                     of the block in several commits first",
                    limit.max()
                )
            }
            Refusal::AheadOfLog { from, at } => {
                write!(f, "invalid history start: position {from} is after the end of the log at {at}")
            }
            Refusal::InvalidName { name, rule } => write!(f, "invalid name {name:?}: {rule}"),
            Refusal::NotJson { field, reason } => write!(f, "invalid {field}: {reason}"),
            Refusal::OverLimit { limit, found } => write!(f, "{limit} of {} is exceeded: got {found}", limit.max()),
            Refusal::Claim(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}

/// A block by its name, when that is known, and its id.
struct BlockLabel<'r> {
    block: &'r BlockId,
    name: &'r Option<String>,
}

impl fmt::Display for BlockLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{name:?} ({})", self.block),
            None => self.block.fmt(f),
        }
    }
}

/// A limited number or size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphLimit {
    /// Bytes of a graph's name: 255.
    GraphNameBytes,
    /// Bytes of a block's name: 1,024.
    BlockNameBytes,
    /// Bytes of a kind: 255.
    KindBytes,
    /// Bytes of an edge type: 255.
    EdgeTypeBytes,
    /// Bytes of a block's source: 8,192.
    SourceBytes,
    /// Bytes of a block's tag: 255.
    TagBytes,
    /// Different tags of a block: 200.
    Tags,
    /// Bytes of a block's metadata: 1,048,576.
    MetadataBytes,
    /// Bytes of an edge's properties: 1,048,576.
    PropertiesBytes,
    /// Kinds of a graph: 65,536.
    Kinds,
    /// Edge types of a graph: 65,536.
    EdgeTypes,
    /// Blocks of a graph, and ends of edges without one: 4,000,000,000.
    Blocks,
    /// Earlier edges that a commit deletes, with their blocks or by themselves, or reads in order
    /// to delete them: 100,000.
    EdgesDeleted,
    /// Entries before a block's or an edge's in its commit: 262,143.
    CommitEntries,
    /// Commits before a block's or an edge's in the log: 70,368,744,177,662.
    Commits,
}

impl GraphLimit {
    /// The most that is allowed.
    pub const fn max(self) -> usize {
        match self {
            GraphLimit::GraphNameBytes | GraphLimit::KindBytes | GraphLimit::EdgeTypeBytes | GraphLimit::TagBytes => {
                255
            }
            GraphLimit::BlockNameBytes => 1_024,
            GraphLimit::SourceBytes => 8_192,
            GraphLimit::Tags => 200,
            GraphLimit::MetadataBytes | GraphLimit::PropertiesBytes => 1 << 20,
            GraphLimit::Kinds | GraphLimit::EdgeTypes => 1 << 16,
            GraphLimit::Blocks => 4_000_000_000,
            GraphLimit::EdgesDeleted => 100_000,
            GraphLimit::CommitEntries => INDEX_MAX as usize,
            GraphLimit::Commits => POSITION_MAX as usize - 1,
        }
    }

    pub(crate) fn check(self, found: usize) -> Result<(), Refusal> {
        if found > self.max() { Err(Refusal::OverLimit { limit: self, found }) } else { Ok(()) }
    }
}

impl fmt::Display for GraphLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GraphLimit::GraphNameBytes => "graph_name_bytes_max",
            GraphLimit::BlockNameBytes => "block_name_bytes_max",
            GraphLimit::KindBytes => "kind_bytes_max",
            GraphLimit::EdgeTypeBytes => "edge_type_bytes_max",
            GraphLimit::SourceBytes => "source_bytes_max",
            GraphLimit::TagBytes => "tag_bytes_max",
            GraphLimit::Tags => "tags_max",
            GraphLimit::MetadataBytes => "metadata_bytes_max",
            GraphLimit::PropertiesBytes => "properties_bytes_max",
            GraphLimit::Kinds => "kinds_max",
            GraphLimit::EdgeTypes => "edge_types_max",
            GraphLimit::Blocks => "blocks_max",
            GraphLimit::EdgesDeleted => "edges_deleted_max",
            GraphLimit::CommitEntries => "commit_entries_max",
            GraphLimit::Commits => "commits_max",
        })
    }
}
