//! Reading messages in place, as a program does that looks at them and copies nothing: along a partition, and one anywhere.

use std::hint::black_box;
use std::ops::{ControlFlow, Range};

use quire::streams::Partition;
use quire::{Database, Message, Sequence};

use super::payload::Payloads;
use crate::bench::case::Run;
use crate::bench::cold::forget_files;
use crate::bench::limit::Limit;
use crate::bench::measurement::{Measured, Recorder};
use crate::bench::room::require_room;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::opening::open;
use crate::stopwatch::Stopwatch;

const TOPIC: &str = "bench";

/// What a message of [`random_among_many`] takes at most, its share of the index included, in bytes.
const MANY_BYTES: u64 = 160;

/// How much memory [`pressed`] has, in bytes: for itself, and for what the kernel has of its files.
const PRESSED_BYTES: u64 = 64 << 20;

/// Reads what was appended a moment ago: messages that were produced one by one, so many in a row.
pub(super) fn tail(run: &Run<'_>) -> Result<Measured> {
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
        next = fetched.map_err(|error| Failure::new(error.to_string()))?.next_offset;
        recorder.lap();
        assert_eq!((seen, next.get()), (batch, end), "every message is seen once");
    }
    Ok(recorder.finish())
}

/// Reads one message at a time, all over a log of so many.
pub(super) fn random<const MESSAGES: u64>(run: &Run<'_>) -> Result<Measured> {
    let database = database(run)?;
    produce(run, &database, MESSAGES, 1)?;
    random_of(run, &database, MESSAGES, || Ok(()))
}

/// One message of a hundred million, which were produced ten at a time.
pub(super) fn random_among_many(run: &Run<'_>) -> Result<Measured> {
    const MESSAGES: u64 = 100_000_000;
    require_room(&run.path, MESSAGES * MANY_BYTES)?;
    let database = database(run)?;
    produce(run, &database, MESSAGES, 10)?;
    again(|recorder| read_of(run, &database, MESSAGES, 0..run.ops, recorder, || Ok(())))
}

/// The same reads twice: of the first ones, which verify what they read, the median is told, too.
pub(super) fn again(read: impl Fn(Recorder) -> Result<Recorder>) -> Result<Measured> {
    let first = read(Recorder::start_among_others())?.into_latencies();
    Ok(read(Recorder::start())?.finish().with("first_p50_ns", first.quantile_ns(0.5) as f64))
}

/// A number below `all`, for each operation another: multiples of the golden ratio, far from each other, and the same every time.
pub(super) fn scattered(op: u64, all: u64) -> u64 {
    op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % all
}

/// The same of a million messages, by as many threads as the case has clients.
pub(super) fn random_in_threads(run: &Run<'_>) -> Result<Measured> {
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
    Ok(Measured::of_clients(clients.into_iter().collect::<Result<Vec<_>>>()?, elapsed))
}

/// The same of a million messages that neither the process nor the kernel has in memory: not by an earlier read either, which brings what
/// is around along.
pub(super) fn cold(run: &Run<'_>) -> Result<Measured> {
    forget_files()?;
    random_of(run, &filled(run, 1_000_000)?, 1_000_000, forget_files)
}

/// The same of ten million messages, in a fiftieth of the memory that they take.
pub(super) fn pressed(run: &Run<'_>) -> Result<Measured> {
    let limit = Limit::prepare(PRESSED_BYTES)?;
    let database = filled(run, 10_000_000)?;
    forget_files()?;
    let _limited = limit.enter()?;
    let measured = random_of(run, &database, 10_000_000, || Ok(()))?;
    Ok(measured.with("memory_limit_bytes", PRESSED_BYTES as f64))
}

/// A database of so many messages, which was closed and opened.
fn filled(run: &Run<'_>, messages: u64) -> Result<Database> {
    let filling = database(run)?;
    produce(run, &filling, messages, 1)?;
    filling.sync()?;
    drop(filling);
    database(run)
}

/// Of a database that is there, each read behind something that is not timed.
pub(super) fn random_of(
    run: &Run<'_>,
    database: &Database,
    messages: u64,
    before: impl Fn() -> Result,
) -> Result<Measured> {
    Ok(read_of(run, database, messages, 0..run.ops, Recorder::start(), before)?.finish())
}

/// The reads with these numbers.
fn read_of(
    run: &Run<'_>,
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
        fetched.map_err(|error| Failure::new(error.to_string()))?;
        assert!(seen, "the message is there");
        recorder.lap();
    }
    Ok(recorder)
}

fn database(run: &Run<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

/// Produces so many messages, or a few more: so many at a time.
pub(super) fn produce(run: &Run<'_>, database: &Database, messages: u64, at_a_time: usize) -> Result {
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
    found.expect("the topic was produced to").map_err(|error| Failure::new(error.to_string()))
}
