//! The one appender of an opened log.
//!
//! Others may have the log open, too. Who appends takes the turn first ([`Writer::turn`]), takes in what others appended, and
//! gives the turn back with the record, or with the draft that is dropped.
//!
//! An append goes through these steps, in this order: bytes in place, settled and noted for the index, numbers counted, the tail in the
//! control file moved, and in an `os` log published. Whoever dies before the tail has moved leaves bytes that the next one clears.

use std::ops::Range;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::codec::Encoder;
use quire_model::{At, NewEntry, Position, Sequence, Timestamp};

use crate::append::backlog::Backlog;
use crate::append::draft::Draft;
use crate::append::sequences::Sequences;
use crate::durable::gate::Woken;
use crate::error::{Error, Result};
use crate::log::{Log, Shared};
use crate::mark::{Basis, Era, Mark, Term};
use crate::processes::turn::{self, Taken};
use crate::read::reader::Reader;
use crate::record::{RecordHeader, RecordView, TERMINATOR_BYTES};
use crate::segment::{
    HEADER_BYTES as SEGMENT_HEADER_BYTES, RecordTags, Segment, SegmentHeader, SegmentIndex, TagHash, segment_name,
};
use crate::settings::Durability;
use crate::storage::directory::Fill;
use crate::time::clock::Clock;

/// For how many records each is indexed as it is appended once somebody has asked for one: what is read soon behind its append tends to
/// be so again.
const ASKED_RECORDS: u32 = 256;

/// So much of a segment is kept for records that free room, at most, and no more than this part of it.
const RESERVE_BYTES_MAX: usize = 64 << 10;
const RESERVE_PART: usize = 16;

/// The one appender of a log. Whoever holds it decides what the next record is.
#[derive(Debug)]
pub struct Writer {
    pub(super) core: Core,
    /// Sees every appended record, published or not.
    reader: Reader,
    /// Keeps the background threads at work for as long as something may be appended.
    _log: Log,
}

/// What became of a record.
#[derive(Debug)]
pub struct Appended {
    /// The position and time that it has.
    pub at: At,
    /// The record, for callers that wait until it is published.
    pub basis: Basis,
    /// How many entries it holds.
    pub entries: u32,
    /// Whoever waited for it in an `os` log. Who appends under a lock of its own drops this behind it.
    pub woken: Woken,
}

impl Writer {
    pub(crate) fn new(log: Log, active: Active, sequences: Sequences, mark: Mark, time: Timestamp) -> Self {
        let shared = Arc::clone(log.shared());
        let reader = Reader::new(&shared, Position::MAX, shared.segments());
        let era = shared.gate().published().era();
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

    /// Takes the turn to append, and waits for as long as another has it. What others have appended is then to be taken in,
    /// with [`Turn::follow`], before a record is begun.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::Error::Failed) after a failure, here or in another process.
    #[inline]
    pub fn turn(&mut self) -> Result<Turn<'_>> {
        // Before the turn is taken: nobody else waits for it meanwhile.
        if self.core.tags.are_many() {
            self.core.note_asked();
            self.core.index_noted();
        }
        let shared = &self.core.shared;
        shared.check()?;
        let over = turn::take(shared.control(), shared.directory()) == Taken::Over;
        self.core.to_clear |= over;
        Ok(Turn { writer: Some(self) })
    }

    /// Begins the next record, now and in the term of the last record, for a caller that keeps no state of its own: takes the turn, and
    /// applies records of other processes first.
    ///
    /// # Errors
    /// Those of [`Writer::turn`] and [`Turn::follow`].
    #[inline]
    pub fn begin(&mut self) -> Result<(&Reader, Draft<'_>)> {
        let now = self.core.shared.clock().now();
        let mut turn = self.turn()?;
        while turn.follow()?.is_some() {}
        let term = turn.writer().mark().term;
        let draft = turn.begin_at(now, term);
        Ok((draft.reader(), draft))
    }

    /// Takes in the next record that somebody else appended, if there is one: from then on it is the last appended one here.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Io`](crate::Error::Io) when it can't be read; it may be tried again.
    pub fn follow(&mut self) -> Result<Option<Position>> {
        self.core.follow()
    }

