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
