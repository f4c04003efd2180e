//! The settings of a database: plain data that a builder wraps and a configuration file can fill.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use quire_log::Durability;
use quire_shard::{
    COMPRESS_BYTES_MIN, CheckpointSettings, IdempotencySettings, KEYS_MAX, NameLimits, RetentionSettings, ShardSettings,
};

use crate::{Error, ErrorKind, Profile, Result};

const COMMIT_BYTES_MIN: u64 = 64;

/// Fewer steps would refuse requests for a few entries.
const REQUEST_STEPS_MIN: u64 = 1_000;
/// Most idempotency keys that a database can keep.
const IDEMPOTENCY_KEYS_MAX: u32 = 1 << 24;

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Size of a segment's header and of the largest record without its entries, in bytes.
const SEGMENT_OVERHEAD_BYTES: u64 = 128;

/// The settings of a database. [`Builder`](crate::Builder) has a method for each field.
///
/// With the feature `serde`, a configuration file can fill the settings. Missing fields have their
/// defaults; an unknown field is an error.
///
/// ```
/// use quire::{Database, Settings};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("data");
/// # #[cfg(feature = "serde")] {
/// let settings: Settings = serde_json::from_str(r#"{"durability": "os", "segment_bytes": 4194304}"#)?;
/// let db = Database::builder(&path).settings(settings).open()?;
/// # }
///
/// let wrong = Settings { segment_bytes: 17, compact_percent_min: 0, ..Settings::default() };
/// let error = wrong.validate().unwrap_err();
/// assert!(error.to_string().contains("segment_bytes") && error.to_string().contains("compact_percent_min"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Settings {
    /// When a commit is acknowledged: `sync` after it survives a loss of power, `os` after it
    /// survives the death of every process. It must match the other processes that have the
    /// database open. Default: theirs, or else `sync`.
    #[cfg_attr(feature = "serde", serde(with = "durability_name"))]
    pub durability: Option<Durability>,
    /// Whether a missing database is created. Default: true.
    pub create: bool,
    /// Whether the database is opened read-only: see
    /// [`Builder::read_only`](crate::Builder::read_only). Default: false.
    pub read_only: bool,
    /// Whether no other process may open the database. Opening fails while another one has it open.
    /// Default: false.
    pub exclusive: bool,
    /// Length of a segment file, in bytes: 4 KiB to 4 GiB - 1. Existing segments keep their length.
    /// Default: 64 MiB.
    pub segment_bytes: u64,
    /// Largest commit, in bytes of log: 64 to `segment_bytes` - 128. Default: 16 MiB, or the limit
    /// of a smaller segment.
    pub commit_bytes_max: Option<u64>,
    /// Interval of background syncs, in milliseconds, with the durability `os`: at least 1. A loss
    /// of power costs the commits of one interval. Default: 100.
    pub sync_interval_ms: u64,
    /// Bytes of log after which the state of the models is saved: at least 4 KiB. A restart replays
    /// about this much. A state that is larger is saved after its own size. Default: 64 MiB.
    pub checkpoint_bytes: u64,
    /// Largest state, in bytes, that is saved while commits wait, about a millisecond for each MiB.
    /// A larger state is rebuilt alongside, which takes its memory twice. 0 never pauses commits.
    /// Default: 1 MiB.
    pub checkpoint_pause_bytes: u64,
    /// How long superseded history is kept, in milliseconds: the entries of finished jobs, and
    /// superseded offsets of groups. A later compaction removes older history. Default:
    /// 604,800,000, which is 7 days.
    pub history_ms: u64,
    /// Interval of background compactions, in milliseconds: at least 1. Default: 60,000.
    pub compact_interval_ms: u64,
    /// Smallest share of a segment, in percent of its bytes, that must be unused before the segment
    /// is rewritten: 1 to 100. A lower value frees disk space earlier and rewrites more. Default:
    /// 50.
    pub compact_percent_min: u8,
    /// Most keys of compacted topics that a compaction holds in memory, at about 28 bytes each: at
    /// least 1. A partition with more keys is compacted in several passes. Default: 1,835,008,
    /// which takes 52 MiB.
    pub compact_keys_max: usize,
    /// Largest log, in bytes. Beyond it, topics trim their oldest records; compacted topics,
    /// events, jobs and graphs keep theirs. Default: unbounded.
    pub log_bytes_max: Option<u64>,
    /// Smallest batch, in bytes of records, that this process compresses when the topic has a
    /// codec. Default: 4 KiB.
    pub compress_bytes_min: usize,
    /// Most bytes of blocks and edges on the heap, for all graphs together. The rest is in mapped
    /// files. Default: unbounded.
    pub graph_memory_bytes: Option<u64>,
    /// Directory of the mapped files beyond `graph_memory_bytes`. Default: the directory of the
    /// database.
    pub graph_memory_directory: Option<PathBuf>,
    /// Most sealed segments that stay mapped without a reader: at least 1. Default: 1,024.
    pub segments_open_max: usize,
    /// Whether a compaction compresses the segments that it rewrites. JSON shrinks to about a
    /// quarter; reading an old record takes about 30 microseconds more. Default: false.
    pub pack_segments: bool,
    /// Most bytes of unpacked segments that stay in memory without a reader. Default: 64 MiB.
    pub unpacked_bytes_max: u64,
    /// Rate at which sealed segments are verified in the background, in bytes per second. 0
    /// verifies none. Default: 4 MiB.
    pub scrub_bytes_per_second: u64,
    /// Most partitions of all topics together. A commit of this process that would exceed it is
    /// refused; a database that has more opens all the same. Default: 200,000.
    pub partitions_max: u64,
    /// Most consumer groups, as `partitions_max`. Default: 100,000.
    pub groups_max: u64,
    /// Most bytes of committed offsets, as `partitions_max`: 96 for each offset, and those of its
    /// note. Default: 256 MiB.
    pub offset_bytes_max: u64,
    /// Most event stores, as `partitions_max`. Default: 1,000,000.
    pub stores_max: u64,
    /// Most queues, as `partitions_max`. An idle queue takes about 400 bytes of memory, and
    /// another one about two kilobytes and its jobs. Default: 1,000,000.
    pub queues_max: u64,
    /// Most graphs, as `partitions_max`. Default: 100,000.
    pub graphs_max: u64,
    /// Most bytes of jobs in memory, as `partitions_max`: about 100 for each job, and more with
    /// names of groups and unique keys. Default: 512 MiB.
    pub job_bytes_max: u64,
    /// Most bytes of sources, saved projections, forgotten tags and subscriptions of event stores
    /// in memory, as `partitions_max`: about 100 to 200 for each, and its name. Default: 256 MiB.
    pub store_bytes_max: u64,
    /// How long the idempotency key of a commit of this process is kept, in milliseconds from the
    /// commit: at least 1. Default: 86,400,000, which is 24 hours.
    pub idempotency_retention_ms: u64,
    /// Most idempotency keys that are kept, at about 50 to 100 bytes of memory each: 1 to
    /// 16,777,216. A commit of this process with a key makes the database forget older ones.
    /// Default: 1,000,000.
    pub idempotency_keys_max: u32,
    /// Most steps of one request to a server of this process: candidates of a search along tags,
    /// entries read, edges walked, jobs looked at. A step takes up to a microsecond. At least
    /// 1,000. Calls of this process itself are not bounded: see
    /// [`Database::within`](crate::Database::within). Default: 1,000,000.
    pub request_steps_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let (log, names) = (quire_log::Settings::default(), NameLimits::default());
        let idempotency = IdempotencySettings::default();
        Settings {
            durability: None,
            create: true,
            read_only: false,
            exclusive: log.exclusive,
            segment_bytes: log.segment_bytes,
            commit_bytes_max: None,
            sync_interval_ms: log.sync_interval_ms,
            checkpoint_bytes: 64 << 20,
            checkpoint_pause_bytes: 1 << 20,
            history_ms: WEEK_MS,
            compact_interval_ms: 60_000,
            compact_percent_min: 50,
            compact_keys_max: KEYS_MAX,
            log_bytes_max: None,
            compress_bytes_min: COMPRESS_BYTES_MIN,
            graph_memory_bytes: None,
            graph_memory_directory: None,
            segments_open_max: log.segments_open_max,
            pack_segments: log.pack_segments,
            unpacked_bytes_max: log.unpacked_bytes_max,
            scrub_bytes_per_second: log.scrub_bytes_per_second,
            partitions_max: names.partitions_max,
            groups_max: names.groups_max,
            offset_bytes_max: names.offset_bytes_max,
            stores_max: names.stores_max,
            queues_max: names.queues_max,
            graphs_max: names.graphs_max,
            job_bytes_max: names.job_bytes_max,
            store_bytes_max: names.store_bytes_max,
            idempotency_retention_ms: idempotency.retention_ms,
            idempotency_keys_max: idempotency.keys_max,
            request_steps_max: 1_000_000,
        }
    }
}

