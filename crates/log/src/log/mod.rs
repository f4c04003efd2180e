//! The log as its users hold it: what waits, what asks, and what has something done.

mod company;
mod opening;
mod publication;
mod shared;
mod threads;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quire_model::Position;

use crate::components::Duty;
use crate::durable::checkpoint::{self, Checkpoint, PassOn};
use crate::durable::gate::{Awaited, Slept};
use crate::durable::office::{self, Office};
use crate::error::{Damage, Error, Result};
use crate::mark::{Basis, Era, Mark};
use crate::read::reader::Reader;
use crate::sealed::scrub::scrub_all;
use crate::segment::segment_name;
use crate::settings::{Durability, Settings};
use crate::time::clock::Clock;
use crate::time::deadline::Deadline;
use crate::time::steady::SteadyClock;
use threads::Threads;

pub use opening::Opened;
pub use publication::Publication;
pub(crate) use shared::{SEALING, Shared};

/// Locked by whoever saves a checkpoint.
const CHECKPOINTING: &str = "checkpointing";

/// A segment, and what of the disk it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSize {
    /// Its first position.
    pub first: Position,
    /// The bytes of its files: that of an unsealed one is as long from the beginning as it will be.
    pub bytes: u64,
    /// Whether a compaction made it.
    pub compacted: bool,
}

/// Counts since the log was opened here, over every process that has it open. [`Page`](crate::Page) tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Entries appended.
    pub entries: u64,
    /// Bytes appended, headers and padding included.
    pub bytes: u64,
    /// Syncs carried out.
    pub syncs: u64,
    /// Segments there are.
    pub segments: u64,
    /// Those among them that are sealed: their index is in a file.
    pub sealed: u64,
    /// Sealed segments that are mapped though nobody may be reading them; see [`Settings::segments_open_max`].
    pub open: u64,
    /// Bytes of memory that what is unpacked of packed segments takes, whoever reads it; see [`Settings::unpacked_bytes_max`].
    pub unpacked_bytes: u64,
    /// Bytes that the scrub verified in the background.
    pub scrubbed_bytes: u64,
    /// Bytes of memory that sealed segments take while they are not mapped.
    pub sealed_bytes: u64,
}

/// The shared side of a log; cheap to clone. The log is closed when the last clone and the writer are gone.
#[derive(Debug, Clone)]
pub struct Log {
    threads: Arc<Threads>,
}

impl Log {
    /// A view of the log up to the published tail as it is now.
    pub fn reader(&self) -> Reader {
        let shared = self.shared();
        let (limit, segments) = shared.newest.published(&shared.gate);
        Reader::new(shared, limit, segments)
    }

    /// The position of the last published record.
    pub fn published(&self) -> Position {
        self.shared().gate.position()
    }

    /// That nobody has met a failure after which nothing more is appended, and that its folder is where it was opened.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when somebody has, and [`Error::Io`](crate::Error::Io) where another folder stands now, or none.
    pub fn check(&self) -> Result<()> {
        self.shared().check()?;
        self.shared().directory().check_place()
    }

    /// Whether the next segment could not be made when it was last needed: what was to be appended was refused.
    pub fn lacks_segment(&self) -> bool {
        self.shared().lacks_segment.load(Ordering::Relaxed)
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared().settings
    }

    /// The clock that it was opened with, as the log follows it.
    pub fn clock(&self) -> &SteadyClock {
        &self.shared().clock
    }

    /// Waits until the record of `basis` is published. In a `sync` log the caller syncs, for itself and all other waiters.
    ///
    /// # Errors
    /// [`Error::Unsettled`](crate::Error::Unsettled) when a truncation took the record away. [`Error::Failed`](crate::Error::Failed)
    /// when the record will never be published.
    pub fn wait(&self, basis: Basis) -> Result<()> {
        self.wait_for(basis.into())
    }

    /// Waits until some record at `position` is published, by any process. In a `sync` log the caller syncs, once there is such a
    /// record. For a caller that follows the log; a caller that appended a record [waits](Log::wait) for that one.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when no record will be published there.
    pub fn reach(&self, position: Position) -> Result<()> {
        self.wait_for(position.into())
    }

