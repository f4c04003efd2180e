//! The service `Jobs`: enqueues, fetches, reports, the stream of a worker; changes, reads, queues,
//! and the stream of events.
//!
//! ```text
//! Enqueue, Report ─▶ request ─▶ Database::submit (one Each) ─▶ the ticket ─▶ reply: a result for each item
//! FetchOptions ─▶ rest, until a fetch is worth while ─▶ Database::submit ─▶ jobs
//! Work ─▶ work: frames in, answers and jobs out
//! Change, BeginBulk, Bulks ─▶ change · Get, Search ─▶ read · Queues, SetQueue, ClearQueue, DestroyQueue ─▶ queues
//! Subscribe ─▶ subscribe: pages of life-cycle events
//! ```

pub(crate) mod change;
pub(crate) mod queues;
mod read;
pub(crate) mod reply;
pub(crate) mod request;
mod subscribe;
mod work;

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use quire::jobs::{Command, FetchedJob, JobId, LeaseToken};
use quire::{Commit, Outcome, Part, Ticket, Timestamp, jobs};
use quire_access::FetchTurn;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming};

use crate::app::{App, ServiceComponents};
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{failed, invalid, overloaded, refused, stopping};
use crate::idempotency::{self, CallKey};
use crate::metering::claimed;
use crate::pages::PageStream;
use crate::proto::jobs_server::Jobs;
use crate::proto::{
    BeginBulkRequest, BeginBulkResponse, BulksRequest, BulksResponse, ChangeJobsRequest, ChangeJobsResponse,
    ClearQueueRequest, ClearQueueResponse, DestroyQueueRequest, DestroyQueueResponse, EnqueueJobsRequest,
    EnqueueJobsResponse, FetchJobsRequest, FetchJobsResponse, GetJobsRequest, GetJobsResponse, QueuesRequest,
    QueuesResponse, ReportJobsRequest, ReportJobsResponse, SearchJobsRequest, SearchJobsResponse, SetQueueRequest,
    SetQueueResponse, SubscribeJobsRequest, SubscribeJobsResponse, WorkRequest,
};

/// Maximum wait of a fetch.
const WAIT_MICROS_MAX: u64 = 60_000_000;

/// The memory that a response with jobs needs at least.
const RESPONSE_BYTES: usize = 256 << 10;

/// The service.
#[derive(Debug)]
pub(crate) struct JobsService {
    components: Arc<ServiceComponents>,
}

impl JobsService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        JobsService { components }
    }

    /// The components for the running call.
    fn app(&self) -> Arc<App> {
        self.components.call()
    }
}

/// Passes these commands to the database, on another thread when they are large.
async fn submit(
    app: &Arc<App>,
    key: CallKey,
    items: request::Items,
    bytes: usize,
) -> Result<request::PendingItems, Status> {
    if bytes <= INLINE_BYTES_MAX {
        return items.submit(app.database(), &key);
    }
    let app = Arc::clone(app);
    aside(move || items.submit(app.database(), &key)).await
}

/// Commits one command.
fn one(app: &App, command: jobs::Command<'_>) -> Result<Ticket<Outcome>, Status> {
    app.database().submit(&Commit::new().part(Part::Jobs(command))).map_err(failed)
}

/// The reply to the one command of a commit.
async fn answered(ticket: Ticket<Outcome>) -> Result<jobs::Reply, Status> {
    keyed_answer(ticket).await.map(|(reply, _)| reply)
}

/// The reply to the one command of a commit, and whether it is that of an earlier copy.
async fn keyed_answer(ticket: Ticket<Outcome>) -> Result<(jobs::Reply, bool), Status> {
    match ticket.await.map_err(failed)? {
        Outcome::Committed(mut committed) => match committed.replies.pop() {
            Some(quire::Reply::Jobs(reply)) => Ok((reply, committed.is_replay)),
            other => unreachable!("a jobs command gets a jobs reply, not {other:?}"),
        },
        Outcome::Refused(refusal) => Err(refused(&refusal)),
    }
}

/// The replies to an `Each`, one for each command.
type EachAnswers = Vec<Result<jobs::Reply, jobs::Refusal>>;

