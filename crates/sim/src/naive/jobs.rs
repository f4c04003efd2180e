//! The effects of commits and of time on jobs.

use super::{Draft, Phase};

/// The default backoff of a job: the first wait, which doubles, and the longest.
const BACKOFF_MICROS: u64 = 5_000_000;
const BACKOFF_MAX_MICROS: u64 = 3_600_000_000;

impl Draft {
    /// Leases the most urgent jobs, the oldest first, without those enqueued by the commit itself.
    pub(super) fn fetch(&mut self, queue: usize, count: usize, lease_micros: u64, fetched: &mut Vec<(usize, u64)>) {
        if fetched.len() >= count {
            return;
        }
        // Jobs that are due may be fetched at once.
        let is_pending = |number: &usize| {
            let job = &self.after.jobs[*number];
            job.queue == queue && job.phase == Phase::Pending && !self.made_pending.contains(number)
        };
        let mut wanted: Vec<usize> = (0..self.jobs_before).filter(is_pending).collect();
        wanted.sort_by_key(|number| std::cmp::Reverse(self.after.jobs[*number].priority));
        wanted.truncate(count - fetched.len());
        for number in wanted {
            self.after.leases += 1;
            let lease = self.after.leases;
            self.after.jobs[number].attempt += 1;
            self.set(number, Phase::Active { lease, deadline: self.now + lease_micros });
            fetched.push((number, lease));
        }
    }

    /// Whether this lease holds the job.
    pub(super) fn held(&mut self, job: usize, lease: u64) -> Option<()> {
        self.settle_unchanged(job);
        let phase = self.after.jobs.get(job)?.phase;
        matches!(phase, Phase::Active { lease: held, .. } if held == lease).then_some(())
    }

    /// Makes a job wait until a time that may be past.
    pub(super) fn wait_until(&mut self, job: usize, until: u64) {
        if until > self.now {
            self.set(job, Phase::Scheduled { run_at: until });
        } else {
            self.set(job, Phase::Pending);
            self.made_pending.insert(job);
        }
    }

    pub(super) fn settle_unchanged(&mut self, job: usize) {
        if job < self.jobs_before {
            self.settle(job);
        }
    }

    pub(super) fn set(&mut self, job: usize, phase: Phase) {
        self.after.jobs[job].phase = phase;
        self.changed_jobs.insert(job);
        self.effects = true;
    }

    /// Applies due state changes to a job, unless the commit has changed it.
    pub(super) fn settle(&mut self, number: usize) {
        if self.changed_jobs.contains(&number) {
            return;
        }
        let job = &mut self.after.jobs[number];
        match job.phase {
            Phase::Active { deadline, .. } if deadline <= self.now => {
                let is_lost_again = std::mem::replace(&mut job.is_lost, true);
                let due = deadline + (BACKOFF_MICROS << (job.attempt - 1)).min(BACKOFF_MAX_MICROS);
                let phase = match job.attempt >= job.attempts_max {
                    true => Phase::Dead,
                    false if is_lost_again && due > self.now => Phase::Retrying { due },
                    false => Phase::Pending,
                };
                self.set(number, phase);
            }
            Phase::Scheduled { run_at: due } | Phase::Retrying { due } if due <= self.now => {
                self.set(number, Phase::Pending);
            }
            _ => {}
        }
    }
}
