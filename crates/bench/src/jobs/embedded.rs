//! Queues in this process.

use std::time::Duration;

use quire::jobs::{Command, FetchedJob, JobSpec, Reply};
use quire::{Database, Queue, Timestamp};

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::memory::memory_bytes;
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

const QUEUE: &str = "bench";

/// Jobs per batch while a history is made.
const HISTORY_BATCH: usize = 1_000;

fn create(run: &CaseRun<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

fn enqueue(queue: &Queue, payload: &[u8], count: usize) -> Result {
    if count == 1 {
        queue.enqueue(JobSpec::new(payload))?;
        return Ok(());
    }
    let commands = vec![Command::Enqueue { queue: QUEUE, job: JobSpec::new(payload) }; count];
    all_accepted(&queue.each(&commands)?);
    Ok(())
}

fn ack(queue: &Queue, jobs: &[FetchedJob]) -> Result {
    if let [job] = jobs {
        return Ok(queue.ack(job.job, job.token, b"")?);
    }
    let ack = |job: &FetchedJob| Command::Ack { job: job.job, token: job.token, result: b"" };
    all_accepted(&queue.each(&jobs.iter().map(ack).collect::<Vec<_>>())?);
    Ok(())
}

fn all_accepted<R>(answers: &[std::result::Result<Reply, R>]) {
    assert!(answers.iter().all(std::result::Result::is_ok), "nothing is refused");
}

fn live(run: &CaseRun<'_>, database: &Database, ops: u64, batch: usize) -> Result<Recorder> {
    let payload = vec![b'q'; run.case.payload_bytes];
    let count = u32::try_from(batch).expect("a batch is small");
    let queue = database.queue(QUEUE);
    let mut recorder = Recorder::start();
    for op in 0..ops {
        run.go_on(op)?;
        enqueue(&queue, &payload, batch)?;
        let jobs = queue.fetch("w", count)?;
        assert_eq!(jobs.len(), batch, "every enqueued job is fetched");
        ack(&queue, &jobs)?;
        recorder.lap();
    }
    Ok(recorder)
}

/// The whole life of a batch of jobs.
pub(super) fn life(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    live(run, &database, (run.ops / 10).clamp(1, 10_000), run.case.batch)?;
    Ok(live(run, &database, run.ops, run.case.batch)?.finish())
}

/// As [`life`], after `COUNT` finished jobs.
pub(super) fn life_behind<const JOBS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    live(run, &database, JOBS / HISTORY_BATCH as u64, HISTORY_BATCH)?;
    Ok(live(run, &database, run.ops, run.case.batch)?.finish().with("memory_bytes", memory_bytes()))
}

/// Several workers fetch and acknowledge the jobs of a queue.
pub(super) fn fetch_ack(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let payload = vec![b'q'; run.case.payload_bytes];
    let each = run.ops.div_ceil(run.case.clients.into());
    let queue = database.queue(QUEUE);
    for _ in 0..each {
        enqueue(&queue, &payload, run.case.clients as usize)?;
    }
    let watch = Stopwatch::start();
    let latencies = std::thread::scope(|scope| {
        let work = || -> Result<Latencies> {
            let mut recorder = Recorder::start_among_others();
            for op in 0..each {
                run.go_on(op)?;
                let jobs = queue.fetch("w", 1)?;
                assert_eq!(jobs.len(), 1, "the queue has enough jobs for all workers");
                ack(&queue, &jobs)?;
                recorder.lap();
            }
            Ok(recorder.into_latencies())
        };
        let workers: Vec<_> = (0..run.case.clients).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect::<Result<Vec<_>>>()
    })?;
    Ok(CaseResult::of_clients(latencies, watch.elapsed()))
}

fn later((at, payload): &(u64, [u8; 8])) -> JobSpec<'_> {
    JobSpec { run_at: Some(Timestamp::from_micros(*at)), ..JobSpec::new(payload) }
}

/// The delay of jobs that are due a millisecond apart, to a worker of this process.
pub(super) fn lateness(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let queue = database.queue(QUEUE);
    let first = database.now().plus_micros(200_000);
    let payloads: Vec<(u64, [u8; 8])> =
        (0..run.ops).map(|op| first.plus_micros(op * 1_000).as_micros()).map(|at| (at, at.to_le_bytes())).collect();
    for batch in payloads.chunks(1_000) {
        let commands: Vec<_> = batch.iter().map(|job| Command::Enqueue { queue: QUEUE, job: later(job) }).collect();
        all_accepted(&queue.each(&commands)?);
    }
    let seen = std::sync::Mutex::new(Latencies::new());
    let worker = queue.worker("w");
    let stop = worker.stopper();
    let watch = Stopwatch::start();
    worker.run(|job: &FetchedJob| {
        let at = u64::from_le_bytes(job.payload[..].try_into().expect("a time"));
        let late = database.now().as_micros().saturating_sub(at);
        let mut seen = seen.lock().expect("nobody panicked");
        seen.record(Duration::from_micros(late));
        if seen.count() == run.ops {
            stop.stop();
        }
        quire::JobOutcome::ack()
    })?;
    let seen = seen.into_inner().expect("nobody panicked");
    Ok(CaseResult::of_clients([seen], watch.elapsed()))
}

/// Jobs that stay pending, and their memory.
pub(super) fn pending(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let payload = vec![b'q'; run.case.payload_bytes];
    let queue = database.queue(QUEUE);
    let before = memory_bytes();
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        enqueue(&queue, &payload, run.case.batch)?;
        recorder.lap();
    }
    Ok(recorder.finish().with("memory_bytes", memory_bytes() - before))
}
