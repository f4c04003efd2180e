//! Several threads that append to one topic at the same time. Each waits for its own commit.

use std::thread;

use quire::{Database, Message};

use super::payload::Payloads;
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

const TOPIC: &str = "bench";

/// The threads of the case share its operations.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    produce(run, &database, 100)?;
    let before = database.statistics();
    let each = run.ops.div_ceil(run.case.clients.into());
    let watch = Stopwatch::start();
    let clients: Vec<Result<Latencies>> = thread::scope(|scope| {
        let database = &database;
        let start = |_| scope.spawn(move || produce(run, database, each));
        let running: Vec<_> = (0..run.case.clients).map(start).collect();
        running.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let elapsed = watch.elapsed();
    let after = database.statistics();
    let measured = CaseResult::of_clients(clients.into_iter().collect::<Result<Vec<_>>>()?, elapsed);
    let syncs = (after.syncs - before.syncs).max(1);
    Ok(measured.with("commits_per_sync", (after.commits - before.commits) as f64 / syncs as f64))
}

fn produce(run: &CaseRun<'_>, database: &Database, ops: u64) -> Result<Latencies> {
    let payloads = Payloads::of(run.case.payload_bytes);
    let batch: Vec<_> = payloads.first(run.case.batch).map(Message::new).collect();
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    let mut recorder = Recorder::start_among_others();
    for op in 0..ops {
        run.go_on(op)?;
        producer.produce(&batch)?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}
