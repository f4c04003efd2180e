//! The log's handle: waiting for records, reading the log's state, and starting its duties.

mod opening;
mod other_processes;
mod publication;
mod segment_summary;
mod shared;
mod threads;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quire_model::Position;

use crate::components::LogDuty;
use crate::durable::checkpoint::{self, Checkpoint, PassOn};
use crate::durable::gate::{LogWatcher, WaitOutcome, WaitTarget};
use crate::durable::office::{self, Office};
use crate::error::{Damage, Error, Result};
use crate::mark::{Basis, Era, Mark};
use crate::read::reader::Reader;
use crate::sealed::scrub::scrub_all;
use crate::sealed::sealer::SealingFailure;
use crate::segment::segment_name;
use crate::settings::{Durability, Settings};
use crate::statistics::Histogram;
use crate::time::clock::Clock;
use crate::time::deadline::WaitDeadline;
use crate::time::steady::SteadyClock;
use threads::LogThreads;

pub use opening::OpenedLog;
pub use publication::Publication;
pub use segment_summary::{SegmentStage, SegmentSummary};
pub(crate) use shared::{LogCore, SEALING};

/// Locked by the process that saves a checkpoint.
const CHECKPOINTING: &str = "checkpointing";

/// A segment and its size on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSize {
    /// Its first position.
    pub first: Position,
    /// The bytes of its files. The file of an unsealed segment has its full length from the
    /// beginning.
    pub bytes: u64,
    /// Whether a compaction made it.
    pub compacted: bool,
}

/// Counts since the log was opened here, over every process that has it open. [`Page`](crate::Page)
/// has more counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended, headers and padding included.
    pub bytes: u64,
    /// Completed syncs.
    pub syncs: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of sealed segments among them, whose index is in a file.
    pub sealed: u64,
    /// Sealed segments that are mapped, even when no reader uses them; see
    /// [`Settings::segments_open_max`].
    pub open: u64,
    /// Bytes of memory that unpacked parts of packed segments take, for all readers; see
    /// [`Settings::unpacked_bytes_max`].
    pub unpacked_bytes: u64,
    /// Bytes that the scrub verified in the background.
    pub scrubbed_bytes: u64,
    /// Bytes of memory that sealed segments take while they are not mapped.
    pub sealed_bytes: u64,
}

/// The shared side of a log; cheap to clone. The log is closed when the last clone and the writer
/// are dropped.
#[derive(Debug, Clone)]
pub struct Log {
    threads: Arc<LogThreads>,
}

impl Log {
    /// Returns a view of the log up to the currently published tail.
    pub fn reader(&self) -> Reader {
        let shared = self.shared();
        let (limit, segments) = shared.newest.published(&shared.gate);
        shared.reader_up_to(limit, segments)
    }

    /// The position of the last published record.
    pub fn published(&self) -> Position {
        self.shared().gate.position()
    }

    /// The position of the last appended record, published or not.
    #[inline]
    pub fn appended(&self) -> Position {
        self.shared().syncer.last_appended()
    }

    /// The position of the last record that a sync covers.
    pub fn durable(&self) -> Position {
        self.shared().syncer.durable()
    }

    /// Returns a reader of every appended record, published or not. Its answers must not leave the
    /// database before the records are published. This is for a node that sends its records to
    /// others.
    pub fn reader_of_appended(&self) -> Reader {
        let shared = self.shared();
        shared.reader_up_to(Position::MAX, shared.segments())
    }

    /// Reports each append and each sync to `watcher` from now on, in a log with
    /// [`Publisher::Owner`](crate::Publisher::Owner). A log has one watcher: the first.
    pub fn watch(&self, watcher: Arc<dyn LogWatcher>) {
        self.shared().gate.watch(watcher);
    }

