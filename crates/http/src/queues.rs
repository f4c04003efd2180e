//! Queues: their counts, jobs by state, and fetching with a long poll.
//!
//! A long poll takes no lease while it waits. It fetches again when jobs may have become pending.
//! It ends at its timeout, or when the server stops, without jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::jobs::{Command, FetchedJob, Filter, JobState, QueueSettings, QueueStats, Rate, States};
use quire::{Commit, Database, Operation, Part, PermittedView, ReadView, Reply, Resource, ResourceKind, jobs};
use quire_access::BoundedRequest;
use quire_api::ListPage;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::body::Body;
use crate::commit::reply::fetched;
use crate::commit::{commit_part, committed, done, submit, submit_commit, submitted};
use crate::error::Problem;
use crate::given::GivenField;
use crate::idempotency::RequestKey;
use crate::jobs::found;
use crate::memory::Claim;
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{FetchReply, QueueReply};
use quire_api::request::Text;
use quire_api::request::{
    Fetch, FetchRequest, PartRequest, SettingRequest, SettingsChange, count_default, lease_ms_default,
};

/// Maximum wait of a fetch, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// The parameters of a fetch from several queues.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchAllRequest<'r> {
    #[serde(borrow, deserialize_with = "quire_api::list")]
    queues: Vec<Text<'r>>,
    #[serde(default)]
    weights: Vec<u32>,
    #[serde(default = "count_default")]
    count: u32,
    #[serde(default = "lease_ms_default")]
    lease_ms: u64,
    #[serde(borrow)]
    worker: Option<Text<'r>>,
    #[serde(default)]
    wait_ms: u64,
}

fn queue_reply(queue: &str, stats: QueueStats, settings: QueueSettings) -> QueueReply {
    let counts = JobState::ALL.map(|state| (state.name().into(), stats.of(state)));
    QueueReply { queue: queue.to_owned(), counts: counts.into(), settings: shown(settings) }
}

/// The settings that differ from the default.
fn shown(settings: QueueSettings) -> Map<String, Value> {
    let QueueSettings { paused, draining, jobs_max, active_max, group_active_max, group_rate, .. } = settings;
    let rate = |rate: Option<Rate>| match rate {
        None => Value::Null,
        Some(Rate::TokenBucket { count, per_micros, burst }) => {
            json!({"token_bucket": {"count": count, "per_ms": per_micros / 1_000, "burst": burst}})
        }
        Some(Rate::SlidingWindow { count, window_micros }) => {
            json!({"sliding_window": {"count": count, "window_ms": window_micros / 1_000}})
        }
    };
    let all = [
        ("paused", json!(paused.then_some(true))),
        ("draining", json!(draining.then_some(true))),
        ("jobs_max", json!(jobs_max)),
        ("active_max", json!(active_max)),
        ("group_active_max", json!(group_active_max)),
        ("rate", rate(settings.rate)),
        ("group_rate", rate(group_rate)),
        ("retention_ms", json!(settings.retention_micros.map(|micros| micros / 1_000))),
    ];
    all.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The memory of a queue in a list without its name: its counts and settings.
const QUEUE_BYTES: usize = 1 << 10;

/// The first `count_max` queues by name. Claims the memory of the list.
pub(crate) fn first(database: &Database, count_max: usize, claim: &mut Claim) -> Result<Vec<QueueReply>, Problem> {
    let reply = |name: &str, stats, settings| -> Result<QueueReply, Problem> {
        claim.grow(QUEUE_BYTES + name.len())?;
        Ok(queue_reply(name, stats, settings))
    };
    database.visit_queues(count_max, reply)?.into_iter().collect()
}

pub(crate) fn of_view(view: &ReadView<'_>, name: &str, stats: QueueStats) -> QueueReply {
    queue_reply(name, stats, view.jobs.queue_settings(name).unwrap_or_default())
}

/// The age of the oldest pending job of each of the first `count_max` queues that has one, by name.
pub(crate) fn oldest_pending(database: &Database, count_max: usize) -> Result<Vec<(String, Duration)>, Problem> {
    let find = |view: &PermittedView<'_>| {
        let oldest = |(name, _): (&str, QueueStats)| {
            let is_shown = view.shows(ResourceKind::Queue, name);
            Some((name.to_owned(), view.jobs.oldest_pending(name).filter(|_| is_shown)?))
        };
        view.jobs.queues().take(count_max).filter_map(oldest).collect::<Vec<_>>()
    };
    let found = database.read_permitted(find)?.wait()?;
    let (now, history) = (database.now(), database.history());
    let age = |(name, job)| {
        let since = database.read_published_permitted(|view| view.jobs.runnable_since(&history, job))?;
        let since = since.map_err(quire::Error::from)?;
        let micros = since.map(|since| now.as_micros().saturating_sub(since.as_micros()));
        Ok(micros.map(|micros| (name, Duration::from_micros(micros))))
    };
    found.into_iter().filter_map(|found| age(found).transpose()).collect()
}

