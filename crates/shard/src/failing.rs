//! What is done in the background and fails: nobody waits for it, so nobody would be told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quire_model::Timestamp;

use crate::duty::Duty;
use crate::error::{Error, ErrorKind, Result};

/// A duty that failed when it was last tried. It is tried again; what depends on it waits meanwhile: disk space does not come back, say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// Which.
    pub duty: Duty,
    /// How often it has failed in a row.
    pub times: u64,
    /// When it failed the first of these times, by the database's clock.
    pub since: Timestamp,
    /// What it failed with the last time.
    pub message: String,
    /// What kind of error that was.
    pub kind: ErrorKind,
}

/// The duties that fail.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    failing: Mutex<Vec<Failing>>,
    /// Whether commits fail for want of room, to look at without the lock.
    lacks_room: AtomicBool,
}

impl Failures {
    /// Notes how a duty went, which was tried at this time.
    pub(crate) fn note<T>(&self, duty: Duty, now: Timestamp, done: Result<T>) -> Result<T> {
        match &done {
            Ok(_) => self.remove(duty),
            Err(error) => self.add(duty, now, error),
        }
        done
    }

    /// Notes that there is no room for a commit: an operator is to see that, whoever was told.
    #[cold]
    pub(crate) fn no_room(&self, now: Timestamp, error: &Error) {
        self.lacks_room.store(true, Ordering::Relaxed);
        self.add(Duty::Prepare, now, error);
    }

    /// Whether there was no room when some was last needed.
    #[inline]
    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks_room.load(Ordering::Relaxed)
    }

    /// Notes that there is room for commits.
    #[cold]
    pub(crate) fn has_room(&self) {
        self.lacks_room.store(false, Ordering::Relaxed);
        self.remove(Duty::Prepare);
    }

    /// Notes that a duty went well.
    pub(crate) fn remove(&self, duty: Duty) {
        self.lock().retain(|failing| failing.duty != duty);
    }

    /// Notes that a duty failed, which was tried at this time.
    #[cold]
    pub(crate) fn add(&self, duty: Duty, now: Timestamp, error: &Error) {
        let mut all = self.lock();
        match all.iter_mut().find(|failing| failing.duty == duty) {
            Some(failing) => {
                failing.times += 1;
                failing.message = error.to_string();
                failing.kind = error.kind();
            }
            None => all.push(Failing { duty, times: 1, since: now, message: error.to_string(), kind: error.kind() }),
        }
    }

    pub(crate) fn all(&self) -> Vec<Failing> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
