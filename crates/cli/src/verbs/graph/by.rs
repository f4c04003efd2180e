//! How blocks are given on the command line: by name, or by id.

use clap::Args;
use quire::graph::BlockId;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::verbs::client::Path;

/// How blocks are given.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct By {
    /// Blocks are given by their ids, of 32 hexadecimal digits, and not by their names
    #[arg(long)]
    id: bool,
}

impl By {
    /// A read that says so.
    pub(super) fn add_to(self, path: Path) -> Path {
        if self.id { path.with("by", "id") } else { path }
    }

    /// A block, as commits and lists of blocks take it.
    ///
    /// # Errors
    /// When it is to be an id, and is none.
    pub(super) fn block(self, block: &str) -> Result<Value> {
        if !self.id {
            return Ok(json!(block));
        }
        let id: Result<BlockId, _> = block.parse();
        id.map(|id| json!({ "id": id.to_string() })).map_err(|error| Failure::new(format!("{error}, not {block:?}")))
    }
}
