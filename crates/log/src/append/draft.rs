//! A record in the making, to which a decision pushes its effects.
//!
//! Entries are encoded once. An `os` log encodes them into the mapped segment after the tail, where
//! they stay. A `sync` log does the same while many records wait for a sync. Otherwise, and when
//! the entries take many bytes, they go into a buffer that is then written through the file.
//!
//! A draft counts for nothing until its header is sealed and the tail has moved. A draft that is
//! dropped leaves the log as it was.

use quire_model::codec::Encoder;
use quire_model::{At, BodyChecksum, Effects, NewEntry, Place, Placement};

use crate::append::writer::{AppendedRecord, Core};
use crate::checksum::crc32c;
use crate::durable::gate::Woken;
use crate::error::{Error, Result};
use crate::read::reader::Reader;
use crate::record::{ALIGNMENT, EntryLayout, HEADER_BYTES};

/// Smallest part, in bytes, whose checksum is reused. A smaller part is checksummed again with the
/// rest, which takes less time than leaving it out.
const OWN_CHECKSUM_BYTES_MIN: usize = 256;

/// Number of encoders that are kept for the next decision, and the largest memory of each.
const SCRATCH_MAX: usize = 4;
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Draft<'w> {
    core: &'w mut Core,
    reader: &'w Reader,
    at: At,
    entries: u32,
    /// Bytes so far, including the header's.
    bytes: usize,
    /// Bytes of entries that were not kept, because the record had become too large.
    too_many: usize,
    /// Whether the bytes are in the core's buffer, rather than in the segment.
    buffered: bool,
}

impl<'w> Draft<'w> {
    #[inline(always)]
    pub(crate) fn new(core: &'w mut Core, reader: &'w Reader, at: At) -> Self {
        debug_assert_eq!(at.position, core.mark.position.next(), "a draft is of the next record");
        let buffered = !(core.writes_in_place() && core.fits(HEADER_BYTES));
        Draft { core, reader, at, entries: 0, bytes: HEADER_BYTES, too_many: 0, buffered }
    }

    /// Returns the reader for deciding on the record. It sees every record before this one,
    /// published or not.
    pub fn reader(&self) -> &'w Reader {
        self.reader
    }

    /// Whether nothing was pushed. A commit without effects takes no place in the log.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Checks that the record is not larger than the log allows.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_size(&self) -> Result<()> {
        let (bytes, bytes_max) = (self.whole_bytes() as u64, self.core.record_bytes_max());
        if bytes > bytes_max { Err(Error::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Returns the size of the record, with entries that were not kept.
    fn whole_bytes(&self) -> usize {
        (self.bytes + self.too_many).next_multiple_of(ALIGNMENT)
    }

    /// Appends the record, whole or not at all. From then on the writer's reader sees it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoSpace`] and other errors of the file system: nothing was
    /// appended.
    /// [`Error::Failed`] after an earlier failure.
    ///
    /// # Panics
    /// When the draft is empty.
    #[inline(always)]
    pub fn append(mut self) -> Result<AppendedRecord> {
        let (at, entries) = (self.at, self.entries);
        self.append_whole(false).map(|woken| AppendedRecord { at, basis: self.core.basis(), entries, woken })
    }

    /// Appends a record that lists data no longer needed, as [`Draft::append`] does. Such a record
    /// still finds space when others fail with [`Error::NoSpace`].
    ///
    /// # Errors
    /// As [`Draft::append`].
    ///
    /// # Panics
    /// As [`Draft::append`].
    #[inline(always)]
    pub fn append_to_free(mut self) -> Result<AppendedRecord> {
        let (at, entries) = (self.at, self.entries);
        self.append_whole(true).map(|woken| AppendedRecord { at, basis: self.core.basis(), entries, woken })
    }

    // Takes the draft by reference: moving it would stall on fields that were just written.
    fn append_whole(&mut self, frees: bool) -> Result<Woken> {
        assert!(!self.is_empty(), "an empty commit is not appended");
        self.check_size()?;
        let whole = self.whole_bytes();
        let woken = self.core.append(self.at, self.entries, self.bytes..whole, self.buffered, frees)?;
        self.entries = 0;
        Ok(woken)
    }

    /// Returns space for `bytes` bytes after those already written.
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let range = self.bytes..self.bytes + bytes;
        debug_assert!(range.start >= HEADER_BYTES, "entries follow the header");
        self.bytes = range.end;
        let whole = range.end.next_multiple_of(ALIGNMENT);
        if !self.buffered && (whole > self.core.in_place_bytes_max() || !self.core.fits(whole)) {
            self.core.buffer_draft(range.start);
            self.buffered = true;
        }
        if self.buffered { self.core.buffered(range) } else { self.core.in_place(range) }
    }
}

impl Effects for Draft<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn next_place(&self) -> Place {
        Place::new(self.at.position, self.entries)
    }

    #[inline]
    fn push(&mut self, entry: NewEntry<'_>) -> Placement {
        self.push_as(&entry, EntryLayout::of(&entry, None))
    }

    #[inline]
    fn push_covered(&mut self, entry: NewEntry<'_>, covered: BodyChecksum) -> Placement {
        debug_assert!(is_right(&entry, covered), "a checksum that an entry comes with is right");
        let own = (covered.bytes >= OWN_CHECKSUM_BYTES_MIN).then_some(covered);
        self.push_as(&entry, EntryLayout::of(&entry, own))
    }

    fn scratch(&mut self) -> Encoder {
        self.core.scratch.pop().unwrap_or_default()
    }

    fn keep(&mut self, mut scratch: Encoder) {
        if self.core.scratch.len() < SCRATCH_MAX && scratch.capacity() <= SCRATCH_BYTES_MAX {
            scratch.clear();
            self.core.scratch.push(scratch);
        }
    }
}

impl Draft<'_> {
    #[cold]
    fn come_to_nothing(&mut self) {
        if !self.buffered {
            // Refused bytes must not stay on the disk, where some could look like a record.
            self.core.in_place(HEADER_BYTES..self.bytes).fill(0);
        }
        self.core.end_draft();
    }

    #[inline(always)]
    fn push_as(&mut self, entry: &NewEntry<'_>, layout: EntryLayout) -> Placement {
        let place = self.next_place();
        // From here on the draft holds an entry to drop.
        self.entries += 1;
        let kept = (self.bytes + self.too_many + layout.length) as u64 <= self.core.record_bytes_max();
        let sequence = self.core.note_entry(entry, kept.then_some(self.bytes));
        if kept {
            let room = self.room(layout.length);
            layout.write(entry, sequence, room);
            if let Some(own) = layout.own_checksum {
                debug_assert!(own.bytes <= layout.length, "a checksum covers a part of its entry");
                self.core.own_parts.push(self.bytes - own.bytes..self.bytes);
            }
        } else {
            // The refusal is certain: the bytes are counted for the error, and not kept. The
            // deciding model does not know yet, and gets right numbers to the end.
            self.too_many += layout.length;
        }
        Placement { place, sequence }
    }
}

fn is_right(entry: &NewEntry<'_>, covered: BodyChecksum) -> bool {
    let body = entry.body.concat();
    body.len().checked_sub(covered.bytes).is_some_and(|at| crc32c(&body[at..]) == covered.crc32c)
}

impl Drop for Draft<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_empty() {
            self.come_to_nothing();
        }
        self.core.end_turn();
    }
}
