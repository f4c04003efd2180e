//! Salvage: copies every whole record of a damaged log into a new log, under its old position.
//!
//! ```text
//! each segment ─▶ its whole records ─▶ the filter keeps or drops each
//!        ─▶ nothing lost, and it continues the copy: copied byte for byte
//!        ─▶ otherwise: rewritten as a compaction would, with gaps for lost and dropped records
//! lost segments ─▶ a compacted segment without records, which stands for their positions
//! ```
//!
//! The damaged log is only read. The copy has the same identity, positions and tag numbers. No
//! position and no number that the damaged log is known to have given is given again: the copy
//! reaches at least as far as the log's control file, its checkpoints and its indexes.
//!
//! Like every log with a compacted segment, the copy needs a checkpoint of its last record. The
//! filter applies the records, so the caller saves that checkpoint.

mod copy;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_model::{Position, Sequence, Tag};

use crate::durable::checkpoint::{self, Checkpoint, PassOn};
use crate::error::Result;
use crate::identity::Identity;
use crate::inspect::{FileKind, IndexFile, InspectedRecord, Survey, SurveyedFile};
use crate::mark::Mark;
use crate::record::{RecordHeader, RecordKind, RecordView};
use crate::sealed::{TagNumbers, index_name};
use crate::segment::{COMPACTED_HEADER_BYTES, SegmentHeader, segment_name};
use crate::storage::Storage;
use crate::storage::directory::Directory;
use copy::{Copy, KeptNumbers, SegmentEnd};
use source::{SourceEnd, SourcePart, SourceSegment, chain_at};

/// The farthest that a position in the control file may lie after every record and checkpoint. A
/// segment has fewer records than bytes.
const AHEAD_MAX: u64 = 1 << 32;

/// Decides about the records of a salvage.
pub trait RecordFilter {
    /// Receives the next whole record. An error drops the record from the copy, and is the reason.
    ///
    /// # Errors
    /// The reason why the record can't be kept.
    fn record(&mut self, record: &InspectedRecord<'_>) -> std::result::Result<(), String>;

    /// Receives a loss.
    fn lost(&mut self, lost: LostRecords);

    /// Receives the tags of the copy and the numbers that they give next. Returns tags, and the
    /// numbers that they must give according to the state after the last record. Called after the
    /// last record.
    fn numbers(&mut self, reached: &mut dyn Iterator<Item = (Tag<'_>, Sequence)>) -> Vec<(Vec<u8>, Sequence)>;

    /// Reports progress: `bytes` of `of` bytes of the segments were read.
    fn progress(&mut self, bytes: u64, of: u64);
}

/// Records that a salvage could not copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRecords {
    /// The file, or the name that a missing file had.
    pub path: PathBuf,
    /// The first damaged byte, or the first byte of a whole record that was dropped.
    pub offset: u64,
    /// The first lost record.
    pub first: Position,
    /// The last lost record; `None` when it is unknown how many records followed.
    pub last: Option<Position>,
    /// The reason.
    pub message: String,
}

impl fmt::Display for LostRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostRecords { path, offset, first, last, message } = self;
        write!(f, "{} byte {offset}, ", path.display())?;
        match last {
            Some(last) if last == first => write!(f, "record {first}")?,
            Some(last) => write!(f, "records {first} to {last}")?,
            None => write!(f, "record {first} and possibly later ones")?,
        }
        write!(f, ": {message}")
    }
}

/// The copy that a salvage made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SalvagedLog {
    /// The last record that the copy stands for: the next one follows it.
    pub mark: Mark,
    /// The number of records in the copy.
    pub records: u64,
    /// The number of segments that were copied byte for byte.
    pub copied: u64,
    /// The number of segments that were written anew.
    pub rewritten: u64,
}

/// A damaged log, before a salvage.
#[derive(Debug)]
pub struct DamagedLog {
    survey: Survey,
    identity: Identity,
}

