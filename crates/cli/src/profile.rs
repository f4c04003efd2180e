//! `--profile`: what a database is to be good at, as the user names it.

use clap::ValueEnum;

/// The value of `--profile`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Profile {
    /// The defaults
    Balanced,
    /// Fewer pauses, for more disk
    LowLatency,
    /// More commits a second, for a longer restart
    Throughput,
    /// Little disk and memory, for more writing
    SmallDisk,
}

impl From<Profile> for quire::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Balanced => quire::Profile::Balanced,
            Profile::LowLatency => quire::Profile::LowLatency,
            Profile::Throughput => quire::Profile::Throughput,
            Profile::SmallDisk => quire::Profile::SmallDisk,
        }
    }
}
