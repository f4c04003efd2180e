//! When the next fetch can succeed, for workers that found no job.

use quire_model::Timestamp;

use crate::queue::{JobsByTime, Queue};
use crate::{JobState, Jobs};

impl Jobs {
    /// The first time from `now` on at which a fetch from these queues may return a job: `now` when
    /// one can run now, `None` when only another commit can bring one. Includes schedules, expiring
    /// leases and rates, which need no commit.
    pub fn fetchable_at(&self, queues: &[&str], now: Timestamp) -> Option<Timestamp> {
        queues.iter().filter_map(|name| self.queue_fetchable_at(self.queue_named(name)?, now)).min()
    }

    /// The most jobs that fetches from this queue may return at `now`, up to `at_most`. At least
    /// one where [`Jobs::fetchable_at`] says `now`. Fetches may return fewer, because of the limits
    /// of groups.
    pub fn fetchable_count(&self, queue: &str, now: Timestamp, at_most: usize) -> usize {
        let Some(queue) = self.queue_named(queue) else { return 0 };
        if self.queue_fetchable_at(queue, now).is_none_or(|at| at > now) {
            return 0;
        }
        let due = |set: &JobsByTime| set.iter().take_while(|((time, _), ())| *time <= now).take(at_most).count();
        let expired = due(&queue.leased);
        let pending = usize::try_from(queue.counts[JobState::Pending as usize]).unwrap_or(usize::MAX);
        let jobs = pending.saturating_add(due(&queue.delayed) + expired);
        let free = queue
            .settings
            .active_max
            .map_or(usize::MAX, |most| (most as usize).saturating_sub(queue.leased.len()).saturating_add(expired));
        let starts = queue.settings.rate.map_or(usize::MAX, |rate| queue.meter.available(rate, now) as usize);
        jobs.min(free).min(starts).clamp(1, at_most.max(1))
    }

    fn queue_named(&self, name: &str) -> Option<&Queue> {
        Some(self.queue(*self.queue_ids.get(name)?))
    }

    fn queue_fetchable_at(&self, queue: &Queue, now: Timestamp) -> Option<Timestamp> {
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
