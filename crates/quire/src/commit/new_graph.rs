//! A block and an edge to put into a graph.

use std::borrow::Cow;

use quire_model::CowBytes;

use super::words::TextList;
use crate::graph::{BlockId, BlockRef, PutBlock, PutEdge, Version};

/// The id or the name of a block, borrowed or owned. Text is a name.
///
/// ```
/// use quire::BlockKey;
/// use quire::graph::BlockId;
///
/// let order = 17;
/// let key = BlockKey::from(format!("order:{order}"));
/// assert_eq!(key.id(), BlockId::of_name("order:17"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockKey<'c> {
    /// The id.
    Id(BlockId),
    /// The name, of which the id is the hash: 1 to 1,024 bytes.
    Name(Cow<'c, str>),
}

/// A block to put into a graph. It replaces the block of this key, if there is one.
///
/// ```
/// use quire::NewBlock;
/// use quire::graph::Version;
///
/// let city = "Newark";
/// let block = NewBlock::new("EWR", "airport")
///     .metadata(format!(r#"{{"city":"{city}"}}"#))
///     .tag("east")
///     .expect_version(Version::ABSENT);
/// ```
#[derive(Debug, Clone)]
pub struct NewBlock<'c> {
    block: BlockKey<'c>,
    kind: Cow<'c, str>,
    source: Cow<'c, str>,
    tags: TextList<'c>,
    metadata: Cow<'c, [u8]>,
    content: Cow<'c, [u8]>,
    expect: Option<Version>,
}

/// An edge to put into a graph. It replaces the edge of these ends and this type, if there is one.
///
/// ```
/// use quire::NewEdge;
///
/// let miles = 1400;
/// let edge = NewEdge::new("EWR", "flies_to", "IAH").properties(format!(r#"{{"miles":{miles}}}"#));
/// ```
#[derive(Debug, Clone)]
pub struct NewEdge<'c> {
    source: BlockKey<'c>,
    edge_type: Cow<'c, str>,
    target: BlockKey<'c>,
    properties: Cow<'c, [u8]>,
    allow_missing: bool,
}

impl BlockKey<'_> {
    /// Returns the id.
    pub fn id(&self) -> BlockId {
        self.view().id()
    }

    pub(crate) fn view(&self) -> BlockRef<'_> {
        match self {
            BlockKey::Id(id) => BlockRef::Id(*id),
            BlockKey::Name(name) => BlockRef::Name(name),
        }
    }
}

impl From<BlockId> for BlockKey<'_> {
    fn from(id: BlockId) -> Self {
        BlockKey::Id(id)
    }
}

impl<'c> From<&'c str> for BlockKey<'c> {
    fn from(name: &'c str) -> Self {
        BlockKey::Name(Cow::Borrowed(name))
    }
}

impl<'c> From<&'c String> for BlockKey<'c> {
    fn from(name: &'c String) -> Self {
        BlockKey::Name(Cow::Borrowed(name))
    }
}

impl From<String> for BlockKey<'_> {
    fn from(name: String) -> Self {
        BlockKey::Name(Cow::Owned(name))
    }
}

impl<'c> From<Cow<'c, str>> for BlockKey<'c> {
    fn from(name: Cow<'c, str>) -> Self {
        BlockKey::Name(name)
    }
}

impl<'c> From<BlockRef<'c>> for BlockKey<'c> {
    fn from(block: BlockRef<'c>) -> Self {
        match block {
            BlockRef::Id(id) => BlockKey::Id(id),
            BlockRef::Name(name) => BlockKey::Name(Cow::Borrowed(name)),
        }
    }
}

impl<'c> NewBlock<'c> {
    /// Returns a block of this kind, such as `airport`: 1 to 255 bytes without control characters.
    /// Everything else is empty.
    pub fn new(block: impl Into<BlockKey<'c>>, kind: impl Into<Cow<'c, str>>) -> Self {
        NewBlock {
            block: block.into(),
            kind: kind.into(),
            source: Cow::Borrowed(""),
            tags: TextList::default(),
            metadata: Cow::Borrowed(&[]),
            content: Cow::Borrowed(&[]),
            expect: None,
        }
    }

