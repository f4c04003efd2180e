//! The one appender of an opened log.
//!
//! Other processes may have the log open, too. The writer first takes the turn ([`Writer::turn`])
//! and applies the records that other processes appended. It gives the turn back with the append of
//! its record, or when its draft is dropped.
//!
//! An append has these steps, in this order:
//! 1. The record's bytes are put in place.
//! 2. The bytes are settled and noted for the index.
//! 3. The numbers of tags are counted.
//! 4. The tail in the control file moves.
//! 5. An `os` log publishes the record.
//!
//! A process that dies before the tail has moved leaves bytes that the next writer clears.

use std::ops::Range;
use std::sync::Arc;

use quire_model::codec::Encoder;
use quire_model::{At, NewEntry, Position, Sequence, Timestamp};

use crate::append::active::Active;
use crate::append::backlog::Backlog;
use crate::append::draft::Draft;
use crate::append::sequences::Sequences;
use crate::durable::gate::Woken;
use crate::error::{Error, Result};
use crate::log::{Log, LogCore};
use crate::mark::{Basis, Era, Mark, Term};
use crate::processes::turn::{self, TurnOrigin};
use crate::read::reader::Reader;
use crate::record::{ALIGNMENT, RecordHeader, RecordView, TERMINATOR_BYTES};
use crate::segment::{RecordTags, TagHash};
use crate::settings::Durability;
use crate::time::clock::Clock;

/// Number of records that are each indexed on append, after a reader asked for an unindexed record.
/// A log whose records are read soon after their append tends to be read so again.
const ASKED_RECORDS: u32 = 256;

/// Largest part of a segment, in bytes, that is reserved for records that free space. The reserve
/// is also at most the segment's length divided by `RESERVE_PART`.
const RESERVE_BYTES_MAX: usize = 64 << 10;
const RESERVE_PART: usize = 16;

/// The one appender of a log. Its holder decides which record comes next.
#[derive(Debug)]
pub struct Writer {
    pub(super) core: Core,
    /// Sees every appended record, published or not.
    reader: Reader,
    /// Keeps the background threads running while records may be appended.
    _log: Log,
}

/// The result of an append.
#[derive(Debug)]
pub struct AppendedRecord {
    /// The position and time of the record.
    pub at: At,
    /// The record, for callers that wait until it is published.
    pub basis: Basis,
    /// Number of entries in the record.
    pub entries: u32,
    /// The waiters that the append woke, in an `os` log. A caller that appends under a lock of its
    /// own drops this after the lock.
    pub woken: Woken,
}

impl Writer {
    pub(crate) fn new(log: Log, active: Active, sequences: Sequences, mark: Mark, time: Timestamp) -> Self {
        let shared = Arc::clone(log.shared());
        let reader = shared.reader_up_to(Position::MAX, shared.segments());
        let era = shared.gate().published().era();
        assert!(active.segment.first <= mark.position.next(), "the active segment takes the next record");
        let core = Core {
            shared,
            active,
            sequences,
            tags: RecordTags::default(),
            asked: 0,
            own_parts: Vec::new(),
            mark,
            time,
            last: 0..0,
            term: mark.term,
            era,
            begun: None,
            buffer: Vec::new(),
            scratch: Vec::new(),
            to_clear: false,
            prepares: false,
            backlog: Backlog::default(),
        };
        Writer { core, reader, _log: log }
    }

