//! Converts replies of the database into messages.

use bytes::Bytes;
use prost::Message as _;
use quire::Database;
use quire::jobs::{FetchedJob, Reply};
use tonic::Status;

use super::request::CommandReply;
use crate::aside::aside;
use crate::error::failed;
use crate::events;
use crate::proto::{self, EnqueueResult, FetchJobsResponse, ReportResult};

pub(super) fn enqueued(answer: CommandReply) -> EnqueueResult {
    match answer {
        Ok(Reply::Enqueued { job, duplicate, .. }) => EnqueueResult { job: job.to_string(), duplicate, refused: None },
        Ok(other) => unreachable!("an enqueue returns the job, not {other:?}"),
        Err(refusal) => EnqueueResult { refused: Some(*refusal), ..EnqueueResult::default() },
    }
}

pub(super) fn reported(answer: CommandReply) -> ReportResult {
    let until = match answer {
        Ok(Reply::Acked) => None,
        Ok(Reply::Failed { retry_at }) => retry_at,
        Ok(Reply::Snoozed { until: time } | Reply::Extended { deadline: time }) => Some(time),
        Ok(other) => unreachable!("a report does not return {other:?}"),
        Err(refusal) => return ReportResult { until_us: None, refused: Some(*refusal) },
    };
    ReportResult { until_us: until.map(|time| time.as_micros()), refused: None }
}

/// The default maximum size of a message in gRPC clients is 4 MiB; the rest is for the message's
/// other fields.
pub(super) const MESSAGE_BYTES: usize = (4 << 20) - (64 << 10);

/// Fetched jobs, to be split into messages of at most [`MESSAGE_BYTES`], or one job. Deliveries of
/// named subscriptions come with their events, if requested.
#[derive(Debug)]
pub(super) struct JobMessages {
    database: Database,
    jobs: std::vec::IntoIter<FetchedJob>,
    /// A job that did not fit into the last message.
    carried: Option<proto::FetchedJob>,
    with_events: bool,
}

impl JobMessages {
    pub(super) fn new(database: &Database, jobs: Vec<FetchedJob>, with_events: bool) -> Self {
        JobMessages { database: database.clone(), jobs: jobs.into_iter(), carried: None, with_events }
    }

    /// The next message; without jobs at the end.
    pub(super) async fn next(mut self) -> Result<(Self, FetchJobsResponse), Status> {
        if !self.with_events {
            let message = self.take()?;
            return Ok((self, message));
        }
        aside(move || self.take().map(|message| (self, message))).await
    }

    fn take(&mut self) -> Result<FetchJobsResponse, Status> {
        let (mut jobs, mut bytes) = (Vec::with_capacity(self.jobs.len()), 0);
        while let Some(next) = self.one()? {
            bytes += next.encoded_len();
            if bytes > MESSAGE_BYTES && !jobs.is_empty() {
                self.carried = Some(next);
                break;
            }
            jobs.push(next);
        }
        Ok(FetchJobsResponse { jobs })
    }

    fn one(&mut self) -> Result<Option<proto::FetchedJob>, Status> {
        if let Some(carried) = self.carried.take() {
            return Ok(Some(carried));
        }
        let Some(fetched) = self.jobs.next() else { return Ok(None) };
        let event = match self.with_events {
            true => self.database.event_of(&fetched).map_err(failed)?.map(events::message_of),
            false => None,
        };
        Ok(Some(job(fetched, event)))
    }
}

/// A job for its worker.
pub(crate) fn job(job: FetchedJob, event: Option<proto::Event>) -> proto::FetchedJob {
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
