//! The delay from a producer in one process to a waiting handler in another.
//!
//! The handler's process runs this program, too. Both processes read the log's clock, and a message
//! holds its time of sending. The handler prints its measurements after the last message, so that
//! printing disturbs none.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::{Commit, ConsumerSettings, Database, Durability, Message, Position};

use super::TOPIC;
use crate::case::CaseRun;
use crate::child::{self, CaseProcess};
use crate::measurement::CaseResult;
use quire_cli::durability::DurabilityArg;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

/// The pause between two messages. By then the handler has recorded the last one, and waits again.
const PAUSE: Duration = Duration::from_millis(1);

/// Longest wait of a handler between checks of the stop signal.
const LOOK: Duration = Duration::from_secs(60);

/// The handler's process.
#[derive(Debug, Args)]
pub(crate) struct Handler {
    /// Directory of the database
    data: PathBuf,
    /// Durability of commits
    #[arg(value_enum)]
    durability: DurabilityArg,
    /// Number of messages
    messages: usize,
}

impl Handler {
    /// Handles `count` messages, and then prints the delay of each one in microseconds, one per
    /// line.
    ///
    /// # Errors
    /// The errors of the database.
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
                Ok(Commit::new())
            },
        )?;
        took.into_inner().into_iter().try_for_each(|micros| writeln!(out, "{micros}"))?;
        Ok(())
    }
}

pub(super) fn handoff(run: &CaseRun<'_>) -> Result<CaseResult> {
    let durability = run.case.durability;
    let database = open(Database::builder(&run.path).durability(durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    topic.create(1)?;
    let mut handler = CaseProcess::start("handler", &run.path, durability, &[run.ops])?;
    let mut payload = vec![b'q'; run.case.payload_bytes];
    let watch = Stopwatch::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // No record follows the largest position, so this call only waits.
        database.wait_after(Position::MAX, PAUSE)?;
        payload[..8].copy_from_slice(&database.now().as_micros().to_le_bytes());
        topic.produce(Message::new(&payload))?;
    }
    let elapsed = watch.elapsed();
    let mut latencies = Latencies::new();
    while let Some(micros) = handler.number()? {
        latencies.record(Duration::from_micros(micros));
    }
    match latencies.count() == run.ops {
        true => Ok(CaseResult::of_clients([latencies], elapsed)),
        false => Err(CommandError::new(format!("{} of {} messages were handled", latencies.count(), run.ops))),
    }
}
