//! Several processes that append to one topic of one database at the same time, and recovery after
//! one of them was killed.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::{Database, Durability, Message};

use super::payload::Payloads;
use crate::case::CaseRun;
use crate::child::{self, CaseProcess};
use crate::measurement::{CaseResult, Recorder};
use quire_cli::durability::DurabilityArg;
use quire_cli::failure::{CommandError, Result};
use quire_cli::opening::open;

const TOPIC: &str = "bench";

/// The command of the other processes.
const ROLE: &str = "appender";

/// The appends of another process.
#[derive(Debug, Args)]
pub(super) struct AppendArgs {
    /// Directory of the database
    pub(super) data: PathBuf,
    /// Durability of commits
    #[arg(value_enum)]
    pub(super) durability: DurabilityArg,
    /// Number of appends
    pub(super) ops: u64,
    /// Messages or entries per append
    pub(super) batch: usize,
    /// Bytes per message
    pub(super) bytes: usize,
}

/// Another process that produces.
#[derive(Debug, Args)]
pub(crate) struct AppenderProcess {
    #[command(flatten)]
    what: AppendArgs,
}

impl AppenderProcess {
    /// Produces at the start signal, and reports the count and the time of each commit in
    /// nanoseconds.
    ///
    /// # Errors
    /// The errors of the database.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result {
        let AppendArgs { data, durability, ops, batch, bytes } = &self.what;
        let durability = Durability::from(*durability);
        let database = open(Database::builder(data).durability(durability).create(true))?.database;
        let (topic, payloads) = (database.topic(TOPIC), Payloads::of(*bytes));
        let batch: Vec<_> = payloads.first(*batch).map(Message::new).collect();
        let mut producer = topic.producer();
        child::repeat(*ops, out, || Ok(producer.produce(&batch).map(drop)?))
    }
}

/// The processes of the case, with this one among them, share its operations.
pub(super) fn append(run: &CaseRun<'_>) -> Result<CaseResult> {
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

/// Opens the database of a process that was killed after its last commit.
pub(super) fn recover(run: &CaseRun<'_>) -> Result<CaseResult> {
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let messages = run.case.batch as u64;
        let mut other = start(run, messages, 1)?;
        other.go()?;
        let produced = other.number()?;
        // Dropping the process kills it.
        drop(other);
        if produced != Some(messages) {
            return Err(CommandError::new(format!(
                "another process ended before it had produced its {messages} messages"
            )));
        }
        recorder.restart();
        let database = open(Database::builder(&run.path).durability(run.case.durability))?.database;
        recorder.lap();
        assert_eq!(database.topic(TOPIC).offsets(0)?.next.get(), (op + 1) * messages, "nothing is lost");
    }
    Ok(recorder.finish())
}

/// Starts a process that produces `ops` times, `batch` messages at a time.
fn start(run: &CaseRun<'_>, ops: u64, batch: usize) -> Result<CaseProcess> {
    CaseProcess::start(ROLE, &run.path, run.case.durability, &[ops, batch as u64, run.case.payload_bytes as u64])
}
