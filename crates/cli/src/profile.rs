//! The flag `--profile`.

use clap::ValueEnum;

/// The value of `--profile`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Balance between the others
    Balanced,
    /// Shorter pauses, but more disk space
    LowLatency,
    /// More commits a second, but a longer restart
    Throughput,
    /// Less disk space and memory, but more writing
    SmallDisk,
}

impl From<ProfileArg> for quire::Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Balanced => quire::Profile::Balanced,
            ProfileArg::LowLatency => quire::Profile::LowLatency,
            ProfileArg::Throughput => quire::Profile::Throughput,
            ProfileArg::SmallDisk => quire::Profile::SmallDisk,
        }
    }
}
