//! Equality of states: a state with detached jobs is equal to the one that its checkpoint gives,
//! whose records of these jobs are written already.

use alloc::vec::Vec;

use crate::{Jobs, checkpoint};

impl PartialEq for Jobs {
    fn eq(&self, other: &Self) -> bool {
        let Jobs { queues, queue_ids, dotted, queues_created, jobs, extras, keys, .. } = self;
        let Jobs { kept, timers, bulks, untold, idle, queue_memory, .. } = self;
        let are_near = (queue_ids, dotted, queues_created) == (&other.queue_ids, &other.dotted, &other.queues_created)
            && (kept, timers, bulks, untold, idle, queue_memory)
                == (&other.kept, &other.timers, &other.bulks, &other.untold, &other.idle, &other.queue_memory);
        are_near
            && match has_detached(self) || has_detached(other) {
                true => saved(self) == saved(other),
                false => (queues, jobs, extras, keys) == (&other.queues, &other.jobs, &other.extras, &other.keys),
            }
    }
}

impl Eq for Jobs {}

fn has_detached(state: &Jobs) -> bool {
    state.untold.iter().any(|queue| !state.queue(*queue).detached.is_empty())
}

/// The checkpoint of a state.
fn saved(state: &Jobs) -> Vec<u8> {
    let mut bytes = Vec::new();
    checkpoint::save(state, &mut |part| bytes.extend_from_slice(part));
    bytes
}
