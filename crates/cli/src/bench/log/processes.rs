//! Several processes that append to one topic of one database at the same time; and what one of them left behind when it was killed.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::{Database, Durability, Message};

use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::opening::open;
use crate::promise::Promise;
use crate::stopwatch::Stopwatch;

const TOPIC: &str = "bench";

/// What the other processes run.
const ROLE: &str = "appender";

/// Another process that appends.
#[derive(Debug, Args)]
pub(crate) struct Appender {
    /// The database
    data: PathBuf,
    /// What its commits promise
    #[arg(value_enum)]
    durability: Promise,
    /// How many messages it produces
    messages: u64,
    /// How many bytes each has
    bytes: usize,
}

impl Appender {
    /// Produces so many messages when it is told to, says how many there were, and when it is told to, how many nanoseconds each took.
    ///
    /// # Errors
    /// What the database fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let durability = Durability::from(self.durability);
        let database = open(Database::builder(&self.data).durability(durability).create(true))?.database;
        let (topic, payload) = (database.topic(TOPIC), vec![b'q'; self.bytes]);
        let mut producer = topic.producer();
        let mut took = Vec::with_capacity(usize::try_from(self.messages).unwrap_or_default());
        child::ready(out)?;
        child::await_go();
        let mut watch = Stopwatch::start();
        for _ in 0..self.messages {
            producer.produce(&[Message::new(&payload)])?;
            took.push(watch.lap());
        }
        writeln!(out, "{}", took.len())?;
        out.flush()?;
        child::await_go();
        took.iter().try_for_each(|took| writeln!(out, "{}", took.as_nanos()))?;
        Ok(())
    }
}

/// As many processes as the case has, this one among them, share its operations.
pub(super) fn append(run: &Run<'_>) -> Result<Measured> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payload = vec![b'q'; run.case.payload_bytes];
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    producer.produce(&[Message::new(&payload)])?;
    let each = run.ops.div_ceil(run.case.processes.into());
    let start = |_| Other::start(ROLE, &run.path, run.case.durability, &[each, run.case.payload_bytes as u64]);
    let mut others = (1..run.case.processes).map(start).collect::<Result<Vec<_>>>()?;
    let watch = Stopwatch::start();
    others.iter_mut().try_for_each(Other::go)?;
    let mut recorder = Recorder::start_among_others();
    for op in 0..each {
        run.go_on(op)?;
        producer.produce(&[Message::new(&payload)])?;
        recorder.lap();
    }
    let of_all = |other: &mut Other| match other.number()? {
        Some(messages) if messages == each => Ok(()),
        _ => Err(Failure::new(format!("another process ended before it had produced its {each} messages"))),
    };
    others.iter_mut().try_for_each(of_all)?;
    let elapsed = watch.elapsed();
    let mut clients = vec![recorder.into_latencies()];
    for other in &mut others {
        other.go()?;
        let mut latencies = Latencies::new();
        while let Some(nanos) = other.number()? {
            latencies.record(Duration::from_nanos(nanos));
        }
        clients.push(latencies);
    }
    let next = topic.offsets(0)?.next.get();
    assert_eq!(next, 1 + each * u64::from(run.case.processes), "every message has an offset of its own");
    Ok(Measured::of_clients(clients, elapsed))
}

/// Opens what a process left behind that was killed behind its last commit.
pub(super) fn recover(run: &Run<'_>) -> Result<Measured> {
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let messages = run.case.batch as u64;
        let numbers = [messages, run.case.payload_bytes as u64];
        let mut other = Other::start(ROLE, &run.path, run.case.durability, &numbers)?;
        other.go()?;
        let produced = other.number()?;
        // It is killed.
        drop(other);
        if produced != Some(messages) {
            return Err(Failure::new(format!("another process ended before it had produced its {messages} messages")));
        }
        recorder.restart();
        let database = open(Database::builder(&run.path).durability(run.case.durability))?.database;
        recorder.lap();
        assert_eq!(database.topic(TOPIC).offsets(0)?.next.get(), (op + 1) * messages, "nothing is lost");
    }
    Ok(recorder.finish())
}
