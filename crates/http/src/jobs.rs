//! One job: its state and history, and the commands on it, named by its path.

use std::sync::Arc;

use axum::extract::State;
use quire::jobs::{Command, Cursor, Filter, JobId, JobState, JobView, States, Status, Transition};
use quire::{Commit, Database, Operation, Part, Timestamp};
use quire_access::BoundedRequest;
use quire_api::{ListPage, NoFacts};
use serde::Deserialize;

use crate::app::App;
use crate::body::{Body, BodyText};
use crate::bytes::value;
use crate::commit::{committed, done, submit_at, submit_commit, submitted};
use crate::error::Problem;
use crate::idempotency::RequestKey;
use crate::memory::Claim;
use crate::params::{Params, PathNames, parse};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{JobReply, JobWithHistory, StepReply};
use quire_api::request::{Ack, ChangeRequest, Fail, Heartbeat, OnJob, PartRequest, Snooze};

/// How many jobs are read before writers get their turn.
const JOBS_AT_ONCE: usize = 64;

fn job_reply(job: JobView) -> JobReply {
    let state = job.state().name().into();
    let mut reply = JobReply {
        job: job.id.to_string(),
        queue: job.queue,
        kind: job.kind,
        group: job.group,
        state,
        priority: job.priority.get(),
        tags: job.tags,
        unique_key: job.unique_key.map(value),
        enqueued_at_ms: job.enqueued_at.as_millis(),
        run_at_ms: job.run_at.as_millis(),
        expires_at_ms: job.expires_at.map(Timestamp::as_millis),
        timeout_ms: job.timeout_micros.map(|micros| micros / 1_000),
        retention_ms: job.retention_micros.map(|micros| micros / 1_000),
        attempt: job.attempt,
        attempts_max: job.attempts_max,
        worker: None,
        deadline_ms: None,
        retry_at_ms: None,
        finished_at_ms: None,
        reason: None,
        last_error: job.last_error,
        payload: value(job.payload),
        progress: job.progress.map(value),
        checkpoint: job.checkpoint.map(value),
        result: None,
    };
    match job.status {
        Status::Pending => {}
        Status::Scheduled { run_at } => reply.run_at_ms = run_at.as_millis(),
        // Only the worker knows the token.
        Status::Active { deadline, worker, .. } => {
            (reply.deadline_ms, reply.worker) = (Some(deadline.as_millis()), Some(worker));
        }
        Status::Retrying { due } => reply.retry_at_ms = Some(due.as_millis()),
        Status::Held { reason } => reply.reason = Some(reason).filter(|reason| !reason.is_empty()),
        Status::Completed { at, result } => {
            (reply.finished_at_ms, reply.result) = (Some(at.as_millis()), Some(value(result)));
        }
        Status::Cancelled { at, reason } => {
            reply.finished_at_ms = Some(at.as_millis());
            reply.reason = Some(reason).filter(|reason| !reason.is_empty());
        }
        Status::Dead { at, cause } => {
            (reply.finished_at_ms, reply.reason) = (Some(at.as_millis()), Some(cause.name().to_owned()));
        }
    }
    reply
}

fn step_reply(step: Transition) -> StepReply {
    let note = |name: &str| (step.event.note_name() == name && !step.note.is_empty()).then(|| step.note.clone());
    StepReply {
        position: step.place.position.get(),
        time_ms: step.time.as_millis(),
        what: step.event.name().replace(' ', "_"),
        state: step.state.map(|state| state.name().into()),
        attempt: Some(step.attempt).filter(|attempt| *attempt > 0),
        worker: note("worker"),
        error: note("error"),
        reason: note("reason"),
        until_ms: step.until.map(Timestamp::as_millis),
    }
}

