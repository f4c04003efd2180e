//! Producers in separate processes whose clocks are seconds apart.

use std::path::PathBuf;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use quire::jobs::{Command, JobSpec};
use quire::{Clock, Database, Durability, SystemClock, Timestamp};

use crate::support::Place;

/// Difference between the producers' clocks and the worker's.
const SKEWS_S: [i64; 3] = [-5, 0, 5];

const CALLS_EACH: u64 = 200;
const JOBS_A_CALL: u64 = 10;

/// The system's clock, set wrong.
#[derive(Debug)]
struct Skewed {
    by_s: i64,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_add_signed(self.by_s * 1_000_000))
    }

    fn monotonic_ns(&self) -> u64 {
        SystemClock.monotonic_ns()
    }
}

fn open(path: PathBuf, by_s: i64) -> Database {
    let builder = Database::builder(path).durability(Durability::Os).clock(Arc::new(Skewed { by_s }));
    builder.open().expect("the database opens")
}

/// A producer; does nothing in an ordinary run.
#[test]
fn producer() {
    let Some(path) = std::env::var_os("QUIRE_SKEWED_PATH") else { return };
    let producer: usize = std::env::var("QUIRE_SKEWED_PRODUCER").expect("given").parse().expect("a number");
    let database = open(path.into(), SKEWS_S[producer]);
    for call in 0..CALLS_EACH {
        let payloads: Vec<[u8; 8]> = (0..JOBS_A_CALL)
            .map(|job| ((producer as u64 * CALLS_EACH + call) * JOBS_A_CALL + job).to_le_bytes())
            .collect();
        // Half of the jobs run at once, by the producer's own clock.
        let run_at = (call % 2 == 0).then(|| database.now());
        let commands: Vec<Command<'_>> = payloads
            .iter()
            .map(|payload| Command::Enqueue { queue: "q", job: JobSpec { run_at, ..JobSpec::new(payload) } })
            .collect();
        let answers = database.queue("q").each(&commands).expect("enqueued");
        assert!(answers.iter().all(Result::is_ok));
    }
}

#[test]
fn clocks_that_are_seconds_apart_strand_no_job_and_let_none_overtake() {
    let place = Place::new();
    let database = open(place.path(), 0);
    let producers: Vec<_> = (0..SKEWS_S.len())
        .map(|producer| {
            let mut process = Process::new(std::env::current_exe().expect("the test knows itself"));
            process.args(["--exact", "skewed::producer"]).env("QUIRE_SKEWED_PATH", place.path());
            process.env("QUIRE_SKEWED_PRODUCER", producer.to_string()).spawn().expect("a process")
        })
        .collect();
    let total = SKEWS_S.len() as u64 * CALLS_EACH * JOBS_A_CALL;
    let queue = database.queue("q").lease(Duration::from_secs(600));
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    while (ids.len() as u64) < total {
        let jobs = queue.fetch("w", 100).expect("fetched");
        if jobs.is_empty() {
            if let Some(rest) = database.fetch_rest(&["q"]).expect("it goes on") {
                database.wait_after(rest.seen, rest.at_most).expect("it goes on");
            }
            continue;
        }
        ids.extend(jobs.iter().map(|job| job.job));
        let number = |job: &quire::jobs::FetchedJob| u64::from_le_bytes(job.payload[..].try_into().expect("a number"));
        numbers.extend(jobs.iter().map(number));
        let acks: Vec<_> =
            jobs.iter().map(|job| Command::Ack { job: job.job, token: job.token, result: b"" }).collect();
        assert!(queue.each(&acks).expect("acked").iter().all(Result::is_ok));
    }
    for mut producer in producers {
        assert!(producer.wait().expect("it ends").success());
    }
    assert!(ids.is_sorted(), "who was enqueued first is fetched first");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..total).collect::<Vec<_>>());
    drop(database);
    let stats = open(place.path(), 0).queue("q").stats().expect("told").expect("there");
    assert_eq!((stats.completed, stats.pending, stats.scheduled), (total, 0, 0));
}
