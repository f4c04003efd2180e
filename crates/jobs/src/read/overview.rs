//! The queues and the bulk changes, from memory alone.

use alloc::string::String;
use core::ops::Bound;

use quire_model::{Creator, History, ReadError};

use crate::bulk::BulkProgress;
use crate::codec::Effect;
use crate::{BulkId, Jobs, QueueSettings, QueueStats};

/// The origin of a bulk change, by which a client may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkOrigin {
    /// The queue of its filter.
    pub queue: Option<String>,
    /// The client that began it; `None` for the owner of the database.
    pub creator: Option<Creator>,
}

impl Jobs {
    /// The queues by name, with how many jobs are in which state.
    pub fn queues(&self) -> impl Iterator<Item = (&str, QueueStats)> {
        self.queue_ids.iter().map(|(name, id)| (&**name, self.queue(*id).stats()))
    }

    /// The queues whose names come after `name`, by name; all of them after `None`.
    pub fn queues_after(&self, name: Option<&str>) -> impl Iterator<Item = (&str, QueueStats)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let queues = self.queue_ids.range::<str, _>((from, Bound::Unbounded));
        queues.map(|(name, id)| (&**name, self.queue(*id).stats()))
    }

    /// The number of jobs of a queue in each state; `None` for an unknown queue.
    pub fn queue_stats(&self, queue: &str) -> Option<QueueStats> {
        self.queue_ids.get(queue).map(|id| self.queue(*id).stats())
    }

    /// The settings of a queue; `None` for an unknown queue.
    pub fn queue_settings(&self, queue: &str) -> Option<QueueSettings> {
        self.queue_ids.get(queue).map(|id| self.queue(*id).settings)
    }

    /// Returns the progress of a bulk change; `None` for an unknown id. The last 100 finished
    /// changes are remembered.
    pub fn bulk(&self, bulk: BulkId) -> Option<BulkProgress> {
        self.bulks.get(bulk.place()).map(|bulk| bulk.progress)
    }

    /// Returns the origin of a bulk change. `None` for an unknown id, and when the log lost it.
    ///
    /// # Errors
    /// When the log is unreadable.
    pub fn bulk_origin(&self, history: &dyn History, bulk: BulkId) -> Result<Option<BulkOrigin>, ReadError> {
        if self.bulks.get(bulk.place()).is_none() {
            return Ok(None);
        }
        let entry = history.entry(bulk.place())?;
        Ok(match entry.map(|entry| Effect::read(&entry)).transpose()? {
            Some(Effect::BulkBegun(begun)) => {
                let queue = begun.filter().queue.map(String::from);
                Some(BulkOrigin { queue, creator: begun.creator })
            }
            _ => None,
        })
    }

    /// The running bulk changes and the last finished ones, oldest first.
    pub fn bulks(&self) -> impl Iterator<Item = (BulkId, BulkProgress)> {
        self.bulks.iter().map(|(place, bulk)| (BulkId::new(place), bulk.progress))
    }
}
