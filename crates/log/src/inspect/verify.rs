//! Verifying a shard: every checksum, position and chain, from the first segment to the tail.
//!
//! Damage does not end it: what follows is looked at as well, so that one run names all there is to name.

use std::path::Path;
use std::sync::Arc;

use quire_model::Position;

use super::finding::{Finding, Part, Severity};
use super::segment::{Record, SegmentFile, Stretch};
use super::survey::{FileKind, Survey, SurveyedFile};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::recovery::find_record;
use crate::sealed::is_index_of_another;
use crate::segment::{HEADER_BYTES, SegmentHeader, segment_name};
use crate::statistics::Page;
use crate::storage::Storage;

/// Who is told of what verification meets, in order.
pub trait Watcher {
    /// A record of the segment at `path` that verifies and follows the one before.
    fn record(&mut self, path: &Path, record: &Record<'_>);

    /// Records are missing in front of the next one.
    fn gap(&mut self);

    /// A compaction left of the records up to this one what counts; the others are gone as they should be. Told also where what it left
    /// is damaged.
    fn compacted(&mut self, up_to: Mark);

    /// Something is not as it should be.
    fn finding(&mut self, finding: Finding);

    /// So many bytes of the shard's segments were gone through, of so many.
    fn progress(&mut self, bytes: u64, of: u64);
}

/// What a shard adds up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Segments whose header verified.
    pub segments: u64,
    /// Records that verified.
    pub records: u64,
    /// Their entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The last of them.
    pub last: Position,
}

/// Verifies the shard in a directory.
///
/// # Errors
/// [`Error::Io`] when the directory can't be listed, or this user may not read a file. What is wrong with a file is a finding.
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
    /// Whether nothing is missing since the last record that verified.
    is_whole: bool,
    /// Up to where a compacted segment stands for what was in others.
    superseded_below: Position,
}

