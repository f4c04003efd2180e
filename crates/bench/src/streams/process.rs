//! A handler processes the messages of a topic.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use quire::{Commit, ConsumerSettings, Database, Message, Sequence};

use super::TOPIC;
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::opening::open;

const GROUP: &str = "readers";

/// No waiting: every message exists before the first delivery.
const LOOK: Duration = Duration::from_secs(1);

/// As [`process`], with a topic of `COUNT` earlier messages, which the group has read.
pub(super) fn process<const BEFORE: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
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
    // A batch is delivered whatever its size, so a limit of one byte delivers one batch.
    let settings = ConsumerSettings { bytes_max: 1, ..ConsumerSettings::default() };
    let mut consumer = topic.consumer(GROUP, settings)?;
    let (deliveries, bytes) = (Cell::new(0), Cell::new(0));
    let recorder = RefCell::new(None);
    consumer.process(
        LOOK,
        || {
            // The end of a delivery, with its offset committed, is the start of the next one.
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
            Ok(Commit::new())
        },
    )?;
    run.go_on(0)?;
    let expected = run.ops as usize * run.case.batch * run.case.payload_bytes;
    if bytes.get() != expected {
        return Err(CommandError::new(format!("{} bytes were delivered, but {expected} were produced", bytes.get())));
    }
    recorder.into_inner().map(Recorder::finish).ok_or_else(|| CommandError::new("no message was delivered"))
}
