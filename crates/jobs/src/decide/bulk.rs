//! Bulk changes: begun by one commit, carried out by others, a bounded part each.

use quire_model::{Creator, Place, ResourceKind, Touch};

use super::{Decision, Stop};
use crate::bulk::BulkEnd;
use crate::codec::{BulkAdvance, BulkChange, Effect};
use crate::read::Bounds;
use crate::touches::{operation_of, touch_target};
use crate::{BulkId, Change, Cursor, Filter, JobId, JobLimit, Refusal, Reply};

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
        let place = self.draft.push(&Effect::BulkBegun(BulkChange::new(filter, change, self.draft.creator())), None);
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
                return Ok((0, self.end_bulk(place, bulk.cursor, BulkEnd::Complete)));
            }
        };
        let filter = begun.filter();
        if let Some(creator) = &begun.creator
            && !self.may_continue(creator, filter.queue, &begun.change)
        {
            return Ok((0, self.end_bulk(place, bulk.cursor, BulkEnd::Stopped)));
        }
        let bounds = Bounds { up_to: place, count_max: CHANGED_MAX, looked_at_max: LOOKED_AT_MAX, is_bulk: true };
        // Half of the steps of this commit. A search that uses them up ends at the last job that it
        // examined.
        self.history.share_steps(2);
        let found = self.state.search_within(self.history, &filter, bulk.cursor, bounds)?;
        self.history.share_steps(1);
        let (mut changed, mut refused) = (0, 0);
        for id in &found.jobs {
            if let Some(creator) = &begun.creator {
                match self.permit_creator(creator, *id, &begun.change)? {
                    Ok(()) => {}
                    Err(is_shown) => {
                        refused += u64::from(is_shown);
                        continue;
                    }
                }
            }
            match self.change(*id, &begun.change) {
                Ok(_) => changed += 1,
                Err(Stop::Refused(_)) => refused += 1,
                Err(unreadable) => return Err(unreadable),
            }
        }
        let cursor = found.next.unwrap_or(bulk.cursor);
        let end = found.next.is_none().then_some(BulkEnd::Complete);
        let looked_at = found.looked_at as u64;
        let advanced = BulkAdvance { bulk: place, cursor, looked_at, changed, refused, end };
        self.draft.push(&Effect::BulkAdvanced(advanced), None);
        Ok((changed as usize, end.is_none() || self.state.bulks.under_way() > 1))
    }

    /// Ends a bulk change: jobs that it has not examined stay as they are. Returns whether others
    /// run.
    fn end_bulk(&mut self, bulk: Place, cursor: Cursor, end: BulkEnd) -> bool {
        let ended = BulkAdvance { bulk, cursor, looked_at: 0, changed: 0, refused: 0, end: Some(end) };
        self.draft.push(&Effect::BulkAdvanced(ended), None);
        self.state.bulks.under_way() > 1
    }

    /// Whether the creator of a bulk change may still change jobs of its queue, and move them to
    /// their new one.
    fn may_continue(&self, creator: &Creator, queue: Option<&str>, change: &Change<'_>) -> bool {
        let mut may = self.draft.admits(creator);
        let mut check = |touch: Touch<'_>| may = may && self.draft.permit_creator(creator, touch).is_ok();
        if let Some(queue) = queue {
            check(Touch::named(ResourceKind::Queue, queue, operation_of(change)));
        }
        touch_target(change, &mut check);
        may
    }

    /// Checks the creator's right to change a job. The error says whether the creator may know the
    /// job.
    fn permit_creator(&self, creator: &Creator, job: JobId, change: &Change<'_>) -> Result<Result<(), bool>, Stop> {
        let mut permitted = Ok(());
        self.state.touch_changed(self.history, job, change, &mut |touch| {
            if permitted.is_ok() {
                permitted = self.draft.permit_creator(creator, touch);
            }
        })?;
        Ok(permitted.map_err(|refusal| refusal.is_some()))
    }
}
