//! The tags of this model's entries: which virtual logs a graph has.
//!
//! ```text
//! role  then                          names the log of
//! 'c'   -                             the catalogue: names of graphs, kinds and edge types
//! 'g'   graph (4)                     a graph: every put and deletion in it
//! 'b'   graph (4), block id (16)      a block: its versions and its deletions
//! 'k'   graph (4), kind (4)           the blocks of a kind
//! 'u'   graph (4), user's tag (1-255) the blocks with a user's tag
//! 's'   graph (4), block id (16)      the edges that leave a block, and its deletions
//! 't'   graph (4), block id (16)      the edges that arrive at a block, and its deletions
//! 'd'   graph (4), block id (16)      the deletions of a block
//! ```
//!
//! Each has the model's byte before the role. Numbers are little-endian.
//!
//! The deletion of a block deletes edges at both of their ends, but has only the tags of its own
//! block. So a reader of a block's edges also reads the deletions of the blocks at the other ends,
//! which are few.

use quire_model::{ModelId, Tag, TagBuf, Tags};

use crate::BlockId;

/// A tag of fixed length: made on the stack, since every put makes several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedTag<const BYTES: usize>([u8; BYTES]);

/// A tag that names a block.
pub(crate) type BlockTag = FixedTag<22>;

impl<const BYTES: usize> FixedTag<BYTES> {
    pub(crate) fn tag(&self) -> Tag<'_> {
        Tag::new(&self.0)
    }
}

fn of_block(role: u8, graph: u32, id: BlockId) -> BlockTag {
    let mut bytes = [0; 22];
    bytes[..2].copy_from_slice(&[ModelId::GRAPH.get(), role]);
    bytes[2..6].copy_from_slice(&graph.to_le_bytes());
    bytes[6..].copy_from_slice(id.as_bytes());
    FixedTag(bytes)
}

const USER: u8 = b'u';
const USER_HEAD_BYTES: usize = 6;

pub(crate) fn catalogue() -> FixedTag<2> {
    FixedTag([ModelId::GRAPH.get(), b'c'])
}

pub(crate) fn graph(graph: u32) -> FixedTag<6> {
    let [a, b, c, d] = graph.to_le_bytes();
    FixedTag([ModelId::GRAPH.get(), b'g', a, b, c, d])
}

pub(crate) fn block(graph: u32, id: BlockId) -> BlockTag {
    of_block(b'b', graph, id)
}

pub(crate) fn kind(graph: u32, kind: u32) -> FixedTag<10> {
    let mut bytes = [ModelId::GRAPH.get(), b'k', 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[2..6].copy_from_slice(&graph.to_le_bytes());
    bytes[6..].copy_from_slice(&kind.to_le_bytes());
    FixedTag(bytes)
}

pub(crate) fn user(graph: u32, tag: &str) -> TagBuf {
    TagBuf::new(ModelId::GRAPH, USER).number(graph).bytes(tag.as_bytes())
}

pub(crate) fn source(graph: u32, id: BlockId) -> BlockTag {
    of_block(b's', graph, id)
}

pub(crate) fn target(graph: u32, id: BlockId) -> BlockTag {
    of_block(b't', graph, id)
}

pub(crate) fn deleted(graph: u32, id: BlockId) -> BlockTag {
    of_block(b'd', graph, id)
}

/// The users' tags among these, in their order.
pub(crate) fn users<'a>(tags: Tags<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    tags.iter()
        .filter(|tag| tag.as_bytes()[1] == USER)
        .map(|tag| core::str::from_utf8(&tag.as_bytes()[USER_HEAD_BYTES..]).expect("a stored user tag is UTF-8"))
}