/// `GET /v1/queues`: lists the queues.
pub(crate) async fn queues(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut claim = app.memory.claim();
        let queues = first(database, usize::MAX, &mut claim)?;
        JsonResponse::within(claim, &ListPage::whole(queues))
    })
    .await
}

/// `GET /v1/queues/{queue}`: one queue.
pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let look = |view: &ReadView<'_>| view.jobs.queue_stats(&queue).map(|stats| of_view(view, &queue, stats));
    let resource = Resource::new(ResourceKind::Queue, &queue);
    let reply = app.database().read_for(resource, Operation::Describe, look)?;
    let reply = reply.await?.ok_or_else(|| Problem::not_found(format!("unknown queue {queue:?}")))?;
    JsonResponse::of(&app.memory, &reply)
}

/// `POST /v1/queues/{queue}/settings`: changes some of its settings, all or none.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let ticket = submitted(&app, body, move |database, body, pace| {
        let settings: Vec<SettingRequest> = body.parse::<SettingsChange>()?.0;
        let commit = key.commit(database, |_| {
            let mut commit = Commit::new();
            for setting in &settings {
                commit = commit.part(Part::Jobs(Command::SetQueue { queue: &queue, change: setting.change()? }));
            }
            Ok(commit)
        })?;
        submit_commit(database, &commit, pace)
    });
    Ok(done(&app, &committed(ticket.await?.await?)?))
}

/// `POST /v1/queues/{queue}/clear`: cancels the jobs that no worker holds.
pub(crate) async fn clear(
    app: State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
    key: RequestKey,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    whole(&app, &key, Command::Clear { queue: &queue }).await
}

/// `DELETE /v1/queues/{queue}`: deletes a queue, and cancels all its jobs.
pub(crate) async fn destroy(
    app: State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
    key: RequestKey,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    whole(&app, &key, Command::Destroy { queue: &queue }).await
}

/// Commits one command on a queue.
async fn whole(app: &App, key: &RequestKey, command: Command<'_>) -> Result<JsonResponse, Problem> {
    let ticket = {
        let commit = key.commit(&app.database(), |_| Ok(Commit::new().part(Part::Jobs(command))))?;
        app.database().submit(&commit)?
    };
    Ok(done(app, &committed(ticket.await?)?))
}

/// `GET /v1/queues/{queue}/jobs`: the jobs in a state.
pub(crate) async fn jobs(
    State(app): State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let states = JobState::ALL.map(|state| (state.name(), state));
    let state = params.word("state", &states)?.unwrap_or(JobState::Pending);
    let (after, limit) = (params.one("cursor")?, params.limit()?);
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let filter = Filter { queue: Some(&queue), states: States::of([state]), ..Filter::default() };
        found(&app, database, &filter, after, limit)
    })
    .await
}

/// `POST /v1/queues/{queue}/jobs`: enqueues a job.
pub(crate) async fn enqueue(
    State(app): State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    commit_part(&app, key, vec![queue], body, |names, body| {
        body.parse_with(&[GivenField::Name("queue", &names[0])]).map(PartRequest::Enqueue)
    })
    .await
}

/// `POST /v1/queues/{queue}/fetch`: leases jobs to a worker, and waits for some when there are
/// none.
pub(crate) async fn fetch(
    State(app): State<Arc<App>>,
    PathNames(queue): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let (jobs, is_replay) = fetch_one(&app, &queue, &key, body).await?;
    fetch_reply(&app, &jobs).map(|reply| reply.replay(is_replay))
}

