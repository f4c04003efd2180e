//! The one appender of a log.
//!
//! An append goes through these steps, in this order: bytes in place, tail moved, tags indexed, numbers counted, the
//! control file told, and in an `os` log published. Whoever dies between two of them leaves a whole record or none.

use std::ops::Range;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{At, Position, Timestamp};

use crate::checkpoint::Mark;
use crate::draft::Draft;
use crate::error::Result;
use crate::log::{Log, Shared};
use crate::publish::Woken;
use crate::reader::Reader;
use crate::record::{RecordHeader, RecordView, TERMINATOR_BYTES};
use crate::segment::{HEADER_BYTES as SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentIndex};
use crate::sequences::Sequences;
use crate::settings::Durability;

/// The one appender of a log. Whoever holds it decides what the next record is.
#[derive(Debug)]
pub struct Writer {
    core: Core,
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
    /// How many entries it holds.
    pub entries: u32,
    /// Whoever waited for it in an `os` log. Who appends under a lock of its own drops this behind it.
    pub woken: Woken,
}

impl Writer {
    pub(crate) fn new(log: Log, active: Active, sequences: Sequences, mark: Mark, time: Timestamp) -> Self {
        let shared = Arc::clone(log.shared());
        let reader = Reader::new(&shared, Position::MAX);
        let core = Core {
            shared,
            active,
            sequences,
            mark,
            time,
            last: 0..0,
            begun: None,
            buffer: Vec::new(),
            taken: Vec::new(),
        };
        Writer { core, reader, _log: log }
    }

    /// Begins the next record, now: what can be read to decide on it, and where its entries go.
    pub fn begin(&mut self) -> (&Reader, Draft<'_>) {
        let now = self.core.shared.clock().now();
        self.begin_at(now)
    }

    /// Begins the next record at the time `now`, which was read from the log's clock a moment ago; or at that of the record
    /// before, when it is later.
    pub fn begin_at(&mut self, now: Timestamp) -> (&Reader, Draft<'_>) {
        self.refresh();
        self.core.begun = self.core.shared.counters().begin_append(now);
        let time = now.max(self.core.time);
        let at = At { position: self.core.mark.position.next(), time };
        (&self.reader, Draft::new(&mut self.core, at))
    }

    /// The entries of the record that was appended last, in order.
    pub fn appended(&self) -> impl Iterator<Item = quire_model::Entry<'_>> {
        let record = (!self.core.last.is_empty()).then(|| self.core.last_record());
        record.into_iter().flat_map(|record| record.entries().map(|(_, entry)| entry))
    }

    /// The entries of an appended record, in order.
    ///
    /// # Errors
    /// When the record is not as it was written.
    pub fn entries(&mut self, position: Position) -> Result<impl Iterator<Item = quire_model::Entry<'_>>> {
        self.refresh();
        Ok(self.reader.record(position)?.into_iter().flatten())
    }

    /// Has the reader see every segment there is, and let go of those that are no more.
    fn refresh(&mut self) {
        if self.reader.generation() != self.core.shared.generation() {
            self.reader = self.reader();
        }
    }

    /// The reader that sees every appended record, published or not.
    pub fn reader(&self) -> Reader {
        Reader::new(&self.core.shared, Position::MAX)
    }

    /// The last appended record: what a checkpoint of the state now belongs to.
    pub fn mark(&self) -> Mark {
        self.core.mark
    }
}

/// The segment that takes records.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    pub(crate) appender: Appender,
}

/// What a draft needs of the writer.
#[derive(Debug)]
pub(crate) struct Core {
    shared: Arc<Shared>,
    active: Active,
    pub(crate) sequences: Sequences,
    mark: Mark,
    time: Timestamp,
    /// Where the last record stands in the active segment; empty before the first append.
    last: Range<usize>,
    /// When the draft was begun, if it is to be timed.
    begun: Option<u64>,
    /// Where a draft stands that is not written in place. It only grows: behind the draft stands what earlier ones left.
    pub(crate) buffer: Vec<u8>,
    /// Kept between drafts for its capacity; empty.
    pub(crate) taken: Vec<(Range<usize>, quire_model::Sequence)>,
}

