//! Queues behind gRPC.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use quire::Database;
use quire::jobs::{Command, JobSpec};
use quire_grpc::WorkerStream;
use quire_grpc::proto::job_report::{Ack, What};
use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::work_request::Subscription;
use quire_grpc::proto::work_response::Kind;
use quire_grpc::proto::{
    self, EnqueueJobsRequest, FetchJobsRequest, FetchedJob, JobReport, ReportJobsRequest, WorkRequest,
};
use tokio::runtime::Runtime;

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::served::{clients, failed, run_clients};
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

const QUEUE: &str = "bench";

/// Clients of [`stream_life`] that are workers. The others produce.
const WORKERS: u64 = 4;

fn jobs(count: usize, payload_bytes: usize) -> Vec<proto::NewJob> {
    let payload = vec![b'q'; payload_bytes].into();
    vec![proto::NewJob { queue: QUEUE.to_owned(), payload, ..proto::NewJob::default() }; count]
}

fn ack(job: FetchedJob) -> JobReport {
    JobReport { job: job.job, token: job.token, what: Some(What::Ack(Ack::default())) }
}

/// Enqueues with unary calls.
pub(super) fn enqueue(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (batch, bytes) = (run.case.batch, run.case.payload_bytes);
    clients(
        run,
        |_| Ok(()),
        |address, _, ops| async move {
            let mut client = JobsClient::connect(address).await.map_err(failed)?;
            let jobs = jobs(batch, bytes);
            let mut recorder = Recorder::start_among_others();
            for _ in 0..ops {
                let request = EnqueueJobsRequest { jobs: jobs.clone() };
                let answer = client.enqueue(request).await.map_err(failed)?.into_inner();
                assert!(answer.results.iter().all(|result| result.refused.is_none()), "nothing is refused");
                recorder.lap();
            }
            Ok(recorder.into_latencies())
        },
    )
}

/// Fetches and acknowledges one job after another, with unary calls.
pub(super) fn fetch_ack(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (total, bytes) = (run.ops + u64::from(run.case.clients), run.case.payload_bytes);
    let fill = |database: &Database| {
        let payload = vec![b'q'; bytes];
        let commands = vec![Command::Enqueue { queue: QUEUE, job: JobSpec::new(&payload) }; 1_000];
        for _ in 0..total.div_ceil(1_000) {
            database.queue(QUEUE).each(&commands)?;
        }
        Ok(())
    };
    clients(run, fill, |address, _, ops| async move {
        let mut client = JobsClient::connect(address).await.map_err(failed)?;
        let mut recorder = Recorder::start_among_others();
        for _ in 0..ops {
            let fetch = FetchJobsRequest { queues: vec![QUEUE.to_owned()], count: 1, ..FetchJobsRequest::default() };
            let reports: Vec<_> =
                client.fetch(fetch).await.map_err(failed)?.into_inner().jobs.into_iter().map(ack).collect();
            assert_eq!(reports.len(), 1, "the queue has enough jobs for all workers");
            client.report(ReportJobsRequest { reports }).await.map_err(failed)?;
            recorder.lap();
        }
        Ok(recorder.into_latencies())
    })
}

/// Opens a worker's stream. Without credits, it is a producer's.
async fn begin(address: String, credits: u32) -> Result<WorkerStream> {
    let mut client = JobsClient::connect(address).await.map_err(failed)?;
    let subscription = Subscription { queues: vec![QUEUE.to_owned()], ..Subscription::default() };
    let subscribe = (credits > 0).then_some(subscription);
    let first = WorkRequest { subscribe, credits, ..WorkRequest::default() };
    WorkerStream::begin(&mut client, first).await.map_err(failed)
}

async fn next(work: &mut WorkerStream) -> Result<Kind> {
    work.receive().await.map_err(failed)?.ok_or_else(|| failed("the stream has ended"))
}

/// Jobs over gRPC streams, from enqueue to acknowledgement. Some clients produce one batch after
/// another; the others acknowledge the jobs that they receive. An operation is a finished batch:
/// from its production to the response to the acknowledgement of its oldest job.
pub(super) fn stream_life(run: &CaseRun<'_>) -> Result<CaseResult> {
    stream(run, None)
}

/// The same at a fixed rate: half of the streams' expected capacity. Latencies count from the time
/// when a batch is due, even when it is sent late.
pub(super) fn stream_paced(run: &CaseRun<'_>) -> Result<CaseResult> {
    let jobs_per_s = if run.case.durability == quire::Durability::Os { 100_000 } else { 50_000 };
    stream(run, Some(jobs_per_s))
}

/// The same on a server that runs already.
///
/// # Errors
/// The error of a client.
pub(crate) fn stream_life_at(run: &CaseRun<'_>, runtime: &Runtime, address: &str) -> Result<CaseResult> {
    let load = StreamLoad::of(run, None);
    run_clients(run, runtime, |first, _| load.client(address.to_owned(), first))
}

fn stream(run: &CaseRun<'_>, jobs_per_s: Option<u64>) -> Result<CaseResult> {
    let load = StreamLoad::of(run, jobs_per_s);
    clients(run, |_| Ok(()), |address, first, _| load.client(address, first))
}

/// What producers and workers share.
struct StreamLoad {
    producers: u64,
    batches: u64,
    batch: usize,
    payload_bytes: usize,
    /// Operations of a client.
    each: u64,
    left: Arc<AtomicI64>,
    /// The time between two batches of a producer.
    every: Option<Duration>,
    watch: Stopwatch,
}

