//! How blocks are given on the command line: by name, or by id.

use clap::Args;
use serde_json::{Value, json};

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
    pub(super) fn block(self, block: &str) -> Value {
        if self.id { json!({ "id": block }) } else { json!(block) }
    }
}
