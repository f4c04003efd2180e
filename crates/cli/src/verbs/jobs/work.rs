//! `quire jobs work`: runs a command for each job. Its standard input is the payload, or the event
//! that a subscription delivers. Its output is the result of a successful job, and its standard
//! error is the error of a failed one.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use quire::{Clock, SystemClock};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::failure::{CommandError, Result, aside};
use crate::stop::StopSignal;
use crate::threads;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::exact;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{list, text, word};

/// Time that one request waits for a job. Between requests the worker checks the stop signal.
const WAIT_MS: u64 = 500;

/// Bytes at the end of standard error that become the error of an attempt.
const ERROR_BYTES_MAX: usize = 4_096;

/// Largest output that becomes the result of a job.
const RESULT_BYTES_MAX: usize = 8 << 20;

/// Shortest interval between checks of a lease whose job seems out of time.
const LOOK_MS_MIN: u64 = 50;

/// Wait before the next request to a server that stopped responding.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Runs the command after the first line of its input, so that nothing runs before its guard does.
const AFTER_A_LINE: &str = r#"read -r _ && exec sh -c "$1""#;

/// Kills a process group when its input ends without a line: the worker has died.
const GUARD: &str = r#"read -r _ || kill -s KILL -- "-$1""#;

/// Arguments of `quire jobs work`.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The queue; need not exist yet
    queue: String,
    /// Command for `sh -c`; it gets QUIRE_JOB, QUIRE_KIND and QUIRE_ATTEMPT in its environment
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// Event store of the named subscription that this queue belongs to; the command then gets the
    /// event, as JSON
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Name of the worker
    #[arg(long, value_name = "NAME", default_value = "quire")]
    worker: String,
    /// Milliseconds that a job stays leased after this worker dies; extended while the command runs
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..))]
    lease_ms: u64,
    /// Stop when there is no job
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// Repeats requests to a server that restarts, until it responds.
struct Patience<'r> {
    runtime: &'r Runtime,
    stop: &'r StopSignal,
}

impl Patience<'_> {
    /// Repeats a request until there is a response or the stop signal comes. Reports the wait once.
    fn ask<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let mut is_told = false;
        loop {
            match ask() {
                Err(CommandError::Message(message)) if !self.stop.is_asked() => {
                    if !is_told {
                        aside(format_args!("quire: {message}; retrying until it responds, or until Ctrl-C"));
                    }
                    is_told = true;
                    // The end of the wait is expected here.
                    let _ = self.runtime.block_on(async { tokio::time::timeout(AGAIN_AFTER, self.stop.asked()).await });
                }
                answer => return answer,
            }
        }
    }
}

/// What became of the command of a job.
enum Execution {
    Ended(Output),
    /// The lease was lost, and the command was killed.
    Killed,
    /// The system did not start it.
    NotStarted(io::Error),
}