/// The memory of a job in bytes.
fn job_bytes(job: &JobView) -> usize {
    let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let status = match &job.status {
        Status::Completed { result, .. } => result.len(),
        Status::Held { reason } | Status::Cancelled { reason, .. } => reason.len(),
        Status::Active { worker, .. } => worker.len(),
        Status::Pending | Status::Scheduled { .. } | Status::Retrying { .. } | Status::Dead { .. } => 0,
    };
    let tags: usize = job.tags.iter().map(|tag| size_of::<String>() + tag.len()).sum();
    let error = job.last_error.as_ref().map_or(0, String::len);
    let own = size_of::<JobView>() + job.queue.len() + job.kind.len() + job.group.len();
    own + job.payload.len() + of(&job.unique_key) + of(&job.progress) + of(&job.checkpoint) + tags + error + status
}

/// Reads these jobs, as far as they exist, and claims the memory of each.
fn views(database: &Database, ids: &[JobId], claim: &mut Claim) -> Result<Vec<JobReply>, Problem> {
    let mut replies = Vec::with_capacity(ids.len());
    let mut left = ids;
    while !left.is_empty() {
        let looked = database.read_permitted(|view| -> Result<_, Problem> {
            let (mut jobs, mut looked_at) = (Vec::new(), 0);
            for id in left.iter().take(JOBS_AT_ONCE) {
                if view.permits_job(*id, Operation::Read).map_err(quire::Error::from)?
                    && let Some(job) = view.jobs.job(view.history, *id).map_err(quire::Error::from)?
                {
                    claim.grow(job_bytes(&job))?;
                    jobs.push(job);
                }
                looked_at += 1;
                // The data that is decompressed for this read is released with it.
                if view.history.holds_too_much() {
                    break;
                }
            }
            Ok((jobs, looked_at))
        })?;
        let (jobs, looked_at) = looked.wait()??;
        replies.extend(jobs.into_iter().map(job_reply));
        left = &left[looked_at..];
    }
    Ok(replies)
}

/// `GET /v1/jobs/{id}`: a job, live or finished, with its last steps.
pub(crate) async fn job(
    State(app): State<Arc<App>>,
    PathNames(id): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let id: JobId = parse("job id", &id)?;
    let limit = params.limit()?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let found = database.read_permitted(|view| -> quire::Result<_> {
            if !view.permits_job(id, Operation::Read)? {
                return Ok(None);
            }
            let Some(job) = view.jobs.job(view.history, id)? else { return Ok(None) };
            Ok(Some((job, view.jobs.history(view.history, id, None, limit)?)))
        })?;
        let found = found.wait()??;
        let (job, page) = found.ok_or_else(|| Problem::not_found(format!("unknown job {id}")))?;
        let history = page.steps.into_iter().rev().map(step_reply).collect();
        JsonResponse::of(&app.memory, &JobWithHistory { job: job_reply(job), history, more: page.older.is_some() })
    })
    .await
}