    /// Takes the turn to append, and waits while another writer holds it. The caller must then
    /// apply the records of other processes, with [`Turn::follow`], before it begins a record.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) after a failure, here or in another process.
    #[inline(always)]
    pub fn turn(&mut self) -> Result<Turn<'_>> {
        // The writer indexes before it takes the turn, so that no other writer waits meanwhile.
        if self.core.tags.are_many() {
            self.core.note_asked();
            self.core.index_noted();
        }
        let shared = &self.core.shared;
        shared.check()?;
        let over = turn::take(shared.control(), shared.directory()) == TurnOrigin::Over;
        debug_assert!(turn::is_own(shared.control()), "a turn is taken once");
        self.core.to_clear |= over;
        Ok(Turn { writer: Some(self) })
    }

    /// Begins the next record, at the current time and in the term of the last record. This is for
    /// a caller that keeps no state of its own: the call takes the turn, and first applies records
    /// of other processes.
    ///
    /// # Errors
    /// The errors of [`Writer::turn`] and [`Turn::follow`].
    #[inline]
    pub fn begin(&mut self) -> Result<(&Reader, Draft<'_>)> {
        let now = self.core.shared.clock().now();
        let mut turn = self.turn()?;
        while turn.follow()?.is_some() {}
        let term = turn.writer().mark().term;
        let draft = turn.begin_at(now, term);
        Ok((draft.reader(), draft))
    }

    /// Applies the next record that another process appended, if there is one. The writer then
    /// treats it as the last appended record.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Io`](crate::Error::Io) when the
    /// record can't be read. The caller may try again.
    pub fn follow(&mut self) -> Result<Option<Position>> {
        self.core.follow()
    }

    /// Whether another process appended a record that this writer has not applied yet.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.core.is_behind()
    }

    /// Publishes the followed records to the waiters of this process.
    pub fn publish_followed(&self) -> Woken {
        self.core.shared.publish_followed(self.core.mark.position)
    }

    /// Ends every waiter for an appended record that is not published, with
    /// [`Error::Unsettled`](crate::Error::Unsettled). The records stay, and may be published later.
    /// This is for a log with [`Publisher::Owner`](crate::Publisher::Owner), whose owner no longer
    /// knows whether they survive. The waiters with a waker are woken when the returned value is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) after a failure.
    pub fn end_waiters(&mut self) -> Result<Woken> {
        let mut turn = self.turn()?;
        let core = &mut turn.writer().core;
        let woken = core.shared.gate().end_waiters();
        core.era = core.shared.gate().published().era();
        Ok(woken)
    }

    /// Passes the entries of the last appended record to `take`, in order. Stops at the first entry
    /// that `take` refuses.
    ///
    /// # Errors
    /// The error of `take`.
    #[inline]
    pub fn take_in_appended<E>(&self, mut take: impl FnMut(&quire_model::Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.core.last.is_empty() { Ok(()) } else { self.core.last_record().each(|_, entry| take(entry)) }
    }

    /// Returns the entries of an appended record, in order.
    ///
    /// # Errors
    /// When the record is not as it was written.
    pub fn entries(&mut self, position: Position) -> Result<impl Iterator<Item = quire_model::Entry<'_>>> {
        self.refresh();
        Ok(self.reader.record(position)?.into_iter().flatten())
    }

    /// Refreshes the reader's segment list and releases removed segments. The next record that is
    /// begun does the same. This is for a caller that appends nothing for a while.
    #[inline]
    pub fn refresh(&mut self) {
        if self.reader.generation() != self.core.shared.generation() || self.reader.holds_too_much() {
            self.reader = self.reader();
        }
    }

    /// Returns a reader that sees every appended record, published or not.
    pub fn reader(&self) -> Reader {
        self.core.shared.reader_up_to(Position::MAX, self.core.shared.segments())
    }

    /// The last appended record, to which a checkpoint of the current state belongs.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.core.mark
    }

    /// The basis of an answer that takes every appended record into account.
    #[inline]
    pub fn basis(&self) -> Basis {
        self.core.basis()
    }
}

/// Holds the turn to append, until a record is begun or this value is dropped.
#[derive(Debug)]
pub struct Turn<'w> {
    writer: Option<&'w mut Writer>,
}

impl<'w> Turn<'w> {
    /// Follows as [`Writer::follow`] does. `None` means that every appended record is applied.
    /// While this turn lives, no other record appears.
    ///
    /// # Errors
    /// As [`Writer::follow`].
    #[inline]
    pub fn follow(&mut self) -> Result<Option<Position>> {
        if self.is_settled() { Ok(None) } else { self.follow_or_settle() }
    }

    fn follow_or_settle(&mut self) -> Result<Option<Position>> {
        let writer = self.writer();
        let followed = writer.core.follow()?;
        if followed.is_none() {
            writer.core.settle_turn()?;
        }
        Ok(followed)
    }

