//! Part 3: a worker is killed by SIGKILL after its charge and before its acknowledgement. The
//! charge stays, once.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};

use quire::{Database, Durability};
use rustix::process::Signal;

use super::shop::{PAYMENT_TAKEN, PAYMENTS, count_events};
use super::worker::{Attempt, LEASE};
use super::{check, go_on};
use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::with_parent::WithParent;

/// Kills a worker after its charge, starts another one for the remaining jobs, and prints what
/// became of the payments.
///
/// # Errors
/// When the database fails, a worker can't be started, or a payment is missing or there twice.
pub(super) fn with_a_worker_killed(
    database: &Database,
    data: &Path,
    durability: Durability,
    stop: &StopSignal,
    out: &mut dyn Write,
) -> Result {
    writeln!(out, "\n3. A worker is killed between charging and acknowledging")?;
    let mut first = WorkerProcess::start(data, durability, &["--hang"])?;
    let id = first.child.id();
    let charged = first.next_attempt()?.ok_or_else(|| CommandError::new("the first worker took no job"))?;
    check(charged.refusal.is_none(), || format!("the first charge was refused: {:?}", charged.refusal))?;
    let status = first.kill()?;
    let watch = Stopwatch::start();
    check(status.signal() == Some(Signal::KILL.as_raw()), || format!("the worker ended with {status}"))?;
    let Attempt { job, order, .. } = &charged;
    writeln!(out, "   worker {id} took job {job}, committed {PAYMENT_TAKEN} for {order}, and was killed (SIGKILL)")?;
    go_on(stop, out)?;

    let mut second = WorkerProcess::start(data, durability, &[])?;
    let id = second.child.id();
    let mut was_refused = false;
    while let Some(attempt) = second.next_attempt()? {
        let Attempt { job, number, order, refusal } = &attempt;
        match refusal {
            None => {
                writeln!(out, "   worker {id} took job {job}, committed {PAYMENT_TAKEN} for {order}, and acknowledged")?
            }
            Some(refusal) => {
                let waited = watch.elapsed().as_secs_f64();
                let lease = LEASE.as_millis();
                writeln!(
                    out,
                    "   the lease of {lease} ms ran out: after {waited:.1} s worker {id} got job {job} as attempt {number}"
                )?;
                writeln!(out, "   its charge for {order} was refused: {refusal}; it only acknowledged")?;
                check(*job == charged.job && *number == 2, || format!("attempt {number} of job {job} was refused"))?;
                was_refused = true;
            }
        }
    }
    let status = second.child.wait().map_err(|error| CommandError::at("wait for a worker", error))?;
    check(status.success() && was_refused, || format!("the second worker ended with {status}"))?;
    let stats = database.queue(PAYMENTS).stats()?.unwrap_or_default();
    check((stats.completed, stats.pending, stats.active) == (2, 0, 0), || format!("queue {PAYMENTS}: {stats:?}"))?;
    let charges = count_events(database, PAYMENT_TAKEN, order)?;
    check(charges == 1, || format!("{order} was charged {charges} times"))?;
    Ok(writeln!(out, "   charges for {order}: {charges}; jobs completed: {}; left: 0", stats.completed)?)
}

/// A worker as a child process. Dropping it kills it.
#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    fn start(data: &Path, durability: Durability, flags: &[&str]) -> Result<Self> {
        let failed = |error| CommandError::at("start a worker", error);
        let mut command = WithParent::command().map_err(failed)?;
        command.args(["demo", "worker", "--durability", &durability.to_string()]).args(flags).arg(data);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Ok(WorkerProcess { child, lines })
    }

    /// The next job that the worker charged; `None` when it has ended.
    fn next_attempt(&mut self) -> Result<Option<Attempt>> {
        let failed = |error: &dyn std::fmt::Display| CommandError::at("read from a worker", error);
        let Some(line) = self.lines.next() else { return Ok(None) };
        let line = line.map_err(|error| failed(&error))?;
        serde_json::from_str(&line).map(Some).map_err(|error| failed(&error))
    }

    /// Kills it by SIGKILL.
    fn kill(&mut self) -> Result<ExitStatus> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| CommandError::at("kill a worker", error))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