    fn wait_for(&self, awaited: Awaited) -> Result<()> {
        let shared = self.shared();
        if let Some(outcome) = shared.gate.published().outcome(awaited) {
            return outcome;
        }
        if shared.settings.durability == Durability::Sync && awaited.position() <= shared.syncer.last_appended() {
            match shared.sync_to(awaited.position()) {
                // Which record it was that a truncation took away, the wait knows.
                Ok(()) | Err(Error::Unsettled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        shared.gate.published().wait(awaited, || shared.listen())
    }

    /// Publishes every record up to `mark`, in a log whose [publisher](Settings::publisher) is its owner. Nothing else moves the
    /// published position of such a log.
    ///
    /// # Errors
    /// [`Error::UnknownMark`](crate::Error::UnknownMark) when the log does not hold the record: nothing is published.
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

    /// The mark of the record at `position`, published or not; `None` when the log does not hold the record.
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

    /// Waits until a record is published by somebody, or there is something to take in that others have published, or the time is over.
    /// For a thread that takes it in by itself, and is so woken once where [`Log::listen`] would be, and it behind that.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) when that will never be.
    pub fn sleep(&self, position: Position, until: Deadline) -> Result<Slept> {
        let shared = self.shared();
        shared.gate.published().sleep(position, until, || shared.is_behind())
    }

    /// A future of the publication of an appended record. Needs no runtime; a thread of the log syncs. It ends as [`Log::wait`].
    pub fn publication(&self, basis: Basis) -> Publication {
        Publication { log: self.clone(), awaited: basis.into(), requested: false, appended: true, key: None }
    }

    /// A future of the publication of some record at `position`, which may be appended later.
    pub fn arrival(&self, position: Position) -> Publication {
        Publication { log: self.clone(), awaited: position.into(), requested: false, appended: false, key: None }
    }

    /// Has a record published without waiting for it: in a `sync` log, a thread of the log syncs.
    pub fn request(&self, basis: Basis) {
        let shared = self.shared();
        if shared.settings.durability == Durability::Sync && shared.gate.position() < basis.position() {
            shared.syncer.request(basis.position());
        }
    }

    /// What an appended record survives once it is published.
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

    /// The vote that was saved last, with the term it was given in; `None` when none was saved.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when the file does not verify: the vote is unknown.
    /// [`Error::NewerFormat`](crate::Error::NewerFormat) and [`Error::Io`](crate::Error::Io).
    pub fn office(&self) -> Result<Option<Office>> {
        let shared = self.shared();
        office::read(shared.directory(), shared.identity())
    }

    /// Saves a vote. It is durable when this returns.
    ///
    /// # Errors
    /// Those of [`Log::office`], and [`Error::NoSpace`](crate::Error::NoSpace): the vote before still
    /// counts, or, after a failed sync of the directory, either of the two.
    ///
    /// # Panics
    /// When the term falls, or the vote within a term changes.
    pub fn save_office(&self, office: &Office) -> Result<()> {
        let shared = self.shared();
        office::save(shared.directory(), shared.identity(), office)
    }

    /// The newest checkpoint that belongs to this log, whoever saved it.
    ///
    /// # Errors
    /// [`Error::NewerFormat`](crate::Error::NewerFormat) and [`Error::Io`](crate::Error::Io).
    pub fn newest_checkpoint(&self) -> Result<Option<Checkpoint>> {
        self.checkpoint_before(Position::MAX)
    }

    /// The newest checkpoint that belongs to this log and was taken after a record before this one: for who can't use a newer.
    ///
    /// # Errors
    /// As [`Log::newest_checkpoint`].
    pub fn checkpoint_before(&self, position: Position) -> Result<Option<Checkpoint>> {
        let shared = self.shared();
        Ok(checkpoint::newest(shared.directory(), position, |mark| shared.holds(mark))?.checkpoint)
    }

    /// Saves the models' state after the record of `basis`. The log is synced up to there first, and the record published: a checkpoint
    /// holds nothing that a truncation may take away.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io): the checkpoints that were there still count.
    /// [`Error::Unsettled`](crate::Error::Unsettled) when a truncation took the record away. [`Error::Failed`](crate::Error::Failed).
    pub fn save_checkpoint(&self, basis: Basis, payload: &[u8]) -> Result<()> {
        self.save_checkpoint_in_pieces(basis, payload.len() as u64, &|write| write(payload))
    }

    /// The same, of a payload of so many bytes that `write` passes on in pieces, in order, to be called once.
    ///
    /// # Errors
    /// As [`Log::save_checkpoint`].
    ///
    /// # Panics
    /// When it passes on more bytes, or fewer.
    pub fn save_checkpoint_in_pieces(&self, basis: Basis, bytes: u64, write: &PassOn<'_>) -> Result<()> {
        let shared = self.shared();
        let mark = basis.mark;
        shared.sync_to(mark.position)?;
        self.wait(basis)?;
        assert!(mark.position <= shared.gate.position(), "a checkpoint holds published records only");
        // Two processes would remove each other's.
        let _one_at_a_time = shared.directory.lock_file_in_turn(CHECKPOINTING)?;
        let begun = shared.counters.now_ns();
        checkpoint::save(&shared.directory, mark, bytes, write).inspect_err(|_| shared.counters.error())?;
        shared.counters.checkpoint(mark.position, begun);
        Ok(())
    }

    /// Does now what there is to do of a duty; says whether there was anything. It is for who opened the log with
    /// [`Background::Caller`](crate::Background::Caller), and harmless for others.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) of a sync. A segment that could not be made is an error of the append that needs it. Of sealing also
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io), after which it may be tried again, and [`Error::Damaged`](crate::Error::Damaged).
    pub fn carry_out(&self, duty: Duty) -> Result<bool> {
        let shared = self.shared();
        match duty {
            Duty::Sync => shared.syncer.step(&shared.directory, &shared.control, &shared.gate),
            Duty::Prepare => Ok(shared.preparer.step(&shared.directory)),
            Duty::Seal => shared.seal_oldest(),
        }
    }

    /// The position behind the last record that may be compacted.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn compactable_end(&self) -> Result<Position> {
        self.shared().compactable_end()
    }

    /// What of the disk each segment takes, in the order of the log.
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

    /// The position behind the last record of which entries may be gone. A replay must begin behind a checkpoint that was taken
    /// there or later.
    pub fn compacted_end(&self) -> Position {
        self.shared().compacted_end()
    }

    /// Verifies every byte of the sealed segments and of their indexes, now, and gives back all that is known to be damaged. An
    /// index that is damaged is made anew. In the background the same is done at
    /// [`Settings::scrub_bytes_per_second`].
    pub fn scrub(&self) -> Vec<Damage> {
        scrub_all(self.shared());
        self.damage()
    }

    /// What reads and the scrub found not to be as it was written, since the log was opened. Those reads failed; all else is read as before.
    pub fn damage(&self) -> Vec<Damage> {
        self.shared().store.archive.damage()
    }

    /// How many bytes were appended since the log was opened.
    pub fn appended_bytes(&self) -> u64 {
        self.shared().counters.since_opening().bytes
    }

    /// Notes on the statistics page that a commit was refused.
    pub fn note_refusal(&self) {
        self.shared().counters.refusal();
    }

    /// Puts gauges on the statistics page in the place of those that were told before: names, and a number for each. What a name means, the log
    /// does not know. As many of the first are kept as there is room for, which is 95, of their names 112 bytes, and how many they all are.
    /// `position` is the last record that is known to count in them. Of several processes, the one that [has the duties](Log::takes_duties) tells them.
    pub fn tell_gauges(&self, position: Position, gauges: &[(String, u64)]) {
        let shared = self.shared();
        shared.counters.tell_gauges(position, shared.clock.now(), gauges);
    }

    /// The last record that counts in the gauges on the statistics page, whoever told them, and how many there are; `None` when nobody has,
    /// or was cut off in the middle of it.
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

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.threads.shared
    }
}
