//! The stream of a worker: it sends frames, each a commit, and receives the replies in order, and
//! jobs between them.
//!
//! ```text
//! frames ─▶ read: submit ─▶ tickets, in order ─▶ answer ─▶┐
//!             │ credits                                    ├▶ to the worker
//!             └──────────▶ push: fetch as much as may be ─▶┤
//!                          watch: leases that are lost ───▶┘
//! ```
//!
//! A job that was fetched and could not be sent is returned to the queue; its attempt does not
//! count. The worker keeps the jobs that it holds when the stream breaks, until the leases expire.
//! It may still be running, and may report through any call.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message as _;
use quire::jobs::{JobId, LeaseToken};
use quire::{Operation, PermittedView, Position};
use quire_access::budget::{BudgetCaller, ByteClaim};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::adapters::Map;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{fetched, give_back, leases_of, reply, request, submit, turn_to_fetch};
use crate::app::App;
use crate::error::{failed, invalid};
use crate::idempotency::CallKey;
use crate::proto::job_report::What;
use crate::proto::work_response::{FrameResult, Kind, LostLeases};
use crate::proto::{JobReport, WorkRequest, WorkResponse, work_request};

/// Maximum open credits, and maximum jobs of one fetch.
const CREDITS_MAX: usize = 1_024;
const FETCH_MAX: usize = 256;

/// Maximum number of frames in progress. No further frame is read until there are replies.
const FRAMES_MAX: usize = 256;

/// How many messages may wait to be sent.
const MESSAGES_MAX: usize = 16;

/// Minimum interval between checks for lost leases.
const WATCH_INTERVAL: Duration = Duration::from_millis(10);

/// The memory that a fetch of jobs needs at least.
const JOBS_BYTES: usize = 64 << 10;

type WorkItem = Result<WorkResponse, Status>;

/// A message that waits to be sent, and the memory of its jobs.
type HeldMessage = (WorkItem, Option<ByteClaim>);

/// The messages to a worker.
pub(super) type WorkStream = Map<ReceiverStream<HeldMessage>, fn(HeldMessage) -> WorkItem>;

type Sender = mpsc::Sender<HeldMessage>;

/// Space for one message.
type SendPermit<'s> = mpsc::Permit<'s, HeldMessage>;

/// A frame in progress: the number of its replies to reports, and the pending commit.
type OpenFrame = (usize, request::PendingItems);

/// The state that the tasks of a stream share.
struct WorkerTasks {
    app: Arc<App>,
    caller: BudgetCaller,
    out: Sender,
    credits: Semaphore,
    /// The leases that were sent and not reported on.
    held: Mutex<BTreeMap<JobId, LeaseToken>>,
}

/// Starts to serve a worker.
pub(super) fn begin(app: Arc<App>, frames: Streaming<WorkRequest>) -> WorkStream {
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    let caller = app.caller();
    let stream = WorkerTasks { app, caller, out, credits: Semaphore::new(0), held: Mutex::default() };
    tokio::spawn(async move {
        if let Err(status) = stream.serve(frames).await {
            // A worker that has disconnected needs no error.
            let _ = stream.out.send((Err(status), None)).await;
        }
    });
    // The transport claims the encoded bytes.
    let taken: fn(HeldMessage) -> WorkItem = |(message, _claim)| message;
    ReceiverStream::new(messages).map(taken)
}