/// The replies to an `Each`, and whether they are those of an earlier copy.
async fn each_answered(ticket: Ticket<Outcome>) -> Result<(EachAnswers, bool), Status> {
    match keyed_answer(ticket).await? {
        (jobs::Reply::Each(answers), is_replay) => Ok((answers, is_replay)),
        (other, _) => unreachable!("an each returns one reply an item, not {other:?}"),
    }
}

/// The jobs that a fetch gets now.
async fn fetched(app: &App, fetch: &request::FetchOptions, count: u32) -> Result<Vec<FetchedJob>, Status> {
    match answered(fetch.submit(app.database(), count)?).await? {
        jobs::Reply::Fetched(jobs) => Ok(jobs),
        other => unreachable!("a fetch returns jobs, not {other:?}"),
    }
}

/// The response to a fetch, with the jobs that it gets now. Jobs that do not fit, or whose client
/// has disconnected, are returned to the queue; their attempts do not count. A separate task does
/// that, so that it continues when the call is cancelled.
async fn fetched_or_given_back(
    app: &Arc<App>,
    fetch: &Arc<request::FetchOptions>,
    count: u32,
) -> Result<FetchJobsResponse, Status> {
    let (answer, asked) = oneshot::channel();
    let (app, fetch) = (Arc::clone(app), Arc::clone(fetch));
    tokio::spawn(async move {
        let jobs = match fetched(&app, &fetch, count).await {
            Ok(jobs) => jobs,
            Err(status) => return drop(answer.send(Err(status))),
        };
        let leases = leases_of(&jobs);
        let message = reply::JobMessages::new(app.database(), jobs, fetch.with_events).next().await;
        let told = message.map(|(_, message)| message);
        let fit = told.as_ref().map_or(0, |message| message.jobs.len());
        let sent = if answer.send(told).is_ok() { fit } else { 0 };
        // A failure to return them is not reported: their leases expire.
        let _ = give_back(&app, &leases[sent..]).await;
    });
    asked.await.map_err(|_| stopping())?
}

/// The leases of these jobs.
fn leases_of(jobs: &[FetchedJob]) -> Vec<(JobId, LeaseToken)> {
    jobs.iter().map(|job| (job.job, job.token)).collect()
}

/// Makes jobs pending again that were never sent, also when the session of their client has ended.
async fn give_back(app: &App, leases: &[(JobId, LeaseToken)]) -> Result<(), Status> {
    let back =
        |(job, token): &(JobId, LeaseToken)| Command::Snooze { job: *job, token: *token, until: Timestamp::ZERO };
    let commands: Vec<Command<'_>> = leases.iter().map(back).collect();
    if commands.is_empty() {
        return Ok(());
    }
    let each = Commit::new().part(Part::Jobs(Command::Each(&commands)));
    let ticket = app.owner().submit(&each).map_err(failed)?;
    each_answered(ticket).await.map(|_| ())
}

/// Waits until a fetch may get a job and has its turn. The fetch checks the permissions, and a
/// waiting fetch also gives turns to other clients.
async fn turn_to_fetch(app: &App, fetch: &request::FetchOptions) -> Result<FetchTurn, Status> {
    let queues: Vec<&str> = fetch.queues.iter().map(String::as_str).collect();
    app.fetching().wait(app.owner(), &queues).await.map_err(failed)
}

#[tonic::async_trait]
impl Jobs for JobsService {
    type WorkStream = work::WorkStream;
    type SubscribeStream = PageStream<SubscribeJobsResponse>;

    async fn enqueue(&self, request: Request<EnqueueJobsRequest>) -> Result<Response<EnqueueJobsResponse>, Status> {
        let key = CallKey::of(request.metadata())?;
        let (bytes, request) = (request.get_ref().encoded_len(), request.into_inner());
        let items = request::Items { reports: Vec::new(), enqueue: request.jobs };
        let (answers, is_replay) = submit(&self.app(), key, items, bytes).await?.answers().await?;
        let results = answers.into_iter().map(reply::enqueued).collect();
        Ok(idempotency::response(EnqueueJobsResponse { results }, is_replay))
    }

