//! Profiles: sets of settings for a purpose.

use crate::Settings;

/// A set of settings for a purpose. See [`Builder::profile`](crate::Builder::profile).
///
/// ```
/// use quire::{Database, Profile};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path().join("data")).profile(Profile::SmallDisk).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// The defaults: segments of 64 MiB, and a checkpoint every 64 MiB of log.
    #[default]
    Balanced,
    /// Fewer pauses, more disk.
    ///
    /// * Segments of 256 MiB, rewritten when three quarters are unused.
    /// * Checkpoints never pause commits.
    /// * No background verification.
    LowLatency,
    /// More commits per second, a longer restart.
    ///
    /// * Segments of 256 MiB, and a checkpoint every 512 MiB of log.
    /// * With [`Durability::Os`](crate::Durability::Os), one background sync per second. A loss of
    ///   power can cost a second of commits.
    Throughput,
    /// Little disk and memory, more writing, slower reads of old records.
    ///
    /// * Segments of 4 MiB, packed, rewritten when a fifth is unused, checked every ten seconds.
    /// * Batches are compressed from 512 bytes, where the topic has a codec.
    /// * History is kept for an hour.
    /// * 64 segments stay mapped, and 8 MiB of unpacked records stay in memory.
    SmallDisk,
}

impl Profile {
    /// Sets the fields of the profile.
    pub(crate) fn apply(self, settings: &mut Settings) {
        match self {
            Profile::Balanced => {}
            Profile::LowLatency => {
                settings.segment_bytes = 256 << 20;
                settings.checkpoint_pause_bytes = 0;
                settings.scrub_bytes_per_second = 0;
                settings.compact_percent_min = 75;
            }
            Profile::Throughput => {
                settings.segment_bytes = 256 << 20;
                settings.checkpoint_bytes = 512 << 20;
                settings.sync_interval_ms = 1_000;
            }
            Profile::SmallDisk => {
                settings.segment_bytes = 4 << 20;
                settings.checkpoint_bytes = 4 << 20;
                settings.compact_percent_min = 20;
                settings.compact_interval_ms = 10_000;
                settings.history_ms = 60 * 60 * 1000;
                settings.segments_open_max = 64;
                settings.pack_segments = true;
                settings.compress_bytes_min = 512;
                settings.unpacked_bytes_max = 8 << 20;
                settings.scrub_bytes_per_second = 256 << 10;
            }
        }
    }
}
