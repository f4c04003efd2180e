//! Opening a log: every record that no sealed index vouches for is verified in order, and a torn tail is cut.
//!
//! A sealed segment whose index verifies is taken at its word: the index was written after the segment was synced. Of it only
//! the header is looked at, and that the next segment chains to it.
//!
//! What is cut and what is refused is laid down in `docs/file-format.md`; this file carries it out. It runs before anyone
//! reads, alone with the directory. A log that is refused is left as it was found. A crash within leaves what it started
//! from, or less of a tail that nobody was promised.

mod report;
mod scan;

use std::collections::BTreeSet;
use std::sync::Arc;

use quire_model::{Position, Timestamp};

pub use report::{Cut, Recovery};

use crate::append::sequences::Sequences;
use crate::append::writer::Active;
use crate::durable::checkpoint;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::log::SEALING;
use crate::mark::Mark;
use crate::processes::control::Known;
use crate::read::reader::Store;
use crate::read::segments::Segments;
use crate::record::{ALIGNMENT, Fault};
use crate::sealed::{Built, Sealed, index_name, is_index_name};
use crate::segment::{COMPACTED_HEADER_BYTES, HEADER_BYTES, SegmentHeader, is_segment_name, segment_name};
use crate::storage::directory::Directory;
use scan::{Scan, Scanned};
pub(crate) use scan::{bytes_before_zeros, find_record};

/// A log as it was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) segments: Segments,
    /// `None` when there is no segment yet.
    pub(crate) active: Option<Active>,
    pub(crate) sequences: Sequences,
    pub(crate) mark: Mark,
    pub(crate) time: Timestamp,
    pub(crate) report: Recovery,
}

