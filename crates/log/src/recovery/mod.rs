//! Opening a log: verifies every record without a sealed index, in order, and cuts a torn tail.
//!
//! A sealed segment with a sound index is trusted, because its index was written after the segment
//! was synced. Recovery reads only its header, and checks that the next segment chains to it.
//!
//! `docs/file-format.md` defines which tails are cut and which logs are refused; this module
//! implements it. Recovery runs alone with the directory, before readers exist. A refused log stays
//! unchanged. A crash within recovery leaves the files as they were, or with a shorter unpublished
//! tail.

mod report;
mod scan;

use std::collections::BTreeSet;
use std::sync::Arc;

use quire_model::{Position, Timestamp};

pub use report::{Recovery, TornTail};

use crate::append::active::Active;
use crate::append::sequences::Sequences;
use crate::durable::checkpoint;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::log::SEALING;
use crate::mark::Mark;
use crate::processes::control::ControlValues;
use crate::read::reader::SegmentStore;
use crate::read::segments::Segments;
use crate::record::{ALIGNMENT, RecordFault};
use crate::sealed::{BuiltIndex, SealedSegment, index_name, is_index_name};
use crate::segment::{COMPACTED_HEADER_BYTES, HEADER_BYTES, SegmentHeader, is_segment_name, segment_name};
use crate::storage::directory::Directory;
use scan::{LogScan, ScannedSegment};
pub(crate) use scan::{bytes_before_zeros, find_record};

/// A log after recovery.
#[derive(Debug)]
pub(crate) struct RecoveredLog {
    pub(crate) segments: Segments,
    /// The segment that takes records; `None` before the first segment.
    pub(crate) active: Option<Active>,
    pub(crate) sequences: Sequences,
    pub(crate) mark: Mark,
    pub(crate) time: Timestamp,
    pub(crate) report: Recovery,
}

/// Reads the log, cuts a torn tail, and prepares the last segment for records. If `end` is given,
/// the log ends with record `end` at the latest.
pub(crate) fn recover(
    directory: &Directory,
    identity: Identity,
    known: ControlValues,
    end: Option<Position>,
    store: &SegmentStore,
) -> Result<RecoveredLog> {
    let mut names = directory.names()?;
    let indexes: Vec<String> = names.extract_if(.., |name| is_index_name(name)).collect();
    names.retain(|name| is_segment_name(name));
    let mut scan = LogScan::new(identity);
    scan.tail = end.unwrap_or(Position::MAX);
    let mut pieces = Vec::new();
    let boxed = |scanned| SegmentPiece::Scanned(Box::new(scanned));
    let mut last: Option<ScannedSegment> = None;
    let mut lost = None;
    let (mut superseded, mut compacted_end) = (Vec::new(), Position::ZERO);
    let mut later = names.as_slice();
    // Read the files that follow by name. The log ends at the first that does not follow or was
    // never begun.
    while let Some((name, rest)) = later.split_first() {
        let expected = scan.mark.position.next();
        if *name < segment_name(compacted_end) {
            // A compaction was interrupted before it removed the segments that it had rewritten.
            superseded.push(name);
            later = rest;
            continue;
        }
        if let Some(piece) = scan.settled(directory, store, later)? {
            later = &later[usize::from(*name == segment_name(expected))..];
            compacted_end = piece.compacted_end().unwrap_or(compacted_end);
            pieces.extend(last.take().map(boxed));
            pieces.push(piece);
            continue;
        }
        if (last.is_some() || !pieces.is_empty()) && *name != segment_name(expected) {
            break;
        }
        later = rest;
        let scanned = match scan.segment(directory, name) {
            Ok(scanned) => scanned,
            Err(error) if *name == segment_name(expected) => {
                let known = proven(directory, known, scan.mark.position)?;
                lost = Some((name, never_begun(directory, name, !rest.is_empty(), expected, known, error)?));
                break;
            }
            Err(error) => return Err(error),
        };
        pieces.extend(last.replace(scanned).map(boxed));
    }
    let known = proven(directory, known, scan.mark.position)?;
    let tail = TailCheck { directory, known, mark: scan.mark, compacted: compacted_end > Position::ZERO };
    check_own(directory, later, identity)?;
    match &last {
        Some(last) => tail.check(last, !later.is_empty())?,
        None => tail.check_none(!pieces.is_empty(), !later.is_empty())?,
    }
    // Nothing was changed before this point, and no check follows. The last file is removed first,
    // so that a crash in between leaves no gap.
    for name in later.iter().rev().chain(lost.as_ref().map(|(name, _)| *name)) {
        directory.remove(name)?;
        directory.sync()?;
    }
    superseded.into_iter().rev().try_for_each(|name| directory.remove(name))?;
    // The last segment takes records again, so its index is obsolete. An index without its segment
    // is useless.
    let kept: BTreeSet<String> = pieces.iter().map(|piece| index_name(piece.first())).collect();
    indexes.iter().filter(|index| !kept.contains(*index)).try_for_each(|index| directory.remove(index))?;
    let mut segments = in_order(pieces, store)?;
    let damage = store.archive.damage();
    let mut report = Recovery { records: scan.mark.position.get(), segments: 0, cut: None, damage };
    let active = match last {
        Some(mut last) => {
            last.extend()?;
            report.cut = tail.cut(&mut last, later)?;
            Some(last.active())
        }
        None => None,
    };
    if let Some((_, cut)) = lost {
        report.cut = cut.or(report.cut);
    }
    segments.live.extend(active.iter().map(|active| Arc::clone(&active.segment)));
    report.segments = segments.len();
    assert!(compacted_end <= scan.mark.position.next(), "compacted records lie before the end of the log");
    Ok(RecoveredLog { segments, active, sequences: scan.sequences, mark: scan.mark, time: scan.time, report })
}

