//! Verification of a shard: every checksum, position and chain, from the first segment to the tail.
//!
//! Damage does not end the verification: one run reports all defects.

use std::path::Path;
use std::sync::Arc;

use quire_model::Position;

use super::finding::{Finding, LogPart, Severity};
use super::segment::{InspectedRecord, InspectedSegment, Stretch};
use super::survey::{FileKind, Survey, SurveyedFile};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::recovery::find_record;
use crate::sealed::is_index_of_another;
use crate::segment::{HEADER_BYTES, SegmentHeader, segment_name};
use crate::statistics::Page;
use crate::storage::Storage;

/// Receives the results of a verification, in order.
pub trait Watcher {
    /// Receives a record of the segment at `path` that verifies and continues the chain.
    fn record(&mut self, path: &Path, record: &InspectedRecord<'_>);

    /// Reports missing records before the next one.
    fn gap(&mut self);

    /// Reports that a compaction removed superseded records up to `up_to`. The call is made even
    /// when the compacted segment is damaged.
    fn compacted(&mut self, up_to: Mark);

    /// Receives a finding.
    fn finding(&mut self, finding: Finding);

    /// Reports progress: `bytes` of `of` bytes of the segments are verified.
    fn progress(&mut self, bytes: u64, of: u64);
}

/// The totals of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// The number of segments whose header verified.
    pub segments: u64,
    /// The number of records that verified.
    pub records: u64,
    /// The number of entries in these records.
    pub entries: u64,
    /// The total length of these records in bytes.
    pub bytes: u64,
    /// The position of the last of these records.
    pub last: Position,
}

/// Verifies the shard in a directory.
///
/// # Errors
/// [`Error::Io`] when the directory cannot be listed, or this user may not read a file. A damaged
/// file is a finding, not an error.
pub fn verify(
    storage: &Arc<dyn Storage>,
    shard: &Path,
    identity: Identity,
    watcher: &mut dyn Watcher,
) -> Result<Totals> {
    let survey = Survey::of(storage, shard, identity)?;
    survey.check_permissions()?;
    let mut verifier = Verifier {
        survey: &survey,
        identity,
        watcher,
        totals: Totals::default(),
        before: identity.beginning(),
        is_whole: true,
        superseded_below: Position::ZERO,
    };
    verifier.others();
    verifier.segments();
    verifier.end();
    Ok(verifier.totals)
}

struct Verifier<'v> {
    survey: &'v Survey,
    identity: Identity,
    watcher: &'v mut dyn Watcher,
    totals: Totals,
    /// The last record that verified.
    before: Mark,
    /// Whether no record is missing since the last record that verified.
    is_whole: bool,
    /// The end of the records that a compacted segment replaces.
    superseded_below: Position,
}

