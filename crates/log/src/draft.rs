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
    /// Numbers taken by entries that were not kept, with the tag itself. They come after those in `taken`.
    taken_beyond: Vec<(Vec<u8>, Sequence)>,
}

impl<'w> Draft<'w> {
    pub(crate) fn new(core: &'w mut Core, at: At) -> Self {
        let buffered = !(core.writes_in_place() && core.fits(HEADER_BYTES));
        let taken = std::mem::take(&mut core.taken);
        Draft { core, at, entries: 0, bytes: HEADER_BYTES, too_many: 0, buffered, taken, taken_beyond: Vec::new() }
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
        let beyond = self.taken_beyond.iter().find(|(own, _)| own == tag.as_bytes()).map(|(_, next)| *next);
        let own = || self.taken_of(tag).map(|index| self.taken[index].1);
        beyond.or_else(own).or_else(|| self.core.sequences.next(tag))
    }

    /// Where in `taken` a tag is.
    fn taken_of(&self, tag: Tag<'_>) -> Option<usize> {
        self.taken.iter().position(|(range, _)| {
            let bytes =
                if self.buffered { &self.core.buffer[range.clone()] } else { self.core.in_place_read(range.clone()) };
            bytes == tag.as_bytes()
        })
    }

    /// Notes that a tag's next number is this one; its bytes stand at `tag_at`.
    fn take_numbers(&mut self, tag: Tag<'_>, tag_at: usize, next: Sequence) {
        match self.taken_of(tag) {
            Some(index) => self.taken[index].1 = next,
            None => self.taken.push((tag_at..tag_at + tag.as_bytes().len(), next)),
        }
    }

    /// Notes that a tag's next number is this one; its bytes stand nowhere.
    fn take_numbers_beyond(&mut self, tag: Tag<'_>, next: Sequence) {
        match self.taken_beyond.iter_mut().find(|(own, _)| own == tag.as_bytes()) {
            Some((_, known)) => *known = next,
            None => self.taken_beyond.push((tag.as_bytes().to_vec(), next)),
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
        let next = sequence.zip(entry.sequenced).map(|(first, sequenced)| {
            let next = Sequence::new(first.get() + u64::from(sequenced.count));
            (entry.tags[0], next)
        });
        let begin = self.bytes;
        if (begin + self.too_many + entry_bytes(&entry)) as u64 > self.core.record_bytes_max() {
            // The refusal is certain: the bytes are counted, so that it can say how many, and not kept. Whoever decides does
            // not know yet, and is told right numbers to the end.
            self.too_many += entry_bytes(&entry);
            next.into_iter().for_each(|(tag, next)| self.take_numbers_beyond(tag, next));
            return Placed { place, sequence };
        }
        write_entry(&entry, sequence, |bytes| self.room(bytes));
        next.into_iter().for_each(|(tag, next)| self.take_numbers(tag, begin + SEQUENCED_TAG_AT, next));
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
        self.core.end_turn();
    }
}
