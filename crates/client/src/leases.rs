//! The leases of the jobs that a worker runs, and the thread that extends them.
//!
//! ```text
//! 0          1/3        7/12  5/8        7/8    1 lease
//! ├───────────┼──────────┼─────┼──────────┼─────┤
//! fetched     beat ─ no answer  next beat ─ no answer
//! ```
//!
//! A beat has a quarter of the lease for its answer, so that one without an answer leaves time for
//! another before the lease ends.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::jobs::{JobId, LeaseToken};
use quire_api::Code;
use quire_api::reply::{EachReply, PartReply};
use quire_api::request::{CommitRequest, Heartbeat, PartRequest};

use crate::{Call, Client};

/// The shortest lease by which beats are paced.
const PACED_LEASE_MIN: Duration = Duration::from_millis(60);

/// The leases of running jobs.
#[derive(Debug)]
pub(crate) struct HeldLeases {
    lease_ms: u64,
    leases: Mutex<RunningJobs>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RunningJobs {
    tokens: BTreeMap<JobId, LeaseToken>,
    is_over: bool,
}

/// A lease that is extended until this is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct LeaseHold<'l> {
    leases: &'l HeldLeases,
    pub(crate) job: JobId,
    pub(crate) token: LeaseToken,
}

/// Ends [`HeldLeases::extend`] when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct ExtensionEnd<'l>(&'l HeldLeases);

impl HeldLeases {
    pub(crate) fn new(lease_ms: u64) -> Self {
        HeldLeases { lease_ms, leases: Mutex::default(), changed: Condvar::new() }
    }

    /// Keeps a lease.
    pub(crate) fn hold(&self, job: JobId, token: LeaseToken) -> LeaseHold<'_> {
        self.lock().tokens.insert(job, token);
        LeaseHold { leases: self, job, token }
    }

    pub(crate) fn end_on_drop(&self) -> ExtensionEnd<'_> {
        ExtensionEnd(self)
    }

    /// Half of a lease: an answer to a fetch that took longer may bring leases that have ended.
    pub(crate) fn half(&self) -> Duration {
        Duration::from_millis(self.lease_ms / 2)
    }

    /// Extends the leases, each third of a lease, until the worker ends. A server that does not
    /// answer is asked again before the leases end.
    pub(crate) fn extend(&self, client: &Client) {
        let lease = self.paced();
        let mut wait = lease / 3;
        while let Some(running) = self.after(wait) {
            let is_done = running.is_empty() || self.beat(client, &running);
            wait = if is_done { lease / 3 } else { lease / 24 };
        }
    }

    /// Extends all leases now.
    pub(crate) fn extend_now(&self, client: &Client) {
        let running = self.lock().pairs();
        self.beat(client, &running);
    }

    /// Extends these leases, and forgets the lost ones. `false` when the server did not answer.
    fn beat(&self, client: &Client, running: &[(JobId, LeaseToken)]) -> bool {
        let beat = |(job, token): &(JobId, LeaseToken)| Heartbeat::new(*job, *token, self.lease_ms).into();
        let beats: Vec<PartRequest<'_>> = running.iter().map(beat).collect();
        let commit = CommitRequest { parts: vec![PartRequest::Each(beats)] };
        let key = client.new_key();
        let call = Call::commit(&commit, &key).map(|call| call.timeout(self.paced() / 4));
        let mut done = match call.and_then(|call| client.committed(call)) {
            Ok(done) => done,
            Err(error) => return !error.is_passing(),
        };
        let Some(PartReply::Each(replies)) = done.replies.pop() else { return true };
        for ((job, token), reply) in running.iter().zip(replies) {
            let stale = Some(Code::StaleLease.name());
            if matches!(reply, EachReply::Refused { refused } if Some(&*refused.code) == stale) {
                self.release(*job, *token);
            }
        }
        true
    }

    fn paced(&self) -> Duration {
        Duration::from_millis(self.lease_ms).max(PACED_LEASE_MIN)
    }

    /// Releases a lease, unless the job is leased again.
    fn release(&self, job: JobId, token: LeaseToken) {
        let mut running = self.lock();
        if running.tokens.get(&job) == Some(&token) {
            running.tokens.remove(&job);
        }
    }

    /// Waits for `time`, and returns the leases. `None` when the worker ends.
    fn after(&self, time: Duration) -> Option<Vec<(JobId, LeaseToken)>> {
        let running = self.changed.wait_timeout_while(self.lock(), time, |running| !running.is_over);
        let (running, _) = running.unwrap_or_else(PoisonError::into_inner);
        (!running.is_over).then(|| running.pairs())
    }

    fn lock(&self) -> MutexGuard<'_, RunningJobs> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningJobs {
    fn pairs(&self) -> Vec<(JobId, LeaseToken)> {
        self.tokens.iter().map(|(job, token)| (*job, *token)).collect()
    }
}

impl LeaseHold<'_> {
    /// Whether the lease is not known to be lost.
    pub(crate) fn is_held(&self) -> bool {
        self.leases.lock().tokens.get(&self.job) == Some(&self.token)
    }

    /// Ends the extension of the lease.
    pub(crate) fn release(&self) {
        self.leases.release(self.job, self.token);
    }
}

impl Drop for LeaseHold<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

impl Drop for ExtensionEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}
