//! When the next fetch can succeed, for workers that found no job.

use quire_model::Timestamp;

use crate::Jobs;
use crate::queue::JobsByTime;

impl Jobs {
    /// The first time from `now` on at which a fetch from these queues may return a job: `now` when
    /// one can run now, `None` when only another commit can bring one. Includes schedules, expiring
    /// leases and rates, which need no commit.
    pub fn fetchable_at(&self, queues: &[&str], now: Timestamp) -> Option<Timestamp> {
        queues.iter().filter_map(|name| self.queue_fetchable_at(name, now)).min()
    }

    fn queue_fetchable_at(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let queue = self.queue(*self.queue_ids.get(name)?);
        let settings = &queue.settings;
        let timed = |set: &JobsByTime| set.first().map(|((time, _), ())| *time);
        // A lease that expires makes its job pending, and lets another job become active.
        let lease = timed(&queue.leased);
        let is_full = settings.active_max.is_some_and(|most| queue.leased.len() >= most as usize);
        if settings.paused {
            return None;
        }
        if is_full {
            return lease.map(|time| time.max(now));
        }
        let ready = (!queue.groups.ready.is_empty()).then_some(now);
        let opens = queue.groups.opens_at();
        let first = [ready, opens, timed(&queue.delayed), lease].into_iter().flatten().min()?;
        let rate = settings.rate.map_or(now, |rate| queue.meter.opens_at(rate));
        Some(first.max(rate).max(now))
    }
}