impl WorkerTasks {
    /// Serves until the worker has finished and has its replies, or has disconnected, or an error
    /// occurs.
    async fn serve(&self, mut frames: Streaming<WorkRequest>) -> Result<(), Status> {
        let first = tokio::select! {
            first = frames.message() => first?,
            status = self.app.closing() => return Err(status),
        };
        let Some(mut first) = first else { return Ok(()) };
        let subscription = first.subscribe.take();
        let is_subscribed = subscription.is_some();
        let (under_way, to_answer) = mpsc::channel(FRAMES_MAX);
        let (stop, stopped) = watch::channel(false);
        let talk = async {
            let talked = tokio::select! {
                talked = async { tokio::try_join!(self.read(first, frames, under_way), self.answer(to_answer)) } => {
                    talked.map(|_| ())
                }
                failed = self.watch(), if is_subscribed => failed,
                status = self.app.closing() => Err(status),
                () = self.out.closed() => Ok(()),
            };
            stop.send_replace(true);
            Ok(talked)
        };
        let push = async {
            let Some(subscription) = subscription else { return Ok(()) };
            let work_request::Subscription { queues, weights, lease_us, worker, with_events } = subscription;
            self.push(&request::FetchOptions { queues, weights, lease_us, worker, with_events }, stopped).await
        };
        // The sending task is asked to end and not aborted: it sends or returns the jobs that it
        // has fetched.
        tokio::try_join!(talk, push)?.0
    }

    /// Reads frames, until the end of the stream.
    async fn read(
        &self,
        first: WorkRequest,
        mut frames: Streaming<WorkRequest>,
        under_way: mpsc::Sender<OpenFrame>,
    ) -> Result<(), Status> {
        let mut next = Some(first);
        while let Some(frame) = next {
            if frame.subscribe.is_some() {
                return Err(invalid("only the first frame may subscribe"));
            }
            let credits = frame.credits as usize;
            if self.credits.available_permits().saturating_add(credits) > CREDITS_MAX {
                return Err(invalid(format!("at most {CREDITS_MAX} credits may be open at a time")));
            }
            self.credits.add_permits(credits);
            let bytes = frame.encoded_len();
            let items = request::Items { reports: frame.reports, enqueue: frame.enqueue };
            if !items.is_empty() {
                self.let_go(&items);
                let reports = items.reports.len();
                let submitted = submit(&self.app, CallKey::default(), items, bytes).await?;
                if under_way.send((reports, submitted)).await.is_err() {
                    // The replying task has failed, and returns the reason.
                    return Ok(());
                }
            }
            next = frames.message().await?;
        }
        Ok(())
    }

    /// Removes the leases that the worker ends.
    fn let_go(&self, items: &request::Items) {
        let mut held = self.held();
        // An invalid report ends no lease.
        let ends =
            |report: &&JobReport| request::report(report).is_ok() && !matches!(report.what, Some(What::Heartbeat(_)));
        for (job, token) in items.reports.iter().filter(ends).filter_map(|report| request::named(report).ok()) {
            if held.get(&job) == Some(&token) {
                held.remove(&job);
            }
        }
    }

    /// Replies to the frames, in order.
    async fn answer(&self, mut to_answer: mpsc::Receiver<OpenFrame>) -> Result<(), Status> {
        while let Some((reports, submitted)) = to_answer.recv().await {
            let mut answers = submitted.answers().await?.0.into_iter();
            let reports = answers.by_ref().take(reports).map(reply::reported).collect();
            let enqueued = answers.map(reply::enqueued).collect();
            self.send(Kind::Result(FrameResult { reports, enqueued })).await;
        }
        Ok(())
    }

