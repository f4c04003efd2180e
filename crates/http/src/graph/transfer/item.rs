//! A block or an edge of a file, independent of the format.

use quire::graph::{Block, BlockId, BlockRef};

use crate::error::Problem;
use crate::memory::Claim;

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

/// The bytes of an import besides each item: its places in the order of the commits, its size, and
/// its id in the set of the file's blocks.
const ORDER_BYTES: usize = 72;

/// The largest part of a file that is parsed without a claim for its list of tags.
const SMALL_BYTES: usize = 4 << 10;

/// The items of a file, and their memory: claimed before it grows.
#[derive(Debug)]
pub(super) struct ItemList<'c> {
    items: Vec<NumberedItem>,
    claim: &'c mut Claim,
}

impl<'c> ItemList<'c> {
    pub(super) fn new(claim: &'c mut Claim) -> Self {
        ItemList { items: Vec::new(), claim }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// When there is too little memory for it.
    pub(super) fn push(&mut self, line: u64, item: Item) -> Result<(), Problem> {
        if self.items.len() == self.items.capacity() {
            let more = self.items.capacity().max(64);
            self.claim(line, more * (size_of::<NumberedItem>() + ORDER_BYTES))?;
            self.items.reserve_exact(more);
        }
        self.claim(line, item.heap_bytes())?;
        self.items.push(NumberedItem { line, item });
        Ok(())
    }

    /// Claims `bytes` for a line.
    ///
    /// # Errors
    /// When there is too little memory.
    pub(super) fn claim(&mut self, line: u64, bytes: usize) -> Result<(), Problem> {
        self.claim.grow(bytes).map_err(|problem| problem.at_line(line))
    }

    /// Carries out `parse`, which makes a list of what stands between the commas of `text`. Claims
    /// the memory of the list meanwhile.
    ///
    /// # Errors
    /// When there is too little memory.
    pub(super) fn parsed<T>(&mut self, line: u64, text: &[u8], parse: impl FnOnce() -> T) -> Result<T, Problem> {
        let commas = if text.len() < SMALL_BYTES { 0 } else { text.iter().filter(|byte| **byte == b',').count() };
        // The list may have twice the capacity that it needs.
        let bytes = 2 * commas * size_of::<String>();
        self.claim(line, bytes)?;
        let parsed = parse();
        self.claim.release(bytes);
        Ok(parsed)
    }

    pub(super) fn into_items(self) -> Vec<NumberedItem> {
        self.items
    }
}

/// The bytes that an allocator takes for a value of `bytes` bytes.
pub(super) fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}

impl Item {
    /// The bytes of the item on the heap.
    fn heap_bytes(&self) -> usize {
        match self {
            Item::Block(block) => {
                let tags: usize = block.tags.iter().map(|tag| allocated(tag.capacity())).sum();
                let texts = allocated(block.kind.capacity()) + allocated(block.source.capacity());
                let bytes = allocated(block.metadata.capacity()) + allocated(block.content.capacity());
                let list = allocated(block.tags.capacity() * size_of::<String>());
                block.block.heap_bytes() + texts + bytes + tags + list
            }
            Item::Edge(edge) => {
                let own = allocated(edge.edge_type.capacity()) + allocated(edge.properties.capacity());
                edge.source.heap_bytes() + edge.target.heap_bytes() + own
            }
        }
    }
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

    fn heap_bytes(&self) -> usize {
        match self {
            EndItem::Name(name) => allocated(name.capacity()),
            EndItem::Id(_) => 0,
        }
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