/// Reads the log up to the tail that other openings left, or further if the tail moves meanwhile.
/// Changes no file, and ignores bytes after the tail.
pub(crate) fn join(
    directory: &Directory,
    identity: Identity,
    tail: impl Fn() -> Position,
    store: &SegmentStore,
) -> Result<RecoveredLog> {
    // Read the tail first: every record up to it is then in a file with its final name.
    let known = tail();
    let mut names = directory.names()?;
    names.retain(|name| is_segment_name(name));
    let mut scan = LogScan::new(identity);
    let mut pieces = Vec::new();
    let mut last: Option<ScannedSegment> = None;
    let mut compacted_end = Position::ZERO;
    let mut later = names.as_slice();
    while let Some((name, rest)) = later.split_first() {
        if *name < segment_name(compacted_end) {
            // A compaction could not remove the segments that it had rewritten.
            later = rest;
            continue;
        }
        if last.is_some() && scan.mark.position >= known {
            break;
        }
        let expected = scan.mark.position.next();
        if let Some(piece) = scan.settled(directory, store, later)? {
            later = &later[usize::from(*name == segment_name(expected))..];
            compacted_end = piece.compacted_end().unwrap_or(compacted_end);
            pieces.extend(last.take().map(|scanned| SegmentPiece::Scanned(Box::new(scanned))));
            pieces.push(piece);
            continue;
        }
        if last.is_some() && *name != segment_name(expected) {
            break;
        }
        later = rest;
        // The sealed segments may reach beyond the tail that was read first.
        scan.tail = tail();
        pieces.extend(
            last.replace(scan.segment(directory, name)?).map(|scanned| SegmentPiece::Scanned(Box::new(scanned))),
        );
    }
    let Some(last) = last.filter(|_| scan.mark.position >= known) else {
        let path = directory.path().to_owned();
        let position = scan.mark.position.next();
        let message = format!("records up to {known} were appended by other processes, but this record is missing");
        return Err(Error::Damaged { path, offset: 0, position: Some(position), message });
    };
    // Other openings may be sealing too.
    let _one_at_a_time = directory.lock_file_in_turn(SEALING)?;
    let mut segments = in_order(pieces, store)?;
    let active = last.active();
    segments.live.push(Arc::clone(&active.segment));
    let damage = store.archive.damage();
    let report = Recovery { records: scan.mark.position.get(), segments: segments.len(), cut: None, damage };
    Ok(RecoveredLog {
        segments,
        active: Some(active),
        sequences: scan.sequences,
        mark: scan.mark,
        time: scan.time,
        report,
    })
}

