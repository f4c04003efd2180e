//! Reads the log by place and along tags, across its segments.
//!
//! A reader has a fixed list of segments and a limit. It sees the log as of its creation for its
//! whole lifetime. It keeps its segments alive, and keeps the sealed segments that it has used
//! open.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use quire_model::{Entry, History, Place, Position, ReadError, Sequence, StepBudget, Tag};

use crate::mark::Mark;
use crate::read::filtered::FilteredRange;
use crate::read::segments::{SegmentSlot, Segments};
use crate::read::spans::Spans;
use crate::record::{RecordKind, RecordView};
use crate::sealed::{Archive, Flaw, OpenSegment, Pins, SealedSegment};
use crate::search::{Candidates, TagSearch, count_while, expected};
use crate::segment::{EntryLocation, Segment, SegmentIndex, TagHash};

/// The access of readers to sealed segments.
#[derive(Debug)]
pub(crate) struct SegmentStore {
    pub(crate) archive: Archive,
    pub(crate) spans: Spans,
}

impl SegmentStore {
    /// Makes a segment that was just sealed or opened known to searches by tag and number.
    pub(crate) fn take_in(&self, sealed: &SealedSegment) -> Result<(), ReadError> {
        self.archive.numbered(sealed, |numbered| self.spans.take_in(numbered))
    }
}

/// A view of the log up to a position.
#[derive(Debug)]
pub struct Reader {
    pub(super) segments: Arc<Segments>,
    store: Arc<SegmentStore>,
    pins: Pins,
    pub(super) limit: Position,
    seed: u64,
    /// The steps that reads may take; `None` without a bound.
    budget: Option<StepBudget>,
}

/// The direction of a search along tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchDirection {
    Next,
    Previous,
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        Reader {
            segments: Arc::clone(&self.segments),
            store: Arc::clone(&self.store),
            pins: Pins::default(),
            limit: self.limit,
            seed: self.seed,
            budget: self.budget.clone(),
        }
    }
}

impl Drop for Reader {
    /// Releases the unpacked bytes that this reader kept, if too many are in memory.
    fn drop(&mut self) {
        if self.pins.are_any() {
            self.pins = Pins::default();
            self.store.archive.settle_unpacked();
        }
    }
}

impl Reader {
    pub(crate) fn new(store: Arc<SegmentStore>, seed: u64, limit: Position, segments: Arc<Segments>) -> Self {
        Reader { segments, store, pins: Pins::default(), limit, seed, budget: None }
    }

    /// Makes reads claim their steps from `budget`. A read that exceeds the budget fails with
    /// [`ReadErrorKind::TooCostly`](quire_model::ReadErrorKind::TooCostly).
    #[must_use]
    pub fn within(mut self, budget: Option<StepBudget>) -> Self {
        self.budget = budget;
        self
    }

    /// Returns the last visible position; [`Position::MAX`] for the writer's own reader.
    pub fn limit(&self) -> Position {
        self.limit
    }

