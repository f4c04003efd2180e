//! A consumer group that commits its offset.

use quire::{Database, Message, Sequence};

use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::Result;
use quire_cli::opening::open;

const TOPIC: &str = "bench";

/// Commits one offset after another.
pub(super) fn ack(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    topic.produce(Message::new(b"first"))?;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        topic.commit_offset("readers", 0, Sequence::new(op))?;
        recorder.lap();
    }
    assert_eq!(topic.committed_offset("readers", 0)?, Some(Sequence::new(run.ops - 1)), "the last one counts");
    Ok(recorder.finish())
}
