//! Entries into the state. Cheap and total: everything was decided.

use alloc::string::String;

use quire_model::Entry;

use crate::JobId;
use crate::codec::Effect;
use crate::queue::{Queue, QueueId};
use crate::state::{JobState, Jobs};
use crate::transition::Standing;

/// Takes in an entry.
///
/// # Panics
/// When the entry is none of this model's, or says what can't be of the state: a broken invariant.
pub(crate) fn apply(state: &mut Jobs, entry: &Entry<'_>) {
    let effect = Effect::of(entry).unwrap_or_else(|error| panic!("entry {} of the jobs model: {error}", entry.place));
    match &effect {
        Effect::QueueCreated { queue, name } => {
            assert_eq!(queue.index(), state.queues.len(), "queues are numbered in the order of creation");
            state.add_queue(Queue::new(String::from(*name)));
        }
        Effect::Enqueued(enqueued) => {
            let id = JobId::new(entry.place);
            let job = enqueued.job(entry.time);
            state.with_queue(job.queue, |queue| queue.insert(id, &job));
            state.jobs.insert(id, job);
        }
        _ => effect.jobs().iter().for_each(|id| step(state, *id, &effect, entry)),
    }
}

fn step(state: &mut Jobs, id: JobId, effect: &Effect<'_>, entry: &Entry<'_>) {
    let job = state.jobs.get_mut(&id).unwrap_or_else(|| panic!("entry {} is about job {id}, not live", entry.place));
    let before = *job;
    let standing = before.after(effect, entry.place);
    if let Standing::Live(after) = standing {
        *job = after;
    } else {
        state.jobs.remove(&id);
    }
    state.with_queue(before.queue, |queue| {
        queue.remove(id, &before);
        match standing {
            Standing::Live(after) => queue.insert(id, &after),
            Standing::Finished(JobState::Dead) => assert!(queue.dead.insert(id), "a job dies once"),
            Standing::Finished(_) => queue.completed += 1,
        }
    });
}

impl Jobs {
    /// Adds a queue under the next number.
    pub(crate) fn add_queue(&mut self, queue: Queue) {
        let id = QueueId(u32::try_from(self.queues.len()).expect("queues are limited"));
        self.queue_ids.insert(queue.name.clone(), id);
        self.queues.push(queue);
    }
}
