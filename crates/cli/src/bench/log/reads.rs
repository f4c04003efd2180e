//! Reading messages in place, as a program does that looks at them and copies nothing: along a partition, and one anywhere.

use std::hint::black_box;
use std::ops::ControlFlow;

use quire::streams::Partition;
use quire::{Database, Message, Sequence};

use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::opening::open;

const TOPIC: &str = "bench";

/// How many messages there are for [`random`].
const MESSAGES: u64 = 1_000_000;

/// Reads what was appended a moment ago: messages that were produced one by one, so many in a row.
pub(super) fn tail(run: &Run<'_>) -> Result<Measured> {
    let database = database(run)?;
    let batch = run.case.batch as u64;
    produce(run, &database, batch)?;
    let partition = partition(&database)?;
    let mut recorder = Recorder::start();
    let mut next = Sequence::new(0);
    for op in 0..run.ops {
        run.go_on(op)?;
        produce(run, &database, if op == 0 { 0 } else { batch })?;
        recorder.restart();
        let end = next.get() + batch;
        let history = database.history();
        let mut seen = 0;
        let fetched = partition.fetch(&history, next, usize::MAX, &mut |stored| {
            for record in stored.batch.records().into_iter().flatten().flatten() {
                seen += u64::from(black_box(record.value).is_some());
            }
            ControlFlow::Continue(())
        });
        next = fetched.map_err(|error| Failure::new(error.to_string()))?.next_offset;
        recorder.lap();
        assert_eq!((seen, next.get()), (batch, end), "every message is seen once");
    }
    Ok(recorder.finish())
}

/// Reads one message at a time, all over the log.
pub(super) fn random(run: &Run<'_>) -> Result<Measured> {
    random_of(run, &fill(run)?)
}

/// A database of the messages for [`random`].
pub(super) fn fill(run: &Run<'_>) -> Result<Database> {
    let database = database(run)?;
    produce(run, &database, MESSAGES)?;
    Ok(database)
}

/// As [`random`], of a database that is there.
pub(super) fn random_of(run: &Run<'_>, database: &Database) -> Result<Measured> {
    let partition = partition(database)?;
    let history = database.history();
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // Multiples of the golden ratio: far from each other, and the same every time.
        let offset = op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % MESSAGES;
        let mut seen = false;
        let fetched = partition.fetch(&history, Sequence::new(offset), 1, &mut |stored| {
            seen = black_box(stored.batch.bytes()).len() > run.case.payload_bytes;
            ControlFlow::Break(())
        });
        fetched.map_err(|error| Failure::new(error.to_string()))?;
        assert!(seen, "the message is there");
        recorder.lap();
    }
    Ok(recorder.finish())
}

pub(super) fn database(run: &Run<'_>) -> Result<Database> {
    Ok(open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database)
}

/// Produces so many messages, one by one.
pub(super) fn produce(run: &Run<'_>, database: &Database, messages: u64) -> Result {
    let payload = vec![b'q'; run.case.payload_bytes];
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    for message in 0..messages {
        run.go_on(message)?;
        producer.produce(&[Message::new(&payload)])?;
    }
    Ok(())
}

fn partition(database: &Database) -> Result<Partition> {
    let found = database.read_published(|view| {
        let topic = view.streams.topic_named(TOPIC).map(|topic| topic.id);
        topic.map(|topic| view.streams.partition(topic, 0))
    })?;
    found.expect("the topic was produced to").map_err(|error| Failure::new(error.to_string()))
}