impl DamagedLog {
    /// Lists the files of the log in a directory. Pass a [`Snapshot`](crate::Snapshot), so that
    /// nothing is changed.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the directory cannot be listed, or this user may not
    /// read a file.
    pub fn open(storage: &Arc<dyn Storage>, shard: &Path, identity: Identity) -> Result<Self> {
        let survey = Survey::of(storage, shard, identity)?;
        survey.check_permissions()?;
        Ok(DamagedLog { survey, identity })
    }

    /// Returns the checkpoints that verify and that no record contradicts, newest first.
    ///
    /// # Errors
    /// [`Error::NewerFormat`](crate::Error::NewerFormat) and [`Error::Io`](crate::Error::Io).
    pub fn checkpoints(&self, storage: &Arc<dyn Storage>) -> Result<Vec<Checkpoint>> {
        let mut usable = Vec::new();
        let all: Vec<_> = self.survey.checkpoints().collect();
        for (file, position) in all.into_iter().rev() {
            if let Some(saved) = checkpoint::read(storage, &file.path)?
                && saved.mark.position == position
                && self.chain_at(position)?.is_none_or(|chain| chain == saved.mark.chain)
            {
                usable.push(saved);
            }
        }
        Ok(usable)
    }

    /// Returns the checksum of the record at `position`, if the log still holds it.
    fn chain_at(&self, position: Position) -> Result<Option<u32>> {
        if position == Position::ZERO {
            return Ok(Some(self.identity.beginning().chain));
        }
        let Some((file, first)) = self.survey.segments().filter(|(_, first)| *first <= position).last() else {
            return Ok(None);
        };
        Ok(chain_at(&self.segment(file, first)?, first, position))
    }

    fn segment(&self, file: &SurveyedFile, first: Position) -> Result<SourceSegment> {
        SourceSegment::new(self.survey.directory.read(&file.name)?, &file.path, first, self.identity)
    }

    /// Copies the whole records that `filter` keeps to `to`, an empty directory. The copy reaches
    /// at least the record `reached`.
    ///
    /// # Errors
    /// [`Error::NewerFormat`](crate::Error::NewerFormat); [`Error::NoSpace`](crate::Error::NoSpace)
    /// and [`Error::Io`](crate::Error::Io), also when a file of the damaged log cannot be read.
    pub fn salvage(
        &self,
        storage: &Arc<dyn Storage>,
        to: &Path,
        reached: Position,
        filter: &mut dyn RecordFilter,
    ) -> Result<SalvagedLog> {
        let directory = Directory::open(Arc::clone(storage), to)?;
        let mut salvage =
            SalvageRun { from: self, filter, copy: Copy::new(directory, self.identity), reached, records: 0 };
        salvage.run()?;
        let records = salvage.records;
        let Copy { end, chain, term, copied, rewritten, .. } = salvage.copy;
        let mark = Mark { position: before(end), term, chain };
        Ok(SalvagedLog { mark, records, copied, rewritten })
    }
}

/// Saves the checkpoint of a copy's last record, in the copy's directory.
///
/// # Errors
/// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Io`](crate::Error::Io).
pub fn save_checkpoint(
    storage: &Arc<dyn Storage>,
    to: &Path,
    mark: Mark,
    bytes: u64,
    write: &PassOn<'_>,
) -> Result<()> {
    checkpoint::save(&Directory::open(Arc::clone(storage), to)?, mark, bytes, write)
}

struct SalvageRun<'s> {
    from: &'s DamagedLog,
    filter: &'s mut dyn RecordFilter,
    copy: Copy,
    /// The record that the copy reaches at least.
    reached: Position,
    records: u64,
}

/// A segment of the damaged log, and the one that follows it.
#[derive(Clone, Copy)]
struct SegmentPlace<'s> {
    file: &'s SurveyedFile,
    first: Position,
    next: Option<(&'s SurveyedFile, Position)>,
}