    /// Stops publishing here: every waiter, present and later, gets [`Error::Failed`] with this
    /// message. Other openings are not affected.
    ///
    /// [`Error::Failed`]: crate::Error::Failed
    pub fn stop_publishing(&self, message: &str) {
        drop(self.shared().gate.published().fail(message));
    }

    /// Checks that the log has not failed, and that its directory is where it was opened. After a
    /// failure in any process, nothing more is appended.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when the log has failed.
    /// [`Error::Io`](crate::Error::Io) when another directory, or none, stands at the path.
    pub fn check(&self) -> Result<()> {
        self.shared().check()?;
        self.shared().directory().check_place()
    }

    /// Whether the next segment could not be made when it was last needed, so that an append was
    /// refused.
    pub fn lacks_segment(&self) -> bool {
        self.shared().lacks_segment.load(Ordering::Relaxed)
    }

    /// The settings that the log was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared().settings
    }

    /// The clock that the log was opened with, as the log follows it.
    pub fn clock(&self) -> &SteadyClock {
        &self.shared().clock
    }

    /// Waits until the record of `basis` is published. In a `sync` log the caller syncs, for itself
    /// and all other waiters.
    ///
    /// # Errors
    /// [`Error::Unsettled`](crate::Error::Unsettled) when a truncation removed the record.
    /// [`Error::Failed`](crate::Error::Failed) when the record will never be published.
    #[inline]
    pub fn wait(&self, basis: Basis) -> Result<()> {
        self.wait_for(basis.into())
    }

    /// Waits until any process publishes a record at `position`. In a `sync` log the caller syncs
    /// once there is such a record. This is for a caller that follows the log. A caller that
    /// appended a record [waits](Log::wait) for that record.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when no record will be published there.
    pub fn reach(&self, position: Position) -> Result<()> {
        self.wait_for(position.into())
    }

    /// Returns at once in a log that publishes each append: every commit comes through here.
    #[inline]
    fn wait_for(&self, awaited: WaitTarget) -> Result<()> {
        if self.shared().gate.published().is_published(awaited) { Ok(()) } else { self.wait_until_published(awaited) }
    }

    #[cold]
    fn wait_until_published(&self, awaited: WaitTarget) -> Result<()> {
        let shared = self.shared();
        if let Some(outcome) = shared.gate.published().outcome(awaited) {
            return outcome;
        }
        if shared.settings.durability == Durability::Sync && awaited.position() <= shared.syncer.last_appended() {
            match shared.sync_to(awaited.position()) {
                // The wait determines which record a truncation removed.
                Ok(()) | Err(Error::Unsettled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        shared.gate.published().wait(awaited, || shared.listen())
    }

    /// Publishes every record up to `mark`, in a log whose [publisher](Settings::publisher) is its
    /// owner. Nothing else moves the published position of such a log.
    ///
    /// # Errors
    /// [`Error::UnknownMark`](crate::Error::UnknownMark) when the log does not hold the record:
    /// nothing is published.
    ///
    /// # Panics
    /// When the log publishes its records itself.
    pub fn publish(&self, mark: Mark) -> Result<()> {
        let shared = self.shared();
        drop(shared.gate.publish(mark, |mark| shared.holds(mark))?);
        // A full segment may be sealed once all its records are published.
        shared.sealer.begin();
        Ok(())
    }

    /// Returns the mark of the record at `position`, published or not. Returns `None` when the log
    /// does not hold the record.
    ///
    /// # Errors
    /// When the record can't be read.
    pub fn mark_at(&self, position: Position) -> Result<Option<Mark>> {
        self.shared().mark_at(position)
    }

    /// The era of the log: how many truncations this opening has made.
    pub fn era(&self) -> Era {
        self.shared().gate.published().era()
    }

    /// Waits until any process publishes the record at `position`, or `until` is over. The wait
    /// also ends when other processes have published records that are not applied here.
    ///
    /// This is for a thread that applies those records itself. Such a thread is woken directly, and
    /// not after a thread in [`Log::listen`].
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when the record will never be published.
    pub fn sleep(&self, position: Position, until: WaitDeadline) -> Result<WaitOutcome> {
        let shared = self.shared();
        shared.gate.published().sleep(position, until, || shared.is_behind())
    }

    /// Returns a future of the publication of an appended record. The future needs no runtime; a
    /// thread of the log syncs. It ends as [`Log::wait`] does.
    pub fn publication(&self, basis: Basis) -> Publication {
        Publication { log: self.clone(), awaited: basis.into(), requested: false, appended: true, key: None }
    }

    /// Returns a future of the publication of some record at `position`, which may be appended
    /// later.
    pub fn publication_at(&self, position: Position) -> Publication {
        Publication { log: self.clone(), awaited: position.into(), requested: false, appended: false, key: None }
    }

    /// Requests the publication of a record without waiting for it. In a `sync` log, a thread of
    /// the log syncs.
    pub fn request(&self, basis: Basis) {
        let shared = self.shared();
        debug_assert!(basis.era <= shared.gate.published().era(), "a basis is of this era or an earlier one");
        if shared.settings.durability == Durability::Sync && shared.gate.position() < basis.position() {
            shared.syncer.request(basis.position());
        }
    }

    /// Requests a sync of every appended record without waiting for it. A thread of the log syncs.
    pub fn request_sync(&self) {
        let shared = self.shared();
        shared.syncer.request(shared.syncer.last_appended());
    }

    /// The failures that an appended record survives once it is published.
    #[inline]
    pub fn durability(&self) -> Durability {
        self.shared().settings().durability
    }

    /// Syncs every record appended so far, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed).
    pub fn sync(&self) -> Result<()> {
        let shared = self.shared();
        shared.sync_to(shared.syncer.last_appended())
    }

    /// Returns the vote that was saved last, with its term; `None` when no vote was saved.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when the file does not verify: the vote is
    /// unknown.
    /// [`Error::NewerFormat`](crate::Error::NewerFormat) and [`Error::Io`](crate::Error::Io).
    pub fn office(&self) -> Result<Option<Office>> {
        let shared = self.shared();
        office::read(shared.directory(), shared.identity())
    }

    /// Saves a vote. It is durable when this returns.
    ///
    /// # Errors
    /// The errors of [`Log::office`], and [`Error::NoSpace`](crate::Error::NoSpace). The vote
    /// before still counts. After a failed sync of the directory, either of the two votes may
    /// count.
    ///
    /// # Panics
    /// When the term falls, or the vote within a term changes.
    pub fn save_office(&self, office: &Office) -> Result<()> {
        let shared = self.shared();
        office::save(shared.directory(), shared.identity(), office)
    }

    /// Returns the newest checkpoint that belongs to this log, saved by any process.
    ///
    /// # Errors
    /// [`Error::NewerFormat`](crate::Error::NewerFormat) and [`Error::Io`](crate::Error::Io).
    pub fn newest_checkpoint(&self) -> Result<Option<Checkpoint>> {
        self.checkpoint_before(Position::MAX)
    }

    /// Returns the newest checkpoint that belongs to this log and was taken after a record before
    /// `position`. This is for a caller that can't use a newer checkpoint.
    ///
    /// # Errors
    /// As [`Log::newest_checkpoint`].
    pub fn checkpoint_before(&self, position: Position) -> Result<Option<Checkpoint>> {
        let shared = self.shared();
        Ok(checkpoint::newest(shared.directory(), position, |mark| shared.holds(mark))?.checkpoint)
    }

    /// Saves the models' state after the record of `basis`. The log is first synced up to the
    /// record, and the record published. A checkpoint therefore holds nothing that a truncation may
    /// remove.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io): the existing
    /// checkpoints still count. [`Error::Unsettled`](crate::Error::Unsettled) when a truncation
    /// removed the record. [`Error::Failed`](crate::Error::Failed).
    pub fn save_checkpoint(&self, basis: Basis, payload: &[u8]) -> Result<()> {
        self.save_checkpoint_in_pieces(basis, payload.len() as u64, &|write| write(payload))
    }

    /// Saves a checkpoint as [`Log::save_checkpoint`] does, with a payload of `bytes` bytes.
    /// `write` passes the payload on in pieces, in order, and is to be called once.
    ///
    /// # Errors
    /// As [`Log::save_checkpoint`].
    ///
    /// # Panics
    /// When `write` passes on more bytes, or fewer.
    pub fn save_checkpoint_in_pieces(&self, basis: Basis, bytes: u64, write: &PassOn<'_>) -> Result<()> {
        let shared = self.shared();
        let mark = basis.mark;
        debug_assert!(basis.era <= shared.gate.published().era(), "a basis is of this era or an earlier one");
        shared.sync_to(mark.position)?;
        self.wait(basis)?;
        assert!(mark.position <= shared.gate.position(), "a checkpoint holds published records only");
        // Two processes would remove each other's checkpoints.
        let _one_at_a_time = shared.directory.lock_file_in_turn(CHECKPOINTING)?;
        let begun = shared.counters.now_ns();
        checkpoint::save(&shared.directory, mark, bytes, write).inspect_err(|_| shared.counters.error())?;
        shared.counters.checkpoint(mark.position, begun);
        Ok(())
    }

    /// Carries out the pending work of a duty now; returns whether there was any. This is for a
    /// caller that opened the log with [`Background::Caller`](crate::Background::Caller), and
    /// harmless for other callers.
    ///
    /// # Errors
    /// * [`Error::Failed`](crate::Error::Failed) of a sync.
    /// * [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io) of sealing,
    ///   after which the caller may try again.
    /// * [`Error::Damaged`](crate::Error::Damaged) of sealing.
    ///
    /// When a segment could not be made, the append that needs it returns the error.
    pub fn carry_out(&self, duty: LogDuty) -> Result<bool> {
        let shared = self.shared();
        match duty {
            LogDuty::Sync => shared.syncer.step(&shared.directory, &shared.control, &shared.gate),
            LogDuty::Prepare => Ok(shared.preparer.step(&shared.directory)),
            LogDuty::Seal => shared.seal_oldest(),
        }
    }

    /// The position after the last record that may be compacted.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn compactable_end(&self) -> Result<Position> {
        self.shared().compactable_end()
    }

    /// Returns the size of each segment on disk, in the order of the log.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn segment_sizes(&self) -> Result<Vec<SegmentSize>> {
        let shared = self.shared();
        let segments = shared.segments();
        let mut sizes = Vec::with_capacity(segments.len());
        for sealed in &*segments.sealed {
            let header = sealed.header;
            let bytes = shared.directory.bytes_of(&segment_name(header.first))? + header.file_bytes();
            sizes.push(SegmentSize { first: header.first, bytes, compacted: header.compacted });
        }
        let bytes = shared.settings.segment_bytes;
        sizes.extend(segments.live.iter().map(|live| SegmentSize { first: live.first, bytes, compacted: false }));
        Ok(sizes)
    }

    /// The position after the last record whose entries a compaction may have dropped. A replay
    /// must begin after a checkpoint that was taken there or later.
    pub fn compacted_end(&self) -> Position {
        self.shared().compacted_end()
    }

    /// The first record of the newest `count` sealed segments; [`Position::ZERO`] while there are
    /// fewer.
    pub fn newest_sealed_from(&self, count: usize) -> Position {
        let segments = self.shared().segments();
        let oldest = segments.sealed.len().checked_sub(count).and_then(|at| segments.sealed.get(at));
        oldest.map_or(Position::ZERO, |sealed| sealed.first())
    }

    /// Verifies every byte of the sealed segments and of their indexes now, and returns all known
    /// damage. A damaged index is built again. The background does the same at
    /// [`Settings::scrub_bytes_per_second`].
    pub fn scrub(&self) -> Vec<Damage> {
        let shared = self.shared();
        scrub_all(&shared.segments(), &shared.store.archive);
        self.damage()
    }

    /// The damage that reads and the scrub found since the log was opened. The reads of damaged
    /// bytes failed; all other reads work as before.
    pub fn damage(&self) -> Vec<Damage> {
        self.shared().store.archive.damage()
    }

    /// Number of bytes appended since the log was opened.
    pub fn appended_bytes(&self) -> u64 {
        self.shared().counters.since_opening().bytes
    }

    /// Notes on the statistics page that a commit was refused.
    pub fn note_refusal(&self) {
        self.shared().counters.refusal();
    }

    /// Replaces the gauges on the statistics page with `gauges`: names, and a number for each. The
    /// log does not know the meaning of a name.
    ///
    /// The page keeps the first 95 gauges, 112 bytes of each name, and the count of all gauges.
    /// `position` is the last record that is known to count in them. Of several processes, the
    /// process that [has the duties](Log::takes_duties) reports the gauges.
    pub fn tell_gauges(&self, position: Position, gauges: &[(String, u64)]) {
        let shared = self.shared();
        shared.counters.tell_gauges(position, shared.clock.now(), gauges);
    }

    /// The last record that counts in the gauges on the statistics page, reported by any process,
    /// and the number of gauges. `None` when no process has reported gauges, or when a process
    /// stopped in the middle of its report.
    pub fn gauges_told(&self) -> Option<(Position, u64)> {
        self.shared().counters.gauges_told()
    }

    /// Counts since the log was opened.
    pub fn statistics(&self) -> Statistics {
        let shared = self.shared();
        let counts = shared.counters.since_opening();
        let segments = shared.segments();
        Statistics {
            records: counts.appends,
            entries: counts.entries,
            bytes: counts.bytes,
            syncs: shared.syncer.syncs(),
            segments: segments.len() as u64,
            sealed: segments.sealed.len() as u64,
            open: shared.store.archive.open_count() as u64,
            unpacked_bytes: shared.store.archive.unpacked_bytes(),
            scrubbed_bytes: shared.scrub.scrubbed_bytes(),
            sealed_bytes: segments.sealed.iter().map(|sealed| sealed.memory_bytes() as u64).sum(),
        }
    }

    /// Returns the bytes of free disk space.
    ///
    /// # Errors
    /// The errors of the system.
    pub fn free_bytes(&self) -> Result<u64> {
        self.shared().directory().free_bytes()
    }

    /// Returns the directory of the log.
    pub fn directory(&self) -> &Path {
        self.shared().directory().path()
    }

    /// Waits until the next segment is ready. Unless one is, it is created now.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io) when it can't
    /// be created; [`Error::Failed`](crate::Error::Failed) when the log is closing.
    pub fn ensure_segment(&self) -> Result<()> {
        self.shared().ensure_prepared()
    }

    /// Returns the position of the newest checkpoint that any process noted on the statistics page.
    pub fn checkpointed(&self) -> Position {
        self.shared().counters.checkpointed()
    }

    /// Returns the durations of syncs and of checkpoint writes on the statistics page, over every
    /// process that had the log open.
    pub fn durations(&self) -> (Histogram, Histogram) {
        self.shared().counters.durations()
    }

    /// Returns the failures of the thread that seals segments, since its last success.
    pub fn sealing_failure(&self) -> Option<SealingFailure> {
        self.shared().sealer.failure()
    }

    /// Returns the duration of the longest sync of this process since the last call.
    pub fn take_slowest_sync(&self) -> Duration {
        Duration::from_nanos(self.shared().counters.take_slowest_sync_ns())
    }

    pub(crate) fn shared(&self) -> &Arc<LogCore> {
        &self.threads.shared
    }
}
