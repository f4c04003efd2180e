//! The JSON form of the commands of graphs. A block is named by a string, or by `{"id": "..."}`.

use quire::Position;
use quire::graph::{self, BlockId, BlockRef, Command, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Failure;
use crate::bytes::{Base64, ParsedText, Text, given, text_or_base64};

/// Names a block.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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

impl<'r> From<&'r str> for BlockRequest<'r> {
    fn from(name: &'r str) -> Self {
        BlockRequest::Name(name.into())
    }
}

impl From<String> for BlockRequest<'_> {
    fn from(name: String) -> Self {
        BlockRequest::Name(name.into())
    }
}

impl From<BlockId> for BlockRequest<'_> {
    fn from(id: BlockId) -> Self {
        BlockRequest::Id { id: ParsedText(id) }
    }
}

impl<'r> PutBlockPart<'r> {
    /// A block of a kind, without content.
    pub fn new(graph: impl Into<Text<'r>>, block: impl Into<BlockRequest<'r>>, kind: impl Into<Text<'r>>) -> Self {
        PutBlockPart {
            graph: graph.into(),
            block: block.into(),
            kind: kind.into(),
            source: None,
            tags: Vec::new(),
            metadata: None,
            metadata_text: None,
            metadata_base64: None,
            content: None,
            content_text: None,
            content_base64: None,
            expect_version: None,
        }
    }

    /// Sets the content: text, JSON or any other bytes.
    #[must_use]
    pub fn content(mut self, content: impl AsRef<[u8]>) -> Self {
        (self.content_text, self.content_base64) = text_or_base64(content);
        self
    }

    /// Sets the metadata, which must be JSON.
    #[must_use]
    pub fn metadata(mut self, metadata: impl AsRef<[u8]>) -> Self {
        (self.metadata_text, self.metadata_base64) = text_or_base64(metadata);
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Text<'r>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    setters! {
        /// Sets the source.
        source: impl Into<Text<'r>>;
        /// Refuses the commit unless the block has this version; 0 means that it does not exist.
        expect_version: u64;
    }
}

impl<'r> DeleteBlockPart<'r> {
    /// Deletes this block.
    pub fn new(graph: impl Into<Text<'r>>, block: impl Into<BlockRequest<'r>>) -> Self {
        DeleteBlockPart { graph: graph.into(), block: block.into() }
    }
}

impl<'r> PutEdgePart<'r> {
    /// An edge between two blocks, without properties.
    pub fn new(
        graph: impl Into<Text<'r>>,
        source: impl Into<BlockRequest<'r>>,
        edge_type: impl Into<Text<'r>>,
        target: impl Into<BlockRequest<'r>>,
    ) -> Self {
        PutEdgePart {
            graph: graph.into(),
            source: source.into(),
            edge_type: edge_type.into(),
            target: target.into(),
            properties: None,
            properties_text: None,
            properties_base64: None,
            allow_missing: false,
        }
    }

    /// Sets the properties, which must be JSON.
    #[must_use]
    pub fn properties(mut self, properties: impl AsRef<[u8]>) -> Self {
        (self.properties_text, self.properties_base64) = text_or_base64(properties);
        self
    }

    /// Puts the edge also when an end does not exist.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }
}

impl<'r> DeleteEdgePart<'r> {
    /// Deletes this edge.
    pub fn new(
        graph: impl Into<Text<'r>>,
        source: impl Into<BlockRequest<'r>>,
        edge_type: impl Into<Text<'r>>,
        target: impl Into<BlockRequest<'r>>,
    ) -> Self {
        DeleteEdgePart {
            graph: graph.into(),
            source: source.into(),
            edge_type: edge_type.into(),
            target: target.into(),
        }
    }
}

/// Puts a block.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBlockPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
    #[serde(borrow)]
    kind: Text<'r>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Text<'r>>,
    #[serde(borrow, deserialize_with = "crate::meter::list", default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<Text<'r>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_base64: Option<Base64>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    content_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_base64: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect_version: Option<u64>,
}

/// Deletes a block and its edges.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBlockPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
}

/// Puts an edge.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<&'r RawValue>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    properties_text: Option<Text<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties_base64: Option<Base64>,
    #[serde(default)]
    allow_missing: bool,
}

/// Deletes an edge.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteEdgesPart<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(borrow)]
    block: BlockRequest<'r>,
    count_max: usize,
}

/// Sets how much history a graph keeps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetainGraph<'r> {
    #[serde(borrow)]
    graph: Text<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<u64>,
}

/// Trims a graph's history before a position.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
