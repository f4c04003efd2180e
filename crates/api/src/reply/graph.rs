//! Graphs.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::{ShownBytes, names};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EdgeReply {
    pub source: String,
    #[serde(rename = "type")]
    pub edge_type: String,
    pub target: String,
    /// The time of its last put.
    pub time_ms: u64,
    /// The position of its last put.
    pub position: u64,
    #[serde(flatten)]
    #[schemars(with = "names::Properties")]
    pub properties: ShownBytes<'static, names::Properties>,
}

/// A block in a response.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlockReply {
    pub id: String,
    pub name: Option<String>,
    pub version: u64,
    pub kind: String,
    pub source: String,
    pub tags: Vec<String>,
    pub time_ms: u64,
    #[serde(flatten)]
    #[schemars(with = "names::Metadata")]
    pub metadata: ShownBytes<'static, names::Metadata>,
    #[serde(flatten)]
    #[schemars(with = "names::Content")]
    pub content: ShownBytes<'static, names::Content>,
}

/// A fact of a page of changes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangesRead {
    /// Where a reader continues, also after the last change.
    pub next: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReply {
    pub position: u64,
    pub time_ms: u64,
    #[serde(flatten)]
    pub what: ChangeKind,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    BlockPut(Box<BlockReply>),
    BlockDeleted {
        id: String,
    },
    EdgePut {
        source: String,
        #[serde(rename = "type")]
        edge_type: String,
        target: String,
        #[serde(flatten)]
        #[schemars(with = "names::Properties")]
        properties: ShownBytes<'static, names::Properties>,
    },
    EdgeDeleted {
        source: String,
        #[serde(rename = "type")]
        edge_type: String,
        target: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourReply {
    pub id: String,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub edge_type: String,
    /// Which end of the edge the neighbour is.
    pub end: Cow<'static, str>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourCount {
    pub position: u64,
    pub count: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Degree {
    pub position: u64,
    pub outgoing: usize,
    pub incoming: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlockCount {
    pub position: u64,
    pub count: u64,
    /// The `cursor` that counts the remaining blocks; `null` when all are counted.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionReply {
    Put {
        position: u64,
        #[serde(flatten)]
        block: Box<BlockReply>,
    },
    Deleted {
        position: u64,
        time_ms: u64,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MissingBlock {
    pub id: String,
    pub outgoing: usize,
    pub incoming: usize,
}

/// A graph and its size.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GraphReply {
    pub graph: String,
    pub blocks: usize,
    pub edges: usize,
}

/// The memory of the graph.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReply {
    pub memory_bytes: usize,
    /// The part of it that is mapped, beyond the limit on the heap.
    pub memory_mapped_bytes: usize,
}

/// A fact of a page of a graph.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GraphRead {
    /// The position that it was read at.
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OneGraph {
    #[serde(flatten)]
    pub graph: GraphReply,
    #[serde(flatten)]
    pub memory: MemoryReply,
    /// How long its history is kept; null for no limit.
    pub history_ms: Option<u64>,
    /// The number of versions of each block that are kept, whatever their age.
    pub versions: u64,
    /// The first position at which it can be read.
    pub history_from: u64,
    pub position: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlocksReply<T> {
    pub position: u64,
    /// One result for each requested block, in the same order.
    #[serde(flatten)]
    pub found: T,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlocksAnswer {
    Blocks(Vec<Option<BlockReply>>),
    Exists(Vec<bool>),
}

/// The progress of an import.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct ImportProgress {
    /// The number of committed items.
    pub imported: usize,
    pub of: usize,
}

/// The result of an import.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ImportReply {
    pub blocks: usize,
    pub edges: usize,
    pub commits: usize,
    pub position: u64,
}

impl BlockReply {
    /// The same in a response made of lines.
    #[must_use]
    pub fn on_a_line(self) -> Self {
        BlockReply { metadata: self.metadata.on_a_line(), content: self.content.on_a_line(), ..self }
    }
}

impl ChangeReply {
    /// The same in a response made of lines.
    #[must_use]
    pub fn on_a_line(self) -> Self {
        let what = match self.what {
            ChangeKind::BlockPut(block) => ChangeKind::BlockPut(Box::new(block.on_a_line())),
            ChangeKind::EdgePut { source, edge_type, target, properties } => {
                ChangeKind::EdgePut { source, edge_type, target, properties: properties.on_a_line() }
            }
            other => other,
        };
        ChangeReply { what, ..self }
    }
}
