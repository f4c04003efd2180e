//! `quire jobs`, the commands that change jobs: one by id, or many with `bulk`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::conditions::JobConditions;
use super::{given, number_or_name};
use crate::failure::{CommandError, Result};
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, word};

/// The changes of jobs. `W` selects one job or many.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand<W: Args> {
    /// Retry dead jobs, with all their attempts
    Retry {
        #[command(flatten)]
        which: W,
        /// Replace the payload with this text
        #[arg(long, value_name = "TEXT")]
        payload: Option<String>,
    },
    /// Cancel unfinished jobs
    Cancel {
        #[command(flatten)]
        which: W,
        /// Reason
        #[arg(long)]
        reason: Option<String>,
    },
    /// Put waiting jobs on hold
    Hold {
        #[command(flatten)]
        which: W,
        /// Reason
        #[arg(long)]
        reason: Option<String>,
    },
    /// Release jobs on hold
    Release {
        #[command(flatten)]
        which: W,
    },
    /// Run scheduled and retrying jobs now
    RunNow {
        #[command(flatten)]
        which: W,
    },
    /// Run waiting jobs at another time
    Reschedule {
        #[command(flatten)]
        which: W,
        #[command(flatten)]
        time: Time,
    },
    /// Move unfinished jobs to another queue
    Move {
        #[command(flatten)]
        which: W,
        /// The other queue
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// Change the priority of unfinished jobs
    Priority {
        #[command(flatten)]
        which: W,
        /// 0 to 255, the greater first, or critical (255), high (192), normal (128), low (64)
        #[arg(long, value_name = "N", value_parser = number_or_name)]
        to: Value,
    },
    /// Change the number of attempts of unfinished jobs
    Attempts {
        #[command(flatten)]
        which: W,
        /// Number of attempts, including those that have started
        #[arg(long, value_name = "N")]
        to: u16,
    },
    /// Delete jobs in any state
    Delete {
        #[command(flatten)]
        which: W,
    },
}

/// The time to run.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Time {
    /// Milliseconds from now
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// At this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    run_at_ms: Option<u64>,
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct OneJob {
    /// Id of the job, like 4711-2
    job: String,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Many jobs.
#[derive(Debug, Args)]
pub(crate) struct ManyJobs {
    /// Jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    which: JobConditions,
    /// Every job of the database; required when there is no other condition
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl<W: Args> JobCommand<W> {
    /// The change in the form of the server, and its subject.
    fn split(self) -> (Value, W) {
        let because = |reason: Option<String>| given([("reason", json!(reason))]);
        match self {
            JobCommand::Retry { which, payload } => {
                (json!({ "retry": given([("payload_text", json!(payload))]) }), which)
            }
            JobCommand::Cancel { which, reason } => (json!({ "cancel": because(reason) }), which),
            JobCommand::Hold { which, reason } => (json!({ "hold": because(reason) }), which),
            JobCommand::Release { which } => (json!({ "release": {} }), which),
            JobCommand::RunNow { which } => (json!({ "reschedule": {} }), which),
            JobCommand::Reschedule { which, time: Time { delay_ms, run_at_ms } } => {
                let time = given([("delay_ms", json!(delay_ms)), ("run_at_ms", json!(run_at_ms))]);
                (json!({ "reschedule": time }), which)
            }
            JobCommand::Move { which, to } => (json!({ "move": { "queue": to } }), which),
            JobCommand::Priority { which, to } => (json!({ "priority": to }), which),
            JobCommand::Attempts { which, to } => (json!({ "attempts_max": to }), which),
            JobCommand::Delete { which } => (json!({ "delete": {} }), which),
        }
    }
}

impl JobCommand<OneJob> {
    /// Changes the job, and prints its new state.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (change, OneJob { job, place, form }) = self.split();
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

impl JobCommand<ManyJobs> {
    /// Changes the jobs, and prints their number when the change is complete.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let (change, ManyJobs { queue, which, all, place, form }) = self.split();
        let filter = which.filter(queue.as_deref());
        if filter.is_empty() != all {
            return Err(CommandError::new(match all {
                true => "--all is every job: leave it out, or the conditions",
                false => "no condition given: add one, such as --queue, or --all for every job of the database",
            }));
        }
        place.visit(|client| {
            which.check_names(client, queue.as_deref())?;
            let begun = client.post(&Path::new(&["bulks"]), &json!({ "filter": filter, "change": change }))?;
            let bulk = word(&begun["replies"][0]["bulk_begun"], "bulk");
            let done = finished(client, &bulk)?;
            form.print(out, &[done], |bulk| {
                format!("{} changed, {} refused", word(bulk, "changed"), word(bulk, "refused"))
            })
        })
    }
}

/// Waits until a bulk change is complete. Each request does a part of it.
fn finished(client: &HttpClient, bulk: &str) -> Result<Value> {
    loop {
        let progress = client.get(&Path::new(&["bulks", bulk]))?;
        if progress["done"] == true {
            return Ok(progress);
        }
        client.post(&Path::new(&["commit"]), &json!({ "parts": [{ "tick": {} }] }))?;
    }
}
