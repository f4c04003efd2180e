//! The stream of a worker: frames in, each a commit; answers in their order out, and between them jobs.
//!
//! ```text
//! frames ─▶ read: submit ─▶ tickets, in order ─▶ answer ─▶┐
//!             │ credits                                    ├▶ to the worker
//!             └──────────▶ push: fetch as much as may be ─▶┤
//!                          watch: leases that are lost ───▶┘
//! ```
//!
//! A job that was fetched and could not be sent is given back, its attempt not counted. What the worker holds when the stream
//! breaks stays its own until the leases run out: it may still be at work, and reports go through any call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message as _;
use quire::jobs::{JobId, LeaseToken};
use quire::{Position, View};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{fetched, give_back, leases_of, reply, request, submit, until_fetchable};
use crate::app::App;
use crate::error::{failed, invalid, stopping};
use crate::proto::job_report::What;
use crate::proto::work_response::{FrameResult, Kind, LostLeases};
use crate::proto::{JobReport, WorkRequest, WorkResponse, work_request};

/// How many jobs may be open to be sent, and how many one fetch takes.
const CREDITS_MAX: usize = 1_024;
const FETCH_MAX: usize = 256;

/// How many frames may be under way. A worker that sends more is read no further until there are answers.
const FRAMES_MAX: usize = 256;

/// How many messages may wait to be sent.
const MESSAGES_MAX: usize = 16;

/// How often at most the leases are looked through for lost ones.
const WATCH_INTERVAL: Duration = Duration::from_millis(10);

type Sender = mpsc::Sender<Result<WorkResponse, Status>>;

/// Room for one message.
type Place<'s> = mpsc::Permit<'s, Result<WorkResponse, Status>>;

/// A frame under way: how many of its answers are to reports, and what it waits for.
type Frame = (usize, request::Submitted);

/// What the tasks of a stream share.
struct Stream {
    app: Arc<App>,
    out: Sender,
    credits: Semaphore,
    /// The leases that were sent and not reported on.
    held: Mutex<BTreeMap<JobId, LeaseToken>>,
}

/// Begins to serve a worker.
pub(super) fn begin(app: Arc<App>, frames: Streaming<WorkRequest>) -> ReceiverStream<Result<WorkResponse, Status>> {
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    let stream = Stream { app, out, credits: Semaphore::new(0), held: Mutex::default() };
    tokio::spawn(async move {
        if let Err(status) = stream.serve(frames).await {
            // A worker that has left needs no reason.
            let _ = stream.out.send(Err(status)).await;
        }
    });
    ReceiverStream::new(messages)
}

