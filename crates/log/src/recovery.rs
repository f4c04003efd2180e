//! Opening a log: every record of every segment is verified in order, and a torn tail is cut.
//!
//! What is cut and what is refused is laid down in `docs/file-format.md`; this file carries it out. It runs before anyone
//! reads, alone with the directory, and is idempotent: a crash within it leaves what it started from, or less of a tail
//! that nobody was promised.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{Position, Timestamp};

use crate::checkpoint::Mark;
use crate::control::Known;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::log::Identity;
use crate::record::{ALIGNMENT, Fault, HEADER_BYTES as RECORD_HEADER_BYTES, RecordHeader, RecordView};
use crate::segment::{HEADER_BYTES, Segment, SegmentHeader, SegmentIndex};
use crate::sequences::Sequences;
use crate::writer::{Active, segment_name};

/// What opening a log found.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// How many records the log holds.
    pub records: u64,
    /// How many segments.
    pub segments: usize,
    /// What was cut off its tail, if anything.
    pub cut: Option<Cut>,
}

/// A torn tail that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment it was cut from.
    pub path: PathBuf,
    /// The byte at which the log now ends.
    pub offset: u64,
    /// How many bytes that were not zero, from there on, were cleared: from the first to the last.
    pub bytes: u64,
    /// The first position that is not there any more, and is given again.
    pub position: Position,
    /// How many records the last run had appended from there on, when that is known.
    pub records: Option<u64>,
    /// Whether some of it had been synced: then it was damaged after it was written.
    pub synced: bool,
    /// Where the bytes were kept, when some of them had been synced.
    pub kept: Option<PathBuf>,
    /// What was met there.
    pub reason: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut {} bytes at byte {} of {}", self.bytes, self.offset, self.path.display())?;
        write!(f, ", from record {} on", self.position)?;
        if let Some(records) = self.records {
            write!(f, " ({records} had been appended)")?;
        }
        write!(f, ": {}", self.reason)?;
        if self.synced {
            f.write_str("; some of it had been synced, so it was damaged since")?;
        }
        if let Some(kept) = &self.kept {
            write!(f, "; its bytes are kept in {}", kept.display())?;
        }
        Ok(())
    }
}

/// A log as it was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// `None` when there is no segment yet.
    pub(crate) active: Option<Active>,
    pub(crate) sequences: Sequences,
    pub(crate) mark: Mark,
    pub(crate) time: Timestamp,
    pub(crate) report: Recovery,
}

/// Where a scan of a segment ended.
struct Scanned {
    offset: usize,
    fault: Fault,
}

struct Scan<'d> {
    directory: &'d Directory,
    identity: Identity,
    known: Known,
    sequences: Sequences,
    mark: Mark,
    time: Timestamp,
}

/// Reads the whole log, cuts a torn tail, and leaves the last segment ready to take records.
pub(crate) fn recover(directory: &Directory, identity: Identity, known: Known) -> Result<Found> {
    let mut names = directory.names()?;
    names.retain(|name| name.ends_with(".log"));
    let mut scan = Scan {
        directory,
        identity,
        known,
        sequences: Sequences::new(identity.seed()),
        mark: Mark { position: Position::ZERO, chain: identity.chain() },
        time: Timestamp::ZERO,
    };
    let mut report = Recovery::default();
    let mut segments = Vec::new();
    let mut active = None;
    let mut whole = None;
    for (number, name) in names.iter().enumerate() {
        let following = names.get(number + 1);
        let Some((segment, appender, scanned)) = scan.segment(name, following.is_none())? else {
            directory.remove(name)?;
            directory.sync()?;
            break;
        };
        if following.is_some_and(|next| *next == segment_name(scan.mark.position.next())) {
            segments.push(Arc::clone(&segment));
            whole = Some(Active { segment, appender });
            continue;
        }
        let mut appender = appender;
        report.cut = scan.cut(&segment, &mut appender, &scanned, following.is_some())?;
        for later in names.iter().skip(number + 1).rev() {
            directory.remove(later)?;
        }
        directory.sync()?;
        segments.push(Arc::clone(&segment));
        active = Some(Active { segment, appender });
        break;
    }
    // When the file that would have been last was never begun, the one before it takes records again.
    let active = active.or(whole);
    if active.is_none() && known.durable.is_some_and(|durable| durable > Position::ZERO) {
        return Err(Error::Damaged {
            path: directory.path().to_owned(),
            offset: 0,
            position: Some(Position::new(1)),
            message: format!("it holds no segment, and {} records had been synced", known.durable.unwrap_or_default()),
        });
    }
    report.records = scan.mark.position.get();
    report.segments = segments.len();
    Ok(Found { segments, active, sequences: scan.sequences, mark: scan.mark, time: scan.time, report })
}