impl Work {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let runtime = threads::start(1)?;
        let stop = StopSignal::on_signals(&runtime)?;
        let (path, fetched_as) = match &self.store {
            None => (Path::new(&["queues", &self.queue, "fetch"]), "jobs"),
            Some(store) => (Path::new(&["events", store, "subscriptions", &self.queue, "fetch"]), "events"),
        };
        let patience = Patience { runtime: &runtime, stop: &stop };
        self.place.visit(|client| {
            let mut is_there = false;
            while !stop.is_asked() {
                let wait_ms = if self.until_empty { 0 } else { WAIT_MS };
                let fetch = json!({ "worker": self.worker, "lease_ms": self.lease_ms, "wait_ms": wait_ms });
                // Jobs of a lost answer come with the next one. A subscription takes no key.
                let path = match self.store {
                    None => path.clone().with_key(client.new_key()),
                    Some(_) => path.clone(),
                };
                // A server that never responded probably has another address.
                let fetched = match is_there {
                    true => patience.ask(|| client.try_post(&path, &fetch))?,
                    false => client.try_post(&path, &fetch)?,
                };
                is_there = true;
                let fetched = match fetched {
                    Ok(fetched) => fetched,
                    Err(problem) if problem["code"] == "stopping" => continue,
                    Err(problem) => return Err(CommandError::new(word(&problem, "detail"))),
                };
                match list(&fetched, fetched_as) {
                    [] if self.until_empty => break,
                    jobs => jobs.iter().try_for_each(|job| self.work_on(client, job, &patience, out))?,
                }
            }
            Ok(())
        })
    }

    fn work_on(&self, client: &HttpClient, job: &Value, patience: &Patience<'_>, out: &mut dyn Write) -> Result {
        let (id, token) = (word(job, "job"), &job["token"]);
        let output = match self.execute(client, job)? {
            Execution::Ended(output) => output,
            Execution::Killed => {
                writeln!(out, "{id}  killed: the lease is lost")?;
                return Ok(out.flush()?);
            }
            Execution::NotStarted(error) => return self.fail_unstarted(client, &id, token, &error, patience, out),
        };
        let (verb, body) = if output.status.success() && output.stdout.len() > RESULT_BYTES_MAX {
            let bytes = output.stdout.len();
            let error = format!("its output has {bytes} bytes, and a result at most {RESULT_BYTES_MAX}");
            ("fail", json!({ "token": token, "error": error }))
        } else if output.status.success() {
            ("ack", json!({ "token": token, "result_base64": STANDARD.encode(&output.stdout) }))
        } else {
            let from = output.stderr.len().saturating_sub(ERROR_BYTES_MAX);
            let error = String::from_utf8_lossy(&output.stderr[from..]);
            ("fail", json!({ "token": token, "error": format!("{}: {}", output.status, error.trim_end()) }))
        };
        let path = Path::new(&["jobs", &id, verb]).with_key(client.new_key());
        let reported = patience.ask(|| client.try_post(&path, &body))?;
        let reported = reported.map_err(|problem| CommandError::new(word(&problem, "detail")));
        match reported {
            Ok(_) => writeln!(out, "{id}  {}", output.status)?,
            // The job was cancelled, or its lease expired: another worker continues.
            Err(CommandError::Message(message)) => writeln!(out, "{id}  {}, but {message}", output.status)?,
            Err(failure) => return Err(failure),
        }
        Ok(out.flush()?)
    }

    /// Fails a job whose command the system did not start, so that it does not stay leased.
    ///
    /// # Errors
    /// When the job is not to blame: other jobs would fail, too.
    fn fail_unstarted(
        &self,
        client: &HttpClient,
        id: &str,
        token: &Value,
        error: &io::Error,
        patience: &Patience<'_>,
        out: &mut dyn Write,
    ) -> Result {
        let body = json!({ "token": token, "error": format!("can't start the command: {error}") });
        // When the lease has expired meanwhile, another worker continues.
        let path = Path::new(&["jobs", id, "fail"]).with_key(client.new_key());
        let _ = patience.ask(|| client.try_post(&path, &body))?;
        // Such as a NUL in the kind of the job.
        if error.kind() != io::ErrorKind::InvalidInput {
            return Err(CommandError::at("run sh", error));
        }
        writeln!(out, "{id}  not started: {error}")?;
        Ok(out.flush()?)
    }

    /// Runs the command, and extends the lease meanwhile. Kills the command when the lease is lost.
    fn execute(&self, client: &HttpClient, job: &Value) -> Result<Execution> {
        let mut command = Command::new("sh");
        command.args(["-c", AFTER_A_LINE, "sh", &self.exec]);
        for (name, field) in [("QUIRE_JOB", "job"), ("QUIRE_KIND", "kind"), ("QUIRE_ATTEMPT", "attempt")] {
            command.env(name, text(job, field));
        }
        // The command gets its own process group. Its children are killed with it, and a Ctrl-C
        // here does not reach them.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Execution::NotStarted(error)),
        };
        let guard = match CommandGuard::start(&child) {
            Ok(guard) => guard,
            Err(error) => {
                // Without a line on its input, the command has not started.
                drop(child.wait_with_output());
                return Ok(Execution::NotStarted(error));
            }
        };
        let mut input = child.stdin.take().expect("it is piped");
        let payload = self.input(job);
        let (done, over) = mpsc::channel::<()>();
        let group = Pid::from_child(&child);
        let (output, kept) = std::thread::scope(|scope| {
            // A command may ignore a part of its input.
            scope.spawn(move || drop(input.write_all(b"\n").and_then(|()| input.write_all(&payload))));
            let keeper = scope.spawn(move || {
                let kept = self.keep_lease(client, job, &over);
                if !kept {
                    // It may have just ended.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                kept
            });
            let output = child.wait_with_output();
            guard.end();
            drop(done);
            (output, keeper.join().expect("the keeper of a lease does not panic"))
        });
        let output = output.map_err(|error| CommandError::at("run sh", error))?;
        Ok(if kept { Execution::Ended(output) } else { Execution::Killed })
    }

    /// The input of the command.
    fn input(&self, job: &Value) -> Vec<u8> {
        match self.store {
            None => payload(job),
            Some(_) => exact::text(&job["event"]).into_bytes(),
        }
    }

    /// Extends the lease at each third of it, and when the job's time is over, until the command
    /// ends. Returns whether the lease is held, as far as the server reported.
    fn keep_lease(&self, client: &HttpClient, job: &Value, over: &mpsc::Receiver<()>) -> bool {
        // This machine's clock may be ahead of the server's. The request then comes too early, and
        // is repeated.
        let until_over = || {
            let left = job["run_until_ms"].as_u64()?.saturating_sub(SystemClock.now().as_millis());
            Some(left.max(LOOK_MS_MIN))
        };
        let beat = json!({ "heartbeat": { "job": job["job"], "token": job["token"], "lease_ms": self.lease_ms } });
        let commit = json!({ "parts": [{ "each": [beat] }] });
        let until_next = || Duration::from_millis(until_over().unwrap_or(u64::MAX).min(self.lease_ms / 3));
        while over.recv_timeout(until_next()) == Err(RecvTimeoutError::Timeout) {
            // A failed request is repeated in time. A refused one means that the lease is lost.
            if let Ok(answer) = client.post(&Path::new(&["commit"]), &commit)
                && !answer["replies"][0]["each"][0]["refused"].is_null()
            {
                return false;
            }
        }
        true
    }
}

/// A process that kills the command with all that it started when the worker dies, even by SIGKILL.
struct CommandGuard {
    guard: Child,
    input: ChildStdin,
}

impl CommandGuard {
    /// Starts a guard of the command's process group.
    fn start(command: &Child) -> io::Result<Self> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", &command.id().to_string()]);
        // The guard outlives a Ctrl-C here, and holds no output of the worker open.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = guard.spawn()?;
        let input = guard.stdin.take().expect("it is piped");
        Ok(CommandGuard { guard, input })
    }

    /// Ends the guard of a command that has ended.
    fn end(mut self) {
        // A guard that was killed needs no line.
        let _ = self.input.write_all(b"\n");
        drop(self.input);
        let _ = self.guard.wait();
    }
}

/// The payload as the server shows it: JSON, text or base64.
fn payload(job: &Value) -> Vec<u8> {
    if let Some(text) = job["payload_text"].as_str() {
        return text.as_bytes().to_vec();
    }
    match job["payload_base64"].as_str() {
        Some(base64) => STANDARD.decode(base64).unwrap_or_default(),
        None => exact::text(&job["payload"]).into_bytes(),
    }
}
