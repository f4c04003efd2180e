//! Truncation removes the records after a mark, none of which is published.
//!
//! ```text
//! 1  copy      the kept part of the last kept segment is written to a file of its own, and synced
//! 2  era       the next era begins: waiters for later records end with Unsettled
//! 3  control   the tail and the durable mark are lowered, and the control file is synced
//! 4  remove    later segments are removed, last first, and the directory is synced after each
//! 5  rename    the copy takes the name of the segment: the commit point; the directory is synced
//! 6  memory    the list of segments, the numbers of tags, the syncer and the writer follow
//! ```
//! A failure in step 1 changes nothing. A later failure stops the log, which then has to be opened
//! again. A crash at any step leaves a log that opens. That log holds all of the records after the
//! mark, or some of them from the first on. Its owner truncates again.
//!
//! No settled byte of a mapping changes: readers of the replaced segment keep its file. Sealed
//! segments are never touched, because a segment is sealed only when all its records are published.

use std::sync::{Arc, PoisonError};

use quire_mapped::Appender;
use quire_model::Position;

use crate::append::active::Active;
use crate::append::sequences::Sequences;
use crate::append::writer::{Core, Writer};
use crate::durable::gate::Woken;
use crate::error::{Error, Result};
use crate::log::{Log, LogCore};
use crate::mark::Mark;
use crate::processes::control::OpeningLock;
use crate::read::segments::Segments;
use crate::record::RecordView;
use crate::segment::{HEADER_BYTES, RecordTags, Segment, SegmentHeader, SegmentIndex, TagHash, segment_name};
use crate::settings::Durability;
use crate::storage::directory::{Fill, SegmentFile};

/// Number of bytes of a segment that are copied with one write.
const PIECE_BYTES: usize = 1 << 20;

impl Writer {
    /// Truncates the log after the record of `mark`, which becomes the last appended one. `_alone`
    /// keeps other processes from opening the log meanwhile, see [`Log::lock_openings`]. Later
    /// positions and numbers are given again. Before any of them is, every waiter for a later
    /// record ends with [`Error::Unsettled`]. If the state of the models holds later records, the
    /// caller has to load it again.
    ///
    /// Waiters with a waker are woken when the returned value is dropped. A caller that holds a
    /// lock drops the value after the lock.
    ///
    /// # Errors
    /// These errors change nothing:
    /// * [`Error::UnknownMark`] when the log does not hold the record.
    /// * [`Error::Published`] when a later record is published.
    /// * [`Error::InUse`] when another process has the log open.
    /// * [`Error::NoSpace`] and [`Error::Io`] when the kept part could not be copied.
    ///
    /// [`Error::Failed`] when a later step failed: the log has to be opened again.
    pub fn truncate_after(&mut self, _alone: &TruncationLock, mark: Mark) -> Result<Woken> {
        let woken = {
            let mut turn = self.turn()?;
            while turn.follow()?.is_some() {}
            turn.writer().core.truncate_after(mark)?
        };
        self.refresh();
        Ok(woken)
    }
}

/// Keeps other processes from opening the log. See [`Log::lock_openings`].
#[derive(Debug)]
pub struct TruncationLock {
    _opening: OpeningLock,
}

impl Log {
    /// Keeps other processes from opening the log until the returned lock is dropped, for a
    /// [truncation](Writer::truncate_after). Dead processes are no longer counted from here on.
    ///
    /// A compaction holds the same lock while it asks the models which entries survive. Take this
    /// lock before a lock on the state of the models.
    ///
    /// # Errors
    /// [`Error::Io`] when the lock file cannot be opened or locked.
    pub fn lock_openings(&self) -> Result<TruncationLock> {
        let shared = self.shared();
        Ok(TruncationLock { _opening: shared.control().lock_opening(shared.directory())? })
    }
}

/// The last kept segment, copied without the removed records.
struct CopiedSegment {
    name: String,
    first: Position,
    file: SegmentFile,
    appender: Appender,
}

impl Core {
    fn truncate_after(&mut self, mark: Mark) -> Result<Woken> {
        if mark == self.mark {
            return Ok(Woken::default());
        }
        let shared = Arc::clone(&self.shared);
        if shared.control().has_other_processes() {
            return Err(Error::InUse { directory: shared.directory().path().to_owned(), process: None });
        }
        if !shared.holds(mark) {
            return Err(Error::UnknownMark { mark });
        }
        let (woken, done) = self.truncate_alone(&shared, mark)?;
        match done {
            Ok(()) => Ok(woken),
            Err(error) => {
                let message = error.final_message();
                drop((woken, shared.fail(&message)));
                Err(Error::Failed { message })
            }
        }
    }