/// The records of a segment, after the filter decided about them.
struct DecidedSegment {
    /// The offsets of the kept records in the image.
    kept: Vec<usize>,
    numbers: KeptNumbers,
    /// The last whole record.
    last: SegmentEnd,
    read: SourceEnd,
    /// Whether the filter dropped a record.
    dropped: bool,
    losses: Vec<(u64, Position, Option<Position>, String)>,
    /// Damage after the last whole record: its first byte and its description.
    damaged_end: Option<(u64, String)>,
}

impl SalvageRun<'_> {
    fn run(&mut self) -> Result<()> {
        let from = self.from;
        let segments: Vec<_> =
            from.survey.segments().filter(|(_, first)| SegmentHeader::may_begin_at(*first)).collect();
        let all = segments.iter().filter_map(|(file, _)| file.bytes).sum();
        let mut done = 0;
        for (index, (file, first)) in segments.iter().enumerate() {
            self.filter.progress(done, all);
            done += file.bytes.unwrap_or(0);
            if *first < self.copy.end {
                // A compaction ended before it removed the segments that it had rewritten.
                continue;
            }
            if *first > self.copy.end {
                self.missing(file, *first)?;
            }
            self.segment(file, *first, &segments[index + 1..])?;
        }
        self.end()?;
        self.filter.progress(all, all);
        Ok(())
    }

    fn segment(&mut self, file: &SurveyedFile, first: Position, rest: &[(&SurveyedFile, Position)]) -> Result<()> {
        let source = self.from.segment(file, first)?;
        let compacted = source.header.and_then(|header| header.compacted);
        // Files that a compacted segment replaces may still stand behind it.
        let next = rest.iter().find(|(_, next)| compacted.is_none_or(|compacted| *next >= compacted.end)).copied();
        let place = SegmentPlace { file, first, next };
        let mut end = compacted.map(|compacted| compacted.end).or(next.map(|(_, next)| next));
        if end.is_none() {
            end = self.index_of(first)?.map(|index| index.end);
        }
        let decided = self.decide(&source, place, end);
        if end.is_none() {
            let known = self.known_end(decided.last.end);
            end = (known > decided.last.end).then_some(known);
        }
        self.report(&decided, place, end, source.is_compacted());
        let continues = source.header.is_some_and(|header| header.previous == self.copy.chain);
        if decided.read.is_whole && !decided.dropped && continues {
            if decided.last.end > first {
                let header = source.header.expect("a segment that continues has a header");
                let used = if compacted.is_some() { source.file.len() } else { decided.read.offset };
                self.records += decided.kept.len() as u64;
                self.copy.copy_whole(&source.file[..used], header.bytes, &decided.numbers, decided.last)?;
            }
            return end.map_or(Ok(()), |end| self.fill(end, place.next));
        }
        let end = end.unwrap_or(decided.last.end).max(decided.last.end);
        if end == first {
            return Ok(());
        }
        let mut numbers = decided.numbers;
        self.indexed_numbers(first, end, &mut numbers)?;
        let chain = self.chain_before(end, place.next, decided.last.chain);
        self.records += decided.kept.len() as u64;
        let image = source.image();
        let kept = decided.kept.iter().map(|offset| RecordView::verified_before(&image[*offset..]));
        self.copy.rewrite(kept, &numbers, SegmentEnd { end, chain, ..decided.last }, source.is_packed())
    }

    /// Asks the filter about each whole record of a segment that ends before `end`.
    fn decide(&mut self, source: &SourceSegment, place: SegmentPlace<'_>, end: Option<Position>) -> DecidedSegment {
        let Copy { chain, time, term, .. } = self.copy;
        let mut kept = Vec::new();
        let mut numbers = KeptNumbers::default();
        let mut last = SegmentEnd { end: place.first, chain, time, term };
        let mut dropped = false;
        let mut losses = Vec::new();
        let mut damage = None;
        let (filter, copied) = (&mut *self.filter, &self.copy.numbers);
        let read = source.read(place.first, end.unwrap_or(Position::MAX), |part| {
            let (offset, view) = match part {
                SourcePart::Damage(offset, message, bytes) => {
                    damage = Some((offset, message));
                    RecordView::stated_numbers(bytes, |tag, first, count| {
                        numbers.raise_if_next(tag, first, count, last.end, copied);
                    });
                    return;
                }
                SourcePart::Record(offset, view) => (offset, view),
            };
            let RecordHeader { position, crc, time, term, .. } = view.header;
            (last.time, last.term) = (last.time.max(time), last.term.max(term));
            if view.kind() == RecordKind::Numbers {
                TagNumbers::decoded(view.numbers())
                    .for_each(|of| numbers.raise(of.tag.as_bytes(), of.next, of.position));
            }
            if let Some((offset, message)) = damage.take()
                && position > last.end
            {
                losses.push((offset, last.end, Some(before(position)), message));
            }
            if view.kind() == RecordKind::Numbers {
                // Its position is the end of the segment.
                last.end = last.end.max(position);
                return;
            }
            numbers.add(view);
            match filter.record(&InspectedRecord { offset: offset as u64, view }) {
                Ok(()) => kept.push(offset),
                Err(message) => {
                    dropped = true;
                    losses.push((source.byte_of(offset), position, Some(position), message));
                }
            }
            (last.end, last.chain) = (position.next(), crc);
        });
        if let Some(compacted) = source.header.and_then(|header| header.compacted)
            && read.is_whole
        {
            last.time = last.time.max(compacted.last_time);
            (last.end, last.chain) = (compacted.end, compacted.chain);
        }
        DecidedSegment { kept, numbers, last, read, dropped, losses, damaged_end: damage }
    }

    /// Reports the losses of a segment, which should end before `end`.
    fn report(&mut self, decided: &DecidedSegment, place: SegmentPlace<'_>, end: Option<Position>, compacted: bool) {
        let note = if compacted { "; a compaction may have dropped records of this range before" } else { "" };
        for (offset, first, last, message) in &decided.losses {
            let note = if *last == Some(*first) { "" } else { note };
            self.lose(place.file, *offset, *first, *last, format!("{message}{note}"));
        }
        let (first, last) = (decided.last.end, end.map(before));
        if last.is_some_and(|last| last < first) {
            return;
        }
        match &decided.damaged_end {
            Some((offset, message)) => self.lose(place.file, *offset, first, last, format!("{message}{note}")),
            None if last.is_some() && !compacted => {
                let message = "the records of the segment end here".to_owned();
                self.lose(place.file, decided.read.offset as u64, first, last, message);
            }
            None => {}
        }
    }

    /// Fills the positions of missing segments before the segment `next`.
    fn missing(&mut self, file: &SurveyedFile, next: Position) -> Result<()> {
        let first = self.copy.end;
        self.filter.lost(LostRecords {
            path: self.from.survey.directory.path_of(&segment_name(first)),
            offset: 0,
            first,
            last: Some(before(next)),
            message: "the segment is missing".to_owned(),
        });
        self.fill(next, Some((file, next)))
    }

    /// Brings the copy to the last position and to the numbers that the log is known to have given.
    fn end(&mut self) -> Result<()> {
        let first = self.copy.end;
        let mut end = first;
        for file in &self.from.survey.files {
            if let FileKind::Index(of) = file.kind
                && of >= first
                && let Some(index) = self.index_of(of)?
            {
                end = end.max(index.end);
            }
        }
        end = end.max(self.known_end(end));
        if end > first {
            let last = self.from.survey.segments().last();
            let path = last.map_or(self.from.survey.path(), |(file, _)| &file.path).to_owned();
            let offset = last.and_then(|(file, _)| file.bytes).unwrap_or(0);
            let message = "the log had these records, and no file holds them".to_owned();
            self.filter.lost(LostRecords { path, offset, first, last: Some(before(end)), message });
        }
        let mut indexed = KeptNumbers::default();
        self.indexed_numbers(first, end, &mut indexed)?;
        self.copy.numbers.merge(&indexed);
        let settled = self.filter.numbers(&mut self.copy.numbers.reached());
        if !settled.is_empty() {
            // A segment for the numbers alone takes one position.
            end = end.max(first.next());
        }
        self.fill_with(end, None, settled)
    }

    /// The position after the last record that the checkpoint and the control file know, unless it
    /// is too far after `end` to be right.
    fn known_end(&self, end: Position) -> Position {
        let Survey { tail, durable, .. } = self.from.survey;
        let known = tail.max(durable).filter(|known| known.get() < end.get() + AHEAD_MAX);
        known.unwrap_or_default().max(self.reached).next()
    }

    fn fill(&mut self, end: Position, next: Option<(&SurveyedFile, Position)>) -> Result<()> {
        self.fill_with(end, next, Vec::new())
    }

    /// Writes a segment without records up to `end`, if positions are missing before it. The tags
    /// of `settled` give these numbers next.
    fn fill_with(
        &mut self,
        end: Position,
        next: Option<(&SurveyedFile, Position)>,
        settled: Vec<(Vec<u8>, Sequence)>,
    ) -> Result<()> {
        let Copy { end: first, chain, time, term, .. } = self.copy;
        if first >= end {
            return Ok(());
        }
        let mut numbers = KeptNumbers::default();
        self.indexed_numbers(first, end, &mut numbers)?;
        settled.iter().for_each(|(tag, next)| numbers.set(tag, *next, before(end)));
        let chain = self.chain_before(end, next, chain);
        self.copy.rewrite(std::iter::empty(), &numbers, SegmentEnd { end, chain, time, term }, false)
    }

    /// Raises `numbers` to those in the indexes of segments from `first` on and before `end`.
    fn indexed_numbers(&self, first: Position, end: Position, numbers: &mut KeptNumbers) -> Result<()> {
        for file in &self.from.survey.files {
            if let FileKind::Index(of) = file.kind
                && of >= first
                && of < end
                && let Some(index) = self.index_of(of)?
                && index.end <= end
            {
                let all = index.numbered.iter();
                all.for_each(|numbered| numbers.raise(numbered.tag().as_bytes(), numbered.next, before(end)));
            }
        }
        Ok(())
    }

    /// Returns the index of the segment `first`, if it verifies.
    fn index_of(&self, first: Position) -> Result<Option<IndexFile>> {
        let directory = &self.from.survey.directory;
        let index = match IndexFile::read(directory.storage(), &directory.path_of(&index_name(first))) {
            Err(error) if error.is_missing() => return Ok(None),
            index => index?,
        };
        Ok(index.filter(|index| index.identity == self.from.identity && index.first == first))
    }

    /// The checksum that the segment at `end` names; `own` when there is none.
    fn chain_before(&self, end: Position, next: Option<(&SurveyedFile, Position)>, own: u32) -> u32 {
        let Some((file, first)) = next.filter(|(_, first)| *first == end) else { return own };
        let head = self.from.survey.directory.read_head(&file.name, COMPACTED_HEADER_BYTES);
        let header = head.ok().and_then(|head| SegmentHeader::decode(&head, &file.path, self.from.identity).ok());
        header.filter(|header| header.first == first).map_or(own, |header| header.previous)
    }

    fn lose(&mut self, file: &SurveyedFile, offset: u64, first: Position, last: Option<Position>, message: String) {
        self.filter.lost(LostRecords { path: file.path.clone(), offset, first, last, message });
    }
}

/// The position before another one.
fn before(position: Position) -> Position {
    Position::new(position.get() - 1)
}
