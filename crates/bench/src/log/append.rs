//! Appending and reading back through one topic, by one thread. The database is new; a few
//! operations warm up, then every operation is timed.

use quire::{Database, Message, Sequence};

use super::payload::Payloads;
use super::reads;
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use crate::memory::memory_bytes;
use crate::room::require_room;
use crate::zeros::write_zeros;
use quire_cli::failure::Result;
use quire_cli::opening::open;

const TOPIC: &str = "bench";

/// Produces batches, and waits for each commit.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    produce(run, &database, (run.ops / 10).clamp(1, 10_000))?;
    Ok(produce(run, &database, run.ops)?.finish())
}

/// Bytes of the log per message of 116 bytes.
const MESSAGE_BYTES: u64 = 264;

/// As [`append`], with the memory of the process at the end, without files. Zeros are written
/// first, and their time is reported.
pub(super) fn append_at_length(run: &CaseRun<'_>) -> Result<CaseResult> {
    let zeros = write_zeros(&run.path, run.ops * MESSAGE_BYTES)?;
    let database = create(run)?;
    produce(run, &database, (run.ops / 10).clamp(1, 10_000))?;
    let measured = produce(run, &database, run.ops)?.finish().with("memory_bytes", memory_bytes());
    Ok(measured.with("zeros_ns", zeros.as_nanos() as f64 / run.ops as f64))
}

/// Opens a cleanly closed log with as many messages as the case's batch.
pub(super) fn reopen(run: &CaseRun<'_>) -> Result<CaseResult> {
    reopen_of(run, 1)
}

/// As [`open_closed`], with messages that were produced a thousand at a time.
pub(super) fn reopen_large(run: &CaseRun<'_>) -> Result<CaseResult> {
    require_room(&run.path, run.case.batch as u64 * run.case.payload_bytes as u64 * 11 / 10)?;
    reopen_of(run, 1_000)
}

fn reopen_of(run: &CaseRun<'_>, at_a_time: usize) -> Result<CaseResult> {
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
pub(super) fn read_back(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    produce(run, &database, run.ops)?;
    let topic = database.topic(TOPIC);
    let mut from = Sequence::new(0);
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // The first batch is returned whatever its size, so a limit of one byte fetches one batch.
        let fetched = topic.fetch(0, from, 1)?;
        from = fetched.next_offset;
        recorder.lap();
    }
    assert_eq!(topic.offsets(0)?.next, from, "every batch was read");
    Ok(recorder.finish())
}

fn create(run: &CaseRun<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

fn produce(run: &CaseRun<'_>, database: &Database, ops: u64) -> Result<Recorder> {
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
