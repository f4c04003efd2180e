//! The bound on the memory of graphs: one flag, whatever opens a database or goes through one.

use std::path::{Path, PathBuf};

use clap::Args;
use quire::Builder;
use quire::tools::GraphMemory;

/// The bound on the memory of graphs.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Bound {
    /// How many bytes of blocks and edges graphs keep on the heap; what is beyond is kept in mapped files [default: no bound]
    #[arg(long, value_name = "BYTES")]
    graph_memory: Option<u64>,
}

impl Bound {
    /// One that was given in another way.
    pub(crate) fn new(graph_memory: Option<u64>) -> Self {
        Bound { graph_memory }
    }

    /// A database that is opened to write has its mapped files in its own folder.
    pub(crate) fn of(self, builder: Builder) -> Builder {
        match self.graph_memory {
            Some(bytes) => builder.graph_memory_bytes(bytes),
            None => builder,
        }
    }

    /// For what changes nothing in the folder of the database.
    pub(crate) fn elsewhere(self) -> Option<GraphMemory> {
        self.graph_memory.map(|heap_bytes_max| GraphMemory { heap_bytes_max, folder: temporary() })
    }

    /// [`Bound::of`] a database that is opened to read only.
    pub(crate) fn of_read_only(self, builder: Builder) -> Builder {
        self.of(builder).graph_memory_folder(temporary())
    }
}

/// Where large files without a name go: `TMPDIR`, or else `/var/tmp`, for `/tmp` is memory on many systems.
fn temporary() -> PathBuf {
    let large = || Some(Path::new("/var/tmp")).filter(|folder| folder.is_dir()).map(Path::to_owned);
    std::env::var_os("TMPDIR").map(PathBuf::from).or_else(large).unwrap_or_else(std::env::temp_dir)
}
