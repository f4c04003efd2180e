//! Queues: their counts, the jobs of one by state, and fetching, with a long poll.
//!
//! A long poll takes no lease while it waits: it asks again when something may have become pending, and ends at its time,
//! or when the server stops, with no jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::jobs::{Command, FetchedJob, Filter, JobState, QueueSettings, QueueStats, Rate, States};
use quire::{Commit, Part, Reply, View, jobs};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::bytes::Text;
use crate::commit::reply::{CommitReply, FetchedReply, fetched};
use crate::commit::request::{Fetch, PartRequest, Setting, Settings, count_default, lease_ms_default};
use crate::commit::{committed, submit};
use crate::error::Problem;
use crate::jobs::found;
use crate::params::{Named, Params, within};

/// The longest a fetch waits, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// How many jobs of a queue are in each state, and its settings as far as there are any.
#[derive(Debug, Serialize)]
pub(crate) struct QueueReply {
    pub(crate) queue: String,
    #[serde(flatten)]
    counts: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    settings: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Queues {
    queues: Vec<QueueReply>,
}

/// What a fetch from the queue that its path names takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchRequest<'r> {
    #[serde(default = "count_default")]
    count: u32,
    #[serde(default = "lease_ms_default")]
    lease_ms: u64,
    #[serde(borrow)]
    worker: Option<Text<'r>>,
    #[serde(default)]
    wait_ms: u64,
}

/// What a fetch from several queues takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchAllRequest<'r> {
    #[serde(borrow)]
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

#[derive(Debug, Serialize)]
struct FetchReply<'a> {
    jobs: Vec<FetchedReply<'a>>,
}

impl QueueReply {
    fn of(queue: &str, stats: QueueStats, settings: QueueSettings) -> Self {
        let counts = JobState::ALL.map(|state| (state.name(), stats.of(state)));
        QueueReply { queue: queue.to_owned(), counts: counts.into(), settings: shown(settings) }
    }

    /// The counts with the names of their states.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(state, count)| (*state, *count))
    }
}

/// The settings that are not the default.
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

/// Every queue.
pub(crate) async fn all(app: &App) -> Result<Vec<QueueReply>, Problem> {
    let queues = app
        .database
        .read(|view| view.jobs.queues().map(|(name, stats)| of_view(view, name, stats)).collect::<Vec<_>>())?;
    Ok(queues.await?)
}

pub(crate) fn of_view(view: &View<'_>, name: &str, stats: QueueStats) -> QueueReply {
    QueueReply::of(name, stats, view.jobs.queue_settings(name).unwrap_or_default())
}

/// `GET /v1/queues`: the queues.
pub(crate) async fn queues(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    Answer::of(&app.memory, &Queues { queues: all(&app).await? })
}

/// `GET /v1/queues/{queue}`: one queue.
pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let reply = app.database.read(|view| view.jobs.queue_stats(&queue).map(|stats| of_view(view, &queue, stats)))?;
    let reply = reply.await?.ok_or_else(|| Problem::not_found(format!("unknown queue {queue:?}")))?;
    Answer::of(&app.memory, &reply)
}

/// `POST /v1/queues/{queue}/settings`: changes some of its settings, all or none.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    body: Body,
) -> Result<Answer, Problem> {
    let settings: Vec<Setting> = body.parse::<Settings>()?.0;
    let ticket = {
        let mut commit = Commit::new();
        for setting in &settings {
            commit = commit.part(Part::Jobs(Command::SetQueue { queue: &queue, change: setting.change()? }));
        }
        app.database.submit(&commit)?
    };
    Ok(Answer::of_done(&app.memory, &CommitReply::of(&committed(ticket.await?)?)))
}

/// `POST /v1/queues/{queue}/clear`: cancels what nobody works on.
pub(crate) async fn clear(app: State<Arc<App>>, Named(queue): Named<String>) -> Result<Answer, Problem> {
    whole(&app, Command::Clear { queue: &queue })?.await
}

/// `DELETE /v1/queues/{queue}`: removes it, and cancels all its jobs.
pub(crate) async fn destroy(app: State<Arc<App>>, Named(queue): Named<String>) -> Result<Answer, Problem> {
    whole(&app, Command::Destroy { queue: &queue })?.await
}

