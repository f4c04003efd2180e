//! Reads of jobs: by id, and by filter.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use quire::jobs::{Cursor, HistoryPage, JobEvent, JobId, JobState, JobView, Status as Standing, Transition};
use quire::{Operation, Timestamp};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::change::{filter, job_id, jobs_of, tags_of};
use super::reply::MESSAGE_BYTES;
use crate::app::App;
use crate::aside::aside;
use crate::error::{failed, invalid, overloaded, too_large};
use crate::proto::{GetJobsRequest, GetJobsResponse, Job, JobStep, SearchJobsRequest, SearchJobsResponse};

/// Maximum number of job ids in a call.
const JOBS_MAX: usize = 1_024;

/// Maximum number of steps of each job in a response, and of jobs in a page.
const STEPS_MAX: u32 = 1_000;
const LIMIT_MAX: u32 = 1_000;
const LIMIT_DEFAULT: u32 = 100;

/// Maximum bytes of the jobs of a call by ids.
const GET_BYTES_MAX: usize = 64 << 20;

/// How many jobs are read before writers get their turn.
const JOBS_AT_ONCE: usize = 64;

/// The name of an event.
pub(super) fn word(event: JobEvent) -> String {
    event.name().replace(' ', "_")
}

/// A step as a message.
pub(super) fn step(step: Transition) -> JobStep {
    let named = |name: &str| if step.event.note_name() == name { step.note.clone() } else { String::new() };
    JobStep {
        event: word(step.event),
        time_us: step.time.as_micros(),
        state: step.state.map(JobState::name).unwrap_or_default().to_owned(),
        attempt: u32::from(step.attempt),
        worker: named("worker"),
        error: named("error"),
        reason: named("reason"),
        until_us: step.until.map(Timestamp::as_micros),
    }
}

fn message(job: JobView, history: HistoryPage) -> Job {
    let state = job.state().name().to_owned();
    let mut message = Job {
        job: job.id.to_string(),
        queue: job.queue,
        kind: job.kind,
        group: job.group,
        state,
        priority: u32::from(job.priority.get()),
        tags: job.tags,
        unique_key: job.unique_key.map(Bytes::from),
        enqueued_at_us: job.enqueued_at.as_micros(),
        run_at_us: job.run_at.as_micros(),
        expires_at_us: job.expires_at.map(Timestamp::as_micros),
        timeout_us: job.timeout_micros,
        retention_us: job.retention_micros,
        attempt: u32::from(job.attempt),
        attempts_max: u32::from(job.attempts_max),
        payload: Bytes::from(job.payload),
        progress: job.progress.map(Bytes::from),
        checkpoint: job.checkpoint.map(Bytes::from),
        last_error: job.last_error,
        steps: history.steps.into_iter().rev().map(step).collect(),
        ..Job::default()
    };
    match job.status {
        Standing::Pending => {}
        Standing::Scheduled { run_at } => {
            (message.run_at_us, message.until_us) = (run_at.as_micros(), Some(run_at.as_micros()));
        }
        // Only the worker knows the token.
        Standing::Active { deadline, worker, .. } => {
            (message.until_us, message.worker) = (Some(deadline.as_micros()), worker);
        }
        Standing::Retrying { due } => message.until_us = Some(due.as_micros()),
        Standing::Held { reason } => message.reason = reason,
        Standing::Completed { at, result } => {
            (message.finished_at_us, message.result) = (Some(at.as_micros()), Some(Bytes::from(result)));
        }
        Standing::Cancelled { at, reason } => {
            (message.finished_at_us, message.reason) = (Some(at.as_micros()), reason);
        }
        Standing::Dead { at, cause } => {
            (message.finished_at_us, message.reason) = (Some(at.as_micros()), cause.name().to_owned());
        }
    }
    message
}

