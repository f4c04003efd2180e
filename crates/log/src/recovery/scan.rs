//! Reading segments as they are found: what verifies, and where that ends. Nothing is changed here.

use std::path::PathBuf;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{Position, ReadError, Timestamp};

use super::Piece;
use crate::append::sequences::Sequences;
use crate::append::writer::Active;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::read::reader::Store;
use crate::record::{
    ALIGNMENT, Fault, HEADER_BYTES as RECORD_HEADER_BYTES, RECORD_BYTES_MIN, RecordHeader, RecordKind, RecordView,
};
use crate::sealed::{Archive, Image, Sealed};
use crate::segment::{
    COMPACTED_HEADER_BYTES, HEADER_BYTES, RecordTags, Segment, SegmentHeader, SegmentIndex, TagHash, segment_name,
};
use crate::storage::directory::{Directory, SegmentFile};

/// The log so far: what the records that verified add up to.
pub(super) struct Scan {
    pub(super) identity: Identity,
    pub(super) sequences: Sequences,
    pub(super) mark: Mark,
    pub(super) time: Timestamp,
    /// The last record to take in.
    pub(super) tail: Position,
}

/// A segment whose header verified, and its records up to the first that did not.
pub(super) struct Scanned {
    pub(super) path: PathBuf,
    pub(super) file: SegmentFile,
    header: SegmentHeader,
    /// Its bytes, settled up to the end of the records.
    pub(super) appender: Appender,
    index: SegmentIndex,
    /// Why the records end where they do.
    pub(super) fault: Fault,
    /// Whether the file lost its end: then the bytes are a copy in memory, with zeros for what is missing.
    short: bool,
}

impl Scan {
    pub(super) fn new(identity: Identity) -> Self {
        Scan {
            tail: Position::MAX,
            identity,
            sequences: Sequences::default(),
            mark: identity.beginning(),
            time: Timestamp::ZERO,
        }
    }