/// `POST /v1/jobs/{id}/ack`: completes a job.
pub(crate) async fn ack(
    State(app): State<Arc<App>>,
    id: PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    on_job(&app, id, key, body, |body, job| named::<Ack<'_>>(body, job).map(PartRequest::Ack)).await
}

/// `POST /v1/jobs/{id}/fail`: ends an attempt with an error.
pub(crate) async fn fail(
    State(app): State<Arc<App>>,
    id: PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    on_job(&app, id, key, body, |body, job| named::<Fail<'_>>(body, job).map(PartRequest::Fail)).await
}

/// `POST /v1/jobs/{id}/heartbeat`: extends a job's lease.
pub(crate) async fn heartbeat(
    State(app): State<Arc<App>>,
    id: PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    on_job(&app, id, key, body, |body, job| {
        named::<Heartbeat<'_>>(body, job).map(|heartbeat| PartRequest::Heartbeat(Box::new(heartbeat)))
    })
    .await
}

/// `POST /v1/jobs/{id}/snooze`: returns a job to the queue for later.
pub(crate) async fn snooze(
    State(app): State<Arc<App>>,
    id: PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    on_job(&app, id, key, body, |body, job| named::<Snooze>(body, job).map(PartRequest::Snooze)).await
}

/// `POST /v1/jobs/{id}/change`: changes a job, whether or not a worker holds it.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    PathNames(id): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let job: JobId = parse("job id", &id)?;
    let ticket = submitted(&app, body, move |database, body, pace| {
        let request: ChangeRequest<'_> = body.parse()?;
        let commit = key.commit(database, |now| {
            Ok(Commit::new().part(Part::Jobs(Command::Change { job, change: request.change(now)? })))
        })?;
        submit_commit(database, &commit, pace)
    });
    Ok(done(&app, &committed(ticket.await?.await?)?))
}

/// `GET /v1/jobs`: searches jobs by their fields and states.
pub(crate) async fn search(State(app): State<Arc<App>>, mut params: Params) -> Result<JsonResponse, Problem> {
    let queue: Option<String> = params.one("queue")?;
    let (states, kind) = (states(&mut params)?, params.one::<String>("kind")?);
    let (tags, error) = (params.all("tag"), params.one::<String>("error")?);
    let ids = params.all("job").iter().map(|id| parse("job", id)).collect::<Result<Vec<JobId>, _>>()?;
    let (from, before) = (params.one("enqueued_from_ms")?, params.one("enqueued_before_ms")?);
    let (finished_from, finished_before) = (params.one("finished_from_ms")?, params.one("finished_before_ms")?);
    let attempts_min = params.one("attempts_min")?;
    let (after, limit) = (params.one("cursor")?, params.limit()?);
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let filter = Filter {
            jobs: Some(&*ids).filter(|ids| !ids.is_empty()),
            queue: queue.as_deref(),
            states,
            kind: kind.as_deref(),
            tags: &tags,
            enqueued_from: from.map(Timestamp::from_millis),
            enqueued_before: before.map(Timestamp::from_millis),
            finished_from: finished_from.map(Timestamp::from_millis),
            finished_before: finished_before.map(Timestamp::from_millis),
            attempts_min,
            error: error.as_deref(),
        };
        found(&app, database, &filter, after, limit)
    })
    .await
}

/// The parameter `state`, which may be repeated. Without it, all states match.
fn states(params: &mut Params) -> Result<States, Problem> {
    let names = params.all("state");
    let state = |name: &String| {
        let unknown = || Problem::invalid(format!("unknown state {name:?}"));
        JobState::from_name(name).ok_or_else(unknown)
    };
    let states = names.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    Ok(if states.is_empty() { States::default() } else { States::of(states) })
}

/// The jobs that a filter matches, as a response.
pub(crate) fn found(
    app: &App,
    database: &Database,
    filter: &Filter<'_>,
    after: Option<Cursor>,
    limit: usize,
) -> Result<JsonResponse, Problem> {
    let page = database.search_jobs(filter, after, limit)?;
    let mut claim = app.memory.claim();
    let jobs = views(database, &page.jobs, &mut claim)?;
    JsonResponse::within(claim, &ListPage::of(jobs, page.next.map(|cursor| cursor.to_string()), NoFacts {}))
}

/// Reads the one command of a body on the job that the path names.
type ReadCommand = for<'r> fn(&'r BodyText, JobId) -> Result<PartRequest<'r>, Problem>;

/// Commits one command on the job that the path names.
async fn on_job(
    app: &Arc<App>,
    PathNames(id): PathNames<String>,
    key: RequestKey,
    body: Body,
    read: ReadCommand,
) -> Result<JsonResponse, Problem> {
    let job = parse("job id", &id)?;
    let ticket = submitted(app, body, move |database, body, pace| submit_at(database, &key, &[read(body, job)?], pace));
    Ok(done(app, &committed(ticket.await?.await?)?))
}

/// Parses a command, and names its job.
fn named<'r, C: OnJob + Deserialize<'r>>(body: &'r BodyText, job: JobId) -> Result<C, Problem> {
    let mut command: C = body.parse()?;
    command.name_job(job)?;
    Ok(command)
}
