//! The storage settings of `quire serve`: one flag for each field of [`Settings`] that a profile
//! may set, or that rarely changes.

use clap::Args;
use quire::Settings;

use crate::text::parse_bytes;

/// The flags. A flag that is not given leaves the value of the profile.
#[derive(Debug, Args)]
pub(crate) struct StorageArgs {
    /// Pack compacted segments: saves about three quarters of the disk for JSON and slows reads of
    /// old data [default: set by the profile]
    #[arg(long, value_name = "BOOL", hide_short_help = true)]
    pack_segments: Option<bool>,
    /// Smallest record batch to compress when its topic has a codec; batches of Kafka clients are
    /// stored as sent [default: set by the profile]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    compress_bytes_min: Option<usize>,
    /// Largest size of the log; the oldest records of topics are deleted to stay below it [default:
    /// unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    log_bytes_max: Option<u64>,
    /// Length of a segment file [default: set by the profile]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    segment_bytes: Option<u64>,
    /// Largest commit [default: 16 MiB, or the limit of a smaller segment]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    commit_bytes_max: Option<u64>,
    /// Milliseconds between background syncs with `--durability os` [default: 100]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    sync_interval_ms: Option<u64>,
    /// Bytes of log between two checkpoints; a restart replays about as many [default: set by the
    /// profile]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    checkpoint_bytes: Option<u64>,
    /// Largest state that a checkpoint saves while commits wait [default: set by the profile]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    checkpoint_pause_bytes: Option<u64>,
    /// Milliseconds for which superseded history is kept: of finished jobs and of offsets [default:
    /// 604800000]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    history_ms: Option<u64>,
    /// Milliseconds between background compactions [default: set by the profile]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    compact_interval_ms: Option<u64>,
    /// Smallest unused share of a segment, in percent, from which a compaction rewrites it
    /// [default: set by the profile]
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    compact_percent_min: Option<u8>,
    /// Most keys that a compaction of topics holds in memory, at about 28 bytes each [default: set
    /// by the profile]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    compact_keys_max: Option<usize>,
    /// Most sealed segments that stay mapped without a reader [default: set by the profile]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    segments_open_max: Option<usize>,
    /// Most bytes of unpacked segments that stay in memory without a reader [default: set by the
    /// profile]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    unpacked_bytes_max: Option<u64>,
    /// Rate at which sealed segments are verified in the background; 0 verifies none [default: set
    /// by the profile]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    scrub_bytes_per_second: Option<u64>,
    /// Most partitions of all topics [default: 200000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    partitions_max: Option<u64>,
    /// Most consumer groups [default: 100000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    groups_max: Option<u64>,
    /// Most bytes of committed offsets and their notes [default: 268435456]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    offset_bytes_max: Option<u64>,
    /// Most event stores [default: 1000000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    stores_max: Option<u64>,
    /// Most queues [default: 1000000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    queues_max: Option<u64>,
    /// Most graphs [default: 100000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    graphs_max: Option<u64>,
    /// Most bytes of jobs in memory, with the names of their groups and their unique keys [default:
    /// 536870912]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    job_bytes_max: Option<u64>,
    /// Most bytes of sources, saved projections, forgotten tags and subscriptions of event stores
    /// in memory [default: 268435456]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    store_bytes_max: Option<u64>,
    /// Milliseconds for which the idempotency key of a commit is kept [default: 86400000]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    idempotency_retention_ms: Option<u64>,
    /// Most idempotency keys that are kept, at about 50 to 100 bytes of memory each [default:
    /// 1000000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    idempotency_keys_max: Option<u32>,
    /// Most steps of one request, at least 1,000: candidates of a search along tags, entries read,
    /// edges walked, jobs looked at; a longer request is refused as too costly [default: 1000000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    request_steps_max: Option<u64>,
}

impl StorageArgs {
    /// Changes the settings of a profile as the flags say.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        set(&mut settings.pack_segments, self.pack_segments);
        set(&mut settings.compress_bytes_min, self.compress_bytes_min);
        set(&mut settings.segment_bytes, self.segment_bytes);
        set(&mut settings.sync_interval_ms, self.sync_interval_ms);
        set(&mut settings.checkpoint_bytes, self.checkpoint_bytes);
        set(&mut settings.checkpoint_pause_bytes, self.checkpoint_pause_bytes);
        set(&mut settings.history_ms, self.history_ms);
        set(&mut settings.compact_interval_ms, self.compact_interval_ms);
        set(&mut settings.compact_percent_min, self.compact_percent_min);
        set(&mut settings.compact_keys_max, self.compact_keys_max);
        set(&mut settings.segments_open_max, self.segments_open_max);
        set(&mut settings.unpacked_bytes_max, self.unpacked_bytes_max);
        set(&mut settings.scrub_bytes_per_second, self.scrub_bytes_per_second);
        set(&mut settings.partitions_max, self.partitions_max);
        set(&mut settings.groups_max, self.groups_max);
        set(&mut settings.offset_bytes_max, self.offset_bytes_max);
        set(&mut settings.stores_max, self.stores_max);
        set(&mut settings.queues_max, self.queues_max);
        set(&mut settings.graphs_max, self.graphs_max);
        set(&mut settings.job_bytes_max, self.job_bytes_max);
        set(&mut settings.store_bytes_max, self.store_bytes_max);
        set(&mut settings.idempotency_retention_ms, self.idempotency_retention_ms);
        set(&mut settings.idempotency_keys_max, self.idempotency_keys_max);
        set(&mut settings.request_steps_max, self.request_steps_max);
        settings.log_bytes_max = self.log_bytes_max.or(settings.log_bytes_max);
        settings.commit_bytes_max = self.commit_bytes_max.or(settings.commit_bytes_max);
    }
}

fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}
