//! Commits while the state, a million jobs, is saved over and over. It shows how long the slowest
//! commit waits for a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quire::jobs::JobSpec;
use quire::{Commit, Database, Message};

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::Result;
use quire_cli::opening::open;

const JOBS: u64 = 1_000_000;
/// Jobs that one commit enqueues at the start.
const AT_ONCE: u64 = 1_000;

/// Produces messages while another thread requests one checkpoint after another.
pub(super) fn commit_meanwhile(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payload = vec![b'q'; run.case.payload_bytes];
    for first in (0..JOBS).step_by(AT_ONCE as usize) {
        run.go_on(first)?;
        let jobs = (0..AT_ONCE).fold(Commit::new(), |commit, _| commit.enqueue("queue", JobSpec::new(&payload)));
        database.commit(&jobs)?.committed()?;
    }
    database.checkpoint()?;
    let ended = AtomicBool::new(false);
    let before = database.statistics().checkpoints;
    let measured = thread::scope(|scope| {
        let (database, ended) = (&database, &ended);
        let saving = scope.spawn(move || -> Result {
            while !ended.load(Ordering::Relaxed) {
                database.checkpoint()?;
            }
            Ok(())
        });
        let measured = produce(run, database, &payload);
        ended.store(true, Ordering::Relaxed);
        saving.join().expect("the thread that saves checkpoints does not panic")?;
        measured
    })?;
    Ok(measured.with("checkpoints", (database.statistics().checkpoints - before) as f64))
}

fn produce(run: &CaseRun<'_>, database: &Database, payload: &[u8]) -> Result<CaseResult> {
    let topic = database.topic("bench");
    let mut producer = topic.producer();
    let message = [Message::new(payload)];
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        producer.produce(&message)?;
        recorder.lap();
    }
    Ok(recorder.finish())
}
