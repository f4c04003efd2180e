//! The flag `--profile`.

use clap::ValueEnum;

/// The value of `--profile`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Profile {
    /// Balance between the others
    Balanced,
    /// Shorter pauses, but more disk space
    LowLatency,
    /// More commits a second, but a longer restart
    Throughput,
    /// Less disk space and memory, but more writing
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
