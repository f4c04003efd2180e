//! A segment: one file of the log, its settled bytes and its index.
//!
//! Readers share a segment behind an `Arc`. Only the writer settles bytes, or recovery before
//! readers exist. The index follows: the writer indexes several records at a time, and a reader
//! that comes first indexes the settled bytes itself. A reader therefore finds every settled entry
//! in the index, and can read every entry that it finds.

mod header;
mod index;
mod name;
mod postings;
mod runs;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use quire_mapped::View;
use quire_model::{Entry, Place, Position};
use quire_threads::{FairRwLock, RwLockReadGuard};

pub(crate) use header::{COMPACTED_HEADER_BYTES, CompactedRange, HEADER_BYTES, PackedImage, SegmentHeader};
pub(crate) use index::{EntryLocation, RecordTags, SegmentIndex, TagHash};
pub(crate) use name::{is_segment_name, segment_name};

use crate::error::Result;
use crate::record::{HEADER_BYTES as RECORD_HEADER_BYTES, RecordHeader, RecordView, TERMINATOR_BYTES, entry_at};
use crate::storage::directory::SegmentFile;

/// Fewest bytes after the tail that [`Segment::make_ready`] populates.
const READY_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) first: Position,
    pub(crate) file: SegmentFile,
    view: View,
    /// Locked for writing only while records are indexed. A search that locks it again and again
    /// passes a waiting writer at most once.
    index: FairRwLock<SegmentIndex>,
    /// The count of indexed bytes: written under the lock, read without it.
    indexed: AtomicUsize,
    /// Whether a reader used the index since the writer last checked.
    was_read: AtomicBool,
}

impl Segment {
    pub(crate) fn new(first: Position, file: SegmentFile, view: View, index: SegmentIndex) -> Self {
        assert!(index.end_bytes() <= view.settled(), "only settled records are indexed");
        let indexed = AtomicUsize::new(index.end_bytes());
        Segment { first, file, view, index: FairRwLock::new(index, 0), indexed, was_read: AtomicBool::new(false) }
    }

