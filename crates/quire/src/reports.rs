//! Reports for operators: counts, durations, damage, failing duties, space.

use std::time::Duration;

use quire_log::{Damage, Histogram, SegmentSummary};
use quire_model::{History, Place, Position};
use quire_shard::DutyFailure;

use crate::database::Database;
use crate::durations::DurationCounts;
use crate::{Compaction, Result};

/// Counts since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Accepted commits, each of which has a position.
    pub commits: u64,
    /// Refused commits.
    pub refusals: u64,
    /// Checkpoints saved.
    pub checkpoints: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended to the log.
    pub bytes: u64,
    /// Completed syncs.
    pub syncs: u64,
    /// Segments in the log.
    pub segments: u64,
    /// Bytes of memory that records unpacked from packed segments occupy; see
    /// [`Builder::pack_segments`](crate::Builder::pack_segments).
    pub unpacked_bytes: u64,
    /// The position of the last published record.
    pub published: Position,
}

/// How long the storage takes. See [`Database::storage_durations`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageDurations {
    /// The durations of syncs.
    pub sync: Histogram,
    /// The durations of checkpoint writes.
    pub checkpoint: Histogram,
}

impl Database {
    /// Returns the damage that reads found since the database was opened. Those reads failed; all
    /// other records stay readable.
    pub fn damage(&self) -> Vec<Damage> {
        self.shards.only().log().damage()
    }

    /// Returns the segments of the log, in order.
    ///
    /// ```
    /// use quire::{Database, Durability, Message, SegmentStage};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.topic("orders").produce(Message::new("one apple"))?;
    /// let segments = db.segments()?;
    /// assert_eq!(segments.last().map(|segment| segment.stage), Some(SegmentStage::Active));
    /// assert_eq!(segments.iter().map(|segment| segment.records).sum::<u64>(), db.published().get());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when a file can't be read,
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) when the header of a segment is damaged.
    pub fn segments(&self) -> Result<Vec<SegmentSummary>> {
        Ok(self.shards.only().log().segments()?)
    }

    /// Returns the background duties whose last attempt failed. They are tried again.
    pub fn failing(&self) -> Vec<DutyFailure> {
        self.shards.only().failing()
    }

    /// Returns what background compactions of this process did since the database was opened.
    pub fn background_compactions(&self) -> Compaction {
        self.shards.only().background_compactions()
    }

    /// Checks that there is space for commits: the next segment of the log exists, or is created
    /// now.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Io`](crate::ErrorKind::Io),
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn ensure_segment(&self) -> Result<()> {
        Ok(self.shards.only().log().ensure_segment()?)
    }

    /// Returns the bytes of free disk space in the database's directory.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io).
    pub fn free_bytes(&self) -> Result<u64> {
        Ok(self.shards.only().log().free_bytes()?)
    }

    /// Returns the time since the first commit that the newest checkpoint lacks. Zero when the
    /// checkpoint covers every commit. A restart replays the commits of that time.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) and
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when that commit can't be read.
    pub fn checkpoint_age(&self) -> Result<Duration> {
        let place = Place { position: self.shards.only().log().checkpointed().next(), index: 0 };
        let reader = self.history();
        let first = reader.entry(place)?;
        let age_us = first.map_or(0, |entry| self.now().as_micros().saturating_sub(entry.time.as_micros()));
        Ok(Duration::from_micros(age_us))
    }

    /// Returns how far the database's time is ahead of the system's clock. The time never runs
    /// backwards, so it is ahead after the clock was set back.
    pub fn clock_ahead(&self) -> Duration {
        Duration::from_micros(self.shards.only().log().clock().ahead_micros())
    }

    /// Returns the durations of commits of this process, from before the decision until the commit
    /// was published. Of many commits in a short time, only some are timed.
    pub fn commit_durations(&self) -> DurationCounts {
        self.shards.timer().counts()
    }

    /// Returns the durations of syncs and of checkpoint writes since the statistics page was
    /// created, over every process that had the database open.
    pub fn storage_durations(&self) -> StorageDurations {
        let (sync, checkpoint) = self.shards.only().log().durations();
        StorageDurations { sync, checkpoint }
    }

    /// Returns the duration of the longest sync of this process since the last call, and begins
    /// again. Zero when there was no sync. Meant for one caller that watches the database.
    pub fn take_slowest_sync(&self) -> Duration {
        self.shards.only().log().take_slowest_sync()
    }

    /// Checks that the database still accepts commits. It fails when an error stopped commits, in
    /// this or another process that has the database open. It also fails when the database's
    /// directory was moved.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed), with the cause as far as this process knows
    /// it. [`ErrorKind::Io`](crate::ErrorKind::Io) when the directory was moved or removed.
    pub fn check(&self) -> Result<()> {
        Ok(self.shards.only().log().check()?)
    }

    /// Returns counts since the database was opened.
    pub fn statistics(&self) -> Statistics {
        let log = self.shards.only().log().statistics();
        let (refusals, checkpoints) = self.shards.only().counts();
        Statistics {
            commits: log.records,
            refusals,
            checkpoints,
            entries: log.entries,
            bytes: log.bytes,
            syncs: log.syncs,
            segments: log.segments,
            unpacked_bytes: log.unpacked_bytes,
            published: self.published(),
        }
    }
}
