//! Answers of the database, as messages.

use bytes::Bytes;
use quire::jobs::{FetchedJob, Refusal, Reply};

use crate::error::refused_item;
use crate::proto::{self, EnqueueResult, FetchJobsResponse, ReportResult};

type Answer = Result<Reply, Refusal>;

pub(super) fn enqueued(answer: Answer) -> EnqueueResult {
    match answer {
        Ok(Reply::Enqueued { job, duplicate, .. }) => EnqueueResult { job: job.to_string(), duplicate, refused: None },
        Ok(other) => unreachable!("an enqueue is answered by the job, not by {other:?}"),
        Err(refusal) => EnqueueResult { refused: Some(refused_item(&refusal)), ..EnqueueResult::default() },
    }
}

pub(super) fn reported(answer: Answer) -> ReportResult {
    let until = match answer {
        Ok(Reply::Acked) => None,
        Ok(Reply::Failed { retry_at }) => retry_at,
        Ok(Reply::Snoozed { until: time } | Reply::Extended { deadline: time }) => Some(time),
        Ok(other) => unreachable!("a report is not answered by {other:?}"),
        Err(refusal) => return ReportResult { until_us: None, refused: Some(refused_item(&refusal)) },
    };
    ReportResult { until_us: until.map(|time| time.as_micros()), refused: None }
}

pub(super) fn fetched(jobs: Vec<FetchedJob>) -> FetchJobsResponse {
    FetchJobsResponse { jobs: jobs.into_iter().map(job).collect() }
}

fn job(job: FetchedJob) -> proto::FetchedJob {
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
    }
}
