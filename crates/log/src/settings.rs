//! The settings of a log.

use std::fmt;

use crate::record::RECORD_OVERHEAD_MAX;
use crate::segment::HEADER_BYTES;

/// When a record counts as durable. The log then publishes the record and acknowledges its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// At once, in memory of the operating system. The record survives the death of every process,
    /// but not a loss of power. The log syncs in the background, see
    /// [`Settings::sync_interval_ms`].
    Os,
    /// After the `fdatasync` that covers the record. The record survives a loss of power.
    #[default]
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Os => "os",
            Durability::Sync => "sync",
        })
    }
}

/// Which component decides that a record is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Publisher {
    /// The log itself, as soon as the record has the [`Durability`] of the log.
    #[default]
    Log,
    /// The owner of the log publishes by [`Log::publish`](crate::Log::publish), for example after a
    /// majority of nodes has the record.
    Owner,
}

/// The settings of a log.
#[derive(Debug, Clone)]
pub struct Settings {
    /// When a record counts as durable. All processes that have the log open must agree. Default:
    /// [`Durability::Sync`].
    pub durability: Durability,
    /// Which component decides that a record is published. Default: [`Publisher::Log`].
    /// [`Publisher::Owner`] needs `exclusive`.
    pub publisher: Publisher,
    /// Whether opening drops the records after the published position. This applies where the last
    /// opening had a [`Publisher::Owner`]. Default: no. For a storage that keeps all changes in
    /// memory, such as [`Snapshot`](crate::Snapshot).
    pub only_published: bool,
    /// The length of a preallocated segment file in bytes. Default: 64 MiB; range: 4 KiB to 4 GiB -
    /// 1. Existing segments keep their length.
    pub segment_bytes: u64,
    /// The size limit of a record in bytes, header and tags included. Default: 16 MiB; at most
    /// `segment_bytes` minus 128.
    pub record_bytes_max: u64,
    /// Whether the log adopts the durability of the processes that have it open. Default: no.
    /// Opening then fails when the durability differs.
    pub adopts_durability: bool,
    /// Whether this opening excludes all others, in this process and in other processes. Default:
    /// no. Several processes can share a log.
    pub exclusive: bool,
    /// The sync interval of an `os` log, in milliseconds. Default: 100; at least 1. A `sync` log
    /// ignores it.
    pub sync_interval_ms: u64,
    /// The maximum number of sealed segments that stay mapped without a reader. Each takes two
    /// mappings and no file handle. Default: 1,024; at least 1. A reader keeps the segments that it
    /// has used open until it is dropped.
    pub segments_open_max: usize,
    /// Whether a compaction packs the remaining records: it compresses them with Zstandard, in
    /// frames that readers unpack. A compaction also rewrites a segment once when packing makes it
    /// smaller. Default: no. Packed segments stay readable, and stay packed when they are
    /// rewritten, whatever this setting is.
    pub pack_segments: bool,
    /// The maximum number of unpacked bytes that stay in memory without a reader. Default: 64 MiB.
    /// With 0, each reader unpacks frames again. A reader keeps the frames that it has unpacked
    /// until it is dropped.
    pub unpacked_bytes_max: u64,
    /// The number of bytes of sealed segments that the background scrub verifies per second.
    /// Default: 4 MiB; 0 disables it. The scrub reads one segment after the other, in a loop, to
    /// report damage before a reader needs the damaged records.
    pub scrub_bytes_per_second: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            durability: Durability::default(),
            publisher: Publisher::default(),
            only_published: false,
            segment_bytes: 64 << 20,
            record_bytes_max: 16 << 20,
            adopts_durability: false,
            exclusive: false,
            sync_interval_ms: 100,
            segments_open_max: 1024,
            pack_segments: false,
            unpacked_bytes_max: 64 << 20,
            scrub_bytes_per_second: 4 << 20,
        }
    }
}

impl Settings {
    /// Returns all problems of these settings, one sentence each. The list is empty when the
    /// settings are valid.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let range = 4096..=u64::from(u32::MAX);
        if !range.contains(&self.segment_bytes) {
            problems.push(format!(
                "segment_bytes must be between {} and {}, got {}",
                range.start(),
                range.end(),
                self.segment_bytes
            ));
        }
        let record_bytes_most = self.segment_bytes.saturating_sub((HEADER_BYTES + RECORD_OVERHEAD_MAX) as u64);
        if self.record_bytes_max < 64 || self.record_bytes_max > record_bytes_most {
            problems.push(format!(
                "record_bytes_max must be between 64 and {record_bytes_most} for segments of {} bytes, got {}",
                self.segment_bytes, self.record_bytes_max
            ));
        }
        if self.publisher == Publisher::Owner && !self.exclusive {
            problems.push("publisher Owner requires exclusive".to_owned());
        }
        if self.sync_interval_ms == 0 {
            problems.push("sync_interval_ms must be at least 1, got 0".to_owned());
        }
        if self.segments_open_max == 0 {
            problems.push("segments_open_max must be at least 1, got 0".to_owned());
        }
        problems
    }
}
