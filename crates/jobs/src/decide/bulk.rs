//! Bulk changes: begun by one commit, carried out by others, a bounded part each.

use super::{Decision, Stop};
use crate::codec::{BulkAdvance, BulkChange, Effect};
use crate::read::Bounds;
use crate::{BulkId, Change, Filter, JobLimit, Refusal, Reply};

/// The most jobs that one commit scans.
const LOOKED_AT_MAX: usize = 2_000;

/// The most jobs that one commit changes.
const CHANGED_MAX: usize = 256;

impl Decision<'_, '_> {
    pub(super) fn begin_bulk(&mut self, filter: Filter<'_>, change: Change<'_>) -> Result<Reply, Refusal> {
        super::change::check(&change)?;
        filter.check()?;
        JobLimit::Bulks.check(self.state.bulks.under_way() as u64 + self.bulks_begun + 1)?;
        self.bulks_begun += 1;
        let place = self.draft.push(&Effect::BulkBegun(BulkChange::new(filter, change)), None);
        Ok(Reply::BulkBegun { bulk: BulkId::new(place) })
    }

    /// Advances the oldest bulk change, once in a commit. Says how many jobs were changed, and
    /// whether there is more to do.
    pub(super) fn advance_bulk(&mut self) -> Result<(usize, bool), Stop> {
        let Some((place, bulk)) = self.state.bulks.next() else { return Ok((0, false)) };
        if self.has_advanced_bulk {
            return Ok((0, true));
        }
        self.has_advanced_bulk = true;
        let entry = self.history.entry(place)?;
        let begun = match entry.map(|entry| Effect::read(&entry)).transpose()? {
            Some(Effect::BulkBegun(begun)) => begun,
            // A salvage lost the request: the jobs that are not changed yet stay as they are.
            _ => {
                let (cursor, looked_at, changed, refused) = (bulk.cursor, 0, 0, 0);
                let ended = BulkAdvance { bulk: place, cursor, looked_at, changed, refused, done: true };
                self.draft.push(&Effect::BulkAdvanced(ended), None);
                return Ok((0, self.state.bulks.under_way() > 1));
            }
        };
        let filter = begun.filter();
        let bounds = Bounds { up_to: place, count_max: CHANGED_MAX, looked_at_max: LOOKED_AT_MAX, is_bulk: true };
        // Half of the steps of this commit. A search that uses them up ends at the last job that it
        // examined.
        self.history.share_steps(2);
        let found = self.state.search_within(self.history, &filter, bulk.cursor, bounds)?;
        self.history.share_steps(1);
        let (mut changed, mut refused) = (0, 0);
        for id in &found.jobs {
            match self.change(*id, &begun.change) {
                Ok(_) => changed += 1,
                Err(Stop::Refused(_)) => refused += 1,
                Err(unreadable) => return Err(unreadable),
            }
        }
        let cursor = found.next.unwrap_or(bulk.cursor);
        let done = found.next.is_none();
        let looked_at = found.looked_at as u64;
        let advanced = BulkAdvance { bulk: place, cursor, looked_at, changed, refused, done };
        self.draft.push(&Effect::BulkAdvanced(advanced), None);
        Ok((changed as usize, !done || self.state.bulks.under_way() > 1))
    }
}
