//! The state that the writer, the readers and the threads of a log share. It wires the components
//! together and decides nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use quire_model::{Position, Timestamp};

use crate::append::active::Active;
use crate::append::prepare::Preparer;
use crate::compaction::HoldRounds;
use crate::components::Background;
use crate::durable::gate::{Gate, GateKind, WaitOutcome, WaitTarget, Woken};
use crate::durable::sync::Syncer;
use crate::error::Result;
use crate::identity::Identity;
use crate::mark::Mark;
use crate::processes::control::Control;
use crate::processes::listener::ProcessListener;
use crate::read::newest::NewestSegments;
use crate::read::reader::{Reader, SegmentStore};
use crate::read::segments::Segments;
use crate::sealed::SealedSegment;
use crate::sealed::scrub::Scrub;
use crate::sealed::sealer::Sealer;
use crate::segment::{SegmentHeader, segment_name};
use crate::settings::Settings;
use crate::statistics::Counters;
use crate::storage::directory::{Directory, LockedFile};
use crate::time::deadline::WaitDeadline;
use crate::time::steady::SteadyClock;

/// Locked by the process that seals a segment.
pub(crate) const SEALING: &str = "sealing";

/// How long a compaction waits for another component to publish the last records.
const PUBLICATION_MAX: Duration = Duration::from_secs(2);

/// State that the writer, the readers and the background threads share.
#[derive(Debug)]
pub(crate) struct LogCore {
    pub(super) identity: Identity,
    pub(super) settings: Settings,
    pub(super) clock: SteadyClock,
    pub(super) directory: Arc<Directory>,
    pub(super) control: Arc<Control>,
    pub(super) newest: NewestSegments,
    /// Sealed segments, and the means to read them.
    pub(super) store: Arc<SegmentStore>,
    /// Held while a segment is sealed.
    pub(super) sealing: Mutex<()>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) scrub: Scrub,
    pub(super) gate: Gate,
    pub(super) syncer: Syncer,
    pub(super) preparer: Preparer,
    pub(super) background: Background,
    pub(super) counters: Arc<Counters>,
    pub(super) rounds: HoldRounds,
    /// Whether the next segment could not be made when it was last needed.
    pub(super) lacks_segment: AtomicBool,
    pub(super) listener: ProcessListener,
    /// The lock on [`DUTIES`], once this process has taken it.
    pub(super) duties: OnceLock<LockedFile>,
}

