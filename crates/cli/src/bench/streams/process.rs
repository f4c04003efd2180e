//! A handler takes what is there.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use quire::{Commit, ConsumerSettings, Database, Message, Sequence};

use super::TOPIC;
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::opening::open;

const GROUP: &str = "readers";

/// Nothing is waited for: every message is there before the first is handed out.
const LOOK: Duration = Duration::from_secs(1);

/// Whose topic has so many messages before, which the group has read.
pub(super) fn process<const BEFORE: u64>(run: &Run<'_>) -> Result<Measured> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payload = vec![b'q'; run.case.payload_bytes];
    let batch = vec![Message::new(&payload); run.case.batch];
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    for op in 0..BEFORE / run.case.batch as u64 + run.ops {
        run.go_on(op)?;
        producer.produce(&batch)?;
    }
    if BEFORE > 0 {
        database.commit(&Commit::new().commit_offset(GROUP, TOPIC, 0, Sequence::new(BEFORE)))?.committed()?;
    }
    // A batch comes whatever its size, so a limit of one byte hands out exactly one.
    let settings = ConsumerSettings { bytes_max: 1, ..ConsumerSettings::default() };
    let mut consumer = topic.consumer(GROUP, settings)?;
    let (deliveries, bytes) = (Cell::new(0), Cell::new(0));
    let recorder = RefCell::new(None);
    consumer.process(
        LOOK,
        || {
            // The end of one delivery, its offset committed, is the beginning of the next.
            match &mut *recorder.borrow_mut() {
                Some(recorder) => Recorder::lap(recorder),
                begun => *begun = Some(Recorder::start()),
            }
            deliveries.get() == run.ops || run.go_on(deliveries.get()).is_err()
        },
        |delivery| {
            deliveries.set(deliveries.get() + 1);
            let values = delivery.records().filter_map(|record| record.value);
            bytes.set(bytes.get() + values.map(<[u8]>::len).sum::<usize>());
            Ok::<_, String>(Commit::new())
        },
    )?;
    run.go_on(0)?;
    let expected = run.ops as usize * run.case.batch * run.case.payload_bytes;
    if bytes.get() != expected {
        return Err(Failure::new(format!("{} bytes were handed out, and {expected} produced", bytes.get())));
    }
    recorder.into_inner().map(Recorder::finish).ok_or_else(|| Failure::new("nothing was handed out"))
}