impl Scan<'_> {
    /// Verifies a segment and takes its records in; `None` when it is the last one and was never begun.
    fn segment(&mut self, name: &str, last: bool) -> Result<Option<(Arc<Segment>, Appender, Scanned)>> {
        let path = self.directory.path_of(name);
        let expected = self.mark.position.next();
        let file = self.directory.open_segment(name)?;
        let length = file.bytes()?;
        let head = self.directory.read_head(name, HEADER_BYTES)?;
        let header = match SegmentHeader::decode(&head, &path, self.identity) {
            Ok(header) => header,
            Err(Error::Damaged { .. }) if last && self.never_synced(expected) && name == segment_name(expected) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if header.first != expected || header.previous != self.mark.chain {
            return Err(Error::Damaged {
                path,
                offset: 40,
                position: Some(expected),
                message: format!(
                    "it begins with record {} after checksum {:08x}, and the segment before it ends with record {} and {:08x}",
                    header.first, header.previous, self.mark.position, self.mark.chain
                ),
            });
        }
        if last && length < header.bytes {
            file.extend(header.bytes)?;
        }
        let bytes = if last { header.bytes } else { header.bytes.min(length) };
        let mut appender = file.map(bytes, 0)?;
        let mut index = SegmentIndex::new(header.first, self.identity.seed());
        let scanned = self.records(appender.bytes(0..appender.len()), &mut index);
        appender.settle(scanned.offset);
        let segment = Arc::new(Segment::new(path, header.first, file, appender.view(), index));
        Ok(Some((segment, appender, scanned)))
    }

    fn records(&mut self, bytes: &[u8], index: &mut SegmentIndex) -> Scanned {
        let mut offset = HEADER_BYTES;
        loop {
            let verified = RecordView::verify(&bytes[offset..]).and_then(|record| {
                record.header.follows(self.mark.position.next(), self.mark.chain)?;
                Ok(record)
            });
            let record = match verified {
                Ok(record) => record,
                Err(fault) => return Scanned { offset, fault },
            };
            index.add(record, offset);
            for (_, entry) in record.entries() {
                self.sequences.take_in(&entry);
            }
            self.mark = Mark { position: record.header.position, chain: record.header.crc };
            self.time = record.header.time;
            offset += record.header.length as usize;
        }
    }

    /// Whether no record from this position on is known to have been synced.
    fn never_synced(&self, from: Position) -> bool {
        self.known.durable.is_some_and(|durable| durable < from)
    }

    /// Cuts what stands behind the last whole record, or refuses to.
    fn cut(&self, segment: &Segment, appender: &mut Appender, scanned: &Scanned, more: bool) -> Result<Option<Cut>> {
        let position = self.mark.position.next();
        let behind = appender.bytes(scanned.offset..appender.len());
        let bytes = behind.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let survivor = if more { None } else { find_record(&behind[..bytes], position) };
        if (more || survivor.is_some()) && !self.never_synced(position) {
            let what = match survivor {
                Some((at, found)) => format!("record {found} stands whole behind it, at byte {}", scanned.offset + at),
                None => "another segment follows it".to_owned(),
            };
            return Err(Error::Damaged {
                path: segment.path.clone(),
                offset: scanned.offset as u64,
                position: Some(position),
                message: format!("{}, but {what}", scanned.fault),
            });
        }
        let records =
            self.known.tail.and_then(|tail| (tail >= position).then(|| tail.get() - self.mark.position.get()));
        let synced = self.known.durable.is_some_and(|durable| durable >= position);
        // Entries without a header are what a commit left that was never appended: nobody was told anything of it.
        let nothing_lost = scanned.fault == Fault::End && survivor.is_none() && records.is_none() && !synced && !more;
        let kept = if synced && bytes > 0 {
            let name = format!("{position:020}.cut");
            self.directory.write_whole(&name, &[&behind[..bytes]])?;
            Some(self.directory.path_of(&name))
        } else {
            None
        };
        if bytes > 0 {
            appender.bytes_mut(scanned.offset..scanned.offset + bytes).fill(0);
            segment.file.sync()?;
        }
        Ok((!nothing_lost).then(|| Cut {
            path: segment.path.clone(),
            offset: scanned.offset as u64,
            bytes: bytes as u64,
            position,
            records,
            synced,
            kept,
            reason: scanned.fault.to_string(),
        }))
    }
}

/// The first whole record among torn bytes that belongs behind `position`: its offset and its position.
fn find_record(bytes: &[u8], position: Position) -> Option<(usize, Position)> {
    (ALIGNMENT..bytes.len()).step_by(ALIGNMENT).find_map(|at| {
        let candidate = &bytes[at..];
        if candidate.len() < RECORD_HEADER_BYTES || RecordHeader::read(candidate).position <= position {
            return None;
        }
        let record = RecordView::verify(candidate).ok()?;
        Some((at, record.header.position))
    })
}
