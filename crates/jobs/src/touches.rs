//! The resources that a command touches.

use quire_model::{History, Operation, ReadError, Resource, ResourceKind, Touch};

use crate::id::QueueId;
use crate::job::key_in;
use crate::read::{ended, enqueued_at};
use crate::{Change, Clash, Command, Filter, JobId, JobSpec, Jobs, UniqueHold, UniqueScope};

impl Jobs {
    /// See [`Model::touches`](quire_model::Model::touches). An [`Each`](Command::Each) touches
    /// nothing itself: its commands are checked one by one where they are decided, because a
    /// refused one does not affect the others.
    pub(crate) fn touched(
        &self,
        history: &dyn History,
        command: &Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        use Operation::{Alter, Delete, Read, Write};
        match command {
            Command::Enqueue { queue, job } => {
                touch(Touch::named(ResourceKind::Queue, queue, Write));
                self.touch_key_holder(history, queue, job, touch)?;
            }
            Command::Fetch { queues, .. } => {
                queues.iter().for_each(|queue| touch(Touch::named(ResourceKind::Queue, queue, Read)));
            }
            Command::Ack { job, .. }
            | Command::Fail { job, .. }
            | Command::Snooze { job, .. }
            | Command::Heartbeat { job, .. } => self.touch_queue_of(history, *job, Read, touch)?,
            Command::Change { job, change } => {
                self.touch_changed(history, *job, change, touch)?;
                touch_target(change, touch);
            }
            Command::SetQueue { queue, .. } => touch(Touch::named(ResourceKind::Queue, queue, Alter)),
            Command::Clear { queue } | Command::Destroy { queue } => {
                touch(Touch::named(ResourceKind::Queue, queue, Delete));
            }
            Command::Bulk { filter, change } => {
                touch_found(filter, operation_of(change), touch);
                touch_target(change, touch);
            }
            Command::Each(_) => {}
            // Time passes for every queue.
            Command::Tick => touch(Touch::named(Resource::DATABASE.kind, Resource::DATABASE.name, Alter)),
        }
        Ok(())
    }

    /// The name of the queue of a job. `None` when the job does not exist, or its queue was
    /// destroyed.
    ///
    /// # Errors
    /// When the log is unreadable.
    pub fn queue_name_of(&self, history: &dyn History, job: JobId) -> Result<Option<&str>, ReadError> {
        let queue = self.queue_of(history, job)?.and_then(|queue| self.queues.get(&queue));
        Ok(queue.map(|queue| &*queue.name))
    }

    fn queue_of(&self, history: &dyn History, job: JobId) -> Result<Option<QueueId>, ReadError> {
        Ok(match self.jobs.get(&job) {
            Some(job) => Some(job.queue),
            None => ended(history, job)?.map(|end| end.ended.final_facts.queue),
        })
    }

    /// Touches the resources of a job that is changed, if the job exists. A retry takes the unique
    /// key of the job again, which a job of any queue may have if the key is unique everywhere.
    pub(crate) fn touch_changed(
        &self,
        history: &dyn History,
        job: JobId,
        change: &Change<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        let Some(queue) = self.queue_of(history, job)? else { return Ok(()) };
        self.touch_queue(queue, operation_of(change), touch);
        let Change::Retry { .. } = change else { return Ok(()) };
        let unique = enqueued_at(history, job)?.and_then(|(_, enqueued)| enqueued.unique);
        let is_taken_again = unique.is_some_and(|unique| match (unique.scope, unique.hold) {
            (UniqueScope::Queue, _) | (UniqueScope::Everywhere, UniqueHold::For(_)) => false,
            (UniqueScope::Everywhere, UniqueHold::UntilFinished | UniqueHold::UntilStarted) => true,
        });
        if is_taken_again {
            touch(Touch::every(ResourceKind::Queue, Operation::Describe));
        }
        Ok(())
    }

    /// Touches the queue of a job, if the job exists.
    pub(crate) fn touch_queue_of(
        &self,
        history: &dyn History,
        job: JobId,
        operation: Operation,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        if let Some(queue) = self.queue_of(history, job)? {
            self.touch_queue(queue, operation, touch);
        }
        Ok(())
    }

    fn touch_queue(&self, queue: QueueId, operation: Operation, touch: &mut dyn FnMut(Touch<'_>)) {
        match self.queues.get(&queue) {
            Some(queue) => touch(Touch::owner(ResourceKind::Queue, &queue.name, operation)),
            // The queue was destroyed, and its name is no longer known.
            None => touch(Touch::every(ResourceKind::Queue, operation)),
        }
    }

    /// Touches the queue of the job that an enqueue replaces or extends by its unique key. The key
    /// may belong to a job of another queue, and the reply then tells of that job.
    fn touch_key_holder(
        &self,
        history: &dyn History,
        queue: &str,
        job: &JobSpec<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        let Some(unique) = job.unique else { return Ok(()) };
        let changes = match unique.clash {
            Clash::Replace | Clash::Extend => true,
            Clash::Reject | Clash::Keep => false,
        };
        let scope = match unique.scope {
            UniqueScope::Everywhere => {
                touch(Touch::every(ResourceKind::Queue, Operation::Describe));
                None
            }
            UniqueScope::Queue => match self.queue_ids.get(queue) {
                Some(queue) => Some(*queue),
                None => return Ok(()),
            },
        };
        match self.key_holder(&key_in(scope, unique.key)) {
            Some(holder) if changes => self.touch_queue_of(history, holder.job, Operation::Write, touch),
            _ => Ok(()),
        }
    }
}

/// The operation that a change of a job is on the job's queue.
pub(crate) fn operation_of(change: &Change<'_>) -> Operation {
    match change {
        Change::Delete => Operation::Delete,
        Change::Cancel { .. }
        | Change::Hold { .. }
        | Change::Release
        | Change::Reschedule { .. }
        | Change::Retry { .. }
        | Change::Move { .. }
        | Change::Priority(_)
        | Change::AttemptsMax(_)
        | Change::Payload(_) => Operation::Alter,
    }
}

/// Touches the queue into which a change moves jobs.
pub(crate) fn touch_target(change: &Change<'_>, touch: &mut dyn FnMut(Touch<'_>)) {
    if let Change::Move { queue } = change {
        touch(Touch::named(ResourceKind::Queue, queue, Operation::Write));
    }
}

/// Touches the queue of a filter. Without a queue, the filter finds jobs of every queue, and those
/// are changed whose queues permit it.
fn touch_found(filter: &Filter<'_>, operation: Operation, touch: &mut dyn FnMut(Touch<'_>)) {
    match filter.queue {
        Some(queue) => touch(Touch::named(ResourceKind::Queue, queue, operation)),
        None => touch(Touch::permitted(ResourceKind::Queue, operation)),
    }
}
