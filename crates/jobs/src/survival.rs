//! Which entries of jobs still count: those of jobs that are live or dead, and of finished ones while they are young.

use quire_model::{Entry, Timestamp};

use crate::codec::Effect;
use crate::{JobId, Jobs};

impl Jobs {
    pub(crate) fn still_counts(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        let is_there =
            |id: JobId| self.jobs.contains_key(&id) || self.queues.iter().any(|queue| queue.dead.contains(&id));
        let about = match Effect::of(entry) {
            // What can't be read is not dropped: it is for whoever reads it to tell.
            Err(_) => return true,
            Ok(Effect::Enqueued(_)) => return entry.time >= history_from || is_there(JobId::new(entry.place)),
            Ok(effect) => effect.jobs().to_vec(),
        };
        about.is_empty() || entry.time >= history_from || about.iter().any(|id| is_there(*id))
    }
}