    /// Returns the entries of the record at a position, in order. Returns `None` when the record
    /// does not exist or lies beyond the limit.
    ///
    /// # Errors
    /// When the record is damaged.
    pub fn record(&self, position: Position) -> Result<Option<impl Iterator<Item = Entry<'_>>>, ReadError> {
        if position > self.limit {
            return Ok(None);
        }
        Ok(self.record_at(position)?.map(|record| record.entries().map(|(_, entry)| entry)))
    }

    /// Returns the mark of the record at a position.
    pub(crate) fn mark(&self, position: Position) -> Result<Option<Mark>, ReadError> {
        Ok(self.record_at(position)?.map(|record| record.header.mark()))
    }

    /// Returns the bytes of the record at `position`, as they were appended, and its mark. `None`
    /// when there is no such record, or a compaction has rewritten it.
    ///
    /// # Errors
    /// When the record can't be read.
    pub fn whole_record(&self, position: Position) -> Result<Option<(Mark, &[u8])>, ReadError> {
        let record = self.record_at(position)?.filter(|record| record.kind() == RecordKind::Commit);
        Ok(record.map(|record| (record.header.mark(), record.bytes_from(0))))
    }

    fn record_at(&self, position: Position) -> Result<Option<RecordView<'_>>, ReadError> {
        match self.segments.segment_of(position) {
            SegmentSlot::Live(at) => Ok(self.segments.live.get(at).and_then(|segment| segment.record(position))),
            SegmentSlot::Sealed(at) => self.ask(at, |open| open.record_at(position)),
        }
    }

    /// Whether too many unpacked bytes are in memory, and this reader keeps a considerable part of
    /// them. A new reader then releases them: a reader keeps its unpacked bytes until it is
    /// dropped.
    pub fn holds_too_much(&self) -> bool {
        self.pins.are_any() && self.store.archive.has_too_much_unpacked(|| self.pins.unpacked_bytes())
    }

    /// Returns the generation of the reader's list of segments, see [`Segments::generation`].
    pub(crate) fn generation(&self) -> u64 {
        self.segments.generation
    }

    /// Queries a sealed segment. Repeats the query if the index had to be rebuilt.
    pub(super) fn ask<'a, T>(
        &'a self,
        at: usize,
        mut ask: impl FnMut(&'a OpenSegment) -> Result<T, Flaw>,
    ) -> Result<T, ReadError> {
        debug_assert!(at < self.segments.sealed.len(), "sealed segment {at} of {}", self.segments.sealed.len());
        let (sealed, archive) = (&*self.segments.sealed[at], &self.store.archive);
        let count = self.segments.sealed.len();
        let tell = |flaw| archive.read_error(sealed, flaw);
        match ask(self.pins.get(at, count, || archive.open(sealed))?) {
            Err(Flaw::Index(_)) => ask(self.pins.rebuilt(at, count, || archive.rebuild(sealed))?).map_err(tell),
            answer => answer.map_err(tell),
        }
    }

    /// Whether a sealed segment may hold an entry that carries all of these tags.
    pub(super) fn may_hold(&self, sealed: &SealedSegment, hashes: &[TagHash]) -> Result<bool, ReadError> {
        for hash in hashes {
            if !self.store.archive.may_hold(sealed, *hash)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn with_hashes<R>(&self, tags: &[Tag<'_>], search: impl FnOnce(&[TagHash]) -> R) -> R {
        let mut few = [TagHash::NONE; 8];
        if tags.len() <= few.len() {
            for (hash, tag) in few.iter_mut().zip(tags) {
                *hash = TagHash::of(*tag, self.seed);
            }
            search(&few[..tags.len()])
        } else {
            search(&tags.iter().map(|tag| TagHash::of(*tag, self.seed)).collect::<Vec<_>>())
        }
    }

    /// Searches a sealed segment from `ordinal` on, part by part.
    fn next_of_sealed(
        &self,
        at: usize,
        hashes: &[TagHash],
        mut ordinal: u32,
    ) -> Result<Option<(u32, Entry<'_>)>, ReadError> {
        loop {
            let (search, steps) = self.ask(at, |open| {
                let mut candidates = Candidates::new();
                Ok((open.next(hashes, ordinal, &mut candidates)?, candidates.steps()))
            })?;
            self.claim(steps)
                .map_err(|error| error.reached(|| self.reached_in_sealed(at, &search, SearchDirection::Next)))?;
            match search {
                TagSearch::Found(found) => return Ok(Some(found)),
                TagSearch::Ended => return Ok(None),
                TagSearch::Paused(at) => ordinal = at,
            }
        }
    }

    /// Searches a sealed segment before `ordinal`, part by part.
    fn previous_of_sealed(
        &self,
        at: usize,
        hashes: &[TagHash],
        mut ordinal: u32,
    ) -> Result<Option<(u32, Entry<'_>)>, ReadError> {
        loop {
            let (search, steps) = self.ask(at, |open| {
                let mut candidates = Candidates::new();
                Ok((open.previous(hashes, ordinal, &mut candidates)?, candidates.steps()))
            })?;
            self.claim(steps)
                .map_err(|error| error.reached(|| self.reached_in_sealed(at, &search, SearchDirection::Previous)))?;
            match search {
                TagSearch::Found(found) => return Ok(Some(found)),
                TagSearch::Ended => return Ok(None),
                TagSearch::Paused(at) => ordinal = at,
            }
        }
    }

    /// The place at which a search of a sealed segment continues that exceeded its budget.
    fn reached_in_sealed(
        &self,
        at: usize,
        search: &TagSearch<(u32, Entry<'_>)>,
        direction: SearchDirection,
    ) -> Option<Place> {
        let header = &self.segments.sealed[at].header;
        match (search, direction) {
            (TagSearch::Found((_, entry)), SearchDirection::Next) => Some(entry.place),
            (TagSearch::Found((_, entry)), SearchDirection::Previous) => Some(entry.place.after()),
            (TagSearch::Paused(ordinal), _) => self.ask(at, |open| Ok(open.entry(*ordinal)?.place)).ok(),
            (TagSearch::Ended, SearchDirection::Next) => Some(Place::new(header.end, 0)),
            (TagSearch::Ended, SearchDirection::Previous) => Some(Place::new(header.first, 0)),
        }
    }

    /// Searches a live segment from `from` on. The lock of the index is released after each part,
    /// so that the writer can index its records.
    fn next_of_live<'a>(
        &self,
        segment: &'a Segment,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        from: Place,
    ) -> Result<Option<Entry<'a>>, ReadError> {
        let mut ordinal = None;
        loop {
            let mut candidates = Candidates::new();
            let (search, located, end) = {
                let index = segment.index();
                let from = ordinal.unwrap_or_else(|| index.ordinal_at(from));
                let search = index.next(hashes, from, &mut candidates);
                (search, located(&index, search), index.end())
            };
            let reached = || match search {
                TagSearch::Found(_) => located.map(|located| located.place),
                TagSearch::Paused(at) => segment.index().locate(at).map(|located| located.place),
                TagSearch::Ended => Some(Place::new(end, 0)),
            };
            self.claim(candidates.steps()).map_err(|error| error.reached(reached))?;
            ordinal = Some(match search {
                TagSearch::Found(found) => found + 1,
                TagSearch::Ended => return Ok(None),
                TagSearch::Paused(at) => at,
            });
            let entry = located.map(|located| segment.entry(located));
            if let Some(entry) = entry.filter(|entry| carries(entry, tags)) {
                return Ok(Some(entry));
            }
        }
    }

    /// Searches a live segment before `before`, as [`Reader::next_of_live`] does.
    fn previous_of_live<'a>(
        &self,
        segment: &'a Segment,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        before: Place,
    ) -> Result<Option<Entry<'a>>, ReadError> {
        let mut ordinal = None;
        loop {
            let mut candidates = Candidates::new();
            let (search, located) = {
                let index = segment.index();
                let before = ordinal.unwrap_or_else(|| index.ordinal_at(before));
                let search = index.previous(hashes, before, &mut candidates);
                (search, located(&index, search))
            };
            let reached = || match search {
                TagSearch::Found(_) => located.map(|located| located.place.after()),
                TagSearch::Paused(at) => segment.index().locate(at).map(|located| located.place),
                TagSearch::Ended => Some(Place::new(segment.first, 0)),
            };
            self.claim(candidates.steps()).map_err(|error| error.reached(reached))?;
            ordinal = Some(match search {
                TagSearch::Found(at) | TagSearch::Paused(at) => at,
                TagSearch::Ended => return Ok(None),
            });
            let entry = located.map(|located| segment.entry(located));
            if let Some(entry) = entry.filter(|entry| carries(entry, tags)) {
                return Ok(Some(entry));
            }
        }
    }

    fn next_by_hash(&self, tags: &[Tag<'_>], hashes: &[TagHash], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        debug_assert_eq!(tags.len(), hashes.len(), "one hash per tag");
        let begin = self.segments.segment_of(from.position);
        if let SegmentSlot::Sealed(begin) = begin {
            let mut filtered = FilteredRange::default();
            for (at, sealed) in self.segments.sealed.iter().enumerate().skip(begin) {
                if sealed.first() > self.limit {
                    return Ok(None);
                }
                // A walk that continues within a segment usually ends there. The filters of the
                // next segments are checked many at a time.
                let continues = at == begin && from.position > sealed.first();
                if !continues && filtered.rejects(at, &self.segments.sealed, hashes) {
                    continue;
                }
                if !self.may_hold(sealed, hashes)? {
                    continue;
                }
                let mut ordinal = if at == begin { self.ask(at, |open| open.ordinal_at(from))? } else { 0 };
                while let Some((found, entry)) = self.next_of_sealed(at, hashes, ordinal)? {
                    if entry.place.position > self.limit {
                        return Ok(None);
                    }
                    if carries(&entry, tags) {
                        return Ok(Some(entry));
                    }
                    ordinal = found + 1;
                }
            }
        }
        let begin = if let SegmentSlot::Live(begin) = begin { begin } else { 0 };
        for (at, segment) in self.segments.live.iter().enumerate().skip(begin) {
            let from = if at == begin { from } else { Place::START };
            if let Some(entry) = self.next_of_live(segment, tags, hashes, from)? {
                return Ok(Some(entry).filter(|entry| entry.place.position <= self.limit));
            }
        }
        Ok(None)
    }

    /// See [`History::next_few`]. Returns entries of one segment.
    pub(super) fn few_by_hash<'h>(
        &'h self,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        from: Place,
        most: usize,
        found: &mut Vec<Entry<'h>>,
    ) -> Result<(), ReadError> {
        debug_assert_eq!(tags.len(), hashes.len(), "one hash per tag");
        debug_assert!(most > 1, "one entry is read without a list");
        let before = found.len();
        match self.segments.segment_of(from.position) {
            SegmentSlot::Live(at) => {
                if let Some(segment) = self.segments.live.get(at) {
                    let mut candidates = Candidates::new();
                    let located = {
                        let index = segment.index();
                        index.next_few(hashes, index.ordinal_at(from), most, &mut candidates)
                    };
                    let claimed = self.claim(candidates.steps() + located.len() as u64);
                    claimed.map_err(|error| error.reached(|| Some(from)))?;
                    let seen = located.partition_point(|located| located.place.position <= self.limit);
                    segment.touch(&located[..seen]);
                    // Entries are created in place. A hash collision with another tag is very rare.
                    found.extend(segment.entries(&located[..seen]));
                    if !found[before..].iter().all(|entry| carries(entry, tags)) {
                        let mut kept = found.split_off(before);
                        kept.retain(|entry| carries(entry, tags));
                        found.append(&mut kept);
                    }
                }
            }
            SegmentSlot::Sealed(at) => match self.few_of_sealed(at, tags, hashes, from, most, found) {
                // The entries before the error are returned. The next read reports the error.
                Err(_) if found.len() > before => {}
                read => read?,
            },
        }
        // This segment has no such entry; a later one may have some.
        if found.len() == before {
            found.extend(self.next_by_hash(tags, hashes, from)?);
        }
        debug_assert!(found.len() <= before + most, "at most {most} entries are returned");
        Ok(())
    }

    fn few_of_sealed<'h>(
        &'h self,
        at: usize,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        from: Place,
        most: usize,
        found: &mut Vec<Entry<'h>>,
    ) -> Result<(), ReadError> {
        if !self.may_hold(&self.segments.sealed[at], hashes)? {
            return Ok(());
        }
        let mut ordinal = self.ask(at, |open| open.ordinal_at(from))?;
        let end = found.len() + most;
        let before = found.len();
        // At least one entry is returned.
        while found.len() < end
            && (found.len() == before || !self.holds_too_much())
            && let Some((next, entry)) = self.next_of_sealed(at, hashes, ordinal)?
            && entry.place.position <= self.limit
        {
            if carries(&entry, tags) {
                found.push(entry);
            }
            ordinal = next + 1;
        }
        Ok(())
    }

    fn previous_by_hash(
        &self,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        before: Place,
    ) -> Result<Option<Entry<'_>>, ReadError> {
        debug_assert_eq!(tags.len(), hashes.len(), "one hash per tag");
        let before = match self.limit {
            Position::MAX => before,
            limit => before.min(Place::new(limit.next(), 0)),
        };
        let end = self.segments.segment_of(before.position);
        if let SegmentSlot::Live(end) = end {
            for segment in self.segments.live.iter().take(end + 1).rev() {
                if let Some(found) = self.previous_of_live(segment, tags, hashes, before)? {
                    return Ok(Some(found));
                }
            }
        }
        let end = if let SegmentSlot::Sealed(end) = end { end + 1 } else { self.segments.sealed.len() };
        for (at, sealed) in self.segments.sealed.iter().enumerate().take(end).rev() {
            // A segment that begins at `before` is skipped, which matters when it cannot be read.
            if before <= Place::new(sealed.first(), 0) || !self.may_hold(sealed, hashes)? {
                continue;
            }
            let mut ordinal = if before.position < sealed.header.end {
                self.ask(at, |open| open.ordinal_at(before))?
            } else {
                u32::MAX
            };
            while let Some((found, entry)) = self.previous_of_sealed(at, hashes, ordinal)? {
                if carries(&entry, tags) {
                    return Ok(Some(entry));
                }
                ordinal = found;
            }
        }
        Ok(None)
    }

    fn seek_by_hash(&self, tag: Tag<'_>, hash: TagHash, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        // The first entry of the tag in a live segment after the requested number.
        let mut after = None;
        for segment in self.segments.live.iter().rev() {
            if let Some((found, first)) = seek_in_live(segment, tag, hash, sequence) {
                if first <= sequence {
                    return Ok(found.or(after));
                }
                after = found;
            }
        }
        let Some(begin) = self.store.spans.begin(tag, hash, sequence) else { return Ok(after) };
        let SegmentSlot::Sealed(begin) = self.segments.segment_of(begin) else { return Ok(after) };
        for (at, sealed) in self.segments.sealed.iter().enumerate().skip(begin) {
            if self.may_hold(sealed, &[hash])?
                && let Some(found) = self.ask(at, |open| open.seek(tag, hash, sequence))?
            {
                return Ok(Some(found));
            }
        }
        Ok(after)
    }
}

