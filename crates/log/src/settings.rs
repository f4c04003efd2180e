//! What an owner may choose about a log.

use std::fmt;

use crate::record::RECORD_OVERHEAD_MAX;
use crate::segment::HEADER_BYTES;

/// When a record counts as kept, and so when it is published and its commit acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// At once, from memory that the operating system owns: survives the death of every process, not the loss of power.
    /// Synced in the background, see [`Settings::sync_interval_ms`].
    Os,
    /// After the `fdatasync` that covers it: survives the loss of power.
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
    /// The owner of the log, by [`Log::publish`](crate::Log::publish): for example after a majority of nodes has the record.
    Owner,
}

/// The settings of a log.
#[derive(Debug, Clone)]
pub struct Settings {
    /// When a record counts as kept, the same for all who have the log open. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Which component decides that a record is published. Default: [`Publisher::Log`]. [`Publisher::Owner`] needs `exclusive`.
    pub publisher: Publisher,
    /// Whether the log is opened only up to the record that its owner had published, where the last opening had a
    /// [`Publisher::Owner`]. Later records are dropped. Default: no. For a storage that keeps every change to itself, such as
    /// [`Snapshot`](crate::Snapshot).
    pub only_published: bool,
    /// The length of a segment file in bytes, preallocated. Default: 64 MiB; 4 KiB to 4 GiB - 1. Segments that are there
    /// keep their length.
    pub segment_bytes: u64,
    /// The most bytes one record may have, its header and tags included. Default: 16 MiB; at most `segment_bytes` less 128.
    pub record_bytes_max: u64,
    /// Whether the durability of those who have the log open is taken over, where it is another. Default: no, opening fails then.
    pub adopts_durability: bool,
    /// Whether others are kept out while the log is open here, in this process and in others. Default: no; several processes share
    /// a log.
    pub exclusive: bool,
    /// How often an `os` log syncs what was appended, in milliseconds. Default: 100; at least 1. A `sync` log takes no
    /// notice of it.
    pub sync_interval_ms: u64,
    /// How many sealed segments stay mapped though nobody reads them, at most. Each takes two mappings and no file handle.
    /// Default: 1,024; at least 1. Readers keep open what they have touched, for as long as they live.
    pub segments_open_max: usize,
    /// Whether a compaction packs what it leaves: the records are compressed with Zstandard, in frames that are unpacked when they are
    /// read. Segments that get smaller by it are rewritten for that alone, once. Default: no. What is packed is read whatever is set here, and
    /// stays packed when it is rewritten.
    pub pack_segments: bool,
    /// How many bytes of what is unpacked stay in memory though nobody reads them, at most. Default: 64 MiB; with 0, what nobody reads
    /// is unpacked for each reader anew. A reader keeps what it has unpacked for as long as it lives, whatever is set here.
    pub unpacked_bytes_max: u64,
    /// How many bytes of sealed segments are verified a second, in the background, one segment after the other and from the
    /// beginning again: so that damage is known before somebody needs what it hit. Default: 4 MiB; 0 for none.
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
    /// Every problem with these settings, one sentence each; none when they can be used.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let range = 4096..=u64::from(u32::MAX);
        if !range.contains(&self.segment_bytes) {
            problems.push(format!(
                "segment_bytes is {}, and must lie in {}..={}",
                self.segment_bytes,
                range.start(),
                range.end()
            ));
        }
        let record_bytes_most = self.segment_bytes.saturating_sub((HEADER_BYTES + RECORD_OVERHEAD_MAX) as u64);
        if self.record_bytes_max < 64 || self.record_bytes_max > record_bytes_most {
            problems.push(format!(
                "record_bytes_max is {}, and must lie in 64..={record_bytes_most} for segments of {} bytes",
                self.record_bytes_max, self.segment_bytes
            ));
        }
        if self.publisher == Publisher::Owner && !self.exclusive {
            problems.push("publisher is Owner, which needs exclusive".to_owned());
        }
        if self.sync_interval_ms == 0 {
            problems.push("sync_interval_ms is 0, and must be at least 1".to_owned());
        }
        if self.segments_open_max == 0 {
            problems.push("segments_open_max is 0, and must be at least 1".to_owned());
        }
        problems
    }
}