impl Stream {
    /// Serves until the worker has said all and is answered, or has left, or until something is wrong.
    async fn serve(&self, mut frames: Streaming<WorkRequest>) -> Result<(), Status> {
        let first = tokio::select! {
            first = frames.message() => first?,
            () = self.app.closing() => return Err(stopping()),
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
                () = self.app.closing() => Err(stopping()),
                () = self.out.closed() => Ok(()),
            };
            stop.send_replace(true);
            Ok(talked)
        };
        let push = async {
            let Some(subscription) = subscription else { return Ok(()) };
            let work_request::Subscription { queues, weights, lease_us, worker, with_events } = subscription;
            self.push(&request::Fetch { queues, weights, lease_us, worker, with_events }, stopped).await
        };
        // The pushing is told to end and not cut short: what it has fetched is sent or given back.
        tokio::try_join!(talk, push)?.0
    }

    /// Takes frames in, until there are no more.
    async fn read(
        &self,
        first: WorkRequest,
        mut frames: Streaming<WorkRequest>,
        under_way: mpsc::Sender<Frame>,
    ) -> Result<(), Status> {
        let mut next = Some(first);
        while let Some(frame) = next {
            if frame.subscribe.is_some() {
                return Err(invalid("only the first frame subscribes"));
            }
            let credits = frame.credits as usize;
            if self.credits.available_permits().saturating_add(credits) > CREDITS_MAX {
                return Err(invalid(format!("at most {CREDITS_MAX} credits are open at a time")));
            }
            self.credits.add_permits(credits);
            let bytes = frame.encoded_len();
            let items = request::Items { reports: frame.reports, enqueue: frame.enqueue };
            if !items.is_empty() {
                self.let_go(&items);
                let reports = items.reports.len();
                let submitted = submit(&self.app, items, bytes).await?;
                if under_way.send((reports, submitted)).await.is_err() {
                    // The answering has failed, and says why.
                    return Ok(());
                }
            }
            next = frames.message().await?;
        }
        Ok(())
    }

    /// Forgets the leases that the worker ends.
    fn let_go(&self, items: &request::Items) {
        let mut held = self.held();
        // A report that can't be ends nothing.
        let ends =
            |report: &&JobReport| request::report(report).is_ok() && !matches!(report.what, Some(What::Heartbeat(_)));
        for (job, token) in items.reports.iter().filter(ends).filter_map(|report| request::named(report).ok()) {
            if held.get(&job) == Some(&token) {
                held.remove(&job);
            }
        }
    }

    /// Answers the frames, in their order.
    async fn answer(&self, mut to_answer: mpsc::Receiver<Frame>) -> Result<(), Status> {
        while let Some((reports, submitted)) = to_answer.recv().await {
            let mut answers = submitted.answers().await?.into_iter();
            let reports = answers.by_ref().take(reports).map(reply::reported).collect();
            let enqueued = answers.map(reply::enqueued).collect();
            self.send(Kind::Result(FrameResult { reports, enqueued })).await;
        }
        Ok(())
    }

    /// Sends jobs as far as there are credits, until it is told to stop.
    async fn push(&self, fetch: &request::Fetch, mut stopped: watch::Receiver<bool>) -> Result<(), Status> {
        loop {
            // With a place to put them, and a credit for one of them at least.
            let ready = async { (self.out.reserve().await, self.credits.acquire().await) };
            let (place, credit) = tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                (place, credit) = ready => (place, credit.expect("the semaphore is never closed")),
            };
            let Ok(place) = place else { return Ok(()) };
            let more = self.credits.available_permits().min(FETCH_MAX - 1);
            let jobs = fetched(&self.app, fetch, u32::try_from(1 + more).expect("few")).await?;
            if *stopped.borrow() {
                return give_back(&self.app, &leases_of(&jobs)).await;
            }
            if jobs.is_empty() {
                drop((place, credit));
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                    worth = until_fetchable(&self.app, fetch) => worth?,
                }
                continue;
            }
            credit.forget();
            self.credits.forget_permits(jobs.len() - 1);
            let leases = leases_of(&jobs);
            self.held().extend(leases.iter().copied());
            let messages = reply::Messages::new(&self.app.database, jobs, fetch.with_events);
            let mut sent = 0;
            let outcome = self.send_jobs(messages, place, &mut sent, &mut stopped).await;
            if sent < leases.len() {
                self.held().retain(|job, _| !leases[sent..].iter().any(|(unsent, _)| unsent == job));
                give_back(&self.app, &leases[sent..]).await?;
            }
            outcome?;
        }
    }

    /// Sends jobs, message by message, the first into the place that is kept for it; counts those that were sent. Those behind it are not sent when
    /// the worker has left, or when the pushing is to stop.
    async fn send_jobs(
        &self,
        messages: reply::Messages,
        place: Place<'_>,
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
            free.send(Ok(WorkResponse { kind: Some(Kind::Jobs(message)) }));
            (messages, message) = messages.next().await?;
        }
        Ok(())
    }

    /// Tells of leases that no longer hold. Returns with an error only.
    async fn watch(&self) -> Result<(), Status> {
        let database = &self.app.database;
        let mut seen = Position::ZERO;
        loop {
            database.arrival_after(seen).await.map_err(failed)?;
            seen = database.published();
            let held: Vec<(JobId, LeaseToken)> = self.held().iter().map(|(job, token)| (*job, *token)).collect();
            let is_lost = |view: &View<'_>| {
                held.into_iter().filter(|(job, token)| !view.jobs.is_leased(*job, *token)).collect::<Vec<_>>()
            };
            let mut lost = database.read_published(is_lost).map_err(failed)?;
            // Those that the worker has ended meanwhile it has not lost.
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

    /// Sends a message; to a worker that has left, none.
    async fn send(&self, kind: Kind) {
        let _ = self.out.send(Ok(WorkResponse { kind: Some(kind) })).await;
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<JobId, LeaseToken>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
