//! Settings of a shard.

use crate::checkpoint::CheckpointSettings;
use crate::claims::NameLimits;
use crate::idempotency::IdempotencySettings;

/// How a shard is opened.
#[derive(Debug, Clone)]
pub struct ShardSettings {
    /// The log's settings.
    pub log: quire_log::Settings,
    /// When checkpoints are taken, and how.
    pub checkpoints: CheckpointSettings,
    /// When records that no longer count are removed.
    pub retention: RetentionSettings,
    /// Smallest batch, in bytes of records, that is compressed for a topic with a codec.
    pub compress_bytes_min: usize,
    /// The most names, and other things that are limited for all models together, that commits of
    /// this process may create.
    pub names: NameLimits,
    /// How long this process keeps the idempotency keys of its commits, and how many.
    pub idempotency: IdempotencySettings,
    /// Whether commits and checkpoints are refused.
    pub read_only: bool,
}

/// When records that no longer count are removed.
#[derive(Debug, Clone, Copy)]
pub struct RetentionSettings {
    /// How long history entries (such as steps of finished jobs) are kept, in milliseconds.
    pub history_ms: u64,
    /// The interval between two periodic compactions, in milliseconds.
    pub compact_interval_ms: u64,
    /// Smallest percentage of a segment's bytes that no longer counts for the segment to be
    /// rewritten.
    pub compact_percent_min: u8,
    /// Largest number of keys of compacted topics in memory.
    pub compact_keys_max: usize,
    /// Bytes of disk that the log may take, as far as topics can give up records; `None` for any
    /// number.
    pub log_bytes_max: Option<u64>,
}
