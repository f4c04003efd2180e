//! Several processes that append to one topic of one database at the same time; and what one of them left behind when it was killed.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::{Database, Durability, Message};

use super::payload::Payloads;
use crate::bench::case::Run;
use crate::bench::child::{self, Other};
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::opening::open;
use crate::promise::Promise;

const TOPIC: &str = "bench";

/// What the other processes run.
const ROLE: &str = "appender";

/// What another process is to append.
#[derive(Debug, Args)]
pub(super) struct Appending {
    /// The database
    pub(super) data: PathBuf,
    /// What its commits promise
    #[arg(value_enum)]
    pub(super) durability: Promise,
    /// How many times it appends
    pub(super) ops: u64,
    /// How many messages or entries at a time
    pub(super) batch: usize,
    /// How many bytes each has
    pub(super) bytes: usize,
}

/// Another process that produces.
#[derive(Debug, Args)]
pub(crate) struct Appender {
    #[command(flatten)]
    what: Appending,
}

impl Appender {
    /// Produces so often when it is told to, says how often that was, and when it is told to, how many nanoseconds each time took.
    ///
    /// # Errors
    /// What the database fails with.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let Appending { data, durability, ops, batch, bytes } = &self.what;
        let durability = Durability::from(*durability);
        let database = open(Database::builder(data).durability(durability).create(true))?.database;
        let (topic, payloads) = (database.topic(TOPIC), Payloads::of(*bytes));
        let batch: Vec<_> = payloads.first(*batch).map(Message::new).collect();
        let mut producer = topic.producer();
        child::repeat(*ops, out, || Ok(producer.produce(&batch).map(drop)?))
    }
}

/// As many processes as the case has, this one among them, share its operations.
pub(super) fn append(run: &Run<'_>) -> Result<Measured> {
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let payloads = Payloads::of(run.case.payload_bytes);
    let batch: Vec<_> = payloads.first(run.case.batch).map(Message::new).collect();
    let topic = database.topic(TOPIC);
    let mut producer = topic.producer();
    producer.produce(&batch)?;
    let each = run.ops.div_ceil(run.case.processes.into());
    let start = |_| start(run, each, run.case.batch);
    let others = (1..run.case.processes).map(start).collect::<Result<Vec<_>>>()?;
    let measured = child::together(run, others, each, || Ok(producer.produce(&batch).map(drop)?))?;
    let next = topic.offsets(0)?.next.get();
    let ops = 1 + each * u64::from(run.case.processes);
    assert_eq!(next, ops * run.case.batch as u64, "every message has an offset of its own");
    Ok(measured)
}

/// Opens what a process left behind that was killed behind its last commit.
pub(super) fn recover(run: &Run<'_>) -> Result<Measured> {
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let messages = run.case.batch as u64;
        let mut other = start(run, messages, 1)?;
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

/// Starts a process that produces so often, so many messages at a time.
fn start(run: &Run<'_>, ops: u64, batch: usize) -> Result<Other> {
    Other::start(ROLE, &run.path, run.case.durability, &[ops, batch as u64, run.case.payload_bytes as u64])
}