impl LogCore {
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn seed(&self) -> u64 {
        self.identity.seed()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn clock(&self) -> &SteadyClock {
        &self.clock
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        self.newest.segments()
    }

    /// The generation of the newest list of segments.
    pub(crate) fn generation(&self) -> u64 {
        self.newest.generation()
    }

    /// The lock that a caller holds while it seals or compacts segments.
    pub(crate) fn sealing(&self) -> &Mutex<()> {
        &self.sealing
    }

    pub(crate) fn background(&self) -> Background {
        self.background
    }

    pub(crate) fn rounds(&self) -> &HoldRounds {
        &self.rounds
    }

    /// Number of appended records that no sync covers yet.
    pub(crate) fn unsynced(&self) -> u64 {
        self.syncer.last_appended().get().saturating_sub(self.syncer.durable().get())
    }

    /// Syncs every record appended so far. Where the owner of the log publishes, waits until it has
    /// published them. The data that a compaction drops may rest on any of these records.
    pub(crate) fn settle_all(&self) -> Result<()> {
        let (era, position) = (self.gate.published().era(), self.syncer.last_appended());
        self.sync_to(position)?;
        match self.gate.kind() {
            GateKind::AtOnce | GateKind::AfterSync => Ok(()),
            GateKind::ByOwner => self.gate.published().wait(WaitTarget::record(position, era), || {}),
        }
    }

    /// Syncs every appended record. Returns whether all of them are published, which it waits for
    /// at most [`PUBLICATION_MAX`] where another component publishes. The caller keeps the log from
    /// being truncated, so a record that will never be published can't end the wait.
    pub(crate) fn settle_decisions(&self) -> Result<bool> {
        let position = self.syncer.last_appended();
        self.sync_to(position)?;
        match self.gate.kind() {
            GateKind::AtOnce | GateKind::AfterSync => Ok(true),
            GateKind::ByOwner => {
                let longest = if self.background == Background::Caller { Duration::ZERO } else { PUBLICATION_MAX };
                let until = WaitDeadline::after(longest);
                Ok(self.gate.published().sleep(position, until, || false)? == WaitOutcome::Published)
            }
        }
    }

    pub(crate) fn store(&self) -> &Arc<SegmentStore> {
        &self.store
    }

    /// Replaces the newest list of segments.
    pub(crate) fn change_segments(&self, change: impl FnOnce(&Segments) -> Segments) {
        self.newest.change(change);
    }

    /// Seals the oldest segment that is full and synced; returns whether there was one.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io) of writing the
    /// index, and [`Error::Damaged`](crate::Error::Damaged).
    pub(crate) fn seal_oldest(&self) -> Result<bool> {
        let _alone = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = self.segments();
        let [oldest, next, ..] = &segments.live[..] else { return Ok(false) };
        assert!(oldest.first < next.first, "a full segment holds a record");
        let last = Position::new(next.first.get() - 1);
        // Until the next segment holds a record, a process that takes a turn over may clear it away
        // and continue in this one. A sealed segment stays, because a truncation ends above the
        // published records.
        if self.syncer.durable() < last || self.gate.position() < last || self.control.tail() < next.first {
            return Ok(false);
        }
        let path = self.directory.path_of(&segment_name(oldest.first));
        let header = SegmentHeader::decode(oldest.bytes(), &path, self.identity)?;
        // Two processes would write the same file.
        let _one_at_a_time = self.directory.lock_file_in_turn(SEALING)?;
        let crc = SegmentHeader::crc_of(oldest.bytes());
        let sealed = match self.store.archive.find(&header, crc)? {
            // Another process has sealed it.
            Some(sealed) => sealed,
            // Commit point: from here on the segment is read through the file.
            None => self.store.archive.seal(oldest.bytes(), &header)?,
        };
        assert_eq!(sealed.first(), oldest.first, "an index belongs to its segment");
        self.store.take_in(&sealed)?;
        self.change_segments(|segments| segments.with_sealed(sealed));
        Ok(true)
    }

    /// Seals every segment that is full and synced.
    ///
    /// # Errors
    /// As [`LogCore::seal_oldest`].
    pub(crate) fn seal_all(&self) -> Result<()> {
        while self.seal_oldest()? {}
        Ok(())
    }

    /// Waits until the segment after the active one is ready. From then on there is space for an
    /// append.
    pub(crate) fn ensure_prepared(&self) -> Result<()> {
        self.preparer.ensure(&self.directory)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Checks that no process had a failure after which nothing more is appended.
    pub(crate) fn check(&self) -> Result<()> {
        self.gate.published().check()?;
        self.control.check()
    }

    /// Marks the log as failed. From then on no process appends or acknowledges anything.
    pub(crate) fn fail(&self, message: &str) -> Woken {
        self.control.set_failed();
        self.gate.published().fail(message)
    }

    /// Begins the segment that follows `mark` and announces it in this process.
    pub(crate) fn begin_segment(&self, mark: Mark, time: Timestamp) -> Result<Active> {
        let prepared = self.preparer.take(&self.directory)?;
        let header = SegmentHeader {
            identity: self.identity,
            previous: mark.chain,
            first: mark.position.next(),
            time,
            bytes: prepared.bytes,
            compacted: None,
        };
        let active = Active::begin(prepared, &header, self.settings.durability, &self.directory)?;
        self.control.set_active(header.first);
        assert_eq!(active.segment.first, mark.position.next(), "a new segment begins with the next record");
        self.counters.roll();
        self.add_segment(&active);
        self.preparer.begin(time);
        Ok(active)
    }

    /// Notes whether the next segment, which an append needs, could be made.
    pub(crate) fn note_segment(&self, made: &Result<()>) {
        if made.is_err() {
            self.counters.error();
        }
        self.lacks_segment.store(made.is_err(), Ordering::Relaxed);
    }

    /// Announces in this process a segment that is now the last one.
    pub(crate) fn add_segment(&self, active: &Active) {
        self.syncer.begin_segment(Arc::clone(&active.segment));
        self.change_segments(|segments| segments.with_active(Arc::clone(&active.segment)));
    }

    /// Requests the next segment from the preparer.
    pub(crate) fn prepare_next(&self, now: Timestamp) {
        self.preparer.begin(now);
    }

    /// Reports an appended record to the syncer, the control file and the gate.
    #[inline]
    pub(crate) fn note_append(&self, position: Position, entries: u32, bytes: usize, begun: Option<u64>) -> Woken {
        debug_assert!(entries > 0 && bytes > 0, "record {position} has {entries} entries in {bytes} bytes");
        self.counters.append(entries, bytes, begun);
        self.syncer.appended(position);
        self.control.set_tail(position);
        self.gate.appended(position)
    }

    /// Returns a reader of `segments`, up to `limit`.
    pub(crate) fn reader_up_to(&self, limit: Position, segments: Arc<Segments>) -> Reader {
        Reader::new(Arc::clone(&self.store), self.identity.seed(), limit, segments)
    }

    pub(super) fn sync_to(&self, position: Position) -> Result<()> {
        self.syncer.sync_to(position, &self.directory, &self.control, &self.gate)
    }

    /// The mark of the record at `position`; `None` when the log does not hold the record.
    pub(super) fn mark_at(&self, position: Position) -> Result<Option<Mark>> {
        if position == Position::ZERO {
            return Ok(Some(self.identity.beginning()));
        }
        Ok(self.reader_up_to(Position::MAX, self.segments()).mark(position)?)
    }

    /// Returns the mark of the record that has this position and chain. The mark has its term where
    /// the record can be read.
    pub(super) fn with_term(&self, mark: Mark) -> Mark {
        let reader = self.reader_up_to(Position::MAX, self.segments());
        match reader.mark(mark.position) {
            Ok(Some(found)) if found.chain == mark.chain => found,
            _ => mark,
        }
    }

    /// Whether the log holds this record, or it is the beginning of this log.
    pub(crate) fn holds(&self, mark: Mark) -> bool {
        if mark.position == Position::ZERO {
            return mark == self.identity.beginning();
        }
        let segments = self.segments();
        // A compacted segment states the checksum of its last record, which it may not hold. In a
        // salvaged log it is the last segment.
        let ends_with = |sealed: &&Arc<SealedSegment>| sealed.header.end == mark.position.next();
        if let Some(sealed) = segments.sealed.iter().rev().find(ends_with).filter(|sealed| sealed.header.compacted) {
            return sealed.header.chain == mark.chain;
        }
        let reader = self.reader_up_to(Position::MAX, segments);
        // A checkpoint after an unreadable record is skipped, like a checkpoint of another past.
        reader.mark(mark.position).is_ok_and(|found| found == Some(mark))
    }
}
