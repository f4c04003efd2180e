//! The flag `--durability`.

use clap::ValueEnum;
use quire::Durability;

/// The value of `--durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityArg {
    /// Survives the death of every process, but not the loss of power
    Os,
    /// Survives the loss of power: a commit is answered after the sync that covers it
    Sync,
}

impl From<DurabilityArg> for Durability {
    fn from(promise: DurabilityArg) -> Self {
        match promise {
            DurabilityArg::Os => Durability::Os,
            DurabilityArg::Sync => Durability::Sync,
        }
    }
}
