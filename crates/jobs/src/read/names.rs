//! The names of queues, including deleted ones: from the log, where each queue's first entry has
//! its name as a tag.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::{History, Place, ReadError};

use crate::codec::{Effect, name_tag, queue_tag};
use crate::id::QueueId;

/// The names of queues, by number.
#[derive(Debug, Default)]
pub(crate) struct QueueNames(BTreeMap<QueueId, Arc<str>>);

impl QueueNames {
    /// The name of one queue.
    pub(crate) fn with(queue: QueueId, name: Arc<str>) -> Self {
        QueueNames(BTreeMap::from([(queue, name)]))
    }

    pub(crate) fn of(&mut self, history: &dyn History, queue: QueueId) -> Result<Arc<str>, ReadError> {
        if let Some(name) = self.0.get(&queue) {
            return Ok(Arc::clone(name));
        }
        let created = history.next(&[queue_tag(queue).tag()], Place::START)?;
        let name: Arc<str> = match created.map(|entry| Effect::read(&entry)).transpose()? {
            Some(Effect::QueueCreated { name, .. }) => Arc::from(name),
            _ => Arc::from(""),
        };
        self.0.insert(queue, Arc::clone(&name));
        Ok(name)
    }
}

/// The queues that were created under a name in a range of places, in this order.
pub(crate) fn queues_named(
    history: &dyn History,
    name: &str,
    mut from: Place,
    before: Place,
) -> Result<Vec<QueueId>, ReadError> {
    let tag = name_tag(name);
    let mut queues = Vec::new();
    while let Some(entry) = history.next(&[tag.tag()], from)?.filter(|entry| entry.place < before) {
        if let Effect::QueueCreated { queue, .. } = Effect::read(&entry)? {
            queues.push(queue);
        }
        from = entry.place.after();
    }
    Ok(queues)
}
