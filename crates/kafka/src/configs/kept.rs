//! The settings of topics that are kept and shown, and have no effect.

use quire::streams::KeptSetting;

use super::ConfigType;

/// A setting of topics that is kept and shown, and has no effect.
pub(super) struct KeptConfig {
    pub(super) setting: KeptSetting,
    pub(super) name: &'static str,
    pub(super) of_broker: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: ConfigType,
    pub(super) form: KeptForm,
    pub(super) documentation: &'static str,
}

/// The values that a kept setting takes, as in Kafka 4.1.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeptForm {
    /// Integers of this range.
    Number(i64, i64),
    /// A number from 0 to 1.
    Ratio,
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    /// `*`, or partitions with brokers: `0:1,2:1`.
    Replicas,
}

/// The largest value of a number of 32 bits.
const INT_MAX: i64 = i32::MAX as i64;

impl KeptForm {
    pub(super) fn allows(self, value: &str) -> bool {
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        match self {
            KeptForm::Number(least, most) => value.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number)),
            KeptForm::Ratio => value.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)),
            KeptForm::Flag => matches!(value, "true" | "false"),
            KeptForm::Words(words) => words.contains(&value),
            KeptForm::Replicas => {
                let is_pair = |pair: &str| {
                    pair.trim().split_once(':').is_some_and(|(one, other)| is_number(one) && is_number(other))
                };
                value.is_empty() || value == "*" || value.split(',').all(is_pair)
            }
        }
    }

    pub(super) fn description(self) -> String {
        match self {
            KeptForm::Number(least, most) => format!("{least} to {most}"),
            KeptForm::Ratio => "0 to 1".to_owned(),
            KeptForm::Flag => "true or false".to_owned(),
            KeptForm::Words(words) => format!("one of {}", words.join(", ")),
            KeptForm::Replicas => "*, or partitions with brokers like 0:0,1:0".to_owned(),
        }
    }
}

impl KeptConfig {
    const fn new(
        setting: KeptSetting,
        (name, of_broker): (&'static str, &'static str),
        default: &'static str,
        kind: ConfigType,
        form: KeptForm,
        documentation: &'static str,
    ) -> Self {
        KeptConfig { setting, name, of_broker, default, kind, form, documentation }
    }
}

const SEGMENTS: &str = "Kept and shown, without effect: the database has one log, whose segments hold all topics.";
const FLUSHES: &str = "Kept and shown, without effect: `--durability` of the server says when records are synced.";
const REPLICAS: &str = "Kept and shown, without effect: there is one copy.";
const REMOTE: &str = "Kept and shown, without effect: there is no remote storage.";
const COMPACTIONS: &str = "Kept and shown, without effect: `--compact-percent-min` and `--compact-interval-ms` of the server say when the log is compacted.";
const COMPRESSIONS: &str = "Kept and shown, without effect: batches are stored as their producers compressed them.";

/// The settings that are kept.
pub(super) const KEPT: [KeptConfig; 17] = {
    use ConfigType::{Boolean, Double, Int, List, Long, Text};
    use KeptForm::{Flag, Number, Ratio, Replicas, Words};
    use KeptSetting as S;
    const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
    const ANY: &str = "9223372036854775807";
    const fn same(name: &'static str) -> (&'static str, &'static str) {
        (name, name)
    }
    [
        KeptConfig::new(S::CompressionType, same("compression.type"), "producer", Text, Words(CODECS), COMPRESSIONS),
        KeptConfig::new(
            S::FileDeleteDelayMs,
            ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
            "60000",
            Long,
            Number(0, i64::MAX),
            SEGMENTS,
        ),
        KeptConfig::new(
            S::FlushMessages,
            ("flush.messages", "log.flush.interval.messages"),
            ANY,
            Long,
            Number(1, i64::MAX),
            FLUSHES,
        ),
        KeptConfig::new(S::FlushMs, ("flush.ms", "log.flush.interval.ms"), ANY, Long, Number(0, i64::MAX), FLUSHES),
        KeptConfig::new(
            S::FollowerThrottle,
            same("follower.replication.throttled.replicas"),
            "",
            List,
            Replicas,
            REPLICAS,
        ),
        KeptConfig::new(
            S::IndexIntervalBytes,
            ("index.interval.bytes", "log.index.interval.bytes"),
            "4096",
            Int,
            Number(0, INT_MAX),
            SEGMENTS,
        ),
        KeptConfig::new(S::LeaderThrottle, same("leader.replication.throttled.replicas"), "", List, Replicas, REPLICAS),
        KeptConfig::new(
            S::LocalRetentionBytes,
            ("local.retention.bytes", "log.local.retention.bytes"),
            "-2",
            Long,
            Number(-2, i64::MAX),
            REMOTE,
        ),
        KeptConfig::new(
            S::LocalRetentionMs,
            ("local.retention.ms", "log.local.retention.ms"),
            "-2",
            Long,
            Number(-2, i64::MAX),
            REMOTE,
        ),
        KeptConfig::new(
            S::MaxCompactionLagMs,
            ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
            ANY,
            Long,
            Number(1, i64::MAX),
            COMPACTIONS,
        ),
        KeptConfig::new(
            S::MinCleanableDirtyRatio,
            ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
            "0.5",
            Double,
            Ratio,
            COMPACTIONS,
        ),
        KeptConfig::new(S::Preallocate, ("preallocate", "log.preallocate"), "false", Boolean, Flag, SEGMENTS),
        KeptConfig::new(
            S::SegmentBytes,
            ("segment.bytes", "log.segment.bytes"),
            "1073741824",
            Int,
            Number(1 << 20, INT_MAX),
            SEGMENTS,
        ),
        KeptConfig::new(
            S::SegmentIndexBytes,
            ("segment.index.bytes", "log.index.size.max.bytes"),
            "10485760",
            Int,
            Number(4, INT_MAX),
            SEGMENTS,
        ),
        KeptConfig::new(
            S::SegmentJitterMs,
            ("segment.jitter.ms", "log.roll.jitter.ms"),
            "0",
            Long,
            Number(0, i64::MAX),
            SEGMENTS,
        ),
        KeptConfig::new(S::SegmentMs, ("segment.ms", "log.roll.ms"), "604800000", Long, Number(1, i64::MAX), SEGMENTS),
        KeptConfig::new(
            S::UncleanLeaderElection,
            same("unclean.leader.election.enable"),
            "false",
            Boolean,
            Flag,
            REPLICAS,
        ),
    ]
};
