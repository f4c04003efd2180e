//! The leases of the jobs that a worker runs, and the thread that extends them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::jobs::{JobId, LeaseToken};
use quire_api::Code;
use quire_api::reply::{EachReply, PartReply};
use quire_api::request::{CommitRequest, Heartbeat, PartRequest};

use crate::Client;

/// The leases of running jobs.
#[derive(Debug, Default)]
pub(crate) struct HeldLeases {
    leases: Mutex<RunningJobs>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RunningJobs {
    tokens: BTreeMap<JobId, LeaseToken>,
    is_over: bool,
}

impl HeldLeases {
    /// Keeps a lease.
    pub(crate) fn hold(&self, job: JobId, token: LeaseToken) {
        self.lock().tokens.insert(job, token);
    }

    /// Releases a lease, and wakes the wait for a free place.
    pub(crate) fn release(&self, job: JobId) {
        self.lock().tokens.remove(&job);
        self.changed.notify_all();
    }

    /// Ends [`HeldLeases::extend`].
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Extends the leases, each third of a lease, until the worker ends. A server that does not
    /// answer is asked again after the next third.
    pub(crate) fn extend(&self, client: &Client, lease_ms: u64) {
        while let Some(running) = self.after(Duration::from_millis(lease_ms / 3)) {
            if running.is_empty() {
                continue;
            }
            let beat = |(job, token): &(JobId, LeaseToken)| Heartbeat::new(*job, *token, lease_ms).into();
            let beats: Vec<PartRequest<'_>> = running.iter().map(beat).collect();
            let commit = CommitRequest { parts: vec![PartRequest::Each(beats)] };
            let Ok(mut done) = client.commit(&commit) else { continue };
            let Some(PartReply::Each(replies)) = done.replies.pop() else { continue };
            for ((job, token), reply) in running.iter().zip(replies) {
                let stale = Some(Code::StaleLease.name());
                if matches!(reply, EachReply::Refused { refused } if Some(&*refused.code) == stale) {
                    self.release_if(*job, *token);
                }
            }
        }
    }

    /// Releases a lost lease, unless the job is leased again.
    fn release_if(&self, job: JobId, token: LeaseToken) {
        let mut running = self.lock();
        if running.tokens.get(&job) == Some(&token) {
            running.tokens.remove(&job);
        }
    }

    /// Waits for `time`, and returns the leases. `None` when the worker ends.
    fn after(&self, time: Duration) -> Option<Vec<(JobId, LeaseToken)>> {
        let running = self.changed.wait_timeout_while(self.lock(), time, |running| !running.is_over);
        let (running, _) = running.unwrap_or_else(PoisonError::into_inner);
        (!running.is_over).then(|| running.tokens.iter().map(|(job, token)| (*job, *token)).collect())
    }

    fn lock(&self) -> MutexGuard<'_, RunningJobs> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
