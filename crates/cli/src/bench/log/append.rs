//! Appending and reading back through one topic, by one thread: a fresh database, a few operations to warm up, then every
//! operation timed.

use quire::{Database, Message, Sequence};

use super::payload::Payloads;
use super::reads;
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::bench::memory::memory_bytes;
use crate::bench::room::require_room;
use crate::bench::zeros::write_zeros;
use crate::failure::Result;
use crate::opening::open;

const TOPIC: &str = "bench";

/// Produces batches, each waited for.
pub(super) fn append(run: &Run<'_>) -> Result<Measured> {
    let database = create(run)?;
    produce(run, &database, (run.ops / 10).clamp(1, 10_000))?;
    Ok(produce(run, &database, run.ops)?.finish())
}

/// What a message of 116 bytes takes of a log.
const MESSAGE_BYTES: u64 = 264;

/// As [`append`], with the memory that is taken in the end: what is not a file's. Behind as many zeros, of which is told what they took.
pub(super) fn append_at_length(run: &Run<'_>) -> Result<Measured> {
    let zeros = write_zeros(&run.path, run.ops * MESSAGE_BYTES)?;
    let database = create(run)?;
    produce(run, &database, (run.ops / 10).clamp(1, 10_000))?;
    let measured = produce(run, &database, run.ops)?.finish().with("memory_bytes", memory_bytes());
    Ok(measured.with("zeros_ns", zeros.as_nanos() as f64 / run.ops as f64))
}

/// Opens a log of as many messages as the case has in a batch, which was closed in order.
pub(super) fn reopen(run: &Run<'_>) -> Result<Measured> {
    reopen_of(run, 1)
}

/// The same of messages that were produced a thousand at a time.
pub(super) fn reopen_large(run: &Run<'_>) -> Result<Measured> {
    require_room(&run.path, run.case.batch as u64 * run.case.payload_bytes as u64 * 11 / 10)?;
    reopen_of(run, 1_000)
}

fn reopen_of(run: &Run<'_>, at_a_time: usize) -> Result<Measured> {
    let database = create(run)?;
    let messages = run.case.batch as u64;
    reads::produce(run, &database, messages, at_a_time)?;
    drop(database);
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        recorder.restart();
        let database = create(run)?;
        recorder.lap();
        assert_eq!(database.topic(TOPIC).offsets(0)?.next.get(), messages, "nothing is lost");
    }
    Ok(recorder.finish())
}

/// Fetches every batch from the first to the last.
pub(super) fn read_back(run: &Run<'_>) -> Result<Measured> {
    let database = create(run)?;
    produce(run, &database, run.ops)?;
    let topic = database.topic(TOPIC);
    let mut from = Sequence::new(0);
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // The first batch is given whatever its size, so a limit of one byte fetches exactly one.
        let fetched = topic.fetch(0, from, 1)?;
        from = fetched.next_offset;
        recorder.lap();
    }
    assert_eq!(topic.offsets(0)?.next, from, "every batch was read");
    Ok(recorder.finish())
}

fn create(run: &Run<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

fn produce(run: &Run<'_>, database: &Database, ops: u64) -> Result<Recorder> {
    let payloads = Payloads::of(run.case.payload_bytes);
    let batch: Vec<_> = payloads.first(run.case.batch).map(Message::new).collect();
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    let mut recorder = Recorder::start();
    for op in 0..ops {
        run.go_on(op)?;
        producer.produce(&batch)?;
        recorder.lap();
    }
    Ok(recorder)
}
