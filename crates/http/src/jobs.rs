//! One job: what it is, where it stands, what happened to it; and the commands on it, named by its path.

use std::sync::Arc;

use axum::extract::State;
use quire::jobs::{Failure, JobId, JobView, Status, Transition, TransitionKind};
use quire::{Database, Place, Timestamp};
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::bytes::Shown;
use crate::commit::reply::CommitReply;
use crate::commit::request::{Ack, Fail, Heartbeat, OnJob, PartRequest};
use crate::commit::{committed, submit};
use crate::error::Problem;
use crate::params::{Named, Params, parse};

/// How many jobs are looked up before writers get their turn.
const JOBS_AT_ONCE: usize = 64;

/// A job. Fields that its state does not have are left out.
#[derive(Debug, Serialize)]
pub(crate) struct JobReply {
    job: String,
    queue: String,
    kind: String,
    state: &'static str,
    priority: u8,
    tags: Vec<String>,
    enqueued_at_ms: u64,
    run_at_ms: u64,
    attempt: u16,
    attempts_max: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(flatten)]
    payload: Shown<'static>,
    #[serde(flatten)]
    result: Option<Shown<'static>>,
}

/// A job with its history.
#[derive(Debug, Serialize)]
struct JobWithHistory {
    #[serde(flatten)]
    job: JobReply,
    history: Vec<Step>,
    /// Whether the history goes on.
    more: bool,
}

/// A step of a job's life.
#[derive(Debug, Serialize)]
struct Step {
    position: u64,
    time_ms: u64,
    state: &'static str,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum What {
    Enqueued { run_at_ms: u64 },
    Due,
    Leased { attempt: u16, worker: String, deadline_ms: u64 },
    Extended { deadline_ms: u64 },
    Completed { attempt: u16 },
    Failed { attempt: u16, error: String, retry_at_ms: Option<u64> },
    LeaseExpired { attempt: u16, retry_at_ms: Option<u64> },
}

impl From<JobView> for JobReply {
    fn from(job: JobView) -> Self {
        let state = job.state().name();
        let mut reply = JobReply {
            job: job.id.to_string(),
            queue: job.queue,
            kind: job.kind,
            state,
            priority: job.priority.get(),
            tags: job.tags,
            enqueued_at_ms: job.enqueued_at.as_millis(),
            run_at_ms: job.run_at.as_millis(),
            attempt: job.attempt,
            attempts_max: job.attempts_max,
            worker: None,
            deadline_ms: None,
            retry_at_ms: None,
            finished_at_ms: None,
            last_error: job.last_failure.map(|failure| failure.to_string()),
            payload: Shown::value("payload", job.payload),
            result: None,
        };
        match job.status {
            // When it may run is told of every job.
            Status::Scheduled { .. } | Status::Pending => {}
            // The token is the worker's alone.
            Status::Active { deadline, worker, .. } => {
                (reply.deadline_ms, reply.worker) = (Some(deadline.as_millis()), Some(worker));
            }
            Status::Retrying { due } => reply.retry_at_ms = Some(due.as_millis()),
            Status::Completed { at, result } => {
                (reply.finished_at_ms, reply.result) = (Some(at.as_millis()), Some(Shown::value("result", result)));
            }
            Status::Dead { at } => reply.finished_at_ms = Some(at.as_millis()),
        }
        reply
    }
}

impl From<Transition> for Step {
    fn from(transition: Transition) -> Self {
        let what = match transition.kind {
            TransitionKind::Enqueued { run_at } => What::Enqueued { run_at_ms: run_at.as_millis() },
            TransitionKind::Due => What::Due,
            TransitionKind::Leased { attempt, worker, deadline } => {
                What::Leased { attempt, worker, deadline_ms: deadline.as_millis() }
            }
            TransitionKind::Extended { deadline } => What::Extended { deadline_ms: deadline.as_millis() },
            TransitionKind::Completed { attempt, .. } => What::Completed { attempt },
            TransitionKind::Failed { attempt, failure, retry_at } => {
                let retry_at_ms = retry_at.map(Timestamp::as_millis);
                match failure {
                    Failure::Error(error) => What::Failed { attempt, error, retry_at_ms },
                    Failure::LeaseExpired => What::LeaseExpired { attempt, retry_at_ms },
                }
            }
        };
        Step {
            position: transition.place.position.get(),
            time_ms: transition.time.as_millis(),
            state: transition.state.name(),
            what,
        }
    }
}

/// These jobs, as far as they are there.
pub(crate) fn views(database: &Database, ids: &[JobId]) -> Result<Vec<JobReply>, Problem> {
    let mut replies = Vec::with_capacity(ids.len());
    for ids in ids.chunks(JOBS_AT_ONCE) {
        let jobs = database
            .read(|view| ids.iter().map(|id| view.jobs.job(view.history, *id)).collect::<Result<Vec<_>, _>>())?;
        let jobs = jobs.wait()?.map_err(quire::Error::from)?;
        replies.extend(jobs.into_iter().flatten().map(JobReply::from));
    }
    Ok(replies)
}

/// `GET /v1/jobs/{id}`: a job, live or finished, with its history from the beginning.
pub(crate) async fn job(
    State(app): State<Arc<App>>,
    Named(id): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let id: JobId = parse("a job's id", &id)?;
    let limit = params.limit()?;
    params.end()?;
    aside(move || {
        let found = app.database.read(|view| -> quire::Result<_> {
            let Some(job) = view.jobs.job(view.history, id)? else { return Ok(None) };
            Ok(Some((job, view.jobs.history(view.history, id, Place::START, limit + 1)?)))
        })?;
        let found = found.wait()??;
        let (job, mut history) = found.ok_or_else(|| Problem::not_found(format!("there is no job {id}")))?;
        let more = history.len() > limit;
        history.truncate(limit);
        let history = history.into_iter().map(Step::from).collect();
        Ok(Answer::of(&JobWithHistory { job: job.into(), history, more }))
    })
    .await
}

/// `POST /v1/jobs/{id}/ack`: completes it.
pub(crate) async fn ack(app: State<Arc<App>>, id: Named<String>, body: Body) -> Result<Answer, Problem> {
    on_job::<Ack<'_>>(&app, &id, &body, PartRequest::Ack).await
}

/// `POST /v1/jobs/{id}/fail`: ends an attempt with an error.
pub(crate) async fn fail(app: State<Arc<App>>, id: Named<String>, body: Body) -> Result<Answer, Problem> {
    on_job::<Fail<'_>>(&app, &id, &body, PartRequest::Fail).await
}

/// `POST /v1/jobs/{id}/heartbeat`: makes its lease last longer.
pub(crate) async fn heartbeat(app: State<Arc<App>>, id: Named<String>, body: Body) -> Result<Answer, Problem> {
    on_job::<Heartbeat>(&app, &id, &body, PartRequest::Heartbeat).await
}

/// A commit of one command on the job that the path names.
async fn on_job<'r, C: OnJob + Deserialize<'r>>(
    app: &App,
    Named(id): &Named<String>,
    body: &'r Body,
    part: impl FnOnce(C) -> PartRequest<'r>,
) -> Result<Answer, Problem> {
    let ticket = {
        let mut command: C = body.parse()?;
        command.name_job(parse("a job's id", id)?)?;
        submit(&app.database, &[part(command)])?
    };
    Ok(Answer::of(&CommitReply::of(&committed(ticket.await?)?)))
}