/// A segment before the last segment.
enum SegmentPiece {
    Sealed(Arc<SealedSegment>),
    /// A compacted segment whose index was lost, with its new index.
    Rebuilt(Arc<SealedSegment>, Box<BuiltIndex>),
    /// A segment without an index, with verified records.
    Scanned(Box<ScannedSegment>),
}

impl SegmentPiece {
    /// The position after its records, if the segment is compacted.
    fn compacted_end(&self) -> Option<Position> {
        match self {
            SegmentPiece::Sealed(sealed) | SegmentPiece::Rebuilt(sealed, _) => {
                sealed.header.compacted.then_some(sealed.header.end)
            }
            SegmentPiece::Scanned(_) => None,
        }
    }

    fn first(&self) -> Position {
        match self {
            SegmentPiece::Sealed(sealed) | SegmentPiece::Rebuilt(sealed, _) => sealed.first(),
            SegmentPiece::Scanned(scanned) => scanned.first(),
        }
    }
}

/// Lists the sealed segments, and the full segments to be sealed later. A full segment before a
/// sealed segment has lost its index, and is sealed at once.
fn in_order(pieces: Vec<SegmentPiece>, store: &SegmentStore) -> Result<Segments> {
    let (mut sealed, mut pending) = (Vec::new(), Vec::new());
    let seal = |pending: &mut Vec<Box<ScannedSegment>>, sealed: &mut Vec<Arc<SealedSegment>>| -> Result<()> {
        for scanned in pending.drain(..) {
            sealed.push(scanned.seal(&store.archive)?);
        }
        Ok(())
    };
    for piece in pieces {
        match piece {
            SegmentPiece::Scanned(scanned) => pending.push(scanned),
            SegmentPiece::Sealed(piece) => {
                seal(&mut pending, &mut sealed)?;
                sealed.push(piece);
            }
            SegmentPiece::Rebuilt(piece, built) => {
                seal(&mut pending, &mut sealed)?;
                // An index that cannot be written stays in memory, and is rebuilt at the next
                // opening.
                if store.archive.write(&built) {
                    store.archive.release(&piece);
                }
                sealed.push(piece);
            }
        }
    }
    assert!(
        sealed.is_sorted_by(|before, after| before.header.end <= after.first()),
        "sealed segments are in log order"
    );
    for sealed in &sealed {
        store.take_in(sealed)?;
    }
    Ok(Segments::new(sealed, pending.into_iter().map(|scanned| scanned.full()).collect()))
}

/// Refuses to remove segments of another log or of a newer version.
fn check_own(directory: &Directory, later: &[String], identity: Identity) -> Result<()> {
    for name in later {
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        if SegmentHeader::is_whole(&head) {
            SegmentHeader::decode(&head, &directory.path_of(name), identity)?;
        }
    }
    Ok(())
}

/// Raises the durable mark in `known` to the newest checkpoint after `end`: its records were
/// synced.
fn proven(directory: &Directory, known: ControlValues, end: Position) -> Result<ControlValues> {
    Ok(ControlValues { durable: known.durable.max(checkpoint::newest_behind(directory, end)?), ..known })
}

/// Decides about the next file when its header does not verify. The file is not part of the log
/// when none of its records was known to be durable. Returns the loss to report, if any; otherwise
/// `error`.
fn never_begun(
    directory: &Directory,
    name: &str,
    more: bool,
    first: Position,
    known: ControlValues,
    error: Error,
) -> Result<Option<TornTail>> {
    let Error::Damaged { message, .. } = &error else { return Err(error) };
    let bytes = directory.read(name)?;
    if SegmentHeader::is_whole(&bytes) {
        return Err(error);
    }
    let records = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let survivor = find_record(records, first);
    if known.durable.map_or(more || survivor.is_some(), |durable| durable >= first) {
        return Err(error);
    }
    let appended = known.appended_from(first);
    Ok((appended.is_some() || more || survivor.is_some()).then(|| TornTail {
        path: directory.path_of(name),
        offset: 0,
        bytes: bytes_before_zeros(&bytes) as u64,
        position: first,
        records: appended,
        synced: false,
        kept: None,
        reason: message.clone(),
    }))
}

/// The end of a log, and what is known about records beyond it.
struct TailCheck<'d> {
    directory: &'d Directory,
    known: ControlValues,
    mark: Mark,
    /// Whether a compaction dropped entries, in reliance on a synced record.
    compacted: bool,
}