    /// Takes in the next segment, if it takes no more records: one that a compaction left, or one with an index that verifies, which the
    /// segment after it follows. Then the index is believed also where the file is gone, is damaged beside its records, or has lost some
    /// of them: that is noted, and what is there is read. `files` are those that are there, from the next one on.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`] and [`Error::Io`].
    pub(super) fn settled(&mut self, directory: &Directory, store: &Store, files: &[String]) -> Result<Option<Piece>> {
        let Some((name, after)) = files.split_first() else { return Ok(None) };
        let expected = segment_name(self.mark.position.next());
        if *name > expected {
            let vouched = self.vouched(directory, store, None, name)?;
            return Ok(vouched.inspect(|sealed| store.archive.look_at(sealed)).map(Piece::Sealed));
        }
        let compacted = match self.compacted(directory, store, name) {
            Ok(Some(piece)) => return Ok(Some(piece)),
            Ok(None) => None,
            Err(error @ Error::Damaged { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        // One that is another segment than its name or its place says is told when it is verified.
        let crc = SegmentHeader::is_whole(&head).then(|| SegmentHeader::crc_of(&head));
        let is_next = match SegmentHeader::decode(&head, &directory.path_of(name), self.identity) {
            Ok(header) => self.follows(name, &header),
            Err(Error::Damaged { .. }) => crc.is_none() && *name == expected,
            Err(error) => return Err(error),
        };
        if let Some(after) = after.first().filter(|_| is_next)
            && let Some(sealed) = self.vouched(directory, store, crc, after)?
        {
            let bytes = directory.bytes_of(name)?;
            if crc.is_none() || compacted.is_some() || bytes < u64::from(sealed.header.records_end) {
                store.archive.look_at(&sealed);
            }
            return Ok(Some(Piece::Sealed(sealed)));
        }
        compacted.map_or(Ok(None), Err)
    }

    /// Takes in the next segment by what its index says, if there is one, of a segment with this checksum where that is known; the next
    /// that is there is named `after`.
    fn vouched(
        &mut self,
        directory: &Directory,
        store: &Store,
        crc: Option<u32>,
        after: &str,
    ) -> Result<Option<Arc<Sealed>>> {
        let archive = &store.archive;
        let found = archive.find_index(self.mark.position.next())?;
        let Some(sealed) = found.filter(|sealed| crc.is_none_or(|crc| crc == sealed.header.segment)) else {
            return Ok(None);
        };
        let end = sealed.header.end;
        let head = directory.read_head(after, COMPACTED_HEADER_BYTES)?;
        let goes_on = match SegmentHeader::decode(&head, &directory.path_of(after), self.identity) {
            Ok(next) if after == segment_name(end) => next.first == end && next.previous == sealed.header.chain,
            // The one that follows is damaged or gone, too.
            Ok(_) | Err(Error::Damaged { .. }) => after >= &*segment_name(end) && archive.find_index(end)?.is_some(),
            Err(error) => return Err(error),
        };
        // What can't be read back is verified and told like any other segment.
        if !goes_on || self.count(archive, &sealed).is_err() {
            return Ok(None);
        }
        self.skip_to(Position::new(end.get() - 1), sealed.header.chain);
        self.time = sealed.header.time;
        Ok(Some(sealed))
    }

    /// Takes in the next segment if a compaction left it: by its index, or by all that it holds.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`] and [`Error::Io`].
    fn compacted(&mut self, directory: &Directory, store: &Store, name: &str) -> Result<Option<Piece>> {
        let path = directory.path_of(name);
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        let header = match SegmentHeader::decode(&head, &path, self.identity) {
            Ok(header) if self.follows(name, &header) => header,
            // It is told when the segment is verified as others are.
            Ok(_) | Err(Error::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(compacted) = header.compacted else { return Ok(None) };
        let bytes = directory.bytes_of(name)?;
        if bytes != header.bytes {
            let message = format!("it has {bytes} bytes, and had {}", header.bytes);
            return Err(Error::Damaged { path, offset: bytes, position: Some(header.first), message });
        }
        let archive = &store.archive;
        let found = archive.find(&header, SegmentHeader::crc_of(&head))?;
        let found = found.filter(|sealed| self.count(archive, sealed).is_ok());
        let piece = match found {
            Some(sealed) => Piece::Sealed(sealed),
            None => {
                let (sealed, built) = archive.seal_in_memory(&header)?;
                self.count(archive, &sealed)?;
                Piece::Rebuilt(sealed, Box::new(built))
            }
        };
        self.skip_to(Position::new(compacted.end.get() - 1), compacted.chain);
        self.time = compacted.last_time;
        Ok(Some(piece))
    }

    /// Takes in the numbers that the tags of a segment had reached.
    fn count(&mut self, archive: &Archive, sealed: &Sealed) -> Result<(), ReadError> {
        let seed = self.identity.seed();
        archive.numbered(sealed, |all| {
            for numbered in all {
                self.sequences.take_in(TagHash::of(numbered.tag, seed), numbered.tag, numbered.next);
            }
        })
    }

    /// Goes to the last record of a segment whose records are not read. Its term is not known here: it is no lower than that of the
    /// record before.
    fn skip_to(&mut self, position: Position, chain: u32) {
        self.mark = Mark { position, term: self.mark.term, chain };
    }

    /// Whether a segment of this header is the next one.
    fn follows(&self, name: &str, header: &SegmentHeader) -> bool {
        let expected = self.mark.position.next();
        name == segment_name(header.first) && header.first == expected && header.previous == self.mark.chain
    }

    /// Verifies the next segment and takes its records in.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::NewerFormat`] of its header: then nothing of it was taken in.
    pub(super) fn segment(&mut self, directory: &Directory, name: &str) -> Result<Scanned> {
        let path = directory.path_of(name);
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        let header = SegmentHeader::decode(&head, &path, self.identity)?;
        let expected = self.mark.position.next();
        if !self.follows(name, &header) {
            return Err(Error::Damaged {
                path,
                offset: 36,
                position: Some(expected),
                message: format!(
                    "it begins with record {} after checksum {:08x}, and the log before it ends with record {} and {:08x}",
                    header.first, header.previous, self.mark.position, self.mark.chain
                ),
            });
        }
        let file = directory.open_segment(name)?;
        let short = file.bytes()? < header.bytes;
        let mut appender = if short { directory.read_padded(name, header.bytes)? } else { file.map(header.bytes, 0)? };
        let mut index = SegmentIndex::new(header.first, self.identity.seed());
        let (end, fault) = self.records(appender.bytes(0..appender.len()), &mut index);
        appender.settle(end);
        Ok(Scanned { path, file, header, appender, index, fault, short })
    }

    /// Takes in what verifies; says where that ends, and why.
    fn records(&mut self, bytes: &[u8], index: &mut SegmentIndex) -> (usize, Fault) {
        let mut tags = RecordTags::default();
        let ended = self.records_noted(bytes, index, &mut tags);
        index.add(&tags);
        ended
    }

    fn records_noted(&mut self, bytes: &[u8], index: &mut SegmentIndex, tags: &mut RecordTags) -> (usize, Fault) {
        let mut offset = HEADER_BYTES;
        loop {
            if self.mark.position >= self.tail {
                return (offset, Fault::End);
            }
            let verified = RecordView::verify(&bytes[offset..]).and_then(|record| {
                record.header.follows(self.mark)?;
                match record.kind() {
                    RecordKind::Commit => Ok(record),
                    _ => Err(Fault::Kind(bytes[offset + 36])),
                }
            });
            let record = match verified {
                Ok(record) => record,
                Err(fault) => return (offset, fault),
            };
            tags.read(record, self.identity.seed(), &mut self.sequences);
            tags.record(offset..offset + record.header.length as usize);
            if tags.are_many() {
                index.add(tags);
                tags.drop_finished();
            }
            self.mark = record.header.mark();
            self.time = record.header.time;
            offset += record.header.length as usize;
        }
    }
}

impl Scanned {
    /// Where its records end.
    pub(super) fn end(&self) -> usize {
        self.appender.settled()
    }

    pub(super) fn first(&self) -> Position {
        self.header.first
    }

    /// The segment, with others behind it.
    pub(super) fn full(self) -> Arc<Segment> {
        Arc::new(Segment::new(self.header.first, self.file, self.appender.view(), self.index))
    }

    /// The segment with an index made anew, for it was lost.
    pub(super) fn seal(self, archive: &Archive) -> Result<Arc<Sealed>> {
        self.file.sync()?;
        archive.seal_found(Image::plain(self.appender.view()), &self.header)
    }

    /// Makes the file as long as it was meant to be.
    pub(super) fn extend(&mut self) -> Result<()> {
        if self.short {
            self.file.extend(self.header.bytes)?;
            self.appender = self.file.map(self.header.bytes, self.end())?;
            self.short = false;
        }
        Ok(())
    }

    /// The segment that takes records.
    pub(super) fn active(self) -> Active {
        let view = self.appender.view();
        let segment = Arc::new(Segment::new(self.header.first, self.file, view, self.index));
        Active::found(segment, self.appender)
    }
}

/// The bytes up to the last one that is not zero.
pub(crate) fn bytes_before_zeros(bytes: &[u8]) -> usize {
    const PAGE: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    while end >= PAGE.len() && bytes[end - PAGE.len()..end] == PAGE {
        end -= PAGE.len();
    }
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The first whole record among bytes that can be the record `first` or one that came later: its offset and position.
///
/// How far a position can lie ahead is bounded by the bytes before it, so that the content of a body is not easily taken for
/// a record.
pub(crate) fn find_record(bytes: &[u8], first: Position) -> Option<(usize, Position)> {
    (0..bytes_before_zeros(bytes)).step_by(ALIGNMENT).find_map(|at| {
        let candidate = &bytes[at..];
        if candidate.len() < RECORD_HEADER_BYTES {
            return None;
        }
        let position = RecordHeader::read(candidate).position;
        let ahead = position.get().checked_sub(first.get())?;
        if ahead > (at / RECORD_BYTES_MIN) as u64 {
            return None;
        }
        RecordView::verify(candidate).ok()?;
        Some((at, position))
    })
}
