//! From a producer in one process to a handler in another, which waits.
//!
//! The handler's process is this program, too. Both read the clock that the log reads, and a message says when it was sent; the
//! handler tells what it measured when it has them all, so that nothing is told while it is measured.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::{Commit, ConsumerSettings, Database, Durability, Message, Position};

use super::TOPIC;
use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::Measured;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::opening::open;
use crate::promise::Promise;
use crate::stopwatch::Stopwatch;

/// So long nothing is sent between two messages: the handler has noted the one, and waits.
const PAUSE: Duration = Duration::from_millis(1);

/// How long a handler waits before it looks whether it is to stop.
const LOOK: Duration = Duration::from_secs(60);

/// The handler's process.
#[derive(Debug, Args)]
pub(crate) struct Handler {
    /// The database
    data: PathBuf,
    /// What its commits promise
    #[arg(value_enum)]
    durability: Promise,
    /// How many messages it handles
    messages: usize,
}

impl Handler {
    /// Handles so many messages, and then says how many microseconds each was on its way, a line each.
    ///
    /// # Errors
    /// What the database fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let builder = Database::builder(&self.data).durability(Durability::from(self.durability));
        let database = open(builder.create(false))?.database;
        let mut consumer = database.topic(TOPIC).consumer("handler", ConsumerSettings::default())?;
        child::ready(out)?;
        let took = std::cell::RefCell::new(Vec::with_capacity(self.messages));
        consumer.process(
            LOOK,
            || took.borrow().len() >= self.messages,
            |delivery| {
                let now = database.now().as_micros();
                let sent = delivery.records().filter_map(|record| record.value?.first_chunk().copied());
                took.borrow_mut().extend(sent.map(|sent| now.saturating_sub(u64::from_le_bytes(sent))));
                Ok::<_, String>(Commit::new())
            },
        )?;
        took.into_inner().into_iter().try_for_each(|micros| writeln!(out, "{micros}"))?;
        Ok(())
    }
}

pub(super) fn handoff(run: &Run<'_>) -> Result<Measured> {
    let durability = run.case.durability;
    let database = open(Database::builder(&run.path).durability(durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    topic.create(1)?;
    let mut handler = Other::start("handler", &run.path, durability, &[run.ops])?;
    let mut payload = vec![b'q'; run.case.payload_bytes];
    let watch = Stopwatch::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // Nothing is published behind the last position that there can be: this only waits.
        database.wait_after(Position::MAX, PAUSE)?;
        payload[..8].copy_from_slice(&database.now().as_micros().to_le_bytes());
        topic.produce(&Message::new(&payload))?;
    }
    let elapsed = watch.elapsed();
    let mut latencies = Latencies::new();
    while let Some(micros) = handler.number()? {
        latencies.record(Duration::from_micros(micros));
    }
    match latencies.count() == run.ops {
        true => Ok(Measured::of_clients([latencies], elapsed)),
        false => Err(Failure::new(format!("{} of {} messages were handled", latencies.count(), run.ops))),
    }
}