    /// Locks the index of all settled records for reading. After a panic of the writer, the index
    /// still holds whole records only.
    pub(crate) fn index(&self) -> RwLockReadGuard<'_, SegmentIndex> {
        if self.indexed_bytes() < self.view.settled() {
            self.change_index(|index| index.read(self.bytes()));
        }
        debug_assert!(self.indexed_bytes() <= self.view.settled(), "only settled records are indexed");
        if !self.was_read.load(Ordering::Relaxed) {
            self.was_read.store(true, Ordering::Relaxed);
        }
        self.index.read(no_time)
    }

    /// Indexes `records`; those that a reader has indexed are skipped.
    pub(crate) fn index_records(&self, records: &RecordTags) {
        self.change_index(|index| index.add(records));
    }

    /// Whether a reader used the index since the last call.
    pub(crate) fn take_was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed) && self.was_read.swap(false, Ordering::Relaxed)
    }

    /// The count of indexed bytes.
    #[inline]
    pub(crate) fn indexed_bytes(&self) -> usize {
        self.indexed.load(Ordering::Acquire)
    }

    fn change_index(&self, change: impl FnOnce(&mut SegmentIndex)) {
        let mut index = self.index.write(no_time);
        let before = index.end_bytes();
        change(&mut index);
        debug_assert!(index.end_bytes() >= before, "an index only grows");
        debug_assert!(index.end_bytes() <= self.view.settled(), "only settled records are indexed");
        self.indexed.store(index.end_bytes(), Ordering::Release);
    }

    /// Writes the records from `from` on again, unchanged, so that the next sync writes them.
    pub(crate) fn write_again(&self, from: Position) -> Result<()> {
        let offset = if from <= self.first { Some(0) } else { self.index().record_offset(from) };
        let Some(offset) = offset else { return Ok(()) };
        self.file.write_at(offset, self.settled(offset, self.view.settled() - offset))
    }

    /// The end of the records, as an offset.
    pub(crate) fn settled_bytes(&self) -> usize {
        self.view.settled()
    }

    /// Syncs the records and the zeros after them.
    pub(crate) fn sync_settled(&self) -> Result<()> {
        self.file.sync_to(&self.view, (self.view.settled() + TERMINATOR_BYTES).min(self.view.len()))
    }

    /// Prepares the pages after the records for writing: twice as many bytes as were `appended`
    /// during the last sync, and at least [`READY_BYTES`].
    pub(crate) fn make_ready(&self, appended: usize) {
        let settled = self.view.settled();
        debug_assert!(appended <= settled, "appended records are settled");
        let end = settled.saturating_add(READY_BYTES.max(2 * appended)).min(self.view.len());
        self.view.populate(settled..end);
    }

    /// The record at a position.
    pub(crate) fn record(&self, position: Position) -> Option<RecordView<'_>> {
        let offset = self.index().record_offset(position)?;
        let header = RecordHeader::read(self.settled(offset, RECORD_HEADER_BYTES));
        let record = RecordView::sealed(self.settled(offset, header.length as usize));
        debug_assert_eq!(record.header.position, position, "the index locates records by position");
        Some(record)
    }

    /// Passes the entries from `from` on and before `before` to `visit`, in order, until `visit`
    /// breaks. Moves `from` to the record after the last one that was read, and to `before` at the
    /// end of the range.
    pub(crate) fn scan<'a>(
        &'a self,
        from: &mut Place,
        before: Place,
        mut visit: impl FnMut(&Entry<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let bytes = self.bytes();
        let (mut record_offset, mut first) = (HEADER_BYTES, None);
        // A scan of the whole segment needs no index.
        if *from > Place::new(self.first, 0) {
            let located = {
                let index = self.index();
                index.locate(index.ordinal_at(*from))
            };
            let Some(located) = located else { return ControlFlow::Continue(()) };
            (record_offset, first) = (located.record_offset, Some(located.entry_offset - located.record_offset));
        }
        while record_offset < bytes.len() {
            let record = RecordView::verified_before(&bytes[record_offset..]);
            let position = record.header.position;
            if Place::new(position, 0) >= before {
                *from = before;
                break;
            }
            let offset = first.take().unwrap_or_else(|| record.entries_at());
            let visited =
                record.each_of(record.numbers_between(*from, before), offset, |_, entry| match visit(entry) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => Err(()),
                });
            if visited.is_err() {
                return ControlFlow::Break(());
            }
            record_offset += record.header.length as usize;
            *from = Place::new(position.next(), 0);
        }
        ControlFlow::Continue(())
    }

    /// Whether, for each of these tags, at least one of `one_of` entries has a tag of its hash.
    pub(crate) fn is_dense(&self, tags: &[TagHash], one_of: u32) -> bool {
        if tags.is_empty() {
            return true;
        }
        let index = self.index();
        let entries = index.entries() as u64;
        tags.iter().all(|tag| index.postings(*tag).len() as u64 * u64::from(one_of) >= entries)
    }

    /// The header and the records: every settled byte.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.settled(0, self.view.settled())
    }

    /// The entry at a location that the index returned.
    #[inline]
    pub(crate) fn entry(&self, located: EntryLocation) -> Entry<'_> {
        entry_in(self.bytes(), located)
    }

    /// The entries at locations that the index returned.
    #[inline]
    pub(crate) fn entries(&self, located: &[EntryLocation]) -> impl Iterator<Item = Entry<'_>> {
        let bytes = self.bytes();
        located.iter().map(move |located| entry_in(bytes, *located))
    }

    /// Touches the first bytes of the located entries, so that their loads from memory overlap.
    pub(crate) fn touch(&self, located: &[EntryLocation]) {
        let bytes = self.bytes();
        let touch = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let touched = located.iter().fold(0, |sum, located| {
            // Header, tags and the start of the body span a few cache lines.
            sum ^ touch(located.record_offset) ^ touch(located.entry_offset + 64) ^ touch(located.entry_offset + 128)
        });
        black_box(touched);
    }

    /// The entry at a place.
    pub(crate) fn entry_at(&self, place: Place) -> Option<Entry<'_>> {
        let located = {
            let index = self.index();
            index.locate(index.ordinal_at(place))?
        };
        (located.place == place).then(|| self.entry(located))
    }

    fn settled(&self, offset: usize, bytes: usize) -> &[u8] {
        self.view.bytes(offset..offset + bytes).expect("indexed bytes are settled")
    }
}

/// The lock of the index has no patience, so it needs no time.
fn no_time() -> u64 {
    0
}

/// The entry at `located` in the bytes of its segment.
#[inline(always)]
fn entry_in(segment: &[u8], located: EntryLocation) -> Entry<'_> {
    debug_assert!(located.record_offset < located.entry_offset, "an entry follows the header of its record");
    let time = RecordHeader::read(&segment[located.record_offset..]).time;
    entry_at(&segment[located.entry_offset..], located.place, time).0
}
