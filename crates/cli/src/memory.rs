//! The flag `--memory`: the byte budget of all clients of a server.

use clap::Args;
use quire_access::budget::ByteBudget;

use crate::text::parse_bytes;

/// The byte budget.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryArgs {
    /// Most memory for requests, responses and consumer groups of all clients together, like 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    memory: u64,
}

impl MemoryArgs {
    /// Returns the budget.
    pub(crate) fn budget(self) -> ByteBudget {
        ByteBudget::new(self.memory)
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if (ByteBudget::BYTES_LEAST..=ByteBudget::BYTES_MOST).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("must be 1MiB to 1TiB, got {bytes} bytes"))
    }
}
