//! The checks that need no state: sizes, names, JSON.

use alloc::vec::Vec;

use crate::{BlockRef, GraphLimit, PutBlock, PutEdge, Refusal, json};

fn named(limit: GraphLimit, name: &str, valid: bool, rule: &'static str) -> Result<(), Refusal> {
    limit.check(name.len())?;
    if valid { Ok(()) } else { Err(Refusal::InvalidName { name: name.into(), rule }) }
}

/// Checks the name of a graph. Clients remove `.` and `..` from the path of an address, escaped or
/// not, so neither is a name.
///
/// # Errors
/// [`Refusal::InvalidName`] and [`Refusal::OverLimit`].
pub fn check_graph(name: &str) -> Result<(), Refusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let segments = || name.split('/').all(|segment| !segment.is_empty() && segment.bytes().all(plain));
    let valid = !matches!(name, "." | "..") && segments();
    let rule = "a graph name uses A-Z a-z 0-9 . _ - in segments joined by single slashes; . and .. are not allowed";
    named(GraphLimit::GraphNameBytes, name, valid, rule)
}

/// Checks the name of a block.
pub(crate) fn check_block(block: BlockRef<'_>) -> Result<(), Refusal> {
    match block {
        BlockRef::Id(_) => Ok(()),
        BlockRef::Name(name) => named(GraphLimit::BlockNameBytes, name, !name.is_empty(), "a block's is not empty"),
    }
}

/// Checks the name of a new block. Names in the log may have control characters.
pub(crate) fn check_new_block(block: BlockRef<'_>) -> Result<(), Refusal> {
    match block {
        BlockRef::Id(_) => Ok(()),
        BlockRef::Name(name) => named(
            GraphLimit::BlockNameBytes,
            name,
            is_printable(name),
            "the name of a new block must not have control characters",
        ),
    }
}

/// Checks the name of an edge type.
pub(crate) fn check_edge_type(name: &str) -> Result<(), Refusal> {
    let rule = "an edge type must not be empty or have control characters";
    named(GraphLimit::EdgeTypeBytes, name, is_printable(name), rule)
}

/// Checks the name of a kind.
pub(crate) fn check_kind(name: &str) -> Result<(), Refusal> {
    named(GraphLimit::KindBytes, name, is_printable(name), "a kind's is not empty and has no control characters")
}

/// Checks a put's sizes and JSON. The draft checks the graph's name and the kind. The number of
/// *different* tags is known after sorting.
pub(crate) fn check_put(put: &PutBlock<'_>) -> Result<(), Refusal> {
    check_block(put.block)?;
    GraphLimit::SourceBytes.check(put.source.len())?;
    check_json("metadata", put.metadata, GraphLimit::MetadataBytes)?;
    for tag in put.tags {
        named(GraphLimit::TagBytes, tag, is_printable(tag), "a tag must not be empty or have control characters")?;
    }
    Ok(())
}

/// The different tags of a put, in order.
pub(crate) fn check_tags<'a>(put: &PutBlock<'a>) -> Result<Vec<&'a str>, Refusal> {
    let mut tags = put.tags.to_vec();
    tags.sort_unstable();
    tags.dedup();
    GraphLimit::Tags.check(tags.len())?;
    Ok(tags)
}

/// Checks the sizes and JSON of an edge. The draft checks the edge type.
pub(crate) fn check_edge(put: &PutEdge<'_>) -> Result<(), Refusal> {
    check_block(put.source)?;
    check_block(put.target)?;
    check_json("properties", put.properties, GraphLimit::PropertiesBytes)
}

fn check_json(field: &'static str, bytes: &[u8], limit: GraphLimit) -> Result<(), Refusal> {
    limit.check(bytes.len())?;
    if bytes.is_empty() {
        return Ok(());
    }
    json::check(bytes).map_err(|reason| Refusal::NotJson { field, reason })
}

fn is_printable(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
}
