//! The queues and the bulk changes, from memory alone.

use core::ops::Bound;

use crate::bulk::BulkProgress;
use crate::{BulkId, Jobs, QueueSettings, QueueStats};

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

    /// The running bulk changes and the last finished ones, oldest first.
    pub fn bulks(&self) -> impl Iterator<Item = (BulkId, BulkProgress)> {
        self.bulks.iter().map(|(place, bulk)| (BulkId::new(place), bulk.progress))
    }
}
