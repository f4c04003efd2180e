//! Which job has which unique key.
//!
//! A key that is held for a time is dropped when an entry of a later time is applied: that follows from the log alone.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use quire_model::Timestamp;

use crate::JobId;
use crate::queue::QueueId;

/// A key with its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// `None`: everywhere.
    pub(crate) queue: Option<QueueId>,
    pub(crate) bytes: Box<[u8]>,
}

/// Who has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    pub(crate) until: KeyEnd,
}

/// What ends the holding of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    Finished,
    Started,
    At(Timestamp),
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    holders: BTreeMap<Key, Holder>,
    ends: BTreeSet<(Timestamp, Key)>,
}

impl Keys {
    /// Who has a key, as of the last entry.
    pub(crate) fn holder(&self, key: &Key) -> Option<Holder> {
        self.holders.get(key).copied()
    }

    pub(crate) fn take(&mut self, key: Key, holder: Holder) {
        if let KeyEnd::At(time) = holder.until {
            self.ends.insert((time, key.clone()));
        }
        if let Some(Holder { until: KeyEnd::At(time), .. }) = self.holders.insert(key.clone(), holder)
            && holder.until != KeyEnd::At(time)
        {
            self.ends.remove(&(time, key));
        }
    }

    /// Frees a key, when this job has it.
    pub(crate) fn free(&mut self, key: &Key, job: JobId) {
        if self.holders.get(key).is_some_and(|holder| holder.job == job)
            && let Some(Holder { until: KeyEnd::At(time), .. }) = self.holders.remove(key)
        {
            self.ends.remove(&(time, key.clone()));
        }
    }

    /// Frees the keys whose time is over.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        while let Some((time, _)) = self.ends.first()
            && *time <= now
            && let Some((_, key)) = self.ends.pop_first()
        {
            self.holders.remove(&key);
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Holder)> {
        self.holders.iter()
    }
}
