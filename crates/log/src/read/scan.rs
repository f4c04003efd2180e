//! Reads many entries in log order.
//!
//! A segment in which many entries carry the tags is read from front to back: each record follows
//! the previous one in memory, and its entries follow each other. Any other segment is read along
//! its index.

use std::ops::ControlFlow;

use quire_model::{Entry, History, Place, Position, ReadError, Tag};

use super::reader::{Reader, carries};
use super::segments::SegmentSlot;
use crate::segment::TagHash;

/// A segment is read from front to back when at least one of this number of its entries carries the
/// tag. Finding one entry by the index takes about as long as reading this number in order.
const ENTRIES_PER_LOOKUP: u32 = 4;

/// The entries that one search along an index returns: at first, and at most. The number grows by
/// this factor each time.
const FEW: usize = 16;
const FEW_MAX: usize = 64;
const FEW_TIMES: usize = 2;

/// The entries that are read in order before their steps are claimed.
const CLAIMED_AT_ONCE: u64 = 256;

impl Reader {
    /// See [`History::scan`].
    pub(super) fn scan_by_hash<'h>(
        &'h self,
        tags: &[Tag<'_>],
        hashes: &[TagHash],
        from: Place,
        before: Place,
        visit: &mut dyn FnMut(&Entry<'h>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        debug_assert_eq!(tags.len(), hashes.len(), "one hash per tag");
        let before = match self.limit {
            Position::MAX => before,
            limit => before.min(Place::new(limit.next(), 0)),
        };
        let (mut from, mut slot) = (from, self.segments.segment_of(from.position));
        let (mut found, mut most) = (Vec::new(), FEW);
        // A search along rare tags does not compare the lengths of lists in each segment.
        let mut may_be_dense = hashes.is_empty();
        while from < before && self.segments.begin_of(slot).is_some_and(|begin| begin < before) {
            if may_be_dense && self.is_dense(slot, hashes)? {
                match self.scan_in_order(slot, tags, &mut from, before, visit) {
                    Ok(ControlFlow::Break(())) => return Ok(()),
                    Ok(ControlFlow::Continue(())) => {
                        slot = self.segments.after(slot);
                        from = self.segments.begin_of(slot).map_or(before, |begin| begin.max(from));
                        continue;
                    }
                    // The unreadable entry may carry other tags: the index shows that.
                    Err(error) if !hashes.is_empty() && !error.is_of_request() => {}
                    Err(error) => return Err(error),
                }
            }
            found.clear();
            match self.few_by_hash(tags, hashes, from, most, &mut found) {
                Err(error) if error.place.is_some_and(|place| place >= before) => return Ok(()),
                read => read?,
            }
            for entry in &found {
                if entry.place >= before || visit(entry).is_break() {
                    return Ok(());
                }
            }
            let Some(last) = found.last() else { return Ok(()) };
            from = last.place.after();
            slot = self.segments.segment_of(from.position);
            may_be_dense = found.len() == most;
            most = (most * FEW_TIMES).min(FEW_MAX);
        }
        Ok(())
    }

    /// Whether a segment is read from front to back.
    fn is_dense(&self, slot: SegmentSlot, hashes: &[TagHash]) -> Result<bool, ReadError> {
        match slot {
            SegmentSlot::Live(at) => Ok(self.segments.live[at].is_dense(hashes, ENTRIES_PER_LOOKUP)),
            SegmentSlot::Sealed(_) if hashes.is_empty() => Ok(true),
            SegmentSlot::Sealed(at) => Ok(self.may_hold(&self.segments.sealed[at], hashes)?
                && self.ask(at, |open| open.is_dense(hashes, ENTRIES_PER_LOOKUP))?),
        }
    }

    /// Reads a segment from front to back. Moves `from` to the record after the last one that was
    /// read whole.
    fn scan_in_order<'h>(
        &'h self,
        slot: SegmentSlot,
        tags: &[Tag<'_>],
        from: &mut Place,
        before: Place,
        visit: &mut dyn FnMut(&Entry<'h>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ReadError> {
        let (mut steps, mut exceeded) = (0, None);
        let mut take = |entry: &Entry<'h>| {
            if steps == CLAIMED_AT_ONCE {
                if let Err(error) = self.claim(steps) {
                    exceeded = Some(error.reached(|| Some(entry.place)));
                    return ControlFlow::Break(());
                }
                steps = 0;
            }
            steps += 1;
            if carries(entry, tags) { visit(entry) } else { ControlFlow::Continue(()) }
        };
        let read = match slot {
            SegmentSlot::Live(at) => self.segments.live[at].scan(from, before, &mut take),
            SegmentSlot::Sealed(at) => self.ask(at, |open| open.scan(from, before, &mut take))?,
        };
        if let Some(error) = exceeded {
            return Err(error);
        }
        if read.is_continue() {
            self.claim(steps).map_err(|error| error.reached(|| Some(*from)))?;
        }
        Ok(read)
    }
}