impl History for Reader {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        if place.position > self.limit {
            return Ok(None);
        }
        self.claim(1)?;
        match self.segments.segment_of(place.position) {
            SegmentSlot::Live(at) => Ok(self.segments.live.get(at).and_then(|segment| segment.entry_at(place))),
            SegmentSlot::Sealed(at) => self.ask(at, |open| open.entry_at(place)),
        }
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.with_hashes(tags, |hashes| self.next_by_hash(tags, hashes, from))
    }

    fn next_few<'h>(
        &'h self,
        tags: &[Tag<'_>],
        from: Place,
        most: usize,
        found: &mut Vec<Entry<'h>>,
    ) -> Result<(), ReadError> {
        if most < 2 {
            if most == 1 {
                found.extend(self.next(tags, from)?);
            }
            return Ok(());
        }
        self.with_hashes(tags, |hashes| self.few_by_hash(tags, hashes, from, most, found))
    }

    fn scan<'h>(
        &'h self,
        tags: &[Tag<'_>],
        from: Place,
        before: Place,
        visit: &mut dyn FnMut(&Entry<'h>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.with_hashes(tags, |hashes| self.scan_by_hash(tags, hashes, from, before, visit))
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.with_hashes(tags, |hashes| self.previous_by_hash(tags, hashes, before))
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        self.claim(1)?;
        let found = self.seek_by_hash(tag, TagHash::of(tag, self.seed), sequence)?;
        Ok(found.filter(|entry| entry.place.position <= self.limit))
    }

    #[inline]
    fn claim(&self, steps: u64) -> Result<(), ReadError> {
        self.budget.as_ref().map_or(Ok(()), |budget| budget.claim(steps))
    }

    fn share_steps(&self, among: u64) {
        if let Some(budget) = &self.budget {
            budget.share(among);
        }
    }

    fn holds_too_much(&self) -> bool {
        self.holds_too_much()
    }

    fn fresh(&self) -> Option<Box<dyn History>> {
        Some(Box::new(self.clone()))
    }
}

