//! Blocks on the command line: by name, or by id.

use clap::Args;
use quire::graph::BlockId;
use serde_json::{Value, json};

use crate::failure::{CommandError, Result};
use crate::verbs::client::Path;

/// The way to identify blocks.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct By {
    /// Identify blocks by id, 32 hexadecimal digits, instead of by name
    #[arg(long)]
    id: bool,
}

impl By {
    /// Adds the choice to the parameters of a read.
    pub(super) fn add_to(self, path: Path) -> Path {
        if self.id { path.with("by", "id") } else { path }
    }

    /// A block in the form of commits and lists of blocks.
    ///
    /// # Errors
    /// When the text is not an id although ids are expected.
    pub(super) fn block(self, block: &str) -> Result<Value> {
        if !self.id {
            return Ok(json!(block));
        }
        let id: Result<BlockId, _> = block.parse();
        id.map(|id| json!({ "id": id.to_string() }))
            .map_err(|error| CommandError::new(format!("{error}, not {block:?}")))
    }
}
