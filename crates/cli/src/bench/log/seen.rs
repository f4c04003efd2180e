//! From an append in one process to what was appended in the hands of another.
//!
//! The other process is this program, too. A message says when its append began, by a counter that both processes read; the other tells
//! what it measured when it has seen them all, so that nothing is told while it is measured.

use std::hint::{black_box, spin_loop};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::{Database, Durability, Message, Position, Sequence};

use super::reads::partition;
use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::Measured;
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::opening::open;
use crate::promise::Promise;
use crate::stopwatch::{Counter, Stopwatch};

const TOPIC: &str = "bench";

/// So long nothing is appended between two messages: a reader that looks all the time has noted the one ...
const SPINNING_PAUSE: Duration = Duration::from_micros(5);

/// ... and one that sleeps does so again.
const SLEEPING_PAUSE: Duration = Duration::from_millis(1);

/// How long a reader sleeps before it looks by itself.
const LOOK: Duration = Duration::from_secs(60);

/// The reader's process.
#[derive(Debug, Args)]
pub(crate) struct Watcher {
    /// The database
    data: PathBuf,
    /// What its commits promise
    #[arg(value_enum)]
    durability: Promise,
    /// How many messages it sees
    messages: usize,
    /// 1 when it sleeps between them, 0 when it looks all the time
    sleeps: u8,
}

impl Watcher {
    /// Sees so many messages, and then says how many nanoseconds each was on its way, a line each.
    ///
    /// # Errors
    /// What the database fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let builder = Database::builder(&self.data).durability(Durability::from(self.durability));
        let database = open(builder.create(false))?.database;
        let partition = partition(&database)?;
        let (mut took, counter) = (Vec::with_capacity(self.messages), Counter::new());
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
            next = fetched.map_err(|error| Failure::new(error.to_string()))?.next_offset;
            seen = history.limit();
        }
        took.into_iter().try_for_each(|nanos| writeln!(out, "{nanos}"))?;
        Ok(())
    }
}

/// How many nanoseconds what was just seen was on its way.
pub(super) fn on_its_way(payload: &[u8], counter: &Counter) -> u64 {
    let begun = black_box(payload).first_chunk().copied().map(u64::from_le_bytes);
    counter.since_ns(begun.expect("a payload says when its append was begun"))
}

/// To a reader that looks all the time.
pub(super) fn spinning(run: &Run<'_>) -> Result<Measured> {
    seen(run, 0, |_| spin())
}

/// What is waited between two messages when the reader looks all the time.
pub(super) fn spin() -> Result {
    let watch = Stopwatch::start();
    while watch.elapsed() < SPINNING_PAUSE {
        spin_loop();
    }
    Ok(())
}

/// To a reader that sleeps until something comes.
pub(super) fn sleeping(run: &Run<'_>) -> Result<Measured> {
    // Nothing is published behind the last position that there can be: this only waits.
    seen(run, 1, |database| database.wait_after(Position::MAX, SLEEPING_PAUSE).map(drop).map_err(Failure::from))
}

fn seen(run: &Run<'_>, sleeps: u64, pause: impl Fn(&Database) -> Result) -> Result<Measured> {
    let durability = run.case.durability;
    let database = open(Database::builder(&run.path).durability(durability).create(true))?.database;
    let topic = database.topic(TOPIC);
    topic.create(1)?;
    let mut producer = topic.producer();
    let watcher = Other::start("watcher", &run.path, durability, &[run.ops, sleeps])?;
    let append = |payload: &[u8]| Ok(producer.produce(&[Message::new(payload)]).map(drop)?);
    hand_over(run, watcher, || pause(&database), append)
}

/// Appends payloads that say when, each behind a pause, and takes from the watcher how long they were on their way.
pub(super) fn hand_over(
    run: &Run<'_>,
    mut watcher: Other,
    pause: impl Fn() -> Result,
    mut append: impl FnMut(&[u8]) -> Result,
) -> Result<Measured> {
    let mut payload = vec![b'q'; run.case.payload_bytes];
    let (mut appends, counter) = (Latencies::new(), Counter::new());
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
            Ok(Measured::of_clients([latencies], elapsed).with("append_p50_ns", append_p50_ns))
        }
        false => Err(Failure::new(format!("{} of {} were seen", latencies.count(), run.ops))),
    }
}