    /// Whether somebody else appended what is not taken in here yet.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.core.is_behind()
    }

    /// Has those who wait here told of the records that were followed.
    pub fn publish_followed(&self) -> Woken {
        self.core.shared.publish_followed(self.core.mark.position)
    }

    /// Has the entries of the record that was appended last taken in, in order, up to the first that is not.
    ///
    /// # Errors
    /// As `take`.
    #[inline]
    pub fn take_in_appended<E>(&self, mut take: impl FnMut(&quire_model::Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.core.last.is_empty() { Ok(()) } else { self.core.last_record().each(|_, entry| take(entry)) }
    }

    /// The entries of an appended record, in order.
    ///
    /// # Errors
    /// When the record is not as it was written.
    pub fn entries(&mut self, position: Position) -> Result<impl Iterator<Item = quire_model::Entry<'_>>> {
        self.refresh();
        Ok(self.reader.record(position)?.into_iter().flatten())
    }

    /// Has the reader see every segment there is, and let go of those that are no more. The next record that is begun does the
    /// same; this is for who appends nothing for a while.
    #[inline]
    pub fn refresh(&mut self) {
        if self.reader.generation() != self.core.shared.generation() || self.reader.holds_too_much() {
            self.reader = self.reader();
        }
    }

    /// The reader that sees every appended record, published or not.
    pub fn reader(&self) -> Reader {
        Reader::new(&self.core.shared, Position::MAX, self.core.shared.segments())
    }

    /// The last appended record: what a checkpoint of the state now belongs to.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.core.mark
    }

    /// What an answer rests on that takes every appended record into account.
    #[inline]
    pub fn basis(&self) -> Basis {
        self.core.basis()
    }
}

/// The turn to append, until a record is begun or this is dropped.
#[derive(Debug)]
pub struct Turn<'w> {
    writer: Option<&'w mut Writer>,
}

impl<'w> Turn<'w> {
    /// As [`Writer::follow`]. `None`: everything that anyone appended is taken in, and nothing more comes while this lives.
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

    /// Whether there is nothing to follow, nor to clear away.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.core.is_behind() && writer.core.is_settled())
    }

    /// The writer, for what it says of the last record.
    pub fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("the turn is held until it is given away")
    }

    /// Begins the next record in `term`, at the time `now`, which was read from the log's clock a moment ago, or at the time of the
    /// record before, when that is later. The turn ends with the draft.
    ///
    /// # Panics
    /// When not everything was followed, or `term` is earlier than that of the record before.
    #[inline]
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

/// The segment that takes records.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) appender: Appender,
    /// As far as records may stand: to the end of the segment, unless the disk has no room for it.
    end: usize,
    /// Above this, a record is written through the file even in an `os` log.
    pub(crate) in_place_bytes_max: usize,
}

/// What a draft needs of the writer.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) active: Active,
    pub(crate) sequences: Sequences,
    /// The records that are not indexed yet, unless by who asked for them, and the one in the making.
    pub(crate) tags: RecordTags,
    /// For how many records more each is indexed at once, because somebody asked for one that was not.
    asked: u32,
    /// What of the record in the making carries checksums of its own.
    pub(crate) own_parts: Vec<Range<usize>>,
    pub(crate) mark: Mark,
    pub(crate) time: Timestamp,
    /// Where the last record stands in the active segment; empty before the first append.
    last: Range<usize>,
    /// The term of the record in the making.
    term: Term,
    /// The era of the log: it changes only under the turn.
    pub(crate) era: Era,
    /// When the draft was begun, if it is to be timed.
    begun: Option<u64>,
    /// Where a draft stands that is not written in place. It only grows: behind the draft stands what earlier ones left.
    buffer: Vec<u8>,
    /// What those who decide encode in, for its memory.
    pub(crate) scratch: Vec<Encoder>,
    /// Whether there may be bytes behind the tail that are to be cleared before anything is written there.
    pub(crate) to_clear: bool,
    /// Whether the next segment is being made ready: it is by those who append, and not by those who only read.
    prepares: bool,
    /// The records that wait for a sync, in a `sync` log.
    backlog: Backlog,
}

