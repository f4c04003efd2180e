//! The delay from an append in one process to a reader in another.
//!
//! The other process runs this program, too. A message holds the counter at the start of its
//! append; both processes read the same counter. The reader prints its measurements after the last
//! message, so that printing disturbs none.

use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::{Database, Durability, Message, Position, Sequence};

use super::reads::partition;
use crate::case::CaseRun;
use crate::child::{self, CaseProcess};
use crate::measurement::CaseResult;
use quire_cli::durability::DurabilityArg;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::{CycleCounter, Stopwatch};

const TOPIC: &str = "bench";

/// The pause between two messages. A reader that spins has recorded the last one by then, ...
const SPINNING_PAUSE: Duration = Duration::from_micros(5);

/// ... and a reader that sleeps is asleep again.
const SLEEPING_PAUSE: Duration = Duration::from_millis(1);

/// Longest sleep of a reader.
const LOOK: Duration = Duration::from_secs(60);

/// The reader's process.
#[derive(Debug, Args)]
pub(crate) struct WatcherProcess {
    /// Directory of the database
    data: PathBuf,
    /// Durability of commits
    #[arg(value_enum)]
    durability: DurabilityArg,
    /// Number of messages
    messages: usize,
    /// 1 to sleep between messages, 0 to spin
    sleeps: u8,
}

impl WatcherProcess {
    /// Sees `count` messages, and then prints the delay of each one in nanoseconds, one per line.
    ///
    /// # Errors
    /// The errors of the database.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let builder = Database::builder(&self.data).durability(Durability::from(self.durability));
        let database = open(builder.create(false))?.database;
        let partition = partition(&database)?;
        let (mut took, counter) = (Vec::with_capacity(self.messages), CycleCounter::new());
        let (mut seen, mut next) = (database.published(), Sequence::new(0));
        child::ready(out)?;
        while took.len() < self.messages {
            if self.sleeps == 1 {
                database.wait_after(seen, LOOK)?;
            }
            if database.published() == seen {
                spin_loop();
                continue;
            }
            let history = database.history();
            let fetched = partition.fetch(&history, next, usize::MAX, &mut |stored| {
                for record in stored.batch.records().into_iter().flatten().flatten() {
                    took.push(on_its_way(record.value.unwrap_or_default(), &counter));
                }
                ControlFlow::Continue(())
            });
            next = fetched.map_err(|error| CommandError::new(error.to_string()))?.next_offset;
            seen = history.limit();
        }
        took.into_iter().try_for_each(|nanos| writeln!(out, "{nanos}"))?;
        Ok(())
    }
}

/// The delay of the last message, in nanoseconds.
pub(super) fn on_its_way(payload: &[u8], counter: &CycleCounter) -> u64 {
    let begun = black_box(payload).first_chunk().copied().map(u64::from_le_bytes);
    counter.since_ns(begun.expect("a payload has the time at which its append began"))
}

/// Delay to a reader that spins.
pub(super) fn spinning(run: &CaseRun<'_>) -> Result<CaseResult> {
    seen(run, 0, |_| spin())
}

/// The pause between two messages for a reader that spins.
pub(super) fn spin() -> Result {
    let watch = Stopwatch::start();
    while watch.elapsed() < SPINNING_PAUSE {
        spin_loop();
    }
    Ok(())
}

/// Delay to a reader that sleeps until a message comes.
pub(super) fn sleeping(run: &CaseRun<'_>) -> Result<CaseResult> {
    // No record follows the largest position, so this call only waits.
    seen(run, 1, |database| database.wait_after(Position::MAX, SLEEPING_PAUSE).map(drop).map_err(CommandError::from))
}

fn seen(run: &CaseRun<'_>, sleeps: u64, pause: impl Fn(&Database) -> Result) -> Result<CaseResult> {
    let durability = run.case.durability;
    let database = open(Database::builder(&run.path).durability(durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    topic.create(1)?;
    let mut producer = topic.producer();
    let watcher = CaseProcess::start("watcher", &run.path, durability, &[run.ops, sleeps])?;
    let append = |payload: &[u8]| Ok(producer.produce(&[Message::new(payload)]).map(drop)?);
    hand_over(run, watcher, || pause(&database), append)
}

/// Appends payloads with the counter, each after a pause, and collects their delays from the
/// watcher.
pub(super) fn hand_over(
    run: &CaseRun<'_>,
    mut watcher: CaseProcess,
    pause: impl Fn() -> Result,
    mut append: impl FnMut(&[u8]) -> Result,
) -> Result<CaseResult> {
    let mut payload = vec![b'q'; run.case.payload_bytes];
    let (mut appends, counter) = (Latencies::new(), CycleCounter::new());
    let watch = Stopwatch::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        pause()?;
        let begun = Stopwatch::start();
        payload[..8].copy_from_slice(&counter.read().to_le_bytes());
        append(&payload)?;
        appends.record(begun.elapsed());
    }
    let elapsed = watch.elapsed();
    let mut latencies = Latencies::new();
    while let Some(nanos) = watcher.number()? {
        latencies.record(Duration::from_nanos(nanos));
    }
    match latencies.count() == run.ops {
        true => {
            let append_p50_ns = appends.quantile_ns(0.5) as f64;
            Ok(CaseResult::of_clients([latencies], elapsed).with("append_p50_ns", append_p50_ns))
        }
        false => Err(CommandError::new(format!("the reader saw {} of {} messages", latencies.count(), run.ops))),
    }
}
