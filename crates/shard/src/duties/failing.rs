//! Failing duties: no caller waits for a duty, so its error is kept for operators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quire_log::SealingFailure;
use quire_model::Timestamp;

use crate::duties::Duty;
use crate::error::{Error, ErrorKind, Result};

/// A duty that failed when it last ran. It is retried. Until it succeeds its effect is missing:
/// disk space is not freed, for example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutyFailure {
    /// The duty.
    pub duty: Duty,
    /// Number of failures in a row.
    pub times: u64,
    /// Time of the first of these failures, by the database's clock.
    pub since: Timestamp,
    /// Message of the last failure.
    pub message: String,
    /// The same for clients of a server, without the directory of the database.
    pub for_clients: String,
    /// Kind of the last failure.
    pub kind: ErrorKind,
}

impl DutyFailure {
    /// The failures of the thread that seals segments.
    pub(crate) fn of_sealing(failure: SealingFailure) -> Self {
        let SealingFailure { times, since, error } = failure;
        let (message, for_clients) = (error.to_string(), error.for_clients());
        DutyFailure { duty: Duty::Seal, times, since, message, for_clients, kind: ErrorKind::of_log(&error) }
    }
}

/// The failing duties.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    failing: Mutex<Vec<DutyFailure>>,
    /// Whether commits fail for lack of disk space. Readable without the lock.
    lacks_space: AtomicBool,
}

impl Failures {
    /// Notes the result of a duty that ran at `now`.
    pub(crate) fn note<T>(&self, duty: Duty, now: Timestamp, done: Result<T>) -> Result<T> {
        match &done {
            Ok(_) => self.remove(duty),
            // The duty passes to the new leader.
            Err(error) if error.kind() == ErrorKind::NotLeader => self.remove(duty),
            Err(error) => self.add(duty, now, error),
        }
        done
    }

    /// Notes that a commit failed for lack of disk space, so that operators see it, not only the
    /// client.
    #[cold]
    pub(crate) fn add_no_space(&self, now: Timestamp, error: &Error) {
        self.lacks_space.store(true, Ordering::Relaxed);
        self.add(Duty::Prepare, now, error);
    }

    /// Whether the last commit that needed disk space found none.
    #[inline]
    pub(crate) fn lacks_space(&self) -> bool {
        self.lacks_space.load(Ordering::Relaxed)
    }

    /// Notes that commits find disk space again.
    #[cold]
    pub(crate) fn remove_no_space(&self) {
        self.lacks_space.store(false, Ordering::Relaxed);
        self.remove(Duty::Prepare);
    }

    fn remove(&self, duty: Duty) {
        self.lock().retain(|failing| failing.duty != duty);
    }

    #[cold]
    fn add(&self, duty: Duty, now: Timestamp, error: &Error) {
        let mut all = self.lock();
        match all.iter_mut().find(|failing| failing.duty == duty) {
            Some(failing) => {
                failing.times += 1;
                (failing.message, failing.for_clients) = (error.to_string(), error.for_clients().to_owned());
                failing.kind = error.kind();
            }
            None => all.push(DutyFailure {
                duty,
                times: 1,
                since: now,
                message: error.to_string(),
                for_clients: error.for_clients().to_owned(),
                kind: error.kind(),
            }),
        }
    }

    pub(crate) fn all(&self) -> Vec<DutyFailure> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DutyFailure>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