    async fn fetch(&self, request: Request<FetchJobsRequest>) -> Result<Response<FetchJobsResponse>, Status> {
        let FetchJobsRequest { queues, weights, count, lease_us, worker, wait_us, with_events } = request.into_inner();
        if wait_us > WAIT_MICROS_MAX {
            return Err(invalid(format!("wait_us must be at most {WAIT_MICROS_MAX}, got {wait_us}")));
        }
        let app = self.app();
        let fetch = Arc::new(request::FetchOptions { queues, weights, lease_us, worker, with_events });
        let give_up = tokio::time::sleep(Duration::from_micros(wait_us));
        tokio::pin!(give_up);
        // Kept until the fetch is done, so that no other fetch is woken for the same job.
        let mut turn = None;
        loop {
            // Leased jobs must reach the client, so none are leased without memory for a response.
            app.caller().check(RESPONSE_BYTES, true).map_err(overloaded)?;
            let answer = fetched_or_given_back(&app, &fetch, count).await?;
            if !answer.jobs.is_empty() || wait_us == 0 {
                return Ok(Response::new(answer));
            }
            drop(turn.take());
            tokio::select! {
                given = turn_to_fetch(&app, &fetch) => turn = Some(given?),
                () = &mut give_up => return Ok(Response::new(FetchJobsResponse::default())),
                ended = app.session_ended() => return Err(ended),
                _ = app.closing() => return Ok(Response::new(FetchJobsResponse::default())),
            }
        }
    }

    async fn report(&self, request: Request<ReportJobsRequest>) -> Result<Response<ReportJobsResponse>, Status> {
        let key = CallKey::of(request.metadata())?;
        let (bytes, request) = (request.get_ref().encoded_len(), request.into_inner());
        let items = request::Items { reports: request.reports, enqueue: Vec::new() };
        let (answers, is_replay) = submit(&self.app(), key, items, bytes).await?.answers().await?;
        let results = answers.into_iter().map(reply::reported).collect();
        Ok(idempotency::response(ReportJobsResponse { results }, is_replay))
    }

    async fn work(&self, request: Request<Streaming<WorkRequest>>) -> Result<Response<Self::WorkStream>, Status> {
        Ok(Response::new(work::begin(self.app(), request.into_inner())))
    }

    async fn change(&self, request: Request<ChangeJobsRequest>) -> Result<Response<ChangeJobsResponse>, Status> {
        let results = change::change(&self.app(), request.into_inner()).await?;
        Ok(Response::new(ChangeJobsResponse { results }))
    }

    async fn get(&self, request: Request<GetJobsRequest>) -> Result<Response<GetJobsResponse>, Status> {
        read::get(&self.app(), request.into_inner()).await.map(claimed)
    }

    async fn search(&self, request: Request<SearchJobsRequest>) -> Result<Response<SearchJobsResponse>, Status> {
        read::search(&self.app(), request.into_inner()).await.map(claimed)
    }

    async fn begin_bulk(&self, request: Request<BeginBulkRequest>) -> Result<Response<BeginBulkResponse>, Status> {
        Ok(Response::new(BeginBulkResponse { bulk: change::begin_bulk(&self.app(), request.into_inner()).await? }))
    }

    async fn bulks(&self, request: Request<BulksRequest>) -> Result<Response<BulksResponse>, Status> {
        change::bulks(&self.app(), request.into_inner()).await.map(claimed)
    }

    async fn queues(&self, request: Request<QueuesRequest>) -> Result<Response<QueuesResponse>, Status> {
        queues::queues(&self.app(), request.into_inner()).await.map(claimed)
    }

    async fn set_queue(&self, request: Request<SetQueueRequest>) -> Result<Response<SetQueueResponse>, Status> {
        queues::set(&self.app(), request.into_inner()).await?;
        Ok(Response::new(SetQueueResponse {}))
    }

    async fn clear_queue(&self, request: Request<ClearQueueRequest>) -> Result<Response<ClearQueueResponse>, Status> {
        let queue = request.into_inner().queue;
        let jobs = queues::clear(&self.app(), jobs::Command::Clear { queue: &queue }).await?;
        Ok(Response::new(ClearQueueResponse { jobs }))
    }

    async fn destroy_queue(
        &self,
        request: Request<DestroyQueueRequest>,
    ) -> Result<Response<DestroyQueueResponse>, Status> {
        let queue = request.into_inner().queue;
        let jobs = queues::clear(&self.app(), jobs::Command::Destroy { queue: &queue }).await?;
        Ok(Response::new(DestroyQueueResponse { jobs }))
    }

    async fn subscribe(
        &self,
        request: Request<SubscribeJobsRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        Ok(Response::new(subscribe::begin(self.app(), request.into_inner())?))
    }
}
