//! The flag `--durability`.

use clap::ValueEnum;
use quire::Durability;

/// The value of `--durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Promise {
    /// Survives the death of every process, but not the loss of power
    Os,
    /// Survives the loss of power: a commit is answered after the sync that covers it
    Sync,
}

impl From<Promise> for Durability {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::Os => Durability::Os,
            Promise::Sync => Durability::Sync,
        }
    }
}
