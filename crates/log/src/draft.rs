//! A record in the making: where a decision's effects go.
//!
//! Entries are encoded once: in an `os` log into the mapped segment behind the tail, where they stay; in a `sync` log, and when they
//! are many, into a buffer that is then written through the file. Until the header is sealed and the tail has moved they
//! are nothing, so a draft that is dropped leaves the log as it was.

use std::ops::Range;

use quire_model::{At, Effects, NewEntry, Place, Placed, Sequence, Tag};

use crate::error::{Error, Result};
use crate::record::{ALIGNMENT, HEADER_BYTES, SEQUENCED_TAG_AT, entry_bytes, write_entry};
use crate::writer::{Appended, Core};

/// Above this, a record is written through the file even in an `os` log: one call for all its pages is cheaper than a page
/// fault for each (0.5 against 2 µs a page on Linux 6.18, ext4).
const IN_PLACE_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Draft<'w> {
    core: &'w mut Core,
    at: At,
    entries: u32,
    /// Bytes so far, the header's included.
    bytes: usize,
    /// Bytes of entries that were not kept, because the record had become too large.
    too_many: usize,
    /// Whether the bytes are in the core's buffer, rather than in the segment.
    buffered: bool,
    /// Numbers taken by this draft: the tag's bytes within the record, and the tag's next number.
    taken: Vec<(Range<usize>, Sequence)>,
}

impl<'w> Draft<'w> {
    pub(crate) fn new(core: &'w mut Core, at: At) -> Self {
        let buffered = !(core.writes_in_place() && core.fits(HEADER_BYTES));
        let taken = std::mem::take(&mut core.taken);
        Draft { core, at, entries: 0, bytes: HEADER_BYTES, too_many: 0, buffered, taken }
    }

    /// Whether nothing was pushed: a commit without effects takes no place in the log.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Appends the record, whole or not at all. From then on the writer's reader sees it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoSpace`] and other errors of the file system: nothing was appended.
    /// [`Error::Failed`] after an earlier failure.
    ///
    /// # Panics
    /// When the draft is empty.
    pub fn append(mut self) -> Result<Appended> {
        assert!(!self.is_empty(), "an empty commit is not appended");
        let whole = (self.bytes + self.too_many).next_multiple_of(ALIGNMENT);
        if whole as u64 > self.core.record_bytes_max() {
            return Err(Error::TooLarge { bytes: whole as u64, bytes_max: self.core.record_bytes_max() });
        }
        let padding = whole - self.bytes;
        self.room(padding).fill(0);
        let appended = self.core.append(self.at, self.entries, whole, self.buffered)?;
        self.bytes = HEADER_BYTES;
        Ok(appended)
    }

    /// Room for so many bytes behind those that stand.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let range = self.bytes..self.bytes + bytes;
        self.bytes = range.end;
        let whole = range.end.next_multiple_of(ALIGNMENT);
        if !self.buffered && (whole > IN_PLACE_BYTES_MAX || !self.core.fits(whole)) {
            self.core.buffer_draft(range.start);
            self.buffered = true;
        }
        if self.buffered { self.core.buffered(range) } else { self.core.in_place(range) }
    }

    fn next_sequence(&self, tag: Tag<'_>) -> Option<Sequence> {
        let own = self.taken.iter().find(|(range, _)| {
            let bytes =
                if self.buffered { &self.core.buffer[range.clone()] } else { self.core.in_place_read(range.clone()) };
            bytes == tag.as_bytes()
        });
        own.map(|(_, next)| *next).or_else(|| self.core.sequences.next(tag))
    }

    fn take_numbers(&mut self, tag: Tag<'_>, tag_at: usize, first: Sequence, count: u32) {
        let next = Sequence::new(first.get() + u64::from(count));
        let known = self.taken.iter().position(|(range, _)| {
            let bytes =
                if self.buffered { &self.core.buffer[range.clone()] } else { self.core.in_place_read(range.clone()) };
            bytes == tag.as_bytes()
        });
        match known {
            Some(index) => self.taken[index].1 = next,
            None => self.taken.push((tag_at..tag_at + tag.as_bytes().len(), next)),
        }
    }
}

impl Effects for Draft<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn next_place(&self) -> Place {
        Place::new(self.at.position, self.entries)
    }

    fn push(&mut self, entry: NewEntry<'_>) -> Placed {
        let place = self.next_place();
        let sequence = entry.sequenced.map(|sequenced| {
            assert!(sequenced.count > 0, "a sequenced entry takes at least one number");
            self.next_sequence(entry.tags[0]).unwrap_or(sequenced.origin)
        });
        self.entries += 1;
        let begin = self.bytes;
        if (begin + self.too_many + entry_bytes(&entry)) as u64 > self.core.record_bytes_max() {
            // The refusal is certain: the bytes are counted, so that it can say how many, and not kept.
            self.too_many += entry_bytes(&entry);
            return Placed { place, sequence };
        }
        write_entry(&entry, sequence, |bytes| self.room(bytes));
        if let (Some(first), Some(sequenced)) = (sequence, entry.sequenced) {
            self.take_numbers(entry.tags[0], begin + SEQUENCED_TAG_AT, first, sequenced.count);
        }
        Placed { place, sequence }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.buffered && self.bytes > HEADER_BYTES {
            // What was refused does not stay on the disk, where something in it could look like a record.
            self.core.in_place(HEADER_BYTES..self.bytes).fill(0);
        }
        self.taken.clear();
        std::mem::swap(&mut self.core.taken, &mut self.taken);
    }
}
