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
use crate::stop::Stop;

/// Between how many operations it is looked whether to stop: rarely enough to cost nothing.
const OPS_BETWEEN_LOOKS: u64 = 16;

const TOPIC: &str = "bench";

/// Runs a case of so many operations.
///
/// # Errors
/// [`Failure::Interrupted`] when it is to stop before the end, and what the database fails with.
pub(super) fn run(case: &Case, scratch: &Scratch, ops: u64, stop: &Stop) -> Result<Measurement> {
    let path = scratch.path().join(format!("{}-{}", case.name, case.durability));
    let database = open(Database::builder(&path).durability(case.durability).create(true))?.database;
    let measured = match case.operation {
        Operation::Append { messages } => {
            append(&database, messages, (ops / 10).clamp(1, 10_000), stop)?;
            append(&database, messages, ops, stop)?
        }
        Operation::ReadBack { messages } => {
            append(&database, messages, ops, stop)?;
            read_back(&database, ops, stop)?
        }
    };
    drop(database);
    fs::remove_dir_all(&path).map_err(|error| Failure::at(format_args!("remove {}", path.display()), error))?;
    Ok(measured.finish(case))
}

/// Produces batches, each waited for.
fn append(database: &Database, messages: usize, ops: u64, stop: &Stop) -> Result<Recorder> {
    let payload = [b'q'; PAYLOAD_BYTES];
    let batch = vec![Message::new(&payload); messages];
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    let mut recorder = Recorder::start();
    for op in 0..ops {
        go_on(op, stop)?;
        producer.produce(&batch)?;
        recorder.lap();
    }
    Ok(recorder)
}

/// Fetches every batch from the first to the last.
fn read_back(database: &Database, ops: u64, stop: &Stop) -> Result<Recorder> {
    let topic = database.topic(TOPIC);
    let mut from = Sequence::new(0);
    let mut recorder = Recorder::start();
    for op in 0..ops {
        go_on(op, stop)?;
        // The first batch is given whatever its size, so a limit of one byte fetches exactly one.
        let fetched = topic.fetch(0, from, 1)?;
        from = fetched.next_offset;
        recorder.lap();
    }
    assert_eq!(topic.offsets(0)?.next, from, "every batch was read");
    Ok(recorder)
}

/// Goes on with the next operation, unless it is to stop.
fn go_on(op: u64, stop: &Stop) -> Result {
    match op.is_multiple_of(OPS_BETWEEN_LOOKS) && stop.is_asked() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}