/// `POST /v1/fetch`: leases jobs of several queues to a worker, and waits for some when there are
/// none.
pub(crate) async fn fetch_all(
    State(app): State<Arc<App>>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let reading = body.read(|body| {
        let FetchAllRequest { queues, weights, count, lease_ms, worker, wait_ms } = body.parse()?;
        let (queues, worker) = (queues.into_iter().map(Text::into_owned).collect(), worker.map(Text::into_owned));
        Ok((Fetch { queues, count, lease_ms, worker, weights }, wait_ms))
    });
    let (fetch, wait_ms) = reading.await?;
    let (jobs, is_replay) = fetch_waiting(&app, &key, fetch, wait_ms).await?;
    fetch_reply(&app, &jobs).map(|reply| reply.replay(is_replay))
}

/// The response with fetched jobs. Their memory is claimed while they are written.
fn fetch_reply(app: &App, jobs: &[FetchedJob]) -> Result<JsonResponse, Problem> {
    let mut claim = app.memory.claim_of_done();
    claim.grow(jobs.iter().map(job_bytes).sum())?;
    JsonResponse::within(claim, &FetchReply { jobs: jobs.iter().map(fetched).collect() })
}

/// The memory of a fetched job in bytes.
pub(crate) fn job_bytes(job: &FetchedJob) -> usize {
    let checkpoint = job.checkpoint.as_ref().map_or(0, Vec::len);
    size_of::<FetchedJob>() + job.payload.len() + checkpoint + job.kind.len() + job.group.len()
}

/// Leases jobs of one queue, and waits for some when there are none. Returns whether they are those
/// of an earlier copy of the request.
pub(crate) async fn fetch_one(
    app: &App,
    queue: &str,
    key: &RequestKey,
    body: Body,
) -> Result<(Vec<FetchedJob>, bool), Problem> {
    let reading = body.read(|body| {
        let FetchRequest { count, lease_ms, worker, wait_ms } = body.parse()?;
        Ok((count, lease_ms, worker.map(Text::into_owned), wait_ms))
    });
    let (count, lease_ms, worker, wait_ms) = reading.await?;
    let fetch = Fetch { queues: vec![Text::from(queue)], count, lease_ms, worker, weights: Vec::new() };
    fetch_waiting(app, key, fetch, wait_ms).await
}

/// Leases jobs, and waits up to the requested time when there are none; not when the server is
/// stopping.
async fn fetch_waiting(
    app: &App,
    key: &RequestKey,
    fetch: Fetch<'_>,
    wait_ms: u64,
) -> Result<(Vec<FetchedJob>, bool), Problem> {
    let wait = Duration::from_millis(within("wait_ms", wait_ms, 0..=WAIT_MS_MAX)?);
    let names: Vec<String> = fetch.queues.iter().map(|queue| queue.to_string()).collect();
    let queues: Vec<&str> = names.iter().map(String::as_str).collect();
    let part = PartRequest::Fetch(fetch);
    let give_up = tokio::time::sleep(wait);
    tokio::pin!(give_up);
    // Kept until the fetch is done, so that no other fetch is woken for the same job.
    let mut turn = None;
    loop {
        // Leased jobs must reach the client, so none are leased without memory for a response.
        app.memory.check_for_jobs()?;
        let (jobs, is_replay) = fetch_now(app, key, &part).await?;
        if !jobs.is_empty() || wait.is_zero() {
            return Ok((jobs, is_replay));
        }
        drop(turn.take());
        tokio::select! {
            given = app.fetching.wait(app.owner(), &queues) => turn = Some(given?),
            () = &mut give_up => return Ok((Vec::new(), false)),
            () = app.closing() => return Ok((Vec::new(), false)),
        }
    }
}

async fn fetch_now(app: &App, key: &RequestKey, part: &PartRequest<'_>) -> Result<(Vec<FetchedJob>, bool), Problem> {
    let ticket = submit(&app.database(), key, std::slice::from_ref(part))?;
    let mut committed = committed(ticket.await?)?;
    match committed.replies.pop() {
        Some(Reply::Jobs(jobs::Reply::Fetched(jobs))) => Ok((jobs, committed.is_replay)),
        other => unreachable!("a fetch returns jobs, not {other:?}"),
    }
}
