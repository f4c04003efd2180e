//! Producers whose clocks are seconds apart, and one worker. It shows whether a job is stranded or
//! overtaken, and the speed.

use std::path::Path;
use std::sync::Arc;

use quire::jobs::{Command, FetchedJob, JobId, JobSpec};
use quire::{Clock, Database, SystemClock, Timestamp};

use crate::case::CaseRun;
use crate::measurement::CaseResult;
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

const QUEUE: &str = "bench";

/// The difference of the producers' clocks from the worker's.
const SKEWS_S: [i64; 3] = [-5, 0, 5];

/// The system's clock with an offset.
#[derive(Debug)]
struct SkewedClock {
    by_s: i64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_add_signed(self.by_s * 1_000_000))
    }

    fn monotonic_ns(&self) -> u64 {
        SystemClock.monotonic_ns()
    }
}

/// Opens the database again, as another process would.
fn opened(path: &Path, run: &CaseRun<'_>, by_s: i64) -> Result<Database> {
    let builder = Database::builder(path).durability(run.case.durability).create(true);
    Ok(open(builder.clock(Arc::new(SkewedClock { by_s })))?.database)
}

/// Enqueues batches. Every other one is due at once by the producer's own clock.
fn produce(run: &CaseRun<'_>, by_s: i64, batches: u64) -> Result {
    let (database, payload) = (opened(&run.path, run, by_s)?, vec![b'q'; run.case.payload_bytes]);
    for number in 0..batches {
        run.go_on(number)?;
        let run_at = number.is_multiple_of(2).then(|| database.now());
        let job = JobSpec { run_at, ..JobSpec::new(&payload) };
        let answers = database.queue(QUEUE).each(&vec![Command::Enqueue { queue: QUEUE, job }; run.case.batch])?;
        assert!(answers.iter().all(std::result::Result::is_ok), "nothing is refused");
    }
    Ok(())
}

/// An operation fetches and acknowledges a batch, in the order of the queue.
pub(super) fn skewed(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = opened(&run.path, run, 0)?;
    let producers = SKEWS_S.len() as u64;
    let batches = run.ops.div_ceil(producers);
    let jobs = batches * producers * run.case.batch as u64;
    let watch = Stopwatch::start();
    let (latencies, overtaken) = std::thread::scope(|scope| -> Result<_> {
        let producers = SKEWS_S.map(|by_s| scope.spawn(move || produce(run, by_s, batches)));
        let worked = work(run, &database, jobs)?;
        for producer in producers {
            producer.join().expect("a producer does not panic")?;
        }
        Ok(worked)
    })?;
    Ok(CaseResult::of_clients([latencies], watch.elapsed()).with("overtaken_jobs", overtaken as f64))
}

/// Fetches and acknowledges `count` jobs. Returns how many came after a job that was enqueued
/// later.
fn work(run: &CaseRun<'_>, database: &Database, jobs: u64) -> Result<(Latencies, u64)> {
    let queue = database.queue(QUEUE);
    let count = u32::try_from(run.case.batch).expect("a batch is small");
    let (mut latencies, mut watch) = (Latencies::new(), Stopwatch::start());
    let (mut seen, mut batches, mut overtaken) = (0, 0, 0);
    let mut youngest: Option<JobId> = None;
    while seen < jobs {
        run.go_on(0)?;
        let fetched = queue.fetch("w", count)?;
        if fetched.is_empty() {
            if let Some(rest) = database.fetch_rest(&[QUEUE])? {
                database.wait_after(rest.seen, rest.at_most)?;
            }
            continue;
        }
        for job in &fetched {
            overtaken += u64::from(youngest.is_some_and(|youngest| job.job < youngest));
            youngest = youngest.max(Some(job.job));
        }
        let ack = |job: &FetchedJob| Command::Ack { job: job.job, token: job.token, result: b"" };
        let answers = queue.each(&fetched.iter().map(ack).collect::<Vec<_>>())?;
        assert!(answers.iter().all(std::result::Result::is_ok), "no lease is lost");
        seen += fetched.len() as u64;
        while batches < seen / run.case.batch as u64 {
            batches += 1;
            latencies.record(watch.lap());
        }
    }
    Ok((latencies, overtaken))
}