    /// Sets the origin, such as `file://src/main.rs#L10`. Default: empty.
    #[must_use]
    pub fn source(mut self, source: impl Into<Cow<'c, str>>) -> Self {
        self.source = source.into();
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Cow<'c, str>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the metadata: JSON of at most 127 levels and 1,048,576 bytes, stored byte for byte.
    /// Default: empty.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<CowBytes<'c>>) -> Self {
        self.metadata = metadata.into().into_cow();
        self
    }

    /// Sets the content: any bytes. Default: empty.
    #[must_use]
    pub fn content(mut self, content: impl Into<CowBytes<'c>>) -> Self {
        self.content = content.into().into_cow();
        self
    }

    /// Refuses the put unless the block has this version. [`Version::ABSENT`] requires that the
    /// block does not exist.
    #[must_use]
    pub fn expect_version(mut self, version: Version) -> Self {
        self.expect = Some(version);
        self
    }

    pub(crate) fn tags(&self) -> &TextList<'c> {
        &self.tags
    }

    /// Returns the command that puts the block. `tags` are those of [`NewBlock::tags`], as one
    /// slice.
    pub(crate) fn view<'p>(&'p self, graph: &'p str, tags: &'p [&'p str]) -> PutBlock<'p> {
        PutBlock {
            graph,
            block: self.block.view(),
            kind: &self.kind,
            source: &self.source,
            tags,
            metadata: &self.metadata,
            content: &self.content,
            expect: self.expect,
        }
    }
}

/// The graph that the command names is left out: the caller names it.
impl<'c> From<PutBlock<'c>> for NewBlock<'c> {
    fn from(put: PutBlock<'c>) -> Self {
        NewBlock {
            block: put.block.into(),
            kind: Cow::Borrowed(put.kind),
            source: Cow::Borrowed(put.source),
            tags: TextList::Slice(put.tags),
            metadata: Cow::Borrowed(put.metadata),
            content: Cow::Borrowed(put.content),
            expect: put.expect,
        }
    }
}

impl<'c> NewEdge<'c> {
    /// Returns an edge of this type, such as `flies_to`: 1 to 255 bytes without control characters.
    /// It has no properties, and both blocks must exist.
    pub fn new(
        source: impl Into<BlockKey<'c>>,
        edge_type: impl Into<Cow<'c, str>>,
        target: impl Into<BlockKey<'c>>,
    ) -> Self {
        NewEdge {
            source: source.into(),
            edge_type: edge_type.into(),
            target: target.into(),
            properties: Cow::Borrowed(&[]),
            allow_missing: false,
        }
    }

    /// Sets the properties: JSON of at most 127 levels and 1,048,576 bytes, stored byte for byte.
    /// Default: empty.
    #[must_use]
    pub fn properties(mut self, properties: impl Into<CowBytes<'c>>) -> Self {
        self.properties = properties.into().into_cow();
        self
    }

    /// Accepts the edge although one of its blocks does not exist.
    #[must_use]
    pub fn allow_missing(mut self, allow_missing: bool) -> Self {
        self.allow_missing = allow_missing;
        self
    }

    pub(crate) fn view<'p>(&'p self, graph: &'p str) -> PutEdge<'p> {
        PutEdge {
            graph,
            source: self.source.view(),
            edge_type: &self.edge_type,
            target: self.target.view(),
            properties: &self.properties,
            allow_missing: self.allow_missing,
        }
    }
}

/// The graph that the command names is left out: the caller names it.
impl<'c> From<PutEdge<'c>> for NewEdge<'c> {
    fn from(put: PutEdge<'c>) -> Self {
        NewEdge {
            source: put.source.into(),
            edge_type: Cow::Borrowed(put.edge_type),
            target: put.target.into(),
            properties: Cow::Borrowed(put.properties),
            allow_missing: put.allow_missing,
        }
    }
}