/// An index that is not what the records of its segment come to.
enum OtherIndex<'v> {
    /// It differs from this byte on.
    Differs(&'v SurveyedFile, u64),
    /// It is as it was written, for another file of the segment's name.
    OfAnother(&'v SurveyedFile),
}

impl<'v> Verifier<'v> {
    /// What is there beside segments, indexes and checkpoints.
    fn others(&mut self) {
        for file in &self.survey.files {
            let (severity, part, message) = match file.kind {
                FileKind::Control if self.survey.control_is_foreign => (
                    Severity::Derivable,
                    Part::Control,
                    "it is not the control file of this log, or not whole: opening makes it anew".to_owned(),
                ),
                FileKind::Control if self.survey.tail.is_none() || self.survey.durable.is_none() => (
                    Severity::Derivable,
                    Part::Control,
                    "a word does not verify, so how far the log reached is not known; opening makes it anew".to_owned(),
                ),
                FileKind::Statistics => match Page::read_in(&self.survey.directory) {
                    Ok(_) => continue,
                    Err(error) => (Severity::Derivable, Part::Statistics, format!("counting begins anew: {error}")),
                },
                FileKind::Cut(_) => {
                    (Severity::Note, Part::Other, "bytes that opening cut off the log and kept".to_owned())
                }
                FileKind::Unfinished => {
                    (Severity::Note, Part::Other, "a file that was not finished; opening removes it".to_owned())
                }
                FileKind::Unknown => (Severity::Note, Part::Other, "it is no file of a log".to_owned()),
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
                let message = "a compaction was cut off before it had removed it; opening does".to_owned();
                self.find(Severity::Note, Part::Other, file, 0, Some(*first), message);
                continue;
            }
            match SegmentFile::read_in(&self.survey.directory, &file.name, self.identity) {
                Ok(segment) => {
                    let next = segments.get(index + 1).map(|(_, first)| *first);
                    self.segment(file, *first, &segment, next);
                }
                Err(error) => self.unreadable(file, *first, index + 1 == segments.len(), &error),
            }
        }
        self.watcher.progress(all, all);
    }

    /// A segment whose header does not verify, or that can't be read.
    fn unreadable(&mut self, file: &SurveyedFile, first: Position, is_last: bool, error: &Error) {
        // As opening decides: one that was made and never synced is no part of the log until a record in it is. A whole header is that of
        // another log, or of a newer version, and such a file is refused.
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
        self.find(severity, Part::Log, file, offset, Some(first), message);
        self.lose();
    }

    /// A segment whose name says `named`, and that of the next one `next`; the last has none.
    fn segment(&mut self, file: &SurveyedFile, named: Position, segment: &SegmentFile, next: Option<Position>) {
        let is_last = next.is_none();
        self.totals.segments += 1;
        let (first, previous) = segment.first();
        let expected = self.before.position.next();
        if first != named {
            let message = format!("it begins with record {first}, and its name says {named}");
            self.find(Severity::Lost, Part::Log, file, 40, Some(first), message);
        }
        if first != expected || previous != self.before.chain {
            let mut message = format!(
                "it begins with record {first} after checksum {previous:08x}, and the log before it ends with record {} and {:08x}",
                self.before.position, self.before.chain
            );
            let gone = segment_name(expected);
            if first > expected && !self.survey.files.iter().any(|file| file.name == gone) {
                message += &format!("; {gone} is gone");
            }
            // Damage before it has been named already.
            if self.is_whole {
                self.find(Severity::Lost, Part::Log, file, 36, Some(expected), message);
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
                    // What follows was never appended, as far as is known: a power cut, or commits that are being made while the
                    // file is read, of which later ones may be whole where an earlier one was not yet.
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
        // Where a record does not verify, no index follows from the segment; that has been told.
        if !is_damaged && let Some(other) = self.other_index(first, segment, end) {
            let behind = self.before.position.next();
            match (next.filter(|next| segment.compacted().is_none() && behind < *next), other) {
                // It is what is left of the segment that differs.
                (Some(next), _) => {
                    let message = format!("its records end here, and the next segment begins with record {next}");
                    self.find(Severity::Lost, Part::Log, file, end, Some(behind), message);
                    self.is_whole = false;
                }
                (None, OtherIndex::OfAnother(index)) => {
                    let message = "it belongs to the segment as it was before a compaction, or will be behind one that is at work; what opens the log makes it anew";
                    self.find(Severity::Note, Part::Index, index, 0, Some(first), message.to_owned());
                }
                (None, OtherIndex::Differs(index, at)) => {
                    let message = "it is not the index that the segment comes to; quire repair makes it anew, and so does a database at work when it reads or scrubs it".to_owned();
                    self.find(Severity::Derivable, Part::Index, index, at, Some(first), message);
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

    /// Whether a segment, whose records were gone through, is as long as it was.
    fn length(&mut self, file: &SurveyedFile, segment: &SegmentFile, next: Option<Position>) {
        let (bytes, meant) = segment.lengths();
        if bytes >= meant {
            return;
        }
        let behind = self.before.position.next();
        let (severity, what) = match next {
            None => (Severity::Derivable, "opening makes it as long again"),
            Some(next) if segment.compacted().is_none() && behind == next => {
                (Severity::Note, "its records are all there, and nobody reads behind them")
            }
            Some(_) => (Severity::Lost, "records are gone with the rest"),
        };
        let message = format!("the file has {bytes} bytes where it had {meant}: {what}");
        self.find(severity, Part::Log, file, bytes, None, message);
    }

    /// The index of a segment, when it is not that which the records up to byte `end` come to.
    fn other_index(&self, first: Position, segment: &SegmentFile, end: u64) -> Option<OtherIndex<'v>> {
        let file = self.survey.files.iter().find(|file| file.kind == FileKind::Index(first))?;
        let expected = segment.index(end)?;
        let found = match self.survey.directory.read(&file.name) {
            Ok(found) => found,
            // One that went away meanwhile is not missed: it is made anew.
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

    fn record(&mut self, path: &Path, record: &Record<'_>) {
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
            // As opening decides: what looks like one is one, unless it is known to have been synced.
            None if torn && self.survey.durable.is_none_or(|durable| durable < position) => {
                let message =
                    format!("{message}: a torn tail, of which nothing is known to have been synced; opening cuts it");
                self.find(Severity::Derivable, Part::Tail, file, offset, Some(position), message);
            }
            None => self.find(Severity::Lost, Part::Log, file, offset, Some(position), message),
            Some((at, found)) => {
                let message = format!("{message}; the next whole record is {found}, at byte {at}");
                self.find(Severity::Lost, Part::Log, file, offset, Some(position), message);
                self.lose();
            }
        }
    }

    /// Whether everything is there that was appended.
    fn end(&mut self) {
        let Survey { tail, durable, .. } = *self.survey;
        let position = self.before.position.next();
        let missing = |reached: Option<Position>| reached.filter(|reached| *reached >= position);
        let (severity, message) = match (missing(durable), missing(tail)) {
            (Some(durable), _) => {
                (Severity::Lost, format!("the log ends before it, and records up to {durable} had been synced"))
            }
            (None, Some(tail)) => (
                Severity::Derivable,
                format!("the log ends before it; records up to {tail} had been appended and not synced"),
            ),
            (None, None) => return,
        };
        let last = self.survey.segments().last();
        let path = last.map_or(self.survey.directory.path().to_owned(), |(file, _)| file.path.clone());
        self.watcher.finding(Finding {
            severity,
            part: Part::Tail,
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
        part: Part,
        file: &SurveyedFile,
        offset: u64,
        position: Option<Position>,
        message: String,
    ) {
        let path = file.path.clone();
        self.watcher.finding(Finding { severity, part, path, offset, position, message });
    }
}
