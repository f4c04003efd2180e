//! Answers of the database, as messages.

use bytes::Bytes;
use quire::Database;
use quire::jobs::{FetchedJob, Reply};
use tonic::Status;

use super::request::Answer;
use crate::aside::aside;
use crate::error::failed;
use crate::events;
use crate::proto::{self, EnqueueResult, FetchJobsResponse, ReportResult};

pub(super) fn enqueued(answer: Answer) -> EnqueueResult {
    match answer {
        Ok(Reply::Enqueued { job, duplicate, .. }) => EnqueueResult { job: job.to_string(), duplicate, refused: None },
        Ok(other) => unreachable!("an enqueue is answered by the job, not by {other:?}"),
        Err(refusal) => EnqueueResult { refused: Some(refusal), ..EnqueueResult::default() },
    }
}

pub(super) fn reported(answer: Answer) -> ReportResult {
    let until = match answer {
        Ok(Reply::Acked) => None,
        Ok(Reply::Failed { retry_at }) => retry_at,
        Ok(Reply::Snoozed { until: time } | Reply::Extended { deadline: time }) => Some(time),
        Ok(other) => unreachable!("a report is not answered by {other:?}"),
        Err(refusal) => return ReportResult { until_us: None, refused: Some(refusal) },
    };
    ReportResult { until_us: until.map(|time| time.as_micros()), refused: None }
}

/// Jobs that were fetched; those of named subscriptions with their events, if these are wanted.
pub(super) async fn fetched(
    database: &Database,
    jobs: Vec<FetchedJob>,
    with_events: bool,
) -> Result<FetchJobsResponse, Status> {
    if !with_events {
        return Ok(FetchJobsResponse { jobs: jobs.into_iter().map(|fetched| job(fetched, None)).collect() });
    }
    let database = database.clone();
    aside(move || {
        let with_event = |fetched| {
            let event = database.event_of(&fetched).map_err(failed)?;
            Ok(job(fetched, event.map(events::message_of)))
        };
        Ok(FetchJobsResponse { jobs: jobs.into_iter().map(with_event).collect::<Result<_, Status>>()? })
    })
    .await
}

fn job(job: FetchedJob, event: Option<proto::Event>) -> proto::FetchedJob {
    proto::FetchedJob {
        job: job.job.to_string(),
        token: job.token.to_string(),
        queue: job.queue.to_string(),
        kind: job.kind,
        group: job.group,
        attempt: u32::from(job.attempt),
        attempts_max: u32::from(job.attempts_max),
        priority: u32::from(job.priority.get()),
        payload: Bytes::from(job.payload),
        checkpoint: job.checkpoint.map(Bytes::from),
        deadline_us: job.deadline.as_micros(),
        run_until_us: job.run_until.map(|time| time.as_micros()),
        event,
    }
}
