//! Queues: their counts, the jobs of one by state, and fetching, with a long poll.
//!
//! A long poll takes no lease while it waits: it asks again when something may have become pending, and ends at its time,
//! or when the server stops, with no jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::jobs::{FetchedJob, JobId, JobState, QueueStats};
use quire::{Reply, jobs};
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::bytes::Text;
use crate::commit::reply::{FetchedReply, fetched};
use crate::commit::request::{Fetch, PartRequest};
use crate::commit::{committed, submit};
use crate::error::Problem;
use crate::jobs::{JobReply, views};
use crate::params::{Named, Params, within};

/// The longest a fetch waits, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// How many jobs of a queue are in each state.
#[derive(Debug, Serialize)]
pub(crate) struct QueueReply {
    pub(crate) queue: String,
    scheduled: u64,
    pending: u64,
    active: u64,
    retrying: u64,
    /// Ever, unlike the others.
    completed: u64,
    dead: u64,
}

#[derive(Debug, Serialize)]
struct Queues {
    queues: Vec<QueueReply>,
}

#[derive(Debug, Serialize)]
struct JobsPage {
    jobs: Vec<JobReply>,
    /// What the next page goes `after`; `null` after the last one.
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchRequest<'r> {
    count: Option<u32>,
    lease_ms: Option<u64>,
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
    fn of(queue: &str, stats: QueueStats) -> Self {
        let QueueStats { scheduled, pending, active, retrying, completed, dead } = stats;
        QueueReply { queue: queue.to_owned(), scheduled, pending, active, retrying, completed, dead }
    }

    /// The counts with the names of their states.
    pub(crate) fn states(&self) -> [(JobState, u64); 6] {
        [
            (JobState::Scheduled, self.scheduled),
            (JobState::Pending, self.pending),
            (JobState::Active, self.active),
            (JobState::Retrying, self.retrying),
            (JobState::Completed, self.completed),
            (JobState::Dead, self.dead),
        ]
    }
}

/// Every queue.
pub(crate) async fn all(app: &App) -> Result<Vec<QueueReply>, Problem> {
    let queues = app
        .database
        .read(|view| view.jobs.queues().map(|(name, stats)| QueueReply::of(name, stats)).collect::<Vec<_>>())?;
    Ok(queues.await?)
}

/// `GET /v1/queues`: the queues.
pub(crate) async fn queues(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    Ok(Answer::of(&Queues { queues: all(&app).await? }))
}

/// `GET /v1/queues/{queue}`: one queue.
pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let stats = app.database.read(|view| view.jobs.queue_stats(&queue))?.await?;
    let stats = stats.ok_or_else(|| Problem::not_found(format!("there is no queue {queue:?}")))?;
    Ok(Answer::of(&QueueReply::of(&queue, stats)))
}

/// `GET /v1/queues/{queue}/jobs`: the jobs in a state, oldest first.
pub(crate) async fn jobs(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let states = JobState::ALL.map(|state| (state.name(), state));
    let state = params.word("state", &states)?.unwrap_or(JobState::Pending);
    let after: Option<JobId> = params.one("after")?;
    let limit = params.limit()?;
    params.end()?;
    aside(move || {
        let listed = app.database.read(|view| view.jobs.list(view.history, &queue, state, after, limit))?.wait()?;
        let page = listed.map_err(quire::Error::from)?;
        let jobs = views(&app.database, &page.jobs)?;
        Ok(Answer::of(&JobsPage { jobs, next: page.next.map(|id| id.to_string()) }))
    })
    .await
}

/// `POST /v1/queues/{queue}/fetch`: leases jobs to a worker, and waits for some when there are none.
pub(crate) async fn fetch(
    State(app): State<Arc<App>>,
    Named(queue): Named<String>,
    body: Body,
) -> Result<Answer, Problem> {
    let FetchRequest { count, lease_ms, worker, wait_ms } = body.parse()?;
    let wait = Duration::from_millis(within("wait_ms", wait_ms, 0..=WAIT_MS_MAX)?);
    let part = PartRequest::Fetch(Fetch::of(Text::from(&*queue), count, lease_ms, worker));
    let give_up = tokio::time::sleep(wait);
    tokio::pin!(give_up);
    loop {
        // Taken before the fetch, so that what is published meanwhile is not slept through.
        let mut seen = app.database.published();
        let jobs = fetch_now(&app, &part).await?;
        if !jobs.is_empty() || wait.is_zero() {
            return Ok(Answer::of(&FetchReply { jobs: jobs.iter().map(fetched).collect() }));
        }
        // A fetch takes the writer's turn; a look does not. Only what makes a job pending is worth a fetch. Time does so
        // through the log, too: the database ticks.
        loop {
            tokio::select! {
                published = app.database.arrival_after(seen) => published?,
                () = &mut give_up => return Ok(Answer::of(&FetchReply { jobs: Vec::new() })),
                () = app.closing() => return Ok(Answer::of(&FetchReply { jobs: Vec::new() })),
            }
            seen = app.database.published();
            let stats = app.database.read_published(|view| view.jobs.queue_stats(&queue))?;
            if stats.is_some_and(|stats| stats.pending > 0) {
                break;
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