    /// Whether there is no record to follow and nothing to clear.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.core.is_behind() && writer.core.is_settled())
    }

    /// The writer, which describes the last record.
    pub fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("the turn is held until it is given away")
    }

    /// Begins the next record in `term`, at the time `now`. The caller read `now` from the log's
    /// clock a moment ago. When the record before has a later time, the next record gets that time.
    /// The turn ends with the draft.
    ///
    /// # Panics
    /// When a record remains to be followed, or `term` is earlier than the term of the record
    /// before.
    #[inline(always)]
    pub fn begin_at(mut self, now: Timestamp, term: Term) -> Draft<'w> {
        let writer = self.writer.take().expect("the turn is held until it is given away");
        assert!(term >= writer.core.mark.term, "terms in a log never fall");
        writer.core.term = term;
        assert!(!writer.core.to_clear, "what others appended is taken in before a record is begun");
        debug_assert_eq!(writer.core.shared.control().tail(), writer.core.mark.position);
        writer.refresh();
        writer.core.begun = writer.core.shared.counters().begin_append(now);
        let time = now.max(writer.core.time);
        let at = At { position: writer.core.mark.position.next(), time };
        Draft::new(&mut writer.core, &writer.reader, at)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.core.end_turn();
        }
    }
}

/// The writer's state that a draft needs.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) shared: Arc<LogCore>,
    pub(crate) active: Active,
    pub(crate) sequences: Sequences,
    /// The records that are not indexed yet, and the record in the making. A reader that asked for
    /// one of them may have indexed it.
    pub(crate) tags: RecordTags,
    /// Number of further records to index on append, because a reader asked for an unindexed
    /// record.
    asked: u32,
    /// The parts of the record in the making that carry checksums of their own.
    pub(crate) own_parts: Vec<Range<usize>>,
    pub(crate) mark: Mark,
    pub(crate) time: Timestamp,
    /// Range of the last record in the active segment; empty when it holds no record yet.
    last: Range<usize>,
    /// The term of the record in the making.
    term: Term,
    /// The era of the log, which changes only under the turn.
    pub(crate) era: Era,
    /// When the draft was begun, if its append is timed.
    begun: Option<u64>,
    /// Holds a draft that is not written in place. The buffer only grows, so bytes of earlier
    /// drafts stand after the draft.
    buffer: Vec<u8>,
    /// Encoders that decisions use again, to save their memory.
    pub(crate) scratch: Vec<Encoder>,
    /// Whether bytes may stand after the tail that must be cleared before a write there.
    pub(crate) to_clear: bool,
    /// Whether the next segment is being prepared. A process that appends prepares it; a process
    /// that only reads does not.
    prepares: bool,
    /// The records that wait for a sync, in a `sync` log.
    backlog: Backlog,
}

impl Core {
    pub(crate) fn writes_in_place(&mut self) -> bool {
        self.shared.settings().durability == Durability::Os || self.backlog.in_place(self.shared.unsynced())
    }

    /// A record of more bytes than this is always written through the file.
    pub(crate) fn in_place_bytes_max(&self) -> usize {
        self.active.in_place_bytes_max
    }

    pub(crate) fn record_bytes_max(&self) -> u64 {
        self.shared.settings().record_bytes_max
    }

