//! Reading messages in place, without a copy: along a partition, and at random.

use std::hint::black_box;
use std::ops::{ControlFlow, Range};

use quire::streams::Partition;
use quire::{Database, Message, Sequence};

use super::payload::Payloads;
use crate::case::CaseRun;
use crate::cold::forget_files;
use crate::limit::MemoryLimit;
use crate::measurement::{CaseResult, Recorder};
use crate::room::require_room;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

const TOPIC: &str = "bench";

/// Most bytes of a message of [`random_among_many`], including its share of the index.
const MANY_BYTES: u64 = 160;

/// Memory of [`pressed`], in bytes: for the process, and for cached files.
const PRESSED_BYTES: u64 = 64 << 20;

/// Reads `batch` recent messages, which were produced one by one.
pub(super) fn tail(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = database(run)?;
    let batch = run.case.batch as u64;
    produce(run, &database, batch, 1)?;
    let partition = partition(&database)?;
    let mut recorder = Recorder::start();
    let mut next = Sequence::new(0);
    for op in 0..run.ops {
        run.go_on(op)?;
        produce(run, &database, if op == 0 { 0 } else { batch }, 1)?;
        recorder.restart();
        let end = next.get() + batch;
        let history = database.history();
        let mut seen = 0;
        let fetched = partition.fetch(&history, next, usize::MAX, &mut |stored| {
            let Ok(records) = stored.batch.records() else { return ControlFlow::Break(()) };
            for record in records {
                seen += u64::from(record.is_ok_and(|record| black_box(record.value).is_some()));
            }
            ControlFlow::Continue(())
        });
        next = fetched.map_err(|error| CommandError::new(error.to_string()))?.next_offset;
        recorder.lap();
        assert_eq!((seen, next.get()), (batch, end), "every message is seen once");
    }
    Ok(recorder.finish())
}

/// Reads one message at a time from a log of `COUNT` messages.
pub(super) fn random<const MESSAGES: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = database(run)?;
    produce(run, &database, MESSAGES, 1)?;
    random_of(run, &database, MESSAGES, || Ok(()))
}

/// Reads one message of a hundred million, which were produced ten at a time.
pub(super) fn random_among_many(run: &CaseRun<'_>) -> Result<CaseResult> {
    const MESSAGES: u64 = 100_000_000;
    require_room(&run.path, MESSAGES * MANY_BYTES)?;
    let database = database(run)?;
    produce(run, &database, MESSAGES, 10)?;
    again(|recorder| read_of(run, &database, MESSAGES, 0..run.ops, recorder, || Ok(())))
}

/// Runs the same reads twice. The median of the first round, which verifies checksums, is reported
/// too.
pub(super) fn again(read: impl Fn(Recorder) -> Result<Recorder>) -> Result<CaseResult> {
    let first = read(Recorder::start_among_others())?.into_latencies();
    Ok(read(Recorder::start())?.finish().with("first_p50_ns", first.quantile_ns(0.5) as f64))
}

/// A different number below `all` for each operation. Multiples of the golden ratio are far from
/// each other, and the same every time.
pub(super) fn scattered(op: u64, all: u64) -> u64 {
    op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % all
}

/// Reads from a million messages with as many threads as the case has clients.
pub(super) fn random_in_threads(run: &CaseRun<'_>) -> Result<CaseResult> {
    const MESSAGES: u64 = 1_000_000;
    let database = database(run)?;
    produce(run, &database, MESSAGES, 1)?;
    let each = run.ops.div_ceil(run.case.clients.into());
    let watch = Stopwatch::start();
    let clients: Vec<Result<Latencies>> = std::thread::scope(|scope| {
        let database = &database;
        let read = |client: u32| {
            let ops = u64::from(client) * each..u64::from(client + 1) * each;
            scope.spawn(move || {
                let recorder = Recorder::start_among_others();
                Ok(read_of(run, database, MESSAGES, ops, recorder, || Ok(()))?.into_latencies())
            })
        };
        let running: Vec<_> = (0..run.case.clients).map(read).collect();
        running.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let elapsed = watch.elapsed();
    Ok(CaseResult::of_clients(clients.into_iter().collect::<Result<Vec<_>>>()?, elapsed))
}

/// Reads from a million messages that are in no cache. Pages that the kernel reads ahead are
/// dropped, too.
pub(super) fn cold(run: &CaseRun<'_>) -> Result<CaseResult> {
    forget_files()?;
    random_of(run, &filled(run, 1_000_000)?, 1_000_000, forget_files)
}

/// Reads from ten million messages, with memory for a fiftieth of them.
pub(super) fn pressed(run: &CaseRun<'_>) -> Result<CaseResult> {
    let limit = MemoryLimit::prepare(PRESSED_BYTES)?;
    let database = filled(run, 10_000_000)?;
    forget_files()?;
    let _limited = limit.enter()?;
    let measured = random_of(run, &database, 10_000_000, || Ok(()))?;
    Ok(measured.with("memory_limit_bytes", PRESSED_BYTES as f64))
}

/// A database of `count` messages that was closed and opened.
fn filled(run: &CaseRun<'_>, messages: u64) -> Result<Database> {
    let filling = database(run)?;
    produce(run, &filling, messages, 1)?;
    filling.sync()?;
    drop(filling);
    database(run)
}

/// Reads from an existing database. `prepare` runs before each read and is not timed.
pub(super) fn random_of(
    run: &CaseRun<'_>,
    database: &Database,
    messages: u64,
    before: impl Fn() -> Result,
) -> Result<CaseResult> {
    Ok(read_of(run, database, messages, 0..run.ops, Recorder::start(), before)?.finish())
}

/// Reads the messages with these numbers.
fn read_of(
    run: &CaseRun<'_>,
    database: &Database,
    messages: u64,
    ops: Range<u64>,
    mut recorder: Recorder,
    before: impl Fn() -> Result,
) -> Result<Recorder> {
    let partition = partition(database)?;
    let history = database.history();
    for op in ops {
        run.go_on(op)?;
        before()?;
        recorder.restart();
        let offset = scattered(op, messages);
        let mut seen = false;
        let fetched = partition.fetch(&history, Sequence::new(offset), 1, &mut |stored| {
            let place = (offset - stored.base_offset.get()) as usize;
            let record = stored.batch.records().into_iter().flatten().nth(place);
            let value = record.and_then(|record| record.ok()?.value);
            seen = value.is_some_and(|value| black_box(value).len() == run.case.payload_bytes);
            ControlFlow::Break(())
        });
        fetched.map_err(|error| CommandError::new(error.to_string()))?;
        assert!(seen, "the message is there");
        recorder.lap();
    }
    Ok(recorder)
}

fn database(run: &CaseRun<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

/// Produces at least `count` messages, `batch` at a time.
pub(super) fn produce(run: &CaseRun<'_>, database: &Database, messages: u64, at_a_time: usize) -> Result {
    let payloads = Payloads::of(run.case.payload_bytes);
    let batch: Vec<_> = payloads.first(at_a_time).map(Message::new).collect();
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    for op in 0..messages.div_ceil(at_a_time as u64) {
        run.go_on(op)?;
        producer.produce(&batch)?;
    }
    Ok(())
}

pub(super) fn partition(database: &Database) -> Result<Partition> {
    let found = database.read_published(|view| {
        let topic = view.streams.topic_named(TOPIC).map(|topic| topic.id);
        topic.map(|topic| view.streams.partition(topic, 0))
    })?;
    found.expect("the topic was produced to").map_err(|error| CommandError::new(error.to_string()))
}
