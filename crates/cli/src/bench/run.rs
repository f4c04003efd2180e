//! Running a case: a fresh database, a few operations to warm up, then every operation timed.
//!
//! The end of one operation is the start of the next, so that the clock is looked at once an operation.

use std::fs;

use quire::{Database, Message, Sequence};

use super::cases::{Case, Operation, PAYLOAD_BYTES};
use super::measurement::{Measurement, Recorder};
use super::scratch::Scratch;
use crate::failure::{Failure, Result};
use crate::opening::open;

const TOPIC: &str = "bench";

/// Runs a case of so many operations.
pub(super) fn run(case: &Case, scratch: &Scratch, ops: u64) -> Result<Measurement> {
    let path = scratch.path().join(format!("{}-{}", case.name, case.durability));
    let database = open(Database::builder(&path).durability(case.durability).create(true))?.database;
    let measured = match case.operation {
        Operation::Append { messages } => {
            append(&database, messages, (ops / 10).clamp(1, 10_000))?;
            append(&database, messages, ops)?
        }
        Operation::ReadBack { messages } => {
            append(&database, messages, ops)?;
            read_back(&database, ops)?
        }
    };
    drop(database);
    fs::remove_dir_all(&path).map_err(|error| Failure::at(format_args!("remove {}", path.display()), error))?;
    Ok(measured.finish(case))
}

/// Produces batches, each waited for.
fn append(database: &Database, messages: usize, ops: u64) -> Result<Recorder> {
    let payload = [b'q'; PAYLOAD_BYTES];
    let batch = vec![Message::new(&payload); messages];
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    let mut recorder = Recorder::start();
    for _ in 0..ops {
        producer.produce(&batch)?;
        recorder.lap();
    }
    Ok(recorder)
}

/// Fetches every batch from the first to the last.
fn read_back(database: &Database, ops: u64) -> Result<Recorder> {
    let topic = database.topic(TOPIC);
    let mut from = Sequence::new(0);
    let mut recorder = Recorder::start();
    for _ in 0..ops {
        // The first batch is given whatever its size, so a limit of one byte fetches exactly one.
        let fetched = topic.fetch(0, from, 1)?;
        from = fetched.next_offset;
        recorder.lap();
    }
    assert_eq!(topic.offsets(0)?.next, from, "every batch was read");
    Ok(recorder)
}
