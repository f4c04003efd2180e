//! `quire demo worker DIR`: the child process that takes payments.
//!
//! The charge and the acknowledgement are two commits here, so that a crash fits between them. The
//! charge has a condition: no `PaymentTaken` for this order exists. A second attempt is refused,
//! and only acknowledges.

use std::io::{Read, Write, stdin};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::events::NewEvent;
use quire::{Commit, Database, Outcome};
use serde::{Deserialize, Serialize};

use super::shop::{ORDERS_STORE, PAYMENT_TAKEN, PAYMENTS, none_yet};
use crate::durability::DurabilityArg;
use crate::failure::{CommandError, Result};
use crate::opening::open;

/// How long a job is leased: how long the next worker waits after a crash.
pub(super) const LEASE: Duration = Duration::from_millis(500);
/// How long the worker waits for a change before it looks for jobs again.
const WAIT: Duration = Duration::from_millis(20);

/// The arguments of `quire demo worker`.
#[derive(Debug, Args)]
pub(in crate::demo) struct PaymentWorker {
    /// Directory of the database
    data: PathBuf,
    /// Durability of commits
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityArg,
    /// Stop after the first charge, before the acknowledgement
    #[arg(long)]
    hang: bool,
}

/// What a worker did to a job: a line of JSON on its standard output.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The job.
    pub(super) job: String,
    /// The number of the attempt, from 1.
    pub(super) number: u16,
    /// The tag of the order, like `order:1`.
    pub(super) order: String,
    /// Why the charge was refused; `None` when it was committed.
    pub(super) refusal: Option<String>,
}

/// The part of a job's payload that a worker reads.
#[derive(Debug, Deserialize)]
struct Payment {
    order: u32,
    cents: u64,
}

impl PaymentWorker {
    /// Works until no job of the queue is unfinished.
    pub(in crate::demo) fn run(self, out: &mut dyn Write) -> Result {
        let database = open(Database::builder(&self.data).durability(self.durability.into()).create(false))?.database;
        let name = format!("worker-{}", std::process::id());
        let queue = database.queue(PAYMENTS).lease(LEASE);
        loop {
            let seen = database.published();
            let Some(job) = queue.fetch(&name, 1)?.pop() else {
                let stats = queue.stats()?.ok_or_else(|| CommandError::new(format!("queue {PAYMENTS} not found")))?;
                if stats.pending + stats.active + stats.retrying == 0 {
                    return Ok(());
                }
                database.wait_after(seen, WAIT)?;
                continue;
            };
            let payment: Payment =
                serde_json::from_slice(&job.payload).map_err(|error| CommandError::at("read a job", error))?;
            let order = format!("order:{}", payment.order);
            let refusal = charge(&database, &order, payment.cents)?;
            let attempt = Attempt { job: job.job.to_string(), number: job.attempt, order, refusal };
            writeln!(out, "{}", serde_json::to_string(&attempt).expect("names and numbers are JSON"))?;
            out.flush()?;
            if self.hang {
                // Until the parent kills this process.
                let _ = stdin().read_to_end(&mut Vec::new());
                return Err(CommandError::new("the parent has ended"));
            }
            queue.ack(job.job, job.token, b"")?;
        }
    }
}

/// Appends `PaymentTaken` for an order that has none. Returns why it was refused otherwise.
fn charge(database: &Database, order: &str, cents: u64) -> Result<Option<String>> {
    let data = serde_json::json!({ "cents": cents }).to_string();
    let event = NewEvent::new(PAYMENT_TAKEN).tag(order).data(&data);
    let commit = Commit::new().append_if(ORDERS_STORE, [event], [none_yet(PAYMENT_TAKEN, order)]);
    match database.commit(&commit)? {
        Outcome::Committed(_) => Ok(None),
        Outcome::Refused(refused) => Ok(Some(refused.reason.to_string())),
    }
}
