//! Applies records that other processes appended. Each process that has the log open keeps an index
//! and a state of its own. It brings them up to the tail by itself.
//!
//! Records up to the tail never change, so following needs no turn. The process does not verify
//! their checksums again. Like its own records, they come from memory that the processes share, and
//! not from the disk.

use std::hint::black_box;
use std::sync::Arc;

use quire_model::Position;

use crate::append::active::Active;
use crate::append::writer::Core;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::processes::turn;
use crate::record::{HEADER_BYTES as RECORD_HEADER_BYTES, RecordHeader, RecordView};
use crate::recovery::bytes_before_zeros;
use crate::segment::{HEADER_BYTES as SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentIndex, segment_name};
use crate::storage::directory::Directory;

/// Number of cache lines of a record that are requested before it is read: those of a small record.
/// The processor fetches the lines after them ahead.
const LINES_TOUCHED: usize = 8;
const CACHE_LINE_BYTES: usize = 64;

impl Core {
    /// Whether another process appended a record that is not applied here yet.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        !self.shared.control().tail_is(self.mark.position)
    }

    /// Applies the next record that is not applied yet, and returns its position. Returns `None`
    /// when there is none.
    pub(crate) fn follow(&mut self) -> Result<Option<Position>> {
        if self.is_behind() { self.take_in_next().map(Some) } else { Ok(None) }
    }

    fn take_in_next(&mut self) -> Result<Position> {
        let header = match self.next_header() {
            Some(header) => header,
            None => {
                // The record did not fit: the process that appended it continued in a new segment.
                if !self.has_begun_next() {
                    self.enter()?;
                }
                self.next_header().ok_or_else(|| Error::Damaged {
                    path: self.shared.directory().path_of(&segment_name(self.active.segment.first)),
                    offset: self.active.appender.settled() as u64,
                    position: Some(self.mark.position.next()),
                    message: "another process appended a record that is not there".to_owned(),
                })?
            }
        };
        // A forgotten draft may have left notes.
        self.tags.drop_unfinished();
        let begin = self.active.appender.settled();
        let mark = header.mark();
        let range = begin..begin + header.length as usize;
        let bytes = self.active.appender.bytes(range.clone());
        // The cache lines are in another processor's cache. Prefetching them together costs one
        // wait instead of one for each line.
        black_box(bytes.iter().step_by(CACHE_LINE_BYTES).take(LINES_TOUCHED).fold(0, |sum, byte| sum ^ byte));
        let record = RecordView::sealed(bytes);
        self.tags.read(record, self.shared.seed(), &mut self.sequences);
        self.take_in(range, mark, header.time);
        self.shared.clock().not_before(header.time);
        self.shared.note_followed(self.mark.position);
        Ok(self.mark.position)
    }

    /// Whether the active segment and the bytes after the tail are ready for an append.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.to_clear && self.shared.control().active_is(self.active.segment.first)
    }

    /// Makes the segment and the bytes ready.
    pub(crate) fn settle_turn(&mut self) -> Result<()> {
        assert!(turn::is_own(self.shared.control()), "only the holder of the turn clears bytes");
        assert!(!self.is_behind(), "every record is followed before bytes after the tail are cleared");
        if self.to_clear {
            self.clear_behind_tail()?;
            if self.is_next_begun()? {
                // The process that left had begun the next segment, and others may be in it
                // already. This process continues in it, and never removes it.
                self.enter()?;
                self.clear_behind_tail()?;
            }
            self.shared.control().set_active(self.active.segment.first);
            // A forgotten draft may have left notes.
            self.end_draft();
            self.to_clear = false;
        }
        if !self.shared.control().active_is(self.active.segment.first) {
            if self.has_begun_next() {
                // The process that began this segment ended before it announced it.
                self.clear_behind_tail()?;
                self.shared.control().set_active(self.active.segment.first);
            } else {
                // Another process continued in a new segment, and has appended nothing to it.
                self.enter()?;
            }
        }
        Ok(())
    }

    /// Whether the active segment begins with the next record, so that no segment follows it.
    fn has_begun_next(&self) -> bool {
        self.active.segment.first == self.mark.position.next()
    }

    /// Whether a process began a segment after the active one. That segment then holds no record.
    fn is_next_begun(&self) -> Result<bool> {
        let name = segment_name(self.mark.position.next());
        Ok(!self.has_begun_next() && self.shared.directory().names()?.contains(&name))
    }

    /// Returns the header of the record after the settled bytes of the active segment, when the
    /// next record stands there.
    fn next_header(&self) -> Option<RecordHeader> {
        let appender = &self.active.appender;
        let begin = appender.settled();
        debug_assert!(SEGMENT_HEADER_BYTES <= begin && begin <= appender.len(), "records follow the header");
        if appender.len() - begin < RECORD_HEADER_BYTES {
            return None;
        }
        let header = RecordHeader::read(appender.bytes(begin..begin + RECORD_HEADER_BYTES));
        let fits = header.length as usize <= appender.len() - begin;
        (fits && header.follows(self.mark).is_ok()).then_some(header)
    }

    /// Continues in the segment that another process made after the last record.
    fn enter(&mut self) -> Result<()> {
        let active = open_begun(self.shared.directory(), self.shared.identity(), self.mark)?;
        self.shared.add_segment(&active);
        self.go_on_in(active);
        Ok(())
    }

    /// Clears the bytes that a process left in the active segment when it died or panicked in an
    /// append.
    fn clear_behind_tail(&mut self) -> Result<()> {
        debug_assert!(turn::is_own(self.shared.control()), "only the holder of the turn clears bytes");
        let appender = &self.active.appender;
        let begin = appender.settled();
        let left = bytes_before_zeros(appender.bytes(begin..appender.len()));
        if left > 0 {
            self.active.segment.file.write_at(begin, &vec![0; left])?;
        }
        Ok(())
    }
}

/// Opens the segment that follows the record `after`. No record of that segment has been applied
/// yet.
fn open_begun(directory: &Directory, identity: Identity, after: Mark) -> Result<Active> {
    let first = after.position.next();
    let name = segment_name(first);
    let path = directory.path_of(&name);
    let header = SegmentHeader::decode(&directory.read_head(&name, SEGMENT_HEADER_BYTES)?, &path, identity)?;
    if (header.first, header.previous) != (first, after.chain) {
        let message = format!("it does not follow record {} with checksum {:08x}", after.position, after.chain);
        return Err(Error::Damaged { path, offset: 36, position: Some(first), message });
    }
    let file = directory.open_segment(&name)?;
    let appender = file.map(header.bytes, SEGMENT_HEADER_BYTES)?;
    let index = SegmentIndex::new(first, identity.seed());
    let segment = Arc::new(Segment::new(first, file, appender.view(), index));
    Ok(Active::found(segment, appender))
}
