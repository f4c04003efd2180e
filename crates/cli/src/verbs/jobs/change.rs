//! `quire jobs`, the verbs that change jobs which are there: one by its id, or with `bulk` all that are meant.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::which::Which;
use super::{given, number_or_name};
use crate::failure::{Failure, Result};
use crate::verbs::client::{Client, Path};
use crate::verbs::place::Place;
use crate::verbs::print::{Form, word};

/// How jobs are changed, and which: one or many.
#[derive(Debug, Subcommand)]
pub(crate) enum Change<W: Args> {
    /// Make what is dead pending again, with all attempts before it
    Retry {
        #[command(flatten)]
        which: W,
        /// With this payload instead of its own, as text
        #[arg(long, value_name = "TEXT")]
        payload: Option<String>,
    },
    /// Cancel what is not finished
    Cancel {
        #[command(flatten)]
        which: W,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Keep what waits from being fetched
    Hold {
        #[command(flatten)]
        which: W,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Make what is held pending
    Release {
        #[command(flatten)]
        which: W,
    },
    /// Run what waits for its time at once
    RunNow {
        #[command(flatten)]
        which: W,
    },
    /// Run what waits at another time
    Reschedule {
        #[command(flatten)]
        which: W,
        #[command(flatten)]
        time: Time,
    },
    /// Move what is not finished to another queue
    Move {
        #[command(flatten)]
        which: W,
        /// The other queue
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// Change the priority of what is not finished
    Priority {
        #[command(flatten)]
        which: W,
        /// 0 to 255, the greater goes first, or critical (255), high (192), normal (128), low (64)
        #[arg(long, value_name = "N", value_parser = number_or_name)]
        to: Value,
    },
    /// Change how many attempts what is not finished gets
    Attempts {
        #[command(flatten)]
        which: W,
        /// How many, those that began included
        #[arg(long, value_name = "N")]
        to: u16,
    },
    /// Remove jobs in any state
    Delete {
        #[command(flatten)]
        which: W,
    },
}

/// When to run.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Time {
    /// So many milliseconds from now
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// At this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    run_at_ms: Option<u64>,
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The job's id, like 4711-2
    job: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// Many jobs.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// In this queue
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Every job of the database: needed when nothing else says which
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

impl<W: Args> Change<W> {
    /// The change as the server takes it, and what is changed.
    fn split(self) -> (Value, W) {
        let because = |reason: Option<String>| given([("reason", json!(reason))]);
        match self {
            Change::Retry { which, payload } => (json!({ "retry": given([("payload_text", json!(payload))]) }), which),
            Change::Cancel { which, reason } => (json!({ "cancel": because(reason) }), which),
            Change::Hold { which, reason } => (json!({ "hold": because(reason) }), which),
            Change::Release { which } => (json!({ "release": {} }), which),
            Change::RunNow { which } => (json!({ "reschedule": {} }), which),
            Change::Reschedule { which, time: Time { delay_ms, run_at_ms } } => {
                let time = given([("delay_ms", json!(delay_ms)), ("run_at_ms", json!(run_at_ms))]);
                (json!({ "reschedule": time }), which)
            }
            Change::Move { which, to } => (json!({ "move": { "queue": to } }), which),
            Change::Priority { which, to } => (json!({ "priority": to }), which),
            Change::Attempts { which, to } => (json!({ "attempts_max": to }), which),
            Change::Delete { which } => (json!({ "delete": {} }), which),
        }
    }
}

impl Change<One> {
    /// Changes the job, and prints the state that it is in.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (change, One { job, place, form }) = self.split();
        place.visit(|client| {
            let answer = client.post(&Path::new(&["jobs", &job, "change"]), &change)?;
            let changed = &answer["replies"][0]["changed"];
            form.print(out, std::slice::from_ref(changed), |changed| match &changed["state"] {
                Value::Null => format!("{job} is deleted"),
                _ => format!("{job} is {}", word(changed, "state")),
            })
        })
    }
}

impl Change<Many> {
    /// Changes the jobs, and prints how many they were once that is done.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (change, Many { queue, which, all, place, form }) = self.split();
        let filter = which.filter(queue);
        if filter.is_empty() != all {
            return Err(Failure::new(match all {
                true => "--all is every job: leave it out, or the conditions",
                false => {
                    "nothing says which jobs: give a condition, such as --queue, or --all for every job of the database"
                }
            }));
        }
        place.visit(|client| {
            let begun = client.post(&Path::new(&["bulk"]), &json!({ "filter": filter, "change": change }))?;
            let bulk = word(&begun["replies"][0]["bulk_begun"], "bulk");
            let done = finished(client, &bulk)?;
            form.print(out, &[done], |bulk| {
                format!("{} changed, {} refused", word(bulk, "changed"), word(bulk, "refused"))
            })
        })
    }
}

/// Waits until a bulk change is done, by asking for more of it: each asking does a part.
fn finished(client: &Client, bulk: &str) -> Result<Value> {
    loop {
        let progress = client.get(&Path::new(&["bulk", bulk]))?;
        if progress["done"] == true {
            return Ok(progress);
        }
        client.post(&Path::new(&["commit"]), &json!({ "parts": [{ "tick": {} }] }))?;
    }
}