impl Core {
    pub(crate) fn writes_in_place(&mut self) -> bool {
        self.shared.settings().durability == Durability::Os || self.backlog.in_place(self.shared.unsynced())
    }

    /// Above so many bytes, a record is written through the file in any case.
    pub(crate) fn in_place_bytes_max(&self) -> usize {
        self.active.in_place_bytes_max
    }

    pub(crate) fn record_bytes_max(&self) -> u64 {
        self.shared.settings().record_bytes_max
    }

    /// Whether a record of so many bytes fits behind the tail.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.active.appender.settled() + bytes <= self.active.end
    }

    /// Bytes of the record in the making, in the segment.
    pub(crate) fn in_place(&mut self, range: Range<usize>) -> &mut [u8] {
        let tail = self.active.appender.settled();
        self.active.appender.bytes_mut(tail + range.start..tail + range.end)
    }

    /// Gives an entry of the record in the making its numbers, and notes its tags when it is kept, at byte `offset` of the
    /// record.
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

    /// The record in the making comes to nothing.
    pub(crate) fn end_draft(&mut self) {
        self.tags.drop_unfinished();
        self.own_parts.clear();
        self.sequences.give_back();
    }

    /// Moves the first `bytes` bytes of the record in the making from the segment to the buffer.
    pub(crate) fn buffer_draft(&mut self, bytes: usize) {
        let tail = self.active.appender.settled();
        self.buffered(0..bytes);
        let place = self.active.appender.bytes_mut(tail..tail + bytes);
        self.buffer[..bytes].copy_from_slice(place);
        place.fill(0);
    }

    /// Bytes of the record in the making, in the buffer.
    pub(crate) fn buffered(&mut self, range: Range<usize>) -> &mut [u8] {
        if self.buffer.len() < range.end {
            self.buffer.resize(range.end, 0);
        }
        &mut self.buffer[range]
    }

    /// Has room for a record of so many bytes, behind the tail or in a new segment. The last room of a segment is for records that free
    /// some, unless the next one is ready: on a full disk nothing else could be freed.
    fn make_room(&mut self, bytes: usize, frees: bool, time: Timestamp) -> Result<()> {
        let fits = self.fits(bytes);
        let reserve = RESERVE_BYTES_MAX.min(self.active.appender.len() / RESERVE_PART);
        if fits && (frees || self.fits(bytes + reserve)) {
            return Ok(());
        }
        let made = if fits { self.shared.ensure_prepared() } else { self.roll(time) };
        self.shared.note_segment(&made);
        made
    }

    /// Appends the record whose entries stand in place or in the buffer, and end where its padding begins. Whether it `frees` room counts when
    /// there is little. Gives whom it woke.
    pub(crate) fn append(
        &mut self,
        at: At,
        entries: u32,
        padding: Range<usize>,
        buffered: bool,
        frees: bool,
    ) -> Result<Woken> {
        let bytes = padding.end;
        debug_assert!(turn::is_own(self.shared.control()), "a record is appended by who has the turn");
        self.shared.check()?;
        debug_assert!(buffered || self.fits(bytes), "what does not fit the segment was moved to the buffer");
        self.make_room(bytes, frees, at.time)?;
        if !self.prepares {
            self.prepares = true;
            self.shared.prepare_next(at.time);
        }
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
        let terminator = TERMINATOR_BYTES.min(self.active.appender.len() - tail - bytes);
        // Whoever leaves between here and the commit point leaves a record that nobody was told of.
        self.to_clear = true;
        let chain = if !buffered {
            let place = self.active.appender.bytes_mut(tail..tail + bytes + terminator);
            place[padding.start..].fill(0);
            header.seal(&mut place[..bytes], &self.own_parts)
        } else {
            let whole = bytes + terminator;
            self.buffered(padding.start..whole).fill(0);
            let chain = header.seal(&mut self.buffer[..bytes], &self.own_parts);
            if let Err(error) = self.active.segment.file.write_at(tail, &self.buffer[..whole]) {
                // Part of it may stand behind the tail, and what the device keeps of it is unknown.
                self.shared.counters().error();
                let message = error.final_message();
                drop(self.shared.fail(&message));
                // That there is no room is an error after which there may be some.
                return Err(if matches!(error, Error::NoSpace { .. }) { Error::Failed { message } } else { error });
            }
            chain
        };
        self.take_in(tail..tail + bytes, Mark { position: at.position, term: self.term, chain }, at.time);
        self.sequences.keep();
        self.own_parts.clear();
        // Commit point for every process, in here: the tail in the control file moves.
        self.to_clear = false;
        Ok(self.shared.note_append(at.position, entries, bytes, self.begun.take()))
    }

    /// Takes in the record whose bytes stand behind the settled ones, and whose tags were noted.
    #[inline]
    pub(crate) fn take_in(&mut self, range: Range<usize>, mark: Mark, time: Timestamp) {
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

    /// Notes that somebody asked for a record that was not indexed yet.
    #[inline]
    fn note_asked(&mut self) {
        if self.tags.begin().is_some_and(|begin| self.active.segment.indexed_bytes() > begin) {
            self.asked = ASKED_RECORDS;
        }
    }

    /// The record of `mark` is the last one from now on. The time stays: it never runs back.
    pub(crate) fn set_last(&mut self, mark: Mark) {
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

    /// Goes on in a segment behind the active one.
    pub(crate) fn go_on_in(&mut self, active: Active) {
        self.index_noted();
        self.active = active;
    }

    #[inline]
    pub(crate) fn basis(&self) -> Basis {
        Basis { mark: self.mark, era: self.era }
    }

    fn last_record(&self) -> RecordView<'_> {
        RecordView::sealed(self.active.appender.bytes(self.last.clone()))
    }

    /// Goes on in a new segment.
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

/// One call for all pages of a record is cheaper than a page fault for each (0.5 against 2 µs a page on Linux 6.18, ext4), and
/// dearer than a fault for each huge page.
fn in_place_bytes_max(fill: Fill) -> usize {
    match fill {
        Fill::Written | Fill::Small => fill.piece_bytes(),
        Fill::Huge => usize::MAX,
    }
}

impl Active {
    /// A segment that was found, and takes more records.
    pub(crate) fn found(segment: Arc<Segment>, appender: Appender) -> Self {
        let whole = appender.len();
        // Whatever kept the disk from it is met, and told, by whoever begins the next one.
        let end = if segment.file.is_allocated(whole) { whole } else { appender.settled() };
        Active { segment, appender, end, in_place_bytes_max: in_place_bytes_max(Fill::Small) }
    }

    /// Gives a prepared file of zeros its header and its name.
    pub(crate) fn begin(shared: &Shared, mark: Mark, time: Timestamp) -> Result<Self> {
        let prepared = shared.take_prepared()?;
        let header = SegmentHeader {
            identity: shared.identity(),
            previous: mark.chain,
            first: mark.position.next(),
            time,
            bytes: prepared.bytes,
            compacted: None,
        };
        let mut appender = prepared.appender;
        match shared.settings().durability {
            Durability::Os => appender.bytes_mut(0..SEGMENT_HEADER_BYTES).copy_from_slice(&header.encode()),
            Durability::Sync => prepared.file.write_at(0, &header.encode())?,
        }
        appender.settle(SEGMENT_HEADER_BYTES);
        let name = segment_name(header.first);
        // Commit point: the segment is the log's last from here on, empty.
        shared.directory().rename(&prepared.name, &name)?;
        shared.control().set_active(header.first);
        let index = SegmentIndex::new(header.first, shared.seed());
        let file = prepared.file.named(shared.directory().path_of(&name));
        let segment = Arc::new(Segment::new(header.first, file, appender.view(), index));
        let end = appender.len();
        Ok(Active { segment, appender, end, in_place_bytes_max: in_place_bytes_max(prepared.fill) })
    }
}
