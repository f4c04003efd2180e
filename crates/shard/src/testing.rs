//! Shards for the tests of their components.

use std::path::Path;
use std::sync::Arc;

use quire_log::{Background, Clock, Components, Durability, Identity, Settings};

use crate::checkpoint::CheckpointSettings;
use crate::claims::NameLimits;
use crate::commands::{Commands, Replies};
use crate::compaction::KEYS_MAX;
use crate::duties::Duty;
use crate::graph_memory;
use crate::idempotency::IdempotencySettings;
use crate::permitted::PermittedCommands;
use crate::settings::{RetentionSettings, ShardSettings};
use crate::shard::Shard;
use crate::streams::wire::BatchBuilder;
use crate::streams::{self, TopicRef};

/// Opens a shard in `directory` with short segments, which the caller compacts and saves.
pub(crate) fn open(directory: &Path, compact_percent_min: u8, clock: Arc<dyn Clock>) -> Shard {
    open_with(directory, compact_percent_min, clock, Durability::Os)
}

/// Opens a shard like [`open`], with this durability.
pub(crate) fn open_with(
    directory: &Path,
    compact_percent_min: u8,
    clock: Arc<dyn Clock>,
    durability: Durability,
) -> Shard {
    open_as(directory, clock, settings(compact_percent_min, durability))
}

/// Opens a shard with these settings.
pub(crate) fn open_as(directory: &Path, clock: Arc<dyn Clock>, settings: ShardSettings) -> Shard {
    let components = Components { clock, background: Background::Caller, ..Components::default() };
    let identity = Identity { database: 1, shard: 0 };
    Shard::open(directory, identity, settings, components, graph_memory::unbounded).expect("opened").0
}

/// The settings of a shard with short segments.
pub(crate) fn settings(compact_percent_min: u8, durability: Durability) -> ShardSettings {
    ShardSettings {
        log: Settings {
            durability,
            segment_bytes: 64 << 10,
            record_bytes_max: (64 << 10) - 128,
            ..Settings::default()
        },
        checkpoints: CheckpointSettings { interval_bytes: 64 << 20, pause_bytes: 1 << 20 },
        retention: RetentionSettings {
            history_ms: 7 * 24 * 60 * 60 * 1000,
            compact_interval_ms: 60_000,
            compact_percent_min,
            compact_keys_max: KEYS_MAX,
            log_bytes_max: None,
        },
        compress_bytes_min: 4 << 10,
        names: NameLimits::default(),
        idempotency: IdempotencySettings::default(),
        read_only: false,
    }
}

/// Commits commands that must be accepted.
#[track_caller]
pub(crate) fn commit(shard: &Shard, commands: &Commands<'_, '_>) {
    let decided = shard
        .commit(shard.log().clock().now(), &PermittedCommands::by_owner(*commands), &mut Replies::default())
        .expect("written");
    decided.verdict.expect("accepted");
}

/// Produces one message to partition 0 of a topic, which is created when missing.
#[track_caller]
pub(crate) fn produce(shard: &Shard, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) {
    let mut batch = BatchBuilder::default();
    let now_ms = i64::try_from(shard.log().clock().now().as_millis()).expect("the time fits into 63 bits");
    batch.add(key, value, &[], now_ms).expect("one message");
    let batch = batch.finish_without_checksum().expect("a message was added");
    let command =
        streams::Command::Produce { topic: TopicRef::Name(topic), partition: 0, batch, create_partitions: Some(1) };
    commit(shard, &Commands { streams: &[command], ..Commands::default() });
}

/// Syncs the log, and seals each segment that is full.
pub(crate) fn seal(shard: &Shard) {
    shard.log().sync().expect("synced");
    while shard.carry_out(Duty::Seal).expect("sealed") {}
}