/// A commit of one command on a queue.
fn whole(app: &App, command: Command<'_>) -> Result<impl Future<Output = Result<Answer, Problem>> + use<>, Problem> {
    let ticket = app.database.submit(&Commit::new().part(Part::Jobs(command)))?;
    let memory = app.memory.clone();
    Ok(async move { Ok(Answer::of_done(&memory, &CommitReply::of(&committed(ticket.await?)?))) })
}

/// `GET /v1/queues/{queue}/jobs`: the jobs in a state.
pub(crate) async fn jobs(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let states = JobState::ALL.map(|state| (state.name(), state));
    let state = params.word("state", &states)?.unwrap_or(JobState::Pending);
    let (after, limit) = (params.one("after")?, params.limit()?);
    params.end()?;
    aside(move || {
        let filter = Filter { queue: Some(&queue), states: States::of([state]), ..Filter::default() };
        found(&app, &filter, after, limit)
    })
    .await
}

/// `POST /v1/queues/{queue}/fetch`: leases jobs to a worker, and waits for some when there are none.
pub(crate) async fn fetch(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    body: Body,
) -> Result<Answer, Problem> {
    let jobs = fetch_one(&app, &queue, body.parse()?).await?;
    Ok(Answer::of_done(&app.memory, &FetchReply { jobs: jobs.iter().map(fetched).collect() }))
}

/// `POST /v1/fetch`: leases jobs of several queues to a worker, and waits for some when there are none.
pub(crate) async fn fetch_all(State(app): State<Arc<App>>, body: Body) -> Result<Answer, Problem> {
    let FetchAllRequest { queues, weights, count, lease_ms, worker, wait_ms } = body.parse()?;
    let jobs = fetch_waiting(&app, Fetch { queues, count, lease_ms, worker, weights }, wait_ms).await?;
    Ok(Answer::of_done(&app.memory, &FetchReply { jobs: jobs.iter().map(fetched).collect() }))
}

/// Leases jobs of one queue, and waits for some when there are none.
pub(crate) async fn fetch_one(app: &App, queue: &str, request: FetchRequest<'_>) -> Result<Vec<FetchedJob>, Problem> {
    let FetchRequest { count, lease_ms, worker, wait_ms } = request;
    let fetch = Fetch { queues: vec![Text::from(queue)], count, lease_ms, worker, weights: Vec::new() };
    fetch_waiting(app, fetch, wait_ms).await
}

/// Leases jobs, and waits for some when there are none: as long as is asked for, and not when the server is about to stop.
async fn fetch_waiting(app: &App, fetch: Fetch<'_>, wait_ms: u64) -> Result<Vec<FetchedJob>, Problem> {
    let wait = Duration::from_millis(within("wait_ms", wait_ms, 0..=WAIT_MS_MAX)?);
    let names: Vec<String> = fetch.queues.iter().map(|queue| queue.to_string()).collect();
    let queues: Vec<&str> = names.iter().map(String::as_str).collect();
    let part = PartRequest::Fetch(fetch);
    let give_up = tokio::time::sleep(wait);
    tokio::pin!(give_up);
    loop {
        // What is leased is answered, so nothing is when there is no room for an answer.
        app.memory.check()?;
        let jobs = fetch_now(app, &part).await?;
        if !jobs.is_empty() || wait.is_zero() {
            return Ok(jobs);
        }
        while let Some(rest) = app.database.fetch_rest(&queues)? {
            tokio::select! {
                arrived = app.database.arrival_after(rest.seen) => arrived?,
                () = tokio::time::sleep(rest.at_most) => {}
                () = &mut give_up => return Ok(Vec::new()),
                () = app.closing() => return Ok(Vec::new()),
            }
        }
    }
}

async fn fetch_now(app: &App, part: &PartRequest<'_>) -> Result<Vec<FetchedJob>, Problem> {
    let ticket = submit(&app.database, std::slice::from_ref(part))?;
    match committed(ticket.await?)?.replies.pop() {
        Some(Reply::Jobs(jobs::Reply::Fetched(jobs))) => Ok(jobs),
        other => unreachable!("a fetch is answered by jobs, not by {other:?}"),
    }
}