/// An index file that does not match the records of its segment.
enum OtherIndex<'v> {
    /// The index differs from this byte on.
    Differs(&'v SurveyedFile, u64),
    /// The index is intact but belongs to another version of the segment file.
    OfAnother(&'v SurveyedFile),
}

impl<'v> Verifier<'v> {
    /// Checks all files other than segments, indexes and checkpoints.
    fn others(&mut self) {
        for file in &self.survey.files {
            let (severity, part, message) = match file.kind {
                FileKind::Control if self.survey.control_is_foreign => (
                    Severity::Derivable,
                    LogPart::Control,
                    "the control file is damaged or belongs to another log; opening rebuilds it".to_owned(),
                ),
                FileKind::Control if self.survey.tail.is_none() || self.survey.durable.is_none() => (
                    Severity::Derivable,
                    LogPart::Control,
                    "a word has an invalid checksum, so the end of the log is unknown; opening rebuilds the control file".to_owned(),
                ),
                FileKind::Statistics => match Page::read_in(&self.survey.directory) {
                    Ok(_) => continue,
                    Err(error) => (Severity::Derivable, LogPart::Statistics, format!("the counts restart from zero: {error}")),
                },
                FileKind::Cut(_) => {
                    (Severity::Note, LogPart::Other, "a copy of bytes that opening cut off the log".to_owned())
                }
                FileKind::Unfinished => {
                    (Severity::Note, LogPart::Other, "an unfinished file; opening removes it".to_owned())
                }
                FileKind::Unknown => (Severity::Note, LogPart::Other, "unknown file".to_owned()),
                _ => continue,
            };
            self.find(severity, part, file, 0, None, message);
        }
    }

    fn segments(&mut self) {
        let segments: Vec<_> = self.survey.segments().collect();
        let all = segments.iter().filter_map(|(file, _)| file.bytes).sum();
        let mut done = 0;
        for (index, (file, first)) in segments.iter().enumerate() {
            self.watcher.progress(done, all);
            done += file.bytes.unwrap_or(0);
            if *first < self.superseded_below {
                let message = "an interrupted compaction did not remove this file; opening removes it".to_owned();
                self.find(Severity::Note, LogPart::Other, file, 0, Some(*first), message);
                continue;
            }
            match InspectedSegment::read_in(&self.survey.directory, &file.name, self.identity) {
                Ok(segment) => {
                    let next = segments.get(index + 1).map(|(_, first)| *first);
                    self.segment(file, *first, &segment, next);
                }
                Err(error) => self.unreadable(file, *first, index + 1 == segments.len(), &error),
            }
        }
        self.watcher.progress(all, all);
    }

    /// Reports a segment whose header does not verify or that cannot be read.
    fn unreadable(&mut self, file: &SurveyedFile, first: Position, is_last: bool, error: &Error) {
        // The rule is the same as for opening: a new, unsynced segment is part of the log only if
        // it holds a valid record. A segment with an intact header belongs to another log or a
        // newer version; opening rejects it.
        let is_part = || {
            let bytes = self.survey.directory.read(&file.name).unwrap_or_default();
            let records = bytes.get(HEADER_BYTES..).unwrap_or_default();
            SegmentHeader::is_whole(&bytes)
                || self.survey.durable.map_or_else(|| find_record(records, first).is_some(), |durable| durable >= first)
        };
        let derivable = is_last && matches!(error, Error::Damaged { .. }) && !is_part();
        let severity = if derivable { Severity::Derivable } else { Severity::Lost };
        let (offset, message) = match error {
            Error::Damaged { offset, message, .. } => (*offset, message.clone()),
            other => (0, other.to_string()),
        };
        self.find(severity, LogPart::Log, file, offset, Some(first), message);
        self.lose();
    }

    /// Verifies a segment whose name has position `named`. `next` is the first position of the next
    /// segment; the last segment has none.
    fn segment(&mut self, file: &SurveyedFile, named: Position, segment: &InspectedSegment, next: Option<Position>) {
        let is_last = next.is_none();
        self.totals.segments += 1;
        let (first, previous) = segment.first();
        let expected = self.before.position.next();
        if first != named {
            let message = format!("the segment begins with record {first}, but its name says {named}");
            self.find(Severity::Lost, LogPart::Log, file, 40, Some(first), message);
        }
        if first != expected || previous != self.before.chain {
            let mut message = format!(
                "the segment begins with record {first} after checksum {previous:08x}, but the log before it ends with record {} and checksum {:08x}",
                self.before.position, self.before.chain
            );
            let missing = segment_name(expected);
            if first > expected && !self.survey.files.iter().any(|file| file.name == missing) {
                message += &format!("; {missing} is missing");
            }
            // Damage before this segment has been reported already.
            if self.is_whole {
                self.find(Severity::Lost, LogPart::Log, file, 36, Some(expected), message);
            }
            self.lose();
        }
        let (mut end, mut is_damaged) = (0, false);
        segment.stretches(|stretch| {
            match stretch {
                Stretch::Record(record) => {
                    end = record.offset + u64::from(record.length());
                    self.record(&file.path, &record);
                }
                Stretch::Damaged { offset, position, message, next, torn } => {
                    let torn = torn && is_last;
                    // The bytes after the tail were never appended, as far as is known. They come
                    // from a power failure or from commits in progress, where a later commit can be
                    // complete before an earlier one.
                    if torn && self.survey.tail.is_some_and(|tail| tail < position) {
                        return false;
                    }
                    is_damaged = true;
                    self.damaged(file, offset, position, message, next, torn);
                }
                Stretch::End { .. } => {}
            }
            true
        });
        self.length(file, segment, next);
        // The index of a damaged segment cannot be checked. The damage has been reported.
        if !is_damaged && let Some(other) = self.other_index(first, segment, end) {
            let next_position = self.before.position.next();
            match (next.filter(|next| segment.compacted().is_none() && next_position < *next), other) {
                // The segment is incomplete, not the index.
                (Some(next), _) => {
                    let message = format!("the records end here, but the next segment begins with record {next}");
                    self.find(Severity::Lost, LogPart::Log, file, end, Some(next_position), message);
                    self.is_whole = false;
                }
                (None, OtherIndex::OfAnother(index)) => {
                    let message = "the index belongs to the segment before or after a compaction; opening rebuilds it";
                    self.find(Severity::Note, LogPart::Index, index, 0, Some(first), message.to_owned());
                }
                (None, OtherIndex::Differs(index, at)) => {
                    let message = "the index does not match its segment; `quire repair` rebuilds it, and so does a running database when it reads or scrubs the index".to_owned();
                    self.find(Severity::Derivable, LogPart::Index, index, at, Some(first), message);
                }
            }
        }
        if let Some((up_to, _)) = segment.compacted() {
            self.before = up_to;
            self.totals.last = up_to.position;
            self.superseded_below = up_to.position.next();
            self.watcher.compacted(up_to);
        }
    }

    /// Checks the length of a segment file after its records were read.
    fn length(&mut self, file: &SurveyedFile, segment: &InspectedSegment, next: Option<Position>) {
        let (bytes, meant) = segment.lengths();
        if bytes >= meant {
            return;
        }
        let next_position = self.before.position.next();
        let (severity, consequence) = match next {
            None => (Severity::Derivable, "opening extends it"),
            Some(next) if segment.compacted().is_none() && next_position == next => {
                (Severity::Note, "all records are present, and the missing bytes are not used")
            }
            Some(_) => (Severity::Lost, "records are missing"),
        };
        let message = format!("the file has {bytes} bytes, expected {meant}: {consequence}");
        self.find(severity, LogPart::Log, file, bytes, None, message);
    }

    /// Returns the index file of a segment when it does not match the records up to byte `end`.
    fn other_index(&self, first: Position, segment: &InspectedSegment, end: u64) -> Option<OtherIndex<'v>> {
        let file = self.survey.files.iter().find(|file| file.kind == FileKind::Index(first))?;
        let expected = segment.index(end)?;
        let found = match self.survey.directory.read(&file.name) {
            Ok(found) => found,
            // A removed index is no defect: the log rebuilds it.
            Err(error) if error.is_missing() => return None,
            Err(_) => return Some(OtherIndex::Differs(file, 0)),
        };
        let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        let at = differs.or_else(|| (expected.len() != found.len()).then(|| expected.len().min(found.len())))?;
        Some(match is_index_of_another(&found, segment.bytes()) {
            true => OtherIndex::OfAnother(file),
            false => OtherIndex::Differs(file, at as u64),
        })
    }

    fn record(&mut self, path: &Path, record: &InspectedRecord<'_>) {
        self.before = record.mark();
        self.is_whole = true;
        self.totals.records += 1;
        self.totals.entries += u64::from(record.entry_count());
        self.totals.bytes += u64::from(record.length());
        self.totals.last = record.position();
        self.watcher.record(path, record);
    }

    fn damaged(
        &mut self,
        file: &SurveyedFile,
        offset: u64,
        position: Position,
        message: String,
        next: Option<(u64, Position)>,
        torn: bool,
    ) {
        match next {
            // The rule is the same as for opening: damage that looks like a torn tail is one,
            // unless it is known to be synced.
            None if torn && self.survey.durable.is_none_or(|durable| durable < position) => {
                let message = format!("{message}: a torn tail that is not known to be synced; opening cuts it off");
                self.find(Severity::Derivable, LogPart::Tail, file, offset, Some(position), message);
            }
            None => self.find(Severity::Lost, LogPart::Log, file, offset, Some(position), message),
            Some((at, found)) => {
                let message = format!("{message}; the next valid record is {found}, at byte {at}");
                self.find(Severity::Lost, LogPart::Log, file, offset, Some(position), message);
                self.lose();
            }
        }
    }

    /// Checks that all appended records are present.
    fn end(&mut self) {
        let Survey { tail, durable, .. } = *self.survey;
        let position = self.before.position.next();
        let missing = |reached: Option<Position>| reached.filter(|reached| *reached >= position);
        let (severity, message) = match (missing(durable), missing(tail)) {
            (Some(durable), _) => (
                Severity::Lost,
                format!("the log ends before this record, but records up to {durable} had been synced"),
            ),
            (None, Some(tail)) => (
                Severity::Derivable,
                format!("the log ends before this record; records up to {tail} had been appended but not synced"),
            ),
            (None, None) => return,
        };
        let last = self.survey.segments().last();
        let path = last.map_or(self.survey.directory.path().to_owned(), |(file, _)| file.path.clone());
        self.watcher.finding(Finding {
            severity,
            part: LogPart::Tail,
            path,
            offset: 0,
            position: Some(position),
            message,
        });
    }

    fn lose(&mut self) {
        self.is_whole = false;
        self.watcher.gap();
    }

    fn find(
        &mut self,
        severity: Severity,
        part: LogPart,
        file: &SurveyedFile,
        offset: u64,
        position: Option<Position>,
        message: String,
    ) {
        let path = file.path.clone();
        self.watcher.finding(Finding { severity, part, path, offset, position, message });
    }
}