impl Settings {
    /// Returns the settings of a profile.
    pub fn of(profile: Profile) -> Self {
        let mut settings = Settings::default();
        profile.apply(&mut settings);
        settings
    }

    /// Checks all fields.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with every problem in one message.
    pub fn validate(&self) -> Result<()> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Invalid, problems.join("; "))) }
    }

    /// Returns every problem, one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.log().problems();
        // The log derives this limit from the length of its segments, and already reports a problem
        // with that length.
        problems.retain(|problem| !problem.starts_with("record_bytes_max"));
        if let Some(bytes) = self.commit_bytes_max.filter(|bytes| !self.commit_bytes().contains(bytes)) {
            let (least, most) = (self.commit_bytes().start().to_owned(), self.commit_bytes().end().to_owned());
            problems.push(format!("commit_bytes_max must be between {least} and {most}, got {bytes}"));
        }
        if self.compact_interval_ms == 0 {
            problems.push("compact_interval_ms must be at least 1, got 0".to_owned());
        }
        if !(1..=100).contains(&self.compact_percent_min) {
            problems.push(format!("compact_percent_min must be between 1 and 100, got {}", self.compact_percent_min));
        }
        if self.compact_keys_max == 0 {
            problems.push("compact_keys_max must be at least 1, got 0".to_owned());
        }
        if self.idempotency_retention_ms == 0 {
            problems.push("idempotency_retention_ms must be at least 1, got 0".to_owned());
        }
        if !(1..=IDEMPOTENCY_KEYS_MAX).contains(&self.idempotency_keys_max) {
            let keys = self.idempotency_keys_max;
            problems.push(format!("idempotency_keys_max must be between 1 and {IDEMPOTENCY_KEYS_MAX}, got {keys}"));
        }
        if self.request_steps_max < REQUEST_STEPS_MIN {
            let steps = self.request_steps_max;
            problems.push(format!("request_steps_max must be at least {REQUEST_STEPS_MIN}, got {steps}"));
        }
        if self.checkpoint_bytes < 4096 {
            problems.push(format!("checkpoint_bytes must be at least 4096, got {}", self.checkpoint_bytes));
        }
        problems
    }

    /// Returns the settings of the database's shard.
    pub(crate) fn shard(&self) -> ShardSettings {
        let mut log = self.log();
        log.record_bytes_max = self.commit_bytes_max.unwrap_or(log.record_bytes_max);
        ShardSettings {
            log,
            checkpoints: CheckpointSettings {
                interval_bytes: self.checkpoint_bytes,
                pause_bytes: self.checkpoint_pause_bytes,
            },
            retention: RetentionSettings {
                history_ms: self.history_ms,
                compact_interval_ms: self.compact_interval_ms,
                compact_percent_min: self.compact_percent_min,
                compact_keys_max: self.compact_keys_max,
                log_bytes_max: self.log_bytes_max,
            },
            compress_bytes_min: self.compress_bytes_min,
            names: NameLimits {
                partitions_max: self.partitions_max,
                groups_max: self.groups_max,
                offset_bytes_max: self.offset_bytes_max,
                stores_max: self.stores_max,
                queues_max: self.queues_max,
                graphs_max: self.graphs_max,
                job_bytes_max: self.job_bytes_max,
                store_bytes_max: self.store_bytes_max,
            },
            idempotency: IdempotencySettings {
                retention_ms: self.idempotency_retention_ms,
                keys_max: self.idempotency_keys_max,
            },
            read_only: self.read_only,
        }
    }

    /// Returns the log's settings, with the default limit of a record.
    fn log(&self) -> quire_log::Settings {
        let defaults = quire_log::Settings::default();
        let record_bytes_max = defaults.record_bytes_max.min(*self.commit_bytes().end()).max(COMMIT_BYTES_MIN);
        quire_log::Settings {
            durability: self.durability.unwrap_or_default(),
            segment_bytes: self.segment_bytes,
            record_bytes_max,
            adopts_durability: self.durability.is_none(),
            exclusive: self.exclusive,
            sync_interval_ms: self.sync_interval_ms,
            segments_open_max: self.segments_open_max,
            pack_segments: self.pack_segments,
            unpacked_bytes_max: self.unpacked_bytes_max,
            scrub_bytes_per_second: self.scrub_bytes_per_second,
            // A record that its owner has not published may be truncated.
            only_published: self.read_only,
            ..defaults
        }
    }

    /// Returns the allowed sizes of the largest commit.
    fn commit_bytes(&self) -> RangeInclusive<u64> {
        COMMIT_BYTES_MIN..=self.segment_bytes.saturating_sub(SEGMENT_OVERHEAD_BYTES)
    }
}