/// The location of the entry that a search found.
fn located(index: &SegmentIndex, search: TagSearch) -> Option<EntryLocation> {
    let TagSearch::Found(ordinal) = search else { return None };
    Some(index.locate(ordinal).expect("a posting is the ordinal of an entry"))
}

/// Returns the first entry of a tag in a segment whose numbers reach beyond `sequence`, and the
/// tag's first number there. Returns `None` when the segment holds no number of the tag.
fn seek_in_live<'a>(
    segment: &'a Segment,
    tag: Tag<'_>,
    hash: TagHash,
    sequence: Sequence,
) -> Option<(Option<Entry<'a>>, Sequence)> {
    let index = segment.index();
    let at = |ordinal: u32| segment.entry(index.locate(ordinal).expect("a posting is the ordinal of an entry"));
    let postings = index.postings(hash);
    let (first, last) = (at(*postings.first()?), at(*postings.last()?));
    let mut foreign = !numbers(&first, tag) || !numbers(&last, tag);
    if let (false, Some(begin), Some(end)) = (foreign, first.sequence, last.sequence) {
        if begin > sequence {
            return Some((Some(first), begin));
        }
        let guess = expected(sequence.get(), begin.get(), end.get(), postings.len());
        let Ok(holds) = count_while(postings.len(), guess, |posting| {
            let entry = at(postings[posting]);
            foreign |= !numbers(&entry, tag);
            Ok::<_, Infallible>(!foreign && entry.next_sequence() <= sequence)
        });
        if !foreign {
            return Some((postings.get(holds).map(|ordinal| at(*ordinal)), begin));
        }
    }
    // Another tag has the same hash: check each entry. This is very rare.
    let own: Vec<u32> = postings.iter().copied().filter(|ordinal| numbers(&at(*ordinal), tag)).collect();
    let first = at(*own.first()?).sequence.expect("the entry takes numbers");
    Some((own.iter().map(|ordinal| at(*ordinal)).find(|entry| entry.next_sequence() > sequence), first))
}

/// Whether an entry that was found by hashes carries the tags.
pub(super) fn carries(entry: &Entry<'_>, tags: &[Tag<'_>]) -> bool {
    tags.iter().all(|tag| entry.tags.contains(*tag))
}

/// Whether an entry takes numbers of this tag.
fn numbers(entry: &Entry<'_>, tag: Tag<'_>) -> bool {
    entry.sequence.is_some() && entry.tags.first() == Some(tag)
}
