//! A segment: one file of the log, its settled bytes and its index.
//!
//! Readers share it behind an `Arc`. Only the writer (or recovery, before anyone reads) settles bytes. The index follows them: the
//! writer takes in several records at a time, and whoever asks before takes in what is settled by its bytes. So whoever finds an
//! entry in the index can read it, and who asks finds every entry that is settled.

mod header;
mod index;
mod name;
mod postings;
mod runs;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use quire_mapped::View;
use quire_model::{Entry, Place, Position};

pub(crate) use header::{COMPACTED_HEADER_BYTES, Compacted, HEADER_BYTES, PackedImage, SegmentHeader};
pub(crate) use index::{Located, RecordTags, SegmentIndex, TagHash};
pub(crate) use name::{is_segment_name, segment_name};

use crate::error::Result;
use crate::record::{HEADER_BYTES as RECORD_HEADER_BYTES, RecordHeader, RecordView, TERMINATOR_BYTES, entry_at};
use crate::storage::directory::SegmentFile;

/// How far behind the tail pages are kept ready at least.
const READY_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) first: Position,
    pub(crate) file: SegmentFile,
    view: View,
    /// Held for writing only while records are taken in.
    index: RwLock<SegmentIndex>,
    /// How many bytes are indexed: set under the lock, and looked at without.
    indexed: AtomicUsize,
    /// Whether somebody asked for the index since the writer looked.
    asked: AtomicBool,
}

impl Segment {
    pub(crate) fn new(first: Position, file: SegmentFile, view: View, index: SegmentIndex) -> Self {
        let indexed = AtomicUsize::new(index.end_bytes());
        Segment { first, file, view, index: RwLock::new(index), indexed, asked: AtomicBool::new(false) }
    }

    /// The index of everything that is settled, to read. A writer that panicked within it has left it with whole records.
    pub(crate) fn index(&self) -> RwLockReadGuard<'_, SegmentIndex> {
        if self.indexed_bytes() < self.view.settled() {
            self.change_index(|index| index.read(self.bytes()));
        }
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes records, as far as nobody did who asked for them.
    pub(crate) fn take_in(&self, records: &RecordTags) {
        self.change_index(|index| index.add(records));
    }

    /// Whether somebody asked for the index since this was called last.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed)
    }

    /// How many bytes are indexed.
    #[inline]
    pub(crate) fn indexed_bytes(&self) -> usize {
        self.indexed.load(Ordering::Acquire)
    }

    fn change_index(&self, change: impl FnOnce(&mut SegmentIndex)) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut index);
        self.indexed.store(index.end_bytes(), Ordering::Release);
    }

    /// Writes the records from a position on once more, as they are, so that the next sync has them to write.
    pub(crate) fn write_again(&self, from: Position) -> Result<()> {
        let offset = if from <= self.first { Some(0) } else { self.index().record_offset(from) };
        let Some(offset) = offset else { return Ok(()) };
        self.file.write_at(offset, self.settled(offset, self.view.settled() - offset))
    }

    /// Where its records end.
    pub(crate) fn settled_bytes(&self) -> usize {
        self.view.settled()
    }

    /// Makes its records durable, and the zeros that end them.
    pub(crate) fn sync_settled(&self) -> Result<()> {
        self.file.sync_to(&self.view, (self.view.settled() + TERMINATOR_BYTES).min(self.view.len()))
    }

    /// Makes the pages behind its records ready to be written to, for as many bytes as were appended during the last sync
    /// and a few more.
    pub(crate) fn make_ready(&self, appended: usize) {
        let settled = self.view.settled();
        let end = settled.saturating_add(READY_BYTES.max(2 * appended)).min(self.view.len());
        self.view.populate(settled..end);
    }

    /// A record.
    pub(crate) fn record(&self, position: Position) -> Option<RecordView<'_>> {
        let offset = self.index().record_offset(position)?;
        let header = RecordHeader::read(self.settled(offset, RECORD_HEADER_BYTES));
        Some(RecordView::sealed(self.settled(offset, header.length as usize)))
    }

    /// Its header and its records: every byte that is settled.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.settled(0, self.view.settled())
    }

    /// The entry that the index located.
    #[inline]
    pub(crate) fn entry(&self, located: Located) -> Entry<'_> {
        entry_in(self.bytes(), located)
    }

    /// The entries that the index located.
    #[inline]
    pub(crate) fn entries(&self, located: &[Located]) -> impl Iterator<Item = Entry<'_>> {
        let bytes = self.bytes();
        located.iter().map(move |located| entry_in(bytes, *located))
    }

    /// Touches the first bytes of entries that the index located, before any is looked at, so that memory fetches them at once and not one
    /// after the other.
    pub(crate) fn touch(&self, located: &[Located]) {
        let bytes = self.bytes();
        let touch = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let touched = located.iter().fold(0, |sum, located| {
            // Header, tags and the beginning of the body lie on a few lines of the cache.
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

/// The entry that the index located in these bytes of its segment.
#[inline(always)]
fn entry_in(segment: &[u8], located: Located) -> Entry<'_> {
    let time = RecordHeader::read(&segment[located.record_offset..]).time;
    entry_at(&segment[located.entry_offset..], located.place, time).0
}