/// Reads what is to be read of the log, cuts a torn tail, and leaves the last segment ready to take records. The log ends with the
/// record `end` at the latest, if that is given.
pub(crate) fn recover(
    directory: &Directory,
    identity: Identity,
    known: Known,
    end: Option<Position>,
    store: &Store,
) -> Result<Found> {
    let mut names = directory.names()?;
    let indexes: Vec<String> = names.extract_if(.., |name| is_index_name(name)).collect();
    names.retain(|name| is_segment_name(name));
    let mut scan = Scan::new(identity);
    scan.tail = end.unwrap_or(Position::MAX);
    let mut pieces = Vec::new();
    let boxed = |scanned| Piece::Scanned(Box::new(scanned));
    let mut last: Option<Scanned> = None;
    let mut lost = None;
    let (mut superseded, mut compacted_end) = (Vec::new(), Position::ZERO);
    let mut later = names.as_slice();
    // The files whose names say that they follow are read; at the first that does not, or was never begun, the log ends.
    while let Some((name, rest)) = later.split_first() {
        let expected = scan.mark.position.next();
        if *name < segment_name(compacted_end) {
            // A compaction was cut off before it had removed what it had rewritten.
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
    let tail = Tail { directory, known, mark: scan.mark, compacted: compacted_end > Position::ZERO };
    check_own(directory, later, identity)?;
    match &last {
        Some(last) => tail.check(last, !later.is_empty())?,
        None => tail.check_none(!pieces.is_empty(), !later.is_empty())?,
    }
    // Nothing was changed so far, and nothing is refused from here on. The last file goes first, so that a crash in between
    // leaves no gap.
    for name in later.iter().rev().chain(lost.as_ref().map(|(name, _)| *name)) {
        directory.remove(name)?;
        directory.sync()?;
    }
    superseded.into_iter().rev().try_for_each(|name| directory.remove(name))?;
    // The last segment takes records again, if there was ever an index of it; and an index without its segment says nothing.
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
    Ok(Found { segments, active, sequences: scan.sequences, mark: scan.mark, time: scan.time, report })
}

/// Reads the log up to the tail, or further if it moves meanwhile, as others who have it open left it. Nothing is changed, and what stands behind the tail is
/// nobody's business here.
pub(crate) fn join(
    directory: &Directory,
    identity: Identity,
    tail: impl Fn() -> Position,
    store: &Store,
) -> Result<Found> {
    // The tail first: whatever holds a record up to there has its name by then.
    let known = tail();
    let mut names = directory.names()?;
    names.retain(|name| is_segment_name(name));
    let mut scan = Scan::new(identity);
    let mut pieces = Vec::new();
    let mut last: Option<Scanned> = None;
    let mut compacted_end = Position::ZERO;
    let mut later = names.as_slice();
    while let Some((name, rest)) = later.split_first() {
        if *name < segment_name(compacted_end) {
            // A compaction could not remove what it had rewritten.
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
            pieces.extend(last.take().map(|scanned| Piece::Scanned(Box::new(scanned))));
            pieces.push(piece);
            continue;
        }
        if last.is_some() && *name != segment_name(expected) {
            break;
        }
        later = rest;
        // Sealed segments may have led beyond what was the tail.
        scan.tail = tail();
        pieces.extend(last.replace(scan.segment(directory, name)?).map(|scanned| Piece::Scanned(Box::new(scanned))));
    }
    let Some(last) = last.filter(|_| scan.mark.position >= known) else {
        let path = directory.path().to_owned();
        let position = scan.mark.position.next();
        let message = format!("other processes have appended records up to {known}, and this one is not there");
        return Err(Error::Damaged { path, offset: 0, position: Some(position), message });
    };
    // Others may be sealing, too.
    let _one_at_a_time = directory.lock_file_in_turn(SEALING)?;
    let mut segments = in_order(pieces, store)?;
    let active = last.active();
    segments.live.push(Arc::clone(&active.segment));
    let damage = store.archive.damage();
    let report = Recovery { records: scan.mark.position.get(), segments: segments.len(), cut: None, damage };
    Ok(Found { segments, active: Some(active), sequences: scan.sequences, mark: scan.mark, time: scan.time, report })
}

/// A segment before the last.
enum Piece {
    Sealed(Arc<Sealed>),
    /// A compacted one whose index was lost.
    Rebuilt(Arc<Sealed>, Box<Built>),
    /// Without an index of its own, so that it was verified.
    Scanned(Box<Scanned>),
}

impl Piece {
    /// The position behind it, if a compaction left it.
    fn compacted_end(&self) -> Option<Position> {
        match self {
            Piece::Sealed(sealed) | Piece::Rebuilt(sealed, _) => sealed.header.compacted.then_some(sealed.header.end),
            Piece::Scanned(_) => None,
        }
    }

    fn first(&self) -> Position {
        match self {
            Piece::Sealed(sealed) | Piece::Rebuilt(sealed, _) => sealed.first(),
            Piece::Scanned(scanned) => scanned.first(),
        }
    }
}

/// The sealed segments and those behind them that are to be sealed. One before a sealed segment is sealed at once: its index
/// was lost.
fn in_order(pieces: Vec<Piece>, store: &Store) -> Result<Segments> {
    let (mut sealed, mut pending) = (Vec::new(), Vec::new());
    let seal = |pending: &mut Vec<Box<Scanned>>, sealed: &mut Vec<Arc<Sealed>>| -> Result<()> {
        for scanned in pending.drain(..) {
            sealed.push(scanned.seal(&store.archive)?);
        }
        Ok(())
    };
    for piece in pieces {
        match piece {
            Piece::Scanned(scanned) => pending.push(scanned),
            Piece::Sealed(piece) => {
                seal(&mut pending, &mut sealed)?;
                sealed.push(piece);
            }
            Piece::Rebuilt(piece, built) => {
                seal(&mut pending, &mut sealed)?;
                // If it can't be written it stays in memory, and is made anew the next time.
                if store.archive.write(&built) {
                    store.archive.release(&piece);
                }
                sealed.push(piece);
            }
        }
    }
    for sealed in &sealed {
        store.take_in(sealed)?;
    }
    Ok(Segments::new(sealed, pending.into_iter().map(|scanned| scanned.full()).collect()))
}

/// Refuses to remove segments that are of another log, or of a newer version.
fn check_own(directory: &Directory, later: &[String], identity: Identity) -> Result<()> {
    for name in later {
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        if SegmentHeader::is_whole(&head) {
            SegmentHeader::decode(&head, &directory.path_of(name), identity)?;
        }
    }
    Ok(())
}

/// What is known of a log whose records end at `end`, with what a checkpoint behind there proves.
fn proven(directory: &Directory, known: Known, end: Position) -> Result<Known> {
    Ok(Known { durable: known.durable.max(checkpoint::newest_behind(directory, end)?), ..known })
}

/// Whether the file that would follow, whose header does not verify, holds nothing that was known to be kept: then it is no
/// part of the log. Gives back what there is to tell of it; otherwise the error that was met.
fn never_begun(
    directory: &Directory,
    name: &str,
    more: bool,
    first: Position,
    known: Known,
    error: Error,
) -> Result<Option<Cut>> {
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
    Ok((appended.is_some() || more || survivor.is_some()).then(|| Cut {
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

/// The end of a log, and what is known of how far it once reached.
struct Tail<'d> {
    directory: &'d Directory,
    known: Known,
    mark: Mark,
    /// What did not count any more as of some synced record is gone.
    compacted: bool,
}

impl Tail<'_> {
    /// Whether no record from the end on is known to have been synced.
    fn never_synced(&self) -> bool {
        self.known.durable.is_some_and(|durable| durable <= self.mark.position)
    }

    /// Refuses a log that holds no segment to take records, and should. `compacted`: there are others before it. `more`: there are
    /// some that do not follow.
    fn check_none(&self, compacted: bool, more: bool) -> Result<()> {
        let position = self.mark.position.next();
        let damaged = |message| {
            Err(Error::Damaged { path: self.directory.path().to_owned(), offset: 0, position: Some(position), message })
        };
        match self.known.durable {
            Some(durable) if durable > self.mark.position && !compacted => {
                damaged(format!("it holds no segment, and {durable} records had been synced"))
            }
            Some(durable) if durable > self.mark.position => {
                damaged(format!("it holds no record behind {}, and {durable} had been synced", self.mark.position))
            }
            _ if more && !self.never_synced() => {
                damaged(format!("it holds no segment that follows record {}, but one behind it", self.mark.position))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a log whose end can't be where its records end. `more`: there are segments that do not follow.
    fn check(&self, last: &Scanned, more: bool) -> Result<()> {
        let position = self.mark.position.next();
        let damaged = |message| {
            let path = last.path.clone();
            Err(Error::Damaged { path, offset: last.end() as u64, position: Some(position), message })
        };
        // A torn write leaves no record whose checksum is right.
        if matches!(last.fault, Fault::Kind(_) | Fault::Entries) {
            return damaged(last.fault.to_string());
        }
        if let Some(durable) = self.known.durable.filter(|durable| *durable > position) {
            return damaged(format!("{}, and records up to {durable} had been synced", last.fault));
        }
        if self.compacted && self.known.durable == Some(position) {
            // Without it, what a compaction dropped might count again.
            let fault = last.fault;
            return damaged(format!(
                "{fault}, though the record had been synced, and what was compacted may rest on it"
            ));
        }
        if !self.never_synced() {
            if more {
                return damaged(format!("{}, but another segment follows it", last.fault));
            }
            let behind = last.appender.bytes(last.end()..last.appender.len());
            let records = behind.get(ALIGNMENT..).unwrap_or_default();
            if let Some((at, found)) = find_record(records, position.next()) {
                let at = last.end() + ALIGNMENT + at;
                return damaged(format!("{}, but record {found} stands whole behind it, at byte {at}", last.fault));
            }
        }
        Ok(())
    }

    /// Clears what stands behind the last whole record, and says what was lost. `later` segments are gone already.
    fn cut(&self, last: &mut Scanned, later: &[String]) -> Result<Option<Cut>> {
        let position = self.mark.position.next();
        let end = last.end();
        let behind = last.appender.bytes(end..last.appender.len());
        let bytes = bytes_before_zeros(behind);
        let records = self.known.appended_from(position);
        let synced = self.known.durable.is_some_and(|durable| durable >= position);
        let mut kept = None;
        if synced && bytes > 0 {
            let name = format!("{position:020}.cut");
            self.directory.write_whole(&name, &[&behind[..bytes]])?;
            kept = Some(self.directory.path_of(&name));
        }
        // Entries without a header are what a commit left that was never appended: nobody was told anything of it.
        let whole = behind.get(ALIGNMENT..).is_some_and(|behind| find_record(behind, position.next()).is_some());
        let nothing_lost = last.fault == Fault::End && !whole && records.is_none() && !synced && later.is_empty();
        if bytes > 0 {
            last.appender.bytes_mut(end..end + bytes).fill(0);
            last.file.sync()?;
        }
        Ok((!nothing_lost).then(|| Cut {
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
