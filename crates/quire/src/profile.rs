//! Profiles: settings that go together, for what a database is to be good at.

use crate::builder::Builder;

/// What a database is to be good at. See [`Builder::profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// The defaults. Segments of 64 MiB, of which the next one is kept ready; the state is saved every 64 MiB of log.
    #[default]
    Balanced,
    /// Fewer pauses, for more disk: segments of 256 MiB, so that a new one is begun seldom; no commit waits for the state to be saved,
    /// also a small one; nothing is verified in the background, and little rewritten.
    LowLatency,
    /// More commits a second, for a longer restart and, with [`Durability::Os`](crate::Durability::Os), up to a second of commits at a loss of
    /// power: segments of 256 MiB, the state saved every 512 MiB, syncs in the background every second.
    Throughput,
    /// Little disk and memory, for more writing and slower reads of what is old: segments of 4 MiB, rewritten once a fifth is of no use,
    /// which is looked for every ten seconds, and packed; batches are compressed from 512 bytes on, where their topic says a codec; what is
    /// only history goes after an hour; 64 segments stay mapped, and 8 MiB of what is unpacked.
    SmallDisk,
}

impl Profile {
    /// These settings.
    pub(crate) fn apply(self, builder: Builder) -> Builder {
        match self {
            Profile::Balanced => builder,
            Profile::LowLatency => builder
                .segment_bytes(256 << 20)
                .checkpoint_pause_bytes(0)
                .scrub_bytes_per_second(0)
                .compact_percent_min(75),
            Profile::Throughput => builder.segment_bytes(256 << 20).checkpoint_bytes(512 << 20).sync_interval_ms(1_000),
            Profile::SmallDisk => builder
                .segment_bytes(4 << 20)
                .checkpoint_bytes(4 << 20)
                .compact_percent_min(20)
                .compact_interval_ms(10_000)
                .history_ms(60 * 60 * 1000)
                .segments_open_max(64)
                .pack_segments(true)
                .compress_bytes_min(512)
                .unpacked_bytes_max(8 << 20)
                .scrub_bytes_per_second(256 << 10),
        }
    }
}
