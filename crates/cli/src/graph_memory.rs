//! The flag `--graph-memory-bytes-max`, for every command that opens or verifies a database.

use std::path::{Path, PathBuf};

use clap::Args;
use quire::Builder;
use quire::tools::GraphMemory;

use crate::text::parse_bytes;

/// The bound on the memory of graphs in a server: its clients decide how large the graphs are.
const SERVER_BYTES_MAX: u64 = 512 << 20;

/// The bound on the memory of graphs.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct GraphMemoryArgs {
    /// Most bytes of blocks and edges that graphs keep on the heap; the rest goes to mapped files
    /// [default: 536870912 for a server, otherwise unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    graph_memory: Option<u64>,
}

impl GraphMemoryArgs {
    /// A bound that another flag gave.
    pub(crate) fn new(graph_memory: Option<u64>) -> Self {
        GraphMemoryArgs { graph_memory }
    }

    /// Applies the bound to a database that is opened for writing. Its mapped files are in its own
    /// directory.
    pub(crate) fn of(self, builder: Builder) -> Builder {
        match self.graph_memory {
            Some(bytes) => builder.graph_memory_bytes(bytes),
            None => builder,
        }
    }

    /// Applies the bound to the database of a server, which always has one.
    pub(crate) fn of_server(self, builder: Builder) -> Builder {
        builder.graph_memory_bytes(self.graph_memory.unwrap_or(SERVER_BYTES_MAX))
    }

    /// Returns the bound for a command that changes nothing in the directory of the database.
    pub(crate) fn elsewhere(self) -> Option<GraphMemory> {
        self.graph_memory.map(|heap_bytes_max| GraphMemory { heap_bytes_max, folder: temporary() })
    }

    /// Applies the bound to a database that is opened read-only.
    pub(crate) fn of_read_only(self, builder: Builder) -> Builder {
        self.of(builder).graph_memory_directory(temporary())
    }
}

/// The directory for large files without a name: `TMPDIR`, or else `/var/tmp`, because `/tmp` is in
/// memory on many systems.
fn temporary() -> PathBuf {
    let large = || Some(Path::new("/var/tmp")).filter(|folder| folder.is_dir()).map(Path::to_owned);
    std::env::var_os("TMPDIR").map(PathBuf::from).or_else(large).unwrap_or_else(std::env::temp_dir)
}