impl Core {
    pub(crate) fn writes_in_place(&self) -> bool {
        self.shared.settings().durability == Durability::Os
    }

    pub(crate) fn record_bytes_max(&self) -> u64 {
        self.shared.settings().record_bytes_max
    }

    /// Whether a record of so many bytes fits behind the tail.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.active.appender.settled() + bytes <= self.active.appender.len()
    }

    /// Bytes of the record in the making, in the segment.
    pub(crate) fn in_place(&mut self, range: Range<usize>) -> &mut [u8] {
        let tail = self.active.appender.settled();
        self.active.appender.bytes_mut(tail + range.start..tail + range.end)
    }

    pub(crate) fn in_place_read(&self, range: Range<usize>) -> &[u8] {
        let tail = self.active.appender.settled();
        self.active.appender.bytes(tail + range.start..tail + range.end)
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

    /// Appends the record whose entries and padding stand in place or in the buffer.
    pub(crate) fn append(&mut self, at: At, entries: u32, bytes: usize, buffered: bool) -> Result<Appended> {
        self.shared.published().check()?;
        if !self.fits(bytes) {
            debug_assert!(buffered, "what does not fit the segment was moved to the buffer");
            self.roll(at.time)?;
        }
        let header = RecordHeader {
            crc: 0,
            length: u32::try_from(bytes).expect("a record is shorter than its segment"),
            position: at.position,
            time: at.time,
            previous: self.mark.chain,
            term: 0,
            entries,
        };
        let tail = self.active.appender.settled();
        let terminator = TERMINATOR_BYTES.min(self.active.appender.len() - tail - bytes);
        let chain = if !buffered {
            let place = self.active.appender.bytes_mut(tail..tail + bytes + terminator);
            place[bytes..].fill(0);
            header.seal(&mut place[..bytes])
        } else {
            let whole = bytes + terminator;
            self.buffered(bytes..whole).fill(0);
            let chain = header.seal(&mut self.buffer[..bytes]);
            if let Err(error) = self.active.segment.file.write_at(tail, &self.buffer[..whole]) {
                // Part of it may stand behind the tail, and what the device keeps of it is unknown.
                self.shared.counters().error();
                drop(self.shared.published().fail(&error.to_string()));
                return Err(error);
            }
            chain
        };
        // Commit point for every process: from here on the record is part of the log.
        self.active.appender.settle(tail + bytes);
        self.last = tail..tail + bytes;
        let record = RecordView::sealed(self.active.appender.bytes(self.last.clone()));
        self.active.segment.take_in(record, tail, &mut self.sequences);
        self.mark = Mark { position: at.position, chain };
        self.time = at.time;
        let woken = self.shared.note_append(at.position, entries, bytes, self.begun.take());
        Ok(Appended { at, entries, woken })
    }

    fn last_record(&self) -> RecordView<'_> {
        RecordView::sealed(self.active.appender.bytes(self.last.clone()))
    }

    /// Goes on in a new segment.
    fn roll(&mut self, time: Timestamp) -> Result<()> {
        let begun = self.shared.begin_segment(self.mark, time);
        let active = begun.inspect_err(|_| self.shared.counters().error())?;
        self.active = active;
        Ok(())
    }
}

impl Active {
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
        shared.directory().rename(crate::prepare::SPARE, &name)?;
        let index = SegmentIndex::new(header.first, shared.seed());
        let segment = Arc::new(Segment::new(header.first, prepared.file, appender.view(), index));
        Ok(Active { segment, appender })
    }
}

/// Whether a file of this name is a segment.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|first| first.len() == 20 && first.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of the segment whose first record has this position.
pub(crate) fn segment_name(first: Position) -> String {
    format!("{first:020}.log")
}
