//! `quire jobs work`: runs a command for each job. Its standard input is the payload, or the event that a subscription delivers; its
//! output is the result of a job that it did, its standard error why it did not.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::stop::Stop;
use crate::threads;
use crate::verbs::client::{Client, Path};
use crate::verbs::exact;
use crate::verbs::place::Place;
use crate::verbs::print::{list, word};

/// How long one request waits for a job: then it is looked whether to stop.
const WAIT_MS: u64 = 500;

/// How much of the standard error is kept as the error of an attempt, from its end.
const ERROR_BYTES_MAX: usize = 4_096;

/// What `quire jobs work` takes.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The queue
    queue: String,
    /// The command, run by `sh -c`; QUIRE_JOB, QUIRE_KIND and QUIRE_ATTEMPT tell it of the job
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// The event store of which the queue is a named subscription: the command gets the event, as JSON
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Who works
    #[arg(long, value_name = "NAME", default_value = "quire")]
    worker: String,
    /// How long a job stays with this worker when it dies; it is extended while the command runs
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..))]
    lease_ms: u64,
    /// End when there is no job
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    place: Place,
}

impl Work {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let runtime = threads::start(1)?;
        let stop = Stop::on_signals(&runtime)?;
        let (path, fetched_as) = match &self.store {
            None => (Path::new(&["queues", &self.queue, "fetch"]), "jobs"),
            Some(store) => (Path::new(&["events", store, "subscriptions", &self.queue, "fetch"]), "events"),
        };
        self.place.visit(|client| {
            while !stop.is_asked() {
                let wait_ms = if self.until_empty { 0 } else { WAIT_MS };
                let fetch = json!({ "worker": self.worker, "lease_ms": self.lease_ms, "wait_ms": wait_ms });
                let fetched = client.post(&path, &fetch)?;
                match list(&fetched, fetched_as) {
                    [] if self.until_empty => break,
                    jobs => jobs.iter().try_for_each(|job| self.work_on(client, job, out))?,
                }
            }
            Ok(())
        })
    }

    fn work_on(&self, client: &Client, job: &Value, out: &mut dyn Write) -> Result {
        let (id, token) = (word(job, "job"), &job["token"]);
        let Some(output) = self.execute(client, job)? else {
            writeln!(out, "{id}  killed: the job is no longer this worker's")?;
            return Ok(out.flush()?);
        };
        let (verb, body) = if output.status.success() {
            ("ack", json!({ "token": token, "result_base64": STANDARD.encode(&output.stdout) }))
        } else {
            let from = output.stderr.len().saturating_sub(ERROR_BYTES_MAX);
            let error = String::from_utf8_lossy(&output.stderr[from..]);
            ("fail", json!({ "token": token, "error": format!("{}: {}", output.status, error.trim_end()) }))
        };
        match client.post(&Path::new(&["jobs", &id, verb]), &body) {
            Ok(_) => writeln!(out, "{id}  {}", output.status)?,
            // Cancelled meanwhile, or its lease ran out: whoever has it now goes on.
            Err(Failure::Message(message)) => writeln!(out, "{id}  {}, but {message}", output.status)?,
            Err(failure) => return Err(failure),
        }
        Ok(out.flush()?)
    }

    /// Runs the command, and extends the lease while it runs. When the lease is lost, the command is killed, and there is no output.
    fn execute(&self, client: &Client, job: &Value) -> Result<Option<Output>> {
        let failed = |error: std::io::Error| Failure::at("run sh", error);
        let mut command = Command::new("sh");
        command.args(["-c", &self.exec]);
        for (name, field) in [("QUIRE_JOB", "job"), ("QUIRE_KIND", "kind"), ("QUIRE_ATTEMPT", "attempt")] {
            command.env(name, word(job, field));
        }
        // A group of its own: what the shell has started is killed with it, and a Ctrl-C here leaves it to its end.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut input = child.stdin.take().expect("it is piped");
        let payload = self.input(job);
        let (done, over) = mpsc::channel::<()>();
        let group = Pid::from_child(&child);
        let (output, kept) = std::thread::scope(|scope| {
            // A command that does not read all of it is no failure.
            scope.spawn(move || drop(input.write_all(&payload)));
            let keeper = scope.spawn(move || {
                let kept = self.keep_lease(client, job, &over);
                if !kept {
                    // It may have ended this moment.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                kept
            });
            let output = child.wait_with_output();
            drop(done);
            (output, keeper.join().expect("the keeper of a lease does not panic"))
        });
        Ok(Some(output.map_err(failed)?).filter(|_| kept))
    }

    /// What the command reads.
    fn input(&self, job: &Value) -> Vec<u8> {
        match self.store {
            None => payload(job),
            Some(_) => exact::text(&job["event"]).into_bytes(),
        }
    }

    /// Extends the lease each third of it, until the command is over; says whether it holds still, as far as the server has told.
    fn keep_lease(&self, client: &Client, job: &Value, over: &mpsc::Receiver<()>) -> bool {
        let beat = json!({ "heartbeat": { "job": job["job"], "token": job["token"], "lease_ms": self.lease_ms } });
        let commit = json!({ "parts": [{ "each": [beat] }] });
        while over.recv_timeout(Duration::from_millis(self.lease_ms / 3)) == Err(RecvTimeoutError::Timeout) {
            // One that fails is followed by another in time; one that is refused says that the lease is lost.
            if let Ok(answer) = client.post(&Path::new(&["commit"]), &commit)
                && !answer["replies"][0]["each"][0]["refused"].is_null()
            {
                return false;
            }
        }
        true
    }
}

/// The payload, as the server shows it: JSON, text or base64.
fn payload(job: &Value) -> Vec<u8> {
    if let Some(text) = job["payload_text"].as_str() {
        return text.as_bytes().to_vec();
    }
    match job["payload_base64"].as_str() {
        Some(base64) => STANDARD.decode(base64).unwrap_or_default(),
        None => exact::text(&job["payload"]).into_bytes(),
    }
}