    /// Truncates while no segment is sealed, no sync runs and nothing is published. An outer error
    /// changed nothing. Before an error in the inner result, the truncation had begun.
    fn truncate_alone(&mut self, shared: &LogCore, mark: Mark) -> Result<(Woken, Result<()>)> {
        let _sealing = shared.sealing().lock().unwrap_or_else(PoisonError::into_inner);
        let pause = shared.syncer().pause();
        let truncation = shared.gate().begin_truncation(mark.position)?;
        let segments = shared.segments();
        let kept = last_kept(&segments, mark.position);
        let sequences = sequences_up_to(shared, &segments, mark.position)?;
        let copied = copy(shared, kept, mark.position)?;

        let woken = truncation.end_waiters();
        self.era = shared.gate().published().era();
        let later = segments.live.iter().rev().take_while(|segment| segment.first > kept.first);
        if let Err(error) = carry_out(shared, mark.position, later.map(|segment| segment.first), &copied) {
            return Ok((woken, Err(error)));
        }

        let CopiedSegment { first, file, appender, .. } = copied;
        assert_eq!(first, kept.first, "the copy replaces the last kept segment");
        let file = file.named(shared.directory().path_of(&segment_name(first)));
        let mut index = SegmentIndex::new(first, shared.seed());
        // The writer notes later records only, which follow these without a gap.
        index.read(appender.bytes(0..appender.settled()));
        let segment = Arc::new(Segment::new(first, file, appender.view(), index));
        shared.change_segments(|segments| segments.truncated(Arc::clone(&segment)));
        pause.truncate(mark.position, &segment);
        self.resume_at(mark, sequences, Active::found(segment, appender));
        Ok((woken, Ok(())))
    }

    /// Continues after the record of `mark`, which is the last one of `active` or of the segment
    /// before it.
    fn resume_at(&mut self, mark: Mark, sequences: Sequences, active: Active) {
        // These notes are of removed records, or of records that the new index holds.
        assert!(active.segment.first <= mark.position.next(), "the active segment takes the next record");
        self.tags = RecordTags::default();
        self.own_parts.clear();
        self.sequences = sequences;
        self.active = active;
        self.set_last(mark);
    }
}

/// Returns the segment that takes the next record once the records after `kept` are removed. It is
/// the last segment that holds a kept record. When that segment is sealed, it is the segment after
/// it.
fn last_kept(segments: &Segments, kept: Position) -> &Arc<Segment> {
    let first = &segments.live[0];
    assert!(first.first <= kept.next(), "a sealed segment holds published records only");
    let last = segments.live.iter().rfind(|segment| segment.first <= kept).unwrap_or(first);
    debug_assert!(last.first <= kept.next(), "segment {} takes the record after {kept}", last.first);
    last
}

/// Returns the numbers that tags have reached at the record `kept`. Recovery counts them the same
/// way, from sealed indexes and from records.
fn sequences_up_to(shared: &LogCore, segments: &Segments, kept: Position) -> Result<Sequences> {
    let mut sequences = Sequences::default();
    for sealed in &*segments.sealed {
        shared.store().archive.numbered(sealed, |all| {
            for numbered in all {
                sequences.take_in(TagHash::of(numbered.tag, shared.seed()), numbered.tag, numbered.next);
            }
        })?;
    }
    let mut unused = RecordTags::default();
    for segment in &segments.live {
        let mut position = segment.first;
        while position <= kept
            && let Some(record) = segment.record(position)
        {
            unused.read(record, shared.seed(), &mut sequences);
            unused.drop_unfinished();
            position = position.next();
        }
    }
    Ok(sequences)
}

/// Copies a segment up to the end of the record `kept`.
fn copy(shared: &LogCore, segment: &Segment, kept: Position) -> Result<CopiedSegment> {
    let end = match segment.index().record_offset(kept) {
        Some(offset) => offset + RecordView::verified_before(&segment.bytes()[offset..]).header.length as usize,
        None => HEADER_BYTES,
    };
    assert!((HEADER_BYTES..=segment.settled_bytes()).contains(&end), "a truncation keeps settled bytes");
    let path = shared.directory().path_of(&segment_name(segment.first));
    let bytes = SegmentHeader::decode(segment.bytes(), &path, shared.identity())?.bytes;
    // A crash leaves a file of this name, which opening removes.
    let name = format!("{}.new", segment_name(segment.first));
    let fill = match shared.settings().durability {
        Durability::Sync => Fill::Written,
        Durability::Os => Fill::Small,
    };
    let file = shared.directory().create_segment(&name, bytes, fill, &mut |_, _| Ok(()))?;
    let write = || {
        for (number, piece) in segment.bytes()[..end].chunks(PIECE_BYTES).enumerate() {
            file.write_at(number * PIECE_BYTES, piece)?;
        }
        file.sync()?;
        file.map(bytes, end)
    };
    match write() {
        Ok(appender) => Ok(CopiedSegment { name, first: segment.first, file, appender }),
        Err(error) => {
            // The space of the copy is released. The first error is the one to report.
            let _ = shared.directory().remove(&name);
            Err(error)
        }
    }
}

/// Carries out steps 3 to 5 of the module, which change the disk. `later` are the first positions
/// of the segments to be removed, last first.
fn carry_out(
    shared: &LogCore,
    kept: Position,
    later: impl Iterator<Item = Position>,
    copied: &CopiedSegment,
) -> Result<()> {
    let directory = shared.directory();
    shared.control().truncate(kept).map_err(|error| Error::io("sync", directory.path(), error))?;
    for first in later {
        directory.remove(&segment_name(first))?;
        directory.sync()?;
    }
    // Commit point: from here on the records after the kept ones are removed.
    directory.rename(&copied.name, &segment_name(copied.first))?;
    directory.sync()?;
    shared.control().set_active(copied.first);
    Ok(())
}
