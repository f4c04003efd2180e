//! The output of the children: a line for each acknowledged operation, written only after the
//! acknowledgement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use quire::jobs::{JobId, LeaseToken};

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Enqueues, deliveries and acks.
    pub(crate) operations: u64,
    pub(crate) enqueued: BTreeSet<JobId>,
    /// The leases of a job. Their tokens are places in the log, so they are ordered.
    pub(crate) leases: BTreeMap<JobId, BTreeSet<LeaseToken>>,
    /// The lease under which a job was acknowledged.
    pub(crate) acked: BTreeMap<JobId, LeaseToken>,
}

impl Ledger {
    /// Reads a line of a child, and ignores a line of the test harness.
    pub(crate) fn note(&mut self, line: &str) {
        let job = |text: &str| text.parse::<JobId>().expect("a job");
        let lease = |text: &str| text.parse::<LeaseToken>().expect("a token");
        match line.trim_end().split(' ').collect::<Vec<_>>()[..] {
            ["enqueued", id] => assert!(self.enqueued.insert(job(id)), "job {id} is given once"),
            ["got", id, token] => self.deliver(job(id), lease(token)),
            ["acked", id, token] => {
                assert_eq!(self.acked.insert(job(id), lease(token)), None, "job {id} is acknowledged once");
            }
            _ => return,
        }
        self.operations += 1;
    }

    pub(crate) fn deliver(&mut self, job: JobId, token: LeaseToken) {
        assert!(self.leases.entry(job).or_default().insert(token), "job {job} has lease {token} once");
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (enqueued, acked) = (self.enqueued.len(), self.acked.len());
        write!(f, "{} operations: {enqueued} enqueues and {acked} acks acknowledged", self.operations)
    }
}
