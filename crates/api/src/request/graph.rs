//! The JSON form of the commands of graphs. A block is named by a string, or by `{"id": "..."}`.

use quire::Position;
use quire::graph::{self, BlockId, BlockRef, Command, Version};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, ParsedText, Text, given};

/// Names a block.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "a block must be its name, or {\"id\": its 32 hexadecimal digits}")]
pub enum BlockRequest<'r> {
    /// By its name.
    #[serde(borrow)]
    Name(Text<'r>),
    /// By its id.
    Id {
        /// The id.
        id: ParsedText<BlockId>,
    },
}

/// Puts a block.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBlockPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
    #[serde(borrow)]
    kind: Text<'r>,
    #[serde(borrow)]
    source: Option<Text<'r>>,
    #[serde(borrow, default)]
    pub(super) tags: Vec<Text<'r>>,
    #[serde(borrow)]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    metadata_text: Option<Text<'r>>,
    metadata_base64: Option<Base64>,
    #[serde(borrow)]
    content: Option<&'r RawValue>,
    #[serde(borrow)]
    content_text: Option<Text<'r>>,
    content_base64: Option<Base64>,
    expect_version: Option<u64>,
}

/// Deletes a block and its edges.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBlockPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
}

/// Puts an edge.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutEdgePart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    source: BlockRequest<'r>,
    #[serde(rename = "type", borrow)]
    edge_type: Text<'r>,
    #[serde(borrow)]
    target: BlockRequest<'r>,
    #[serde(borrow)]
    properties: Option<&'r RawValue>,
    #[serde(borrow)]
    properties_text: Option<Text<'r>>,
    properties_base64: Option<Base64>,
    #[serde(default)]
    allow_missing: bool,
}

/// Deletes an edge.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteEdgePart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    source: BlockRequest<'r>,
    #[serde(rename = "type", borrow)]
    edge_type: Text<'r>,
    #[serde(borrow)]
    target: BlockRequest<'r>,
}

/// Deletes edges of a block.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteEdgesPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
    count_max: usize,
}

/// Sets how much history a graph keeps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetainGraph<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    history_ms: Option<u64>,
    versions: Option<u64>,
}

/// Trims a graph's history before a position.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimGraph<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    from: u64,
}

impl RetainGraph<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let all = graph::Retention::ALL;
        let retention =
            graph::Retention { history_ms: self.history_ms, versions: self.versions.unwrap_or(all.versions) };
        Command::SetRetention(graph::SetRetention { graph: &self.graph, retention })
    }
}

impl TrimGraph<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::TrimHistory(graph::TrimHistory { graph: &self.graph, from: Position::new(self.from) })
    }
}

impl BlockRequest<'_> {
    /// The block.
    pub fn block(&self) -> BlockRef<'_> {
        match self {
            BlockRequest::Name(name) => BlockRef::Name(name),
            BlockRequest::Id { id } => BlockRef::Id(id.0),
        }
    }
}

impl PutBlockPart<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command<'c>(&'c self, tags: &'c [&'c str]) -> Result<Command<'c>, Failure> {
        let metadata = given("metadata", self.metadata, self.metadata_text.as_ref(), self.metadata_base64.as_ref())?;
        let content = given("content", self.content, self.content_text.as_ref(), self.content_base64.as_ref())?;
        Ok(Command::PutBlock(graph::PutBlock {
            graph: &self.graph,
            block: self.block.block(),
            kind: &self.kind,
            source: self.source.as_deref().unwrap_or_default(),
            tags,
            metadata: metadata.unwrap_or_default(),
            content: content.unwrap_or_default(),
            expect: self.expect_version.map(Version::new),
        }))
    }
}

impl DeleteBlockPart<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DeleteBlock(graph::DeleteBlock { graph: &self.graph, block: self.block.block() })
    }
}

impl PutEdgePart<'_> {
    /// Builds the command.
    ///
    /// # Errors
    /// When a field is invalid, or two fields exclude each other.
    pub fn command(&self) -> Result<Command<'_>, Failure> {
        let properties =
            given("properties", self.properties, self.properties_text.as_ref(), self.properties_base64.as_ref())?;
        Ok(Command::PutEdge(graph::PutEdge {
            graph: &self.graph,
            source: self.source.block(),
            edge_type: &self.edge_type,
            target: self.target.block(),
            properties: properties.unwrap_or_default(),
            allow_missing: self.allow_missing,
        }))
    }
}

impl DeleteEdgePart<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        Command::DeleteEdge(graph::DeleteEdge {
            graph: &self.graph,
            source: self.source.block(),
            edge_type: &self.edge_type,
            target: self.target.block(),
        })
    }
}

impl DeleteEdgesPart<'_> {
    /// Builds the command.
    pub fn command(&self) -> Command<'_> {
        let (block, count_max) = (self.block.block(), self.count_max);
        Command::DeleteEdges(graph::DeleteEdges { graph: &self.graph, block, count_max })
    }
}
