//! The tags of this model's entries: which virtual logs a graph has.
//!
//! ```text
//! role  then                          names the log of
//! 'c'   -                             the catalogue: names of graphs, kinds and edge types
//! 'b'   graph (4), block id (16)      a block: its versions and its deletions
//! 'k'   graph (4), kind (4)           the blocks of a kind
//! 'u'   graph (4), user's tag (1-255) the blocks with a user's tag
//! 's'   graph (4), block id (16)      the edges that leave a block, and its deletions
//! 't'   graph (4), block id (16)      the edges that arrive at a block, and its deletions
//! ```
//!
//! Each has the model's byte before the role. Numbers are little-endian. A block's deletion deletes edges at both of
//! their ends but is only in its own block's logs.

use quire_model::{ModelId, TagBuf, Tags};

use crate::BlockId;

const USER: u8 = b'u';
const USER_HEAD_BYTES: usize = 6;

fn of(role: u8) -> TagBuf {
    TagBuf::new(ModelId::GRAPH, role)
}

pub(crate) fn catalogue() -> TagBuf {
    of(b'c')
}

pub(crate) fn block(graph: u32, id: BlockId) -> TagBuf {
    of(b'b').number(graph).bytes(id.as_bytes())
}

pub(crate) fn kind(graph: u32, kind: u32) -> TagBuf {
    of(b'k').number(graph).number(kind)
}

pub(crate) fn user(graph: u32, tag: &str) -> TagBuf {
    of(USER).number(graph).bytes(tag.as_bytes())
}

pub(crate) fn source(graph: u32, id: BlockId) -> TagBuf {
    of(b's').number(graph).bytes(id.as_bytes())
}

pub(crate) fn target(graph: u32, id: BlockId) -> TagBuf {
    of(b't').number(graph).bytes(id.as_bytes())
}

/// The users' tags among these, in their order.
pub(crate) fn users<'a>(tags: Tags<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    tags.iter()
        .filter(|tag| tag.as_bytes()[1] == USER)
        .map(|tag| core::str::from_utf8(&tag.as_bytes()[USER_HEAD_BYTES..]).expect("a user's tag was written as text"))
}
