//! A block or an edge of a file, independent of the format.

use quire::graph::{Block, BlockId, BlockRef};

use crate::error::Problem;

/// A block or an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Block(BlockItem),
    Edge(EdgeItem),
}

/// An item and its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberedItem {
    pub(super) line: u64,
    pub(super) item: Item,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockItem {
    pub(super) block: EndItem,
    pub(super) kind: String,
    pub(super) source: String,
    pub(super) tags: Vec<String>,
    pub(super) metadata: Vec<u8>,
    pub(super) content: Vec<u8>,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EdgeItem {
    pub(super) source: EndItem,
    pub(super) edge_type: String,
    pub(super) target: EndItem,
    pub(super) properties: Vec<u8>,
}

/// A block, by its name or by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndItem {
    Name(String),
    Id(BlockId),
}

impl EndItem {
    pub(super) fn block(&self) -> BlockRef<'_> {
        match self {
            EndItem::Name(name) => BlockRef::Name(name),
            EndItem::Id(id) => BlockRef::Id(*id),
        }
    }

    pub(super) fn id(&self) -> BlockId {
        self.block().id()
    }

    /// Combines a field for the name and one for the id, of which at least one is filled; both must
    /// name one block.
    pub(super) fn of(name: &str, id: &str, what: &str) -> Result<Self, String> {
        match (name, id) {
            ("", "") => Err(format!("{what} is missing")),
            (name, "") => Ok(EndItem::Name(name.to_owned())),
            (name, id) => {
                let id: BlockId = id.parse().map_err(|error| format!("{what} {id:?}: {error}"))?;
                if !name.is_empty() && BlockId::of_name(name) != id {
                    return Err(format!("{what} {name:?} has the id {}, got {id}", BlockId::of_name(name)));
                }
                Ok(if name.is_empty() { EndItem::Id(id) } else { EndItem::Name(name.to_owned()) })
            }
        }
    }
}

impl BlockItem {
    pub(super) fn of(block: &Block<'_>) -> Self {
        let name = block.name.map(|name| EndItem::Name(name.to_owned()));
        BlockItem {
            block: name.unwrap_or(EndItem::Id(block.id)),
            kind: block.kind.to_owned(),
            source: block.source.to_owned(),
            tags: block.tags().map(str::to_owned).collect(),
            metadata: block.metadata.to_vec(),
            content: block.content.to_vec(),
        }
    }
}

/// An error on a line of a file.
pub(super) fn wrong(line: u64, message: impl std::fmt::Display) -> Problem {
    Problem::invalid(format!("line {line}: {message}")).fact("line", line)
}