impl StreamLoad {
    fn of(run: &CaseRun<'_>, jobs_per_s: Option<u64>) -> Self {
        let (batch, payload_bytes) = (run.case.batch, run.case.payload_bytes);
        let producers = u64::from(run.case.clients) - WORKERS;
        let batches = run.ops.div_ceil(producers);
        let jobs = i64::try_from(batches * producers * batch as u64).expect("few");
        let every =
            jobs_per_s.map(|jobs_per_s| Duration::from_nanos(1_000_000_000 * producers * batch as u64 / jobs_per_s));
        StreamLoad {
            producers,
            batches,
            batch,
            payload_bytes,
            each: run.ops.div_ceil(u64::from(run.case.clients)),
            left: Arc::new(AtomicI64::new(jobs)),
            every,
            watch: Stopwatch::start(),
        }
    }

    /// The client whose first operation has the number `first`.
    fn client(&self, address: String, first: u64) -> impl Future<Output = Result<Latencies>> + Send + 'static {
        let left = Arc::clone(&self.left);
        let is_producer = first / self.each < self.producers;
        let (batches, of_batch, every, watch) =
            (self.batches, (self.batch, self.payload_bytes), self.every, self.watch);
        async move {
            match is_producer {
                true => produce(address, batches, of_batch, every, watch).await,
                false => consume(address, of_batch.0, &left, watch).await,
            }
        }
    }
}

/// Produces batches. Each job holds the time at which it was due.
async fn produce(
    address: String,
    batches: u64,
    (batch, bytes): (usize, usize),
    every: Option<Duration>,
    watch: Stopwatch,
) -> Result<Latencies> {
    let mut work = begin(address, 0).await?;
    let begun = watch.elapsed();
    for number in 0..u32::try_from(batches).expect("few") {
        let due = match every {
            None => watch.elapsed(),
            Some(every) => {
                let due = begun + every * number;
                tokio::time::sleep(due.saturating_sub(watch.elapsed())).await;
                due
            }
        };
        let mut payload = vec![b'q'; bytes];
        payload[..8].copy_from_slice(&u64::try_from(due.as_nanos()).expect("not for centuries").to_le_bytes());
        let job = proto::NewJob { queue: QUEUE.to_owned(), payload: payload.into(), ..proto::NewJob::default() };
        work.send(WorkRequest { enqueue: vec![job; batch], ..WorkRequest::default() }).await.map_err(failed)?;
        let Kind::Result(_) = next(&mut work).await? else { return Err(failed("no response to an enqueue")) };
    }
    Ok(Latencies::new())
}

/// The time at which a job was due.
fn due(job: &FetchedJob) -> Duration {
    Duration::from_nanos(u64::from_le_bytes(job.payload[..8].try_into().expect("a time")))
}

async fn consume(address: String, batch: usize, left: &AtomicI64, watch: Stopwatch) -> Result<Latencies> {
    let credits = u32::try_from(batch * 4).expect("few");
    let mut work = begin(address, credits).await?;
    let mut latencies = Latencies::new();
    let (mut acked, mut batches) = (0, 0);
    // The oldest job of each frame in flight.
    let mut under_way = VecDeque::new();
    let mut look_again = tokio::time::interval(Duration::from_millis(5));
    while left.load(Relaxed) > 0 {
        let kind = tokio::select! {
            kind = next(&mut work) => kind?,
            // Another worker may have received the last job.
            _ = look_again.tick() => continue,
        };
        match kind {
            Kind::Jobs(jobs) => {
                let credits = u32::try_from(jobs.jobs.len()).expect("few");
                under_way.push_back(jobs.jobs.iter().map(due).min().expect("jobs"));
                let reports = jobs.jobs.into_iter().map(ack).collect();
                let frame = WorkRequest { credits, reports, ..WorkRequest::default() };
                work.send(frame).await.map_err(failed)?;
            }
            Kind::Result(result) => {
                assert!(result.reports.iter().all(|report| report.refused.is_none()), "nothing is refused");
                let oldest = under_way.pop_front().expect("responses arrive in order");
                let latency = watch.elapsed().saturating_sub(oldest);
                acked += result.reports.len();
                left.fetch_sub(i64::try_from(result.reports.len()).expect("few"), Relaxed);
                while batches < acked / batch {
                    batches += 1;
                    latencies.record(latency);
                }
            }
            Kind::Lost(lost) => return Err(failed(format!("lost {lost:?}"))),
        }
    }
    Ok(latencies)
}

/// The delay from an enqueue to a worker that waits.
pub(super) fn pick_up(run: &CaseRun<'_>) -> Result<CaseResult> {
    let bytes = run.case.payload_bytes;
    clients(
        run,
        |_| Ok(()),
        |address, _, ops| async move {
            let mut producer = JobsClient::connect(address.clone()).await.map_err(failed)?;
            let mut work = begin(address, 1).await?;
            let mut latencies = Latencies::new();
            for _ in 0..ops {
                let watch = Stopwatch::start();
                let enqueued = producer.enqueue(EnqueueJobsRequest { jobs: jobs(1, bytes) });
                let (enqueued, kind) = tokio::join!(enqueued, next(&mut work));
                latencies.record(watch.elapsed());
                enqueued.map_err(failed)?;
                let Kind::Jobs(jobs) = kind? else { return Err(failed("no job for an idle worker")) };
                let reports = jobs.jobs.into_iter().map(ack).collect();
                work.send(WorkRequest { credits: 1, reports, ..WorkRequest::default() }).await.map_err(failed)?;
                let Kind::Result(_) = next(&mut work).await? else {
                    return Err(failed("no response to an acknowledgement"));
                };
            }
            Ok(latencies)
        },
    )
}
