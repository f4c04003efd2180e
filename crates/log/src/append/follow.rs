//! Taking in what others appended: each process that has the log open keeps an index and a state of its own, and brings them up
//! to the tail by itself.
//!
//! Records up to the tail never change, so this needs no turn. Their checksums are not verified again: they come from the
//! memory that the processes share, as one's own do, and not from the disk.

use std::hint::black_box;
use std::sync::Arc;

use quire_model::Position;

use crate::append::writer::{Active, Core};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::mark::Mark;
use crate::record::{HEADER_BYTES as RECORD_HEADER_BYTES, RecordHeader, RecordView};
use crate::recovery::bytes_before_zeros;
use crate::segment::{HEADER_BYTES as SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentIndex, segment_name};
use crate::storage::directory::Directory;

/// How many lines of a record's memory are asked for before it is looked at: those of a small one. What follows is fetched ahead.
const LINES_TOUCHED: usize = 8;
const CACHE_LINE_BYTES: usize = 64;

impl Core {
    /// Whether somebody else appended what is not taken in here yet.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        !self.shared.control().tail_is(self.mark.position)
    }

    /// Takes in the next record that is not taken in yet. Says its position; `None` when there is none.
    pub(crate) fn follow(&mut self) -> Result<Option<Position>> {
        if self.is_behind() { self.take_in_next().map(Some) } else { Ok(None) }
    }

    fn take_in_next(&mut self) -> Result<Position> {
        let header = match self.next_header() {
            Some(header) => header,
            None => {
                // It did not fit: whoever appended it went on in a new segment.
                self.enter()?;
                self.next_header().ok_or_else(|| Error::Damaged {
                    path: self.shared.directory().path_of(&segment_name(self.active.segment.first)),
                    offset: self.active.appender.settled() as u64,
                    position: Some(self.mark.position.next()),
                    message: "another process appended a record that is not there".to_owned(),
                })?
            }
        };
        // What a draft noted that was forgotten.
        self.tags.drop_unfinished();
        let begin = self.active.appender.settled();
        let mark = header.mark();
        let range = begin..begin + header.length as usize;
        let bytes = self.active.appender.bytes(range.clone());
        // They lie in another processor's cache: each line would be waited for by itself.
        black_box(bytes.iter().step_by(CACHE_LINE_BYTES).take(LINES_TOUCHED).fold(0, |sum, byte| sum ^ byte));
        let record = RecordView::sealed(bytes);
        self.tags.read(record, self.shared.seed(), &mut self.sequences);
        self.take_in(range, mark, header.time);
        self.shared.clock().not_before(header.time);
        self.shared.note_followed(self.mark.position);
        Ok(self.mark.position)
    }

    /// Whether the active segment and what stands behind the tail are what they have to be for an append.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.to_clear && self.shared.control().active_is(self.active.segment.first)
    }

    /// Makes them so. The turn is held, and everything was followed.
    pub(crate) fn settle_turn(&mut self) -> Result<()> {
        if self.to_clear {
            self.clear_behind_tail()?;
            if self.is_next_begun()? {
                // Whoever left had begun it, and others may be in it already: it is gone on in, and never removed.
                self.enter()?;
                self.clear_behind_tail()?;
            }
            self.shared.control().set_active(self.active.segment.first);
            // What a draft noted that was forgotten.
            self.end_draft();
            self.to_clear = false;
        }
        if !self.shared.control().active_is(self.active.segment.first) {
            // Somebody went on in a new segment, and has appended nothing to it.
            self.enter()?;
        }
        Ok(())
    }

    /// Whether a segment behind the active one was begun, which then holds no record.
    fn is_next_begun(&self) -> Result<bool> {
        let next = self.mark.position.next();
        let name = segment_name(next);
        Ok(self.active.segment.first != next && self.shared.directory().names()?.contains(&name))
    }

    /// The header of the record behind the settled bytes of the active segment, when the next record stands there.
    fn next_header(&self) -> Option<RecordHeader> {
        let appender = &self.active.appender;
        let begin = appender.settled();
        if appender.len() - begin < RECORD_HEADER_BYTES {
            return None;
        }
        let header = RecordHeader::read(appender.bytes(begin..begin + RECORD_HEADER_BYTES));
        let fits = header.length as usize <= appender.len() - begin;
        (fits && header.follows(self.mark).is_ok()).then_some(header)
    }

    /// Goes on in the segment that another process made behind the last record.
    fn enter(&mut self) -> Result<()> {
        let active = open_begun(self.shared.directory(), self.shared.identity(), self.mark)?;
        self.shared.add_segment(&active);
        self.go_on_in(active);
        Ok(())
    }

    /// Clears what somebody left in the active segment who died, or panicked, while it appended.
    fn clear_behind_tail(&mut self) -> Result<()> {
        let appender = &self.active.appender;
        let begin = appender.settled();
        let left = bytes_before_zeros(appender.bytes(begin..appender.len()));
        if left > 0 {
            self.active.segment.file.write_at(begin, &vec![0; left])?;
        }
        Ok(())
    }
}

/// Opens the segment that follows a record, none of whose own records were taken in yet.
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
