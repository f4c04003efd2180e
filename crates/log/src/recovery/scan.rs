//! Reading segments up to the first record that does not verify. Nothing is changed here.

use std::path::PathBuf;
use std::sync::Arc;

use quire_mapped::Appender;
use quire_model::{Position, ReadError, Timestamp};

use super::SegmentPiece;
use crate::append::active::Active;
use crate::append::sequences::Sequences;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::read::reader::SegmentStore;
use crate::record::{
    ALIGNMENT, HEADER_BYTES as RECORD_HEADER_BYTES, RECORD_BYTES_MIN, RecordFault, RecordHeader, RecordKind, RecordView,
};
use crate::sealed::{Archive, SealedSegment, SegmentImage};
use crate::segment::{
    COMPACTED_HEADER_BYTES, HEADER_BYTES, RecordTags, Segment, SegmentHeader, SegmentIndex, TagHash, segment_name,
};
use crate::storage::directory::{Directory, SegmentFile};

/// The state of a log after its verified records so far.
pub(super) struct LogScan {
    pub(super) identity: Identity,
    pub(super) sequences: Sequences,
    pub(super) mark: Mark,
    pub(super) time: Timestamp,
    /// The last record to read.
    pub(super) tail: Position,
}

/// A segment with a verified header, and its records up to the first that does not verify.
pub(super) struct ScannedSegment {
    pub(super) path: PathBuf,
    pub(super) file: SegmentFile,
    header: SegmentHeader,
    /// The bytes of the segment, settled up to the end of the records.
    pub(super) appender: Appender,
    index: SegmentIndex,
    /// The reason why the records end.
    pub(super) fault: RecordFault,
    /// Whether the file lost its end. The bytes are then a copy in memory, with zeros for the
    /// missing ones.
    short: bool,
}

impl LogScan {
    pub(super) fn new(identity: Identity) -> Self {
        LogScan {
            tail: Position::MAX,
            identity,
            sequences: Sequences::default(),
            mark: identity.beginning(),
            time: Timestamp::ZERO,
        }
    }