impl TailCheck<'_> {
    /// Whether it is known that no record after the end was synced.
    fn never_synced(&self) -> bool {
        self.known.durable.is_some_and(|durable| durable <= self.mark.position)
    }

    /// Refuses a log without an active segment when records are missing. `compacted`: sealed
    /// segments exist. `more`: segments exist that do not follow.
    fn check_none(&self, compacted: bool, more: bool) -> Result<()> {
        let position = self.mark.position.next();
        let damaged = |message| {
            Err(Error::Damaged { path: self.directory.path().to_owned(), offset: 0, position: Some(position), message })
        };
        match self.known.durable {
            Some(durable) if durable > self.mark.position && !compacted => {
                damaged(format!("the log has no segment, but records up to {durable} had been synced"))
            }
            Some(durable) if durable > self.mark.position => {
                damaged(format!("the log ends at {}, but records up to {durable} had been synced", self.mark.position))
            }
            _ if more && !self.never_synced() => {
                damaged(format!("no segment follows record {}, but a later segment exists", self.mark.position))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a log whose records cannot end where they do. `more`: segments exist that do not
    /// follow.
    fn check(&self, last: &ScannedSegment, more: bool) -> Result<()> {
        let position = self.mark.position.next();
        let damaged = |message| {
            let path = last.path.clone();
            Err(Error::Damaged { path, offset: last.end() as u64, position: Some(position), message })
        };
        // A torn write never leaves a record with a matching checksum.
        if matches!(last.fault, RecordFault::Kind(_) | RecordFault::Entries) {
            return damaged(last.fault.to_string());
        }
        if let Some(durable) = self.known.durable.filter(|durable| *durable > position) {
            return damaged(format!("{}, and records up to {durable} had been synced", last.fault));
        }
        if self.compacted && self.known.durable == Some(position) {
            // Without the record, entries that a compaction dropped might count again.
            let fault = last.fault;
            return damaged(format!("{fault}, although the record had been synced; a compaction may depend on it"));
        }
        if !self.never_synced() {
            if more {
                return damaged(format!("{}, but another segment follows it", last.fault));
            }
            let behind = last.appender.bytes(last.end()..last.appender.len());
            let records = behind.get(ALIGNMENT..).unwrap_or_default();
            if let Some((at, found)) = find_record(records, position.next()) {
                let at = last.end() + ALIGNMENT + at;
                return damaged(format!("{}, but whole record {found} follows at byte {at}", last.fault));
            }
        }
        Ok(())
    }

    /// Clears the bytes after the last whole record, and reports the loss. `later` segments were
    /// removed before.
    fn cut(&self, last: &mut ScannedSegment, later: &[String]) -> Result<Option<TornTail>> {
        let position = self.mark.position.next();
        let end = last.end();
        assert!(
            HEADER_BYTES <= end && end <= last.appender.len(),
            "the records end at {end} of {}",
            last.appender.len()
        );
        let behind = last.appender.bytes(end..last.appender.len());
        let bytes = bytes_before_zeros(behind);
        assert!(bytes <= behind.len(), "{bytes} of {} bytes after the records", behind.len());
        let records = self.known.appended_from(position);
        let synced = self.known.durable.is_some_and(|durable| durable >= position);
        let mut kept = None;
        if synced && bytes > 0 {
            let name = format!("{position:020}.cut");
            self.directory.write_whole(&name, &[&behind[..bytes]])?;
            kept = Some(self.directory.path_of(&name));
        }
        // Entries without a header belong to a commit that was never appended.
        let whole = behind.get(ALIGNMENT..).is_some_and(|behind| find_record(behind, position.next()).is_some());
        let nothing_lost = last.fault == RecordFault::End && !whole && records.is_none() && !synced && later.is_empty();
        if bytes > 0 {
            last.appender.bytes_mut(end..end + bytes).fill(0);
            last.file.sync()?;
        }
        Ok((!nothing_lost).then(|| TornTail {
            path: last.path.clone(),
            offset: end as u64,
            bytes: bytes as u64,
            position,
            records,
            synced,
            kept,
            reason: last.fault.to_string(),
        }))
    }
}
