//! Queues of a server.

use std::time::Duration;

use quire::Timestamp;
use quire::jobs::{FetchedJob, JobState, Priority};
use quire_client::reply::{FetchReply, FetchedReply, PartReply, QueueReply};
use quire_client::request::FetchRequest;
use quire_client::{Call, Client};

use crate::errors::CallError;

/// How long a server waits for a job before it answers a task.
pub(crate) const TASK_WAIT: Duration = Duration::from_secs(1);

/// Fetches jobs. The server waits up to `wait` for the first one.
pub(crate) fn fetch(
    client: &Client,
    queue: &str,
    worker: &str,
    count: u32,
    lease: Duration,
    wait: Duration,
) -> Result<Vec<FetchedJob>, CallError> {
    let (lease_ms, worker, wait_ms) = (super::millis(lease), Some(worker.into()), super::millis(wait));
    let request = FetchRequest { count, lease_ms, worker, wait_ms };
    let call = Call::post(&["queues", queue, "fetch"]).json(&request)?.wait(wait);
    let reply: FetchReply<'static> = client.read(call.idempotency_key(client.new_key()))?;
    reply.jobs.iter().map(fetched).collect()
}

/// A job of an answer.
pub(crate) fn fetched(reply: &FetchedReply<'_>) -> Result<FetchedJob, CallError> {
    Ok(FetchedJob {
        job: super::parsed(&reply.job)?,
        token: super::parsed(&reply.token)?,
        queue: (&*reply.queue).into(),
        kind: reply.kind.to_string(),
        group: reply.group.to_string(),
        attempt: reply.attempt,
        attempts_max: reply.attempts_max,
        priority: Priority::new(reply.priority),
        payload: reply.payload.bytes().to_vec(),
        checkpoint: reply.checkpoint.as_ref().map(|checkpoint| checkpoint.bytes().to_vec()),
        deadline: Timestamp::from_millis(reply.deadline_ms),
        run_until: reply.run_until_ms.map(Timestamp::from_millis),
    })
}

/// The id of an enqueued job.
pub(crate) fn enqueued(reply: Option<PartReply<'_>>) -> String {
    match reply {
        Some(PartReply::Enqueued { job, .. }) => job,
        _ => String::new(),
    }
}

/// The number of jobs in each state; `None` for an unknown queue.
pub(crate) fn stats(client: &Client, queue: &str) -> Result<Option<Vec<(&'static str, u64)>>, CallError> {
    match client.get::<QueueReply>(&["queues", queue], &[]) {
        Ok(reply) => Ok(Some(JobState::ALL.map(|state| (state.name(), reply.count(state))).into())),
        Err(error) if super::is_not_found(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
