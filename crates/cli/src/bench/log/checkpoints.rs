//! Commits while the state, a million jobs, is saved over and over: how long the slowest waits for a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quire::jobs::NewJob;
use quire::{Commit, Database, Message};

use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::Result;
use crate::opening::open;

const JOBS: u64 = 1_000_000;
/// How many jobs one commit enqueues, to begin with.
const AT_ONCE: u64 = 1_000;

/// Produces messages while another thread asks for one checkpoint after the other.
pub(super) fn commit_meanwhile(run: &Run<'_>) -> Result<Measured> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payload = vec![b'q'; run.case.payload_bytes];
    for first in (0..JOBS).step_by(AT_ONCE as usize) {
        run.go_on(first)?;
        let jobs = (0..AT_ONCE).fold(Commit::new(), |commit, _| commit.enqueue("queue", NewJob::new(&payload)));
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
        saving.join().expect("who saves does not panic")?;
        measured
    })?;
    Ok(measured.with("checkpoints", (database.statistics().checkpoints - before) as f64))
}

fn produce(run: &Run<'_>, database: &Database, payload: &[u8]) -> Result<Measured> {
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