    /// Whether a record of `bytes` bytes fits after the tail.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        debug_assert!(self.active.end <= self.active.appender.len(), "the space for records is in the segment");
        self.active.appender.settled() + bytes <= self.active.end
    }

    /// Returns bytes of the record in the making, in the segment.
    pub(crate) fn in_place(&mut self, range: Range<usize>) -> &mut [u8] {
        debug_assert!(self.fits(range.end), "a record in place has its space on the disk");
        let tail = self.active.appender.settled();
        self.active.appender.bytes_mut(tail + range.start..tail + range.end)
    }

    /// Gives an entry of the record in the making its numbers. Notes the entry's tags when the
    /// entry is kept, at byte `offset` of the record.
    #[inline]
    pub(crate) fn note_entry(&mut self, entry: &NewEntry<'_>, offset: Option<usize>) -> Option<Sequence> {
        let seed = self.shared.seed();
        let mut tags = entry.tags;
        let mut numbered = None;
        if let Some(sequenced) = entry.sequenced {
            assert!(sequenced.count > 0, "a sequenced entry takes at least one number");
            let (first, rest) = tags.split_first().expect("a sequenced entry has a tag");
            let hash = || TagHash::of(*first, seed);
            numbered = Some(self.sequences.take(hash, *first, sequenced.origin, sequenced.count));
            tags = rest;
        }
        if let Some(offset) = offset {
            if let Some((hash, _)) = numbered {
                self.tags.tag(hash);
            }
            tags.iter().for_each(|tag| self.tags.tag(TagHash::of(*tag, seed)));
            self.tags.entry(offset);
        }
        numbered.map(|(_, first)| first)
    }

    /// Discards the record in the making.
    pub(crate) fn end_draft(&mut self) {
        self.tags.drop_unfinished();
        self.own_parts.clear();
        self.sequences.give_back();
    }

    /// Moves the first `bytes` bytes of the record in the making from the segment to the buffer.
    pub(crate) fn buffer_draft(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.record_bytes_max() as usize, "a draft keeps no more than the largest record");
        let tail = self.active.appender.settled();
        self.buffered(0..bytes);
        let place = self.active.appender.bytes_mut(tail..tail + bytes);
        self.buffer[..bytes].copy_from_slice(place);
        place.fill(0);
    }

    /// Returns bytes of the record in the making, in the buffer.
    pub(crate) fn buffered(&mut self, range: Range<usize>) -> &mut [u8] {
        if self.buffer.len() < range.end {
            self.buffer.resize(range.end, 0);
        }
        &mut self.buffer[range]
    }

    /// Makes space for a record of `bytes` bytes, after the tail or in a new segment. The reserve
    /// at the end of a segment is for records that free space, unless the next segment is ready.
    /// Without the reserve, nothing could be freed on a full disk.
    pub(crate) fn make_room(&mut self, bytes: usize, frees: bool, time: Timestamp) -> Result<()> {
        let fits = self.fits(bytes);
        let reserve = RESERVE_BYTES_MAX.min(self.active.appender.len() / RESERVE_PART);
        if fits && (frees || self.fits(bytes + reserve)) {
            return Ok(());
        }
        let made = if fits { self.shared.ensure_prepared() } else { self.roll(time) };
        self.shared.note_segment(&made);
        debug_assert!(made.is_err() || self.fits(bytes), "a segment has space for the largest record");
        made
    }

    /// Appends the record whose entries stand in place or in the buffer, and end where its padding
    /// begins. `frees` marks a record that frees space, which matters when little space is left.
    /// Returns the waiters that the append woke.
    pub(crate) fn append(
        &mut self,
        at: At,
        entries: u32,
        padding: Range<usize>,
        buffered: bool,
        frees: bool,
    ) -> Result<Woken> {
        let bytes = padding.end;
        debug_assert!(entries > 0, "an empty record is not appended");
        debug_assert_eq!(at.position, self.mark.position.next(), "positions have no gaps");
        debug_assert!(at.time >= self.time, "the time of a log never runs back");
        debug_assert!(bytes.is_multiple_of(ALIGNMENT) && padding.len() < ALIGNMENT, "records are aligned");
        debug_assert!(turn::is_own(self.shared.control()), "only the holder of the turn appends");
        self.shared.check()?;
        debug_assert!(buffered || self.fits(bytes), "what does not fit the segment was moved to the buffer");
        self.make_room(bytes, frees, at.time)?;
        self.prepare_first(at.time);
        let header = RecordHeader {
            crc: 0,
            length: u32::try_from(bytes).expect("a record is shorter than its segment"),
            position: at.position,
            time: at.time,
            previous: self.mark.chain,
            term: self.term,
            entries,
        };
        let tail = self.active.appender.settled();
        debug_assert!(self.last.end <= tail, "the last record is settled");
        let terminator = TERMINATOR_BYTES.min(self.active.appender.len() - tail - bytes);
        // A writer that stops between here and the commit point leaves an unacknowledged record.
        self.to_clear = true;
        let chain = if !buffered {
            let place = self.active.appender.bytes_mut(tail..tail + bytes + terminator);
            place[padding.start..].fill(0);
            header.seal(&mut place[..bytes], &self.own_parts)
        } else {
            let whole = bytes + terminator;
            self.buffered(padding.start..whole).fill(0);
            let chain = header.seal(&mut self.buffer[..bytes], &self.own_parts);
            self.write_buffered(tail, whole)?;
            chain
        };
        self.take_in(tail..tail + bytes, Mark { position: at.position, term: self.term, chain }, at.time);
        self.sequences.keep();
        self.own_parts.clear();
        // Commit point for every process, inside `note_append`: the tail in the control file moves.
        self.to_clear = false;
        Ok(self.shared.note_append(at.position, entries, bytes, self.begun.take()))
    }

    /// Has the next segment prepared, from the first append on.
    #[inline]
    pub(crate) fn prepare_first(&mut self, time: Timestamp) {
        if !self.prepares {
            self.prepares = true;
            self.shared.prepare_next(time);
        }
    }

    /// Writes the first `bytes` bytes of the buffer after the tail, which is at `tail`.
    pub(crate) fn write_buffered(&self, tail: usize, bytes: usize) -> Result<()> {
        self.active.segment.file.write_at(tail, &self.buffer[..bytes]).map_err(|error| {
            // Part of the record may stand after the tail, and the device may keep any of it.
            self.shared.counters().error();
            let message = error.final_message();
            drop(self.shared.fail(&message));
            // `NoSpace` implies that space may appear later. This failure is permanent.
            if matches!(error, Error::NoSpace { .. }) { Error::Failed { message } } else { error }
        })
    }

    /// Applies the record whose bytes stand after the settled ones, and whose tags were noted.
    #[inline]
    pub(crate) fn take_in(&mut self, range: Range<usize>, mark: Mark, time: Timestamp) {
        debug_assert_eq!(range.start, self.active.appender.settled(), "a record follows the settled bytes");
        debug_assert_eq!(mark.position, self.mark.position.next(), "positions have no gaps");
        debug_assert!(mark.term >= self.mark.term, "terms in a log never fall");
        self.active.appender.settle(range.end);
        self.tags.record(range.clone());
        self.note_asked();
        if self.asked > 0 || self.tags.are_too_many() {
            self.asked = self.asked.saturating_sub(1);
            self.index_noted();
            if self.asked == 0 && self.active.segment.take_was_read() {
                self.asked = ASKED_RECORDS;
            }
        }
        self.last = range;
        self.mark = mark;
        self.time = time;
    }

    /// Notes that a reader asked for a record that was not indexed yet.
    #[inline]
    fn note_asked(&mut self) {
        if self.tags.begin().is_some_and(|begin| self.active.segment.indexed_bytes() > begin) {
            self.asked = ASKED_RECORDS;
        }
    }

    /// Makes the record of `mark` the last one. The time stays, because it never runs back.
    pub(crate) fn set_last(&mut self, mark: Mark) {
        assert!(mark.position <= self.mark.position, "a truncation keeps the first records");
        self.mark = mark;
        self.last = 0..0;
        self.asked = 0;
        self.to_clear = false;
    }

    /// Indexes the records that are not indexed yet.
    fn index_noted(&mut self) {
        self.active.segment.index_records(&self.tags);
        self.tags.drop_finished();
    }

    /// Continues in a segment after the active one.
    pub(crate) fn go_on_in(&mut self, active: Active) {
        assert_eq!(active.segment.first, self.mark.position.next(), "a new segment begins with the next record");
        self.index_noted();
        self.active = active;
        self.last = 0..0;
    }

    #[inline]
    pub(crate) fn basis(&self) -> Basis {
        Basis { mark: self.mark, era: self.era }
    }

    fn last_record(&self) -> RecordView<'_> {
        debug_assert!(!self.last.is_empty(), "a record was appended or followed");
        RecordView::sealed(self.active.appender.bytes(self.last.clone()))
    }

    /// Continues in a new segment.
    pub(crate) fn roll(&mut self, time: Timestamp) -> Result<()> {
        let begun = self.shared.begin_segment(self.mark, time);
        self.go_on_in(begun?);
        Ok(())
    }

    #[inline]
    pub(crate) fn end_turn(&mut self) {
        match self.to_clear {
            false => turn::give_back(self.shared.control()),
            true => turn::leave(self.shared.control()),
        }
    }
}