/// Reads those of these jobs that the client may see, each with up to `steps_max` steps. It stops
/// before the job that would exceed `bytes_max`, unless it is the first. Returns how many ids were
/// read, and the memory of the jobs.
fn jobs(app: &App, ids: &[JobId], steps: usize, bytes_max: usize) -> Result<(Vec<Job>, usize, ByteClaim), Status> {
    let (mut jobs, mut bytes, mut claim): (Vec<Job>, _, _) = (Vec::new(), 0, app.caller().claim());
    let mut told = 0;
    while told < ids.len() {
        let some = &ids[told..ids.len().min(told + JOBS_AT_ONCE)];
        // How many of these fit, and whether there is space for more.
        let found = app.database().read_permitted(|view| -> Result<(usize, bool), Status> {
            for (number, id) in some.iter().enumerate() {
                let unreadable = |error| failed(quire::Error::from(error));
                if view.permits_job(*id, Operation::Read).map_err(unreadable)?
                    && let Some(job) = view.jobs.job(view.history, *id).map_err(unreadable)?
                {
                    let history = match steps {
                        0 => HistoryPage::default(),
                        steps => view.jobs.history(view.history, *id, None, steps).map_err(unreadable)?,
                    };
                    let job = message(job, history);
                    claim.grow(size_of::<Job>() + job.encoded_len()).map_err(overloaded)?;
                    bytes += job.encoded_len();
                    if bytes > bytes_max && !jobs.is_empty() {
                        return Ok((number, false));
                    }
                    jobs.push(job);
                }
                // The data that is decompressed for this read is released with it.
                if view.history.holds_too_much() {
                    return Ok((number + 1, true));
                }
            }
            Ok((some.len(), true))
        });
        let (more, has_room) = found.and_then(|ticket| ticket.wait()).map_err(failed)??;
        told += more;
        if !has_room {
            break;
        }
    }
    Ok((jobs, told, claim))
}

/// Reads jobs by their ids.
pub(super) async fn get(app: &Arc<App>, request: GetJobsRequest) -> Result<(GetJobsResponse, ByteClaim), Status> {
    if request.jobs.len() > JOBS_MAX || request.steps > STEPS_MAX {
        return Err(invalid(format!("a call may request at most {JOBS_MAX} jobs, with at most {STEPS_MAX} steps")));
    }
    let ids = request.jobs.iter().map(|job| job_id(job)).collect::<Result<Vec<_>, _>>()?;
    let bounded = BoundedRequest::begin(app.database());
    let app = app.within(&bounded);
    aside(move || match jobs(&app, &ids, request.steps as usize, GET_BYTES_MAX)? {
        (jobs, told, claim) if told == ids.len() => Ok((GetJobsResponse { jobs }, claim)),
        _ => Err(too_large(format!("these jobs exceed {GET_BYTES_MAX} bytes: request fewer at once"))),
    })
    .await
}

/// A page of the jobs that a filter matches.
pub(super) async fn search(
    app: &Arc<App>,
    request: SearchJobsRequest,
) -> Result<(SearchJobsResponse, ByteClaim), Status> {
    let limit = if request.limit == 0 { LIMIT_DEFAULT } else { request.limit };
    if limit > LIMIT_MAX {
        return Err(invalid(format!("limit must be at most {LIMIT_MAX}, got {limit}")));
    }
    let after: Option<Cursor> = match request.after.as_str() {
        "" => None,
        after => Some(after.parse().map_err(|_| invalid(format!("after must be the next of a page, got {after:?}")))?),
    };
    let bounded = BoundedRequest::begin(app.database());
    let app = app.within(&bounded);
    aside(move || {
        let (tags, ids) = (tags_of(request.filter.as_ref()), jobs_of(request.filter.as_ref())?);
        let filter = filter(request.filter.as_ref(), &tags, &ids)?;
        let mut limit = limit as usize;
        loop {
            let page = app.database().search_jobs(&filter, after, limit).map_err(failed)?;
            let (jobs, told, claim) = jobs(&app, &page.jobs, 0, MESSAGE_BYTES)?;
            if told == page.jobs.len() {
                let next = page.next.map(|next| next.to_string()).unwrap_or_default();
                return Ok((SearchJobsResponse { jobs, next }, claim));
            }
            // A page of the jobs that fit, with the place where the next one continues.
            limit = told;
        }
    })
    .await
}