/// The names of the durabilities in a configuration file: `sync` and `os`.
#[cfg(feature = "serde")]
mod durability_name {
    use quire_log::Durability;
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(durability: &Option<Durability>, to: S) -> Result<S::Ok, S::Error> {
        durability.map(|durability| durability.to_string()).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Durability>, D::Error> {
        match Option::<String>::deserialize(from)?.as_deref() {
            None => Ok(None),
            Some("sync") => Ok(Some(Durability::Sync)),
            Some("os") => Ok(Some(Durability::Os)),
            Some(other) => Err(D::Error::invalid_value(Unexpected::Str(other), &"`sync` or `os`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "serde")]
    #[test]
    fn settings_read_back_as_they_were_written() {
        let settings = Settings {
            durability: Some(Durability::Os),
            log_bytes_max: Some(1 << 30),
            ..Settings::of(Profile::SmallDisk)
        };
        let text = serde_json::to_string(&settings).expect("JSON");
        assert_eq!(serde_json::from_str::<Settings>(&text).expect("settings"), settings);
        assert_eq!(serde_json::from_str::<Settings>("{}").expect("settings"), Settings::default());
        assert!(serde_json::from_str::<Settings>(r#"{"segment_byte": 1}"#).is_err(), "an unknown field");
        assert!(serde_json::from_str::<Settings>(r#"{"durability": "maybe"}"#).is_err(), "an unknown durability");
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let settings = Settings {
            segment_bytes: 17,
            commit_bytes_max: Some(19),
            sync_interval_ms: 0,
            checkpoint_bytes: 18,
            compact_interval_ms: 0,
            compact_percent_min: 101,
            compact_keys_max: 0,
            segments_open_max: 0,
            request_steps_max: 999,
            ..Settings::default()
        };
        let error = settings.validate().expect_err("invalid");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        for problem in [
            "segment_bytes must be between 4096 and 4294967295, got 17",
            "commit_bytes_max must be between",
            "sync_interval_ms must be at least 1, got 0",
            "checkpoint_bytes must be at least 4096, got 18",
            "compact_interval_ms must be at least 1, got 0",
            "compact_percent_min must be between 1 and 100, got 101",
            "compact_keys_max must be at least 1, got 0",
            "segments_open_max must be at least 1, got 0",
            "request_steps_max must be at least 1000, got 999",
        ] {
            assert!(error.to_string().contains(problem), "{problem}: {error}");
        }
    }
}