    /// Sends jobs as far as there are credits, until it is asked to stop.
    async fn push(&self, fetch: &request::FetchOptions, mut stopped: watch::Receiver<bool>) -> Result<(), Status> {
        // Kept until the fetch is done, so that no other fetch is woken for the same job.
        let mut turn = None;
        loop {
            // With space for a message, at least one credit, and memory.
            let mut claim = self.caller.claim_with_reserve();
            let ready = async {
                let ready = (self.out.reserve().await, self.credits.acquire().await);
                claim.grow_patiently(JOBS_BYTES).await;
                ready
            };
            // A worker that must wait here passes its turn on.
            let pass_on = async {
                drop(turn.take());
                pending::<()>().await
            };
            let (place, credit) = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                (place, credit) = ready => (place, credit.expect("the semaphore is never closed")),
                () = pass_on => unreachable!("it waits for ever"),
            };
            let Ok(place) = place else { return Ok(()) };
            let more = self.credits.available_permits().min(FETCH_MAX - 1);
            let jobs = fetched(&self.app, fetch, u32::try_from(1 + more).expect("few")).await?;
            drop(turn.take());
            if *stopped.borrow() {
                return give_back(&self.app, &leases_of(&jobs)).await;
            }
            if jobs.is_empty() {
                drop((place, credit, claim));
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                    given = turn_to_fetch(&self.app, fetch) => turn = Some(given?),
                }
                continue;
            }
            credit.forget();
            self.credits.forget_permits(jobs.len() - 1);
            let bytes = jobs.iter().map(|job| job.payload.len()).sum::<usize>();
            claim.grow_anyway(bytes.saturating_sub(claim.bytes()));
            let leases = leases_of(&jobs);
            self.held().extend(leases.iter().copied());
            let messages = reply::JobMessages::new(self.app.database(), jobs, fetch.with_events);
            let mut sent = 0;
            let outcome = self.send_jobs(messages, claim, place, &mut sent, &mut stopped).await;
            if sent < leases.len() {
                self.held().retain(|job, _| !leases[sent..].iter().any(|(unsent, _)| unsent == job));
                give_back(&self.app, &leases[sent..]).await?;
            }
            outcome?;
        }
    }

    /// Sends jobs, message by message, the first into the reserved space; returns how many were
    /// sent. The rest is not sent when the worker has disconnected, or when the task should stop.
    async fn send_jobs(
        &self,
        messages: reply::JobMessages,
        mut claim: ByteClaim,
        place: SendPermit<'_>,
        sent: &mut usize,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Status> {
        let (mut messages, mut message) = messages.next().await?;
        let mut place = Some(place);
        while !message.jobs.is_empty() {
            let free = match place.take() {
                Some(place) => place,
                None => tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                    place = self.out.reserve() => match place {
                        Ok(place) => place,
                        Err(_) => return Ok(()),
                    },
                },
            };
            *sent += message.jobs.len();
            let held = claim.split(message.encoded_len());
            free.send((Ok(WorkResponse { kind: Some(Kind::Jobs(message)) }), Some(held)));
            (messages, message) = messages.next().await?;
        }
        Ok(())
    }

    /// Reports leases that no longer hold, or that the worker may no longer use. Returns only with
    /// an error.
    async fn watch(&self) -> Result<(), Status> {
        let database = self.app.database();
        let mut seen = Position::ZERO;
        loop {
            database.publication_after(seen).await.map_err(failed)?;
            seen = database.published();
            let held: Vec<(JobId, LeaseToken)> = self.held().iter().map(|(job, token)| (*job, *token)).collect();
            let find_lost = |view: &PermittedView<'_>| {
                let mut lost = Vec::new();
                for (job, token) in held {
                    // A client cannot report on a job of a queue that it may not read.
                    if !view.jobs.is_leased(job, token) || !view.permits_job(job, Operation::Read)? {
                        lost.push((job, token));
                    }
                }
                Ok(lost)
            };
            let lost: Result<Vec<_>, quire::Error> = database.read_published_permitted(find_lost).map_err(failed)?;
            let mut lost = lost.map_err(failed)?;
            // Leases that the worker has ended meanwhile are not lost.
            lost.retain(|(job, token)| {
                let mut held = self.held();
                let was_held = held.get(job) == Some(token);
                if was_held {
                    held.remove(job);
                }
                was_held
            });
            if !lost.is_empty() {
                let jobs = lost.iter().map(|(job, _)| job.to_string()).collect();
                self.send(Kind::Lost(LostLeases { jobs })).await;
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }

    /// Sends a message, unless the worker has disconnected.
    async fn send(&self, kind: Kind) {
        let _ = self.out.send((Ok(WorkResponse { kind: Some(kind) }), None)).await;
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<JobId, LeaseToken>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