    /// Reads the next segment if its records are final: a compacted segment, or a segment with a
    /// sound index that the next segment follows. The index is then trusted even when the segment's
    /// file is missing, damaged outside of its records, or lost records. The damage is reported,
    /// and the rest is read. `files` are the existing files from the next segment on.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`] and [`Error::Io`].
    pub(super) fn settled(
        &mut self,
        directory: &Directory,
        store: &SegmentStore,
        files: &[String],
    ) -> Result<Option<SegmentPiece>> {
        let Some((name, after)) = files.split_first() else { return Ok(None) };
        let expected = segment_name(self.mark.position.next());
        if *name > expected {
            let vouched = self.vouched(directory, store, None, name)?;
            return Ok(vouched.inspect(|sealed| store.archive.check_file(sealed)).map(SegmentPiece::Sealed));
        }
        let compacted = match self.compacted(directory, store, name) {
            Ok(Some(piece)) => return Ok(Some(piece)),
            Ok(None) => None,
            Err(error @ Error::Damaged { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        // A segment that contradicts its name or place is reported when it is verified.
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
                store.archive.check_file(&sealed);
            }
            return Ok(Some(SegmentPiece::Sealed(sealed)));
        }
        compacted.map_or(Ok(None), Err)
    }

    /// Reads the next segment from its index, if there is an index. `crc` is the checksum of the
    /// segment's header, if it is known. The next existing file is named `after`.
    fn vouched(
        &mut self,
        directory: &Directory,
        store: &SegmentStore,
        crc: Option<u32>,
        after: &str,
    ) -> Result<Option<Arc<SealedSegment>>> {
        let archive = &store.archive;
        let found = archive.find_index(self.mark.position.next())?;
        let Some(sealed) = found.filter(|sealed| crc.is_none_or(|crc| crc == sealed.header.segment)) else {
            return Ok(None);
        };
        let end = sealed.header.end;
        let head = directory.read_head(after, COMPACTED_HEADER_BYTES)?;
        let chains_on = match SegmentHeader::decode(&head, &directory.path_of(after), self.identity) {
            Ok(next) if after == segment_name(end) => next.first == end && next.previous == sealed.header.chain,
            // The following segment is damaged or missing, too.
            Ok(_) | Err(Error::Damaged { .. }) => after >= &*segment_name(end) && archive.find_index(end)?.is_some(),
            Err(error) => return Err(error),
        };
        // An unreadable index leads to the verification of the segment, which reports the damage.
        if !chains_on || self.count(archive, &sealed).is_err() {
            return Ok(None);
        }
        self.skip_to(Position::new(end.get() - 1), sealed.header.chain);
        self.time = sealed.header.time;
        Ok(Some(sealed))
    }

    /// Reads the next segment if it is compacted: from its index, or from its records.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`] and [`Error::Io`].
    fn compacted(&mut self, directory: &Directory, store: &SegmentStore, name: &str) -> Result<Option<SegmentPiece>> {
        let path = directory.path_of(name);
        let head = directory.read_head(name, COMPACTED_HEADER_BYTES)?;
        let header = match SegmentHeader::decode(&head, &path, self.identity) {
            Ok(header) if self.follows(name, &header) => header,
            // The segment is reported when it is verified.
            Ok(_) | Err(Error::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(compacted) = header.compacted else { return Ok(None) };
        let bytes = directory.bytes_of(name)?;
        if bytes != header.bytes {
            let message = format!("the file has {bytes} bytes, expected {}", header.bytes);
            return Err(Error::Damaged { path, offset: bytes, position: Some(header.first), message });
        }
        let archive = &store.archive;
        let found = archive.find(&header, SegmentHeader::crc_of(&head))?;
        let found = found.filter(|sealed| self.count(archive, sealed).is_ok());
        let piece = match found {
            Some(sealed) => SegmentPiece::Sealed(sealed),
            None => {
                let (sealed, built) = archive.seal_in_memory(&header)?;
                self.count(archive, &sealed)?;
                SegmentPiece::Rebuilt(sealed, Box::new(built))
            }
        };
        self.skip_to(Position::new(compacted.end.get() - 1), compacted.chain);
        self.time = compacted.last_time;
        Ok(Some(piece))
    }

    /// Adds the numbers that the tags of a segment had reached.
    fn count(&mut self, archive: &Archive, sealed: &SealedSegment) -> Result<(), ReadError> {
        let seed = self.identity.seed();
        archive.numbered(sealed, |all| {
            for numbered in all {
                self.sequences.take_in(TagHash::of(numbered.tag, seed), numbered.tag, numbered.next);
            }
        })
    }

    /// Moves to the last record of a segment whose records are not read. Its term is unknown: it is
    /// at least that of the record before.
    fn skip_to(&mut self, position: Position, chain: u32) {
        assert!(position >= self.mark.position, "{position} is before {}", self.mark.position);
        self.mark = Mark { position, term: self.mark.term, chain };
    }

    /// Whether a segment with this header is the next one.
    fn follows(&self, name: &str, header: &SegmentHeader) -> bool {
        let expected = self.mark.position.next();
        name == segment_name(header.first) && header.first == expected && header.previous == self.mark.chain
    }

    /// Verifies the next segment and reads its records.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::NewerFormat`] for its header. The state is then unchanged.
    pub(super) fn segment(&mut self, directory: &Directory, name: &str) -> Result<ScannedSegment> {
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
                    "the segment begins with record {} after checksum {:08x}, but the log ends with record {} and checksum {:08x}",
                    header.first, header.previous, self.mark.position, self.mark.chain
                ),
            });
        }
        let file = directory.open_segment(name)?;
        let short = file.bytes()? < header.bytes;
        let mut appender = if short { directory.read_padded(name, header.bytes)? } else { file.map(header.bytes, 0)? };
        let mut index = SegmentIndex::new(header.first, self.identity.seed());
        let before = self.mark.position;
        let (end, fault) = self.records(appender.bytes(0..appender.len()), &mut index);
        assert_eq!(index.end_bytes(), end, "every verified record is indexed");
        assert_eq!(index.end(), self.mark.position.next(), "the index ends with the last verified record");
        assert!(before <= self.mark.position, "positions only grow");
        appender.settle(end);
        Ok(ScannedSegment { path, file, header, appender, index, fault, short })
    }

    /// Reads the records that verify. Returns their end, and the reason why they end.
    fn records(&mut self, bytes: &[u8], index: &mut SegmentIndex) -> (usize, RecordFault) {
        let mut tags = RecordTags::default();
        let ended = self.records_collected(bytes, index, &mut tags);
        index.add(&tags);
        ended
    }

    fn records_collected(
        &mut self,
        bytes: &[u8],
        index: &mut SegmentIndex,
        tags: &mut RecordTags,
    ) -> (usize, RecordFault) {
        let mut offset = HEADER_BYTES;
        loop {
            if self.mark.position >= self.tail {
                return (offset, RecordFault::End);
            }
            let verified = RecordView::verify(&bytes[offset..]).and_then(|record| {
                record.header.follows(self.mark)?;
                match record.kind() {
                    RecordKind::Commit => Ok(record),
                    _ => Err(RecordFault::Kind(bytes[offset + 36])),
                }
            });
            let record = match verified {
                Ok(record) => record,
                Err(fault) => return (offset, fault),
            };
            debug_assert_eq!(record.header.position, self.mark.position.next(), "positions have no gaps");
            debug_assert!(offset + record.header.length as usize <= bytes.len(), "a record lies within its segment");
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

impl ScannedSegment {
    /// The end of the records, as an offset.
    pub(super) fn end(&self) -> usize {
        self.appender.settled()
    }

    pub(super) fn first(&self) -> Position {
        self.header.first
    }

    /// The full segment, which other segments follow.
    pub(super) fn full(self) -> Arc<Segment> {
        Arc::new(Segment::new(self.header.first, self.file, self.appender.view(), self.index))
    }

    /// Seals the segment with a new index, because its index was lost.
    pub(super) fn seal(self, archive: &Archive) -> Result<Arc<SealedSegment>> {
        self.file.sync()?;
        archive.seal_found(SegmentImage::plain(self.appender.view()), &self.header)
    }

    /// Extends the file to the length in its header.
    pub(super) fn extend(&mut self) -> Result<()> {
        if self.short {
            let end = self.end();
            self.file.extend(self.header.bytes)?;
            self.appender = self.file.map(self.header.bytes, end)?;
            assert_eq!(self.end(), end, "an extended segment has the same records");
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

/// Returns the length of `bytes` without the zeros at its end.
pub(crate) fn bytes_before_zeros(bytes: &[u8]) -> usize {
    const PAGE: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    while end >= PAGE.len() && bytes[end - PAGE.len()..end] == PAGE {
        end -= PAGE.len();
    }
    let end = bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    debug_assert!(bytes[end..].iter().all(|byte| *byte == 0), "a byte after {end} is not zero");
    end
}

/// Finds the first whole record in `bytes` that can be the record `first` or a later one. Returns
/// its offset and position.
///
/// The bytes before a record limit how far its position can lie ahead. This limit rejects most
/// record-like content of bodies.
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
        debug_assert!(position >= first && at.is_multiple_of(ALIGNMENT), "record {position} at byte {at}");
        Some((at, position))
    })
}
