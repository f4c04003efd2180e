//! A block that a read names and that its graph does not have.

use std::fmt;

use quire_model::Position;

use crate::graph::BlockId;
use crate::{Error, ErrorKind};

/// A block that a graph does not have at a position. All front ends report it in these words, with
/// the same facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownBlock {
    /// The name of the graph.
    pub graph: String,
    /// The id of the block.
    pub block: BlockId,
    /// The name of the block, if the read named it.
    pub name: Option<String>,
    /// The position of the read.
    pub position: Position,
}

impl fmt::Display for UnknownBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownBlock { graph, block, name, position } = self;
        match name {
            Some(name) => write!(f, "unknown block {name:?} ({block})")?,
            None => write!(f, "unknown block {block}")?,
        }
        write!(f, " in graph {graph:?} at position {position}")
    }
}

impl From<UnknownBlock> for Error {
    fn from(unknown: UnknownBlock) -> Self {
        Error::new(ErrorKind::NotFound, unknown.to_string())
    }
}
