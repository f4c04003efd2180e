//! The jobs by their unique keys.
//!
//! A key that is held for a time is dropped when an entry of a later time is applied: that follows
//! from the log alone.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use quire_model::Timestamp;

use crate::codec::StoredKey;
use crate::id::QueueId;
use crate::{JobId, UniqueHold, UniqueScope};

/// A key with its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// `None`: everywhere.
    pub(crate) queue: Option<QueueId>,
    pub(crate) bytes: Box<[u8]>,
}

/// The job that has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    pub(crate) until: KeyEnd,
}

/// The event that frees a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    Finished,
    Started,
    At(Timestamp),
}

/// The key of a job in this queue.
pub(crate) fn key_of(unique: &StoredKey<'_>, queue: QueueId) -> Key {
    key_in((unique.scope == UniqueScope::Queue).then_some(queue), unique.key)
}

/// A key within a queue, or everywhere.
pub(crate) fn key_in(queue: Option<QueueId>, bytes: &[u8]) -> Key {
    Key { queue, bytes: bytes.into() }
}

/// Until when a job that is enqueued now has its key.
pub(crate) fn key_end(hold: UniqueHold, now: Timestamp) -> KeyEnd {
    match hold {
        UniqueHold::UntilFinished => KeyEnd::Finished,
        UniqueHold::UntilStarted => KeyEnd::Started,
        UniqueHold::For(micros) => KeyEnd::At(now.plus_micros(micros)),
    }
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    holders: BTreeMap<Key, Holder>,
    /// The keys that are held for a time, by their jobs. They outlast the ends of the jobs.
    timed: BTreeMap<JobId, Key>,
    ends: BTreeSet<(Timestamp, JobId)>,
    /// The memory of all keys, by [`key_memory`].
    memory: u64,
}

/// The memory of a key of `bytes` bytes: two copies, and its places in the maps.
pub(crate) const fn key_memory(bytes: usize) -> u64 {
    176 + 2 * bytes as u64
}

impl Keys {
    /// The job that has a key, as of the last entry.
    pub(crate) fn holder(&self, key: &Key) -> Option<Holder> {
        self.holders.get(key).copied()
    }

    /// The key that a job has for a time.
    pub(crate) fn timed(&self, job: JobId) -> Option<&Key> {
        self.timed.get(&job)
    }

    pub(crate) fn take(&mut self, key: Key, holder: Holder) {
        match self.holders.insert(key.clone(), holder) {
            Some(before) => self.forget_end(before),
            None => self.memory += key_memory(key.bytes.len()),
        }
        if let KeyEnd::At(time) = holder.until {
            self.ends.insert((time, holder.job));
            self.timed.insert(holder.job, key);
        }
    }

    /// Frees a key, when this job has it.
    pub(crate) fn free(&mut self, key: &Key, job: JobId) {
        if let Some(holder) = self.holder(key).filter(|holder| holder.job == job) {
            self.remove(key);
            self.forget_end(holder);
        }
    }

    /// Frees the key that a job has for a time, if it has one.
    pub(crate) fn free_timed(&mut self, job: JobId) {
        if let Some(key) = self.timed.get(&job).cloned() {
            self.free(&key, job);
        }
    }

    /// Moves a key of a job to the job's new queue, and returns the moved key; `None` when the job
    /// no longer holds it.
    pub(crate) fn take_along(&mut self, key: &Key, job: JobId, to: QueueId) -> Option<Key> {
        let holder = self.holder(key).filter(|holder| holder.job == job)?;
        let moved = Key { queue: Some(to), bytes: key.bytes.clone() };
        self.free(key, job);
        self.take(moved.clone(), holder);
        Some(moved)
    }

    fn forget_end(&mut self, holder: Holder) {
        if let KeyEnd::At(time) = holder.until {
            self.ends.remove(&(time, holder.job));
            self.timed.remove(&holder.job);
        }
    }

    /// Frees the keys whose time is over.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(time, _)| *time <= now)
            && let Some((_, job)) = self.ends.pop_first()
            && let Some(key) = self.timed.remove(&job)
        {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if self.holders.remove(key).is_some() {
            self.memory -= key_memory(key.bytes.len());
        }
    }

    /// Returns the memory of all keys.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Holder)> {
        self.holders.iter()
    }
}
