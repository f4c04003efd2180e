//! Bulk changes: every job that a filter matches, a bounded part a commit.
//!
//! The filter and the change are in the entry that began the bulk change; the place of that entry
//! is its id. This file holds its progress. A commit that changes some of the jobs stores the
//! progress in the same record, so a crash neither repeats nor skips a job.

use alloc::collections::BTreeMap;

use quire_model::Place;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::Cursor;
use crate::codec::{BulkAdvance, read_id, write_id};

/// The number of finished bulk changes that are remembered.
const DONE_MAX: usize = 100;

/// The progress of a bulk change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkProgress {
    /// The number of scanned jobs.
    pub looked_at: u64,
    /// The number of matching jobs that were changed.
    pub changed: u64,
    /// The number of matching jobs that could not be changed.
    pub refused: u64,
    /// Whether the bulk change is finished.
    pub done: bool,
    /// Whether it ended before it had examined all jobs, because its creator lost its rights.
    pub stopped: bool,
}

/// The end of a bulk change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkEnd {
    /// It has examined all jobs.
    Complete,
    /// Its creator lost its rights.
    Stopped,
}

impl BulkEnd {
    /// The byte of an entry and a checkpoint.
    pub(crate) fn number(end: Option<BulkEnd>) -> u8 {
        match end {
            None => 0,
            Some(BulkEnd::Complete) => 1,
            Some(BulkEnd::Stopped) => 2,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<BulkEnd> {
        match number {
            0 => None,
            2 => Some(BulkEnd::Stopped),
            _ => Some(BulkEnd::Complete),
        }
    }
}

impl BulkProgress {
    fn end(&self) -> Option<BulkEnd> {
        self.done.then_some(if self.stopped { BulkEnd::Stopped } else { BulkEnd::Complete })
    }

    fn set_end(&mut self, end: Option<BulkEnd>) {
        (self.done, self.stopped) = (end.is_some(), end == Some(BulkEnd::Stopped));
    }
}

/// A bulk change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bulk {
    /// The cursor at which the search continues.
    pub(crate) cursor: Cursor,
    pub(crate) progress: BulkProgress,
}

/// The running bulk changes, and the last finished ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bulks {
    bulks: BTreeMap<Place, Bulk>,
    under_way: usize,
}

impl Bulks {
    pub(crate) fn is_active(&self) -> bool {
        self.under_way > 0
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// The oldest running bulk change.
    pub(crate) fn next(&self) -> Option<(Place, Bulk)> {
        self.bulks.iter().find(|(_, bulk)| !bulk.progress.done).map(|(place, bulk)| (*place, *bulk))
    }

    pub(crate) fn get(&self, place: Place) -> Option<Bulk> {
        self.bulks.get(&place).copied()
    }

    pub(crate) fn begin(&mut self, place: Place) {
        let progress = BulkProgress { looked_at: 0, changed: 0, refused: 0, done: false, stopped: false };
        self.put(place, Bulk { cursor: Cursor::START, progress });
    }

    pub(crate) fn advance(&mut self, by: &BulkAdvance) {
        let bulk = self.bulks.get_mut(&by.bulk).expect("a running bulk change exists");
        bulk.cursor = by.cursor;
        bulk.progress.looked_at += by.looked_at;
        bulk.progress.changed += by.changed;
        bulk.progress.refused += by.refused;
        if by.end.is_some() {
            bulk.progress.set_end(by.end);
            self.under_way -= 1;
            let done = self.bulks.iter().filter(|(_, bulk)| bulk.progress.done).map(|(place, _)| *place);
            if self.bulks.len() - self.under_way > DONE_MAX
                && let Some(oldest) = done.min()
            {
                self.bulks.remove(&oldest);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, Bulk)> {
        self.bulks.iter().map(|(place, bulk)| (*place, *bulk))
    }

    fn put(&mut self, place: Place, bulk: Bulk) {
        self.under_way += usize::from(!bulk.progress.done);
        self.bulks.insert(place, bulk);
    }

    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.bulks.len() as u64);
        for (place, Bulk { cursor, progress }) in &self.bulks {
            write_id(*place, out);
            cursor.write(out);
            out.varint(progress.looked_at)
                .varint(progress.changed)
                .varint(progress.refused)
                .u8(BulkEnd::number(progress.end()));
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut bulks = Bulks::default();
        for _ in 0..from.varint()? {
            let (place, cursor) = (read_id(from)?, Cursor::read(from)?);
            let (looked_at, changed, refused) = (from.varint()?, from.varint()?, from.varint()?);
            let mut progress = BulkProgress { looked_at, changed, refused, done: false, stopped: false };
            progress.set_end(BulkEnd::of_number(from.u8()?));
            bulks.put(place, Bulk { cursor, progress });
        }
        Ok(bulks)
    }
}
