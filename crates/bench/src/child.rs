//! Another process of a case. It runs this program, reports when it is ready, and reports its
//! results.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use quire::Durability;

use super::case::CaseRun;
use super::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// The line of a process that is ready.
const READY: &str = "ready";

/// A child process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct CaseProcess {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl CaseProcess {
    /// Starts `quire-bench ROLE DATA DURABILITY NUMBER...`, and waits until it is ready.
    ///
    /// # Errors
    /// When the process can't be started, or ends before it is ready.
    pub(super) fn start(role: &str, data: &Path, durability: Durability, numbers: &[u64]) -> Result<Self> {
        let failed = |error| CommandError::at(format_args!("start the other process ({role})"), error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(role).arg(data).arg(durability.to_string());
        command.args(numbers.iter().map(u64::to_string)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("it is piped");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut other = CaseProcess { child, input, lines };
        match other.line()?.as_deref() {
            Some(READY) => Ok(other),
            _ => Err(CommandError::new(format!("the other process ({role}) ended before it was ready"))),
        }
    }

    /// Starts the work of a process that waits for it.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn go(&mut self) -> Result {
        writeln!(self.input).map_err(|error| CommandError::at("start the measurement of the other process", error))
    }

    /// The next line of output; `None` when the process has ended.
    ///
    /// # Errors
    /// When the line can't be read.
    pub(super) fn line(&mut self) -> Result<Option<String>> {
        self.lines.next().transpose().map_err(|error| CommandError::at("read from the other process", error))
    }

    /// The next line as a number; `None` when the process has ended.
    ///
    /// # Errors
    /// When the line is not a number.
    pub(super) fn number(&mut self) -> Result<Option<u64>> {
        let number =
            |line: String| line.parse().map_err(|_| CommandError::new(format!("the other process printed {line:?}")));
        self.line()?.map(number).transpose()
    }
}

impl Drop for CaseProcess {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `op` `each` times in this process, at the same time as other processes that run [`repeat`].
///
/// # Errors
/// The errors of `op`, and an error when another process ends early.
pub(super) fn together(
    run: &CaseRun<'_>,
    mut others: Vec<CaseProcess>,
    each: u64,
    mut op: impl FnMut() -> Result,
) -> Result<CaseResult> {
    let watch = Stopwatch::start();
    others.iter_mut().try_for_each(CaseProcess::go)?;
    let mut recorder = Recorder::start_among_others();
    for number in 0..each {
        run.go_on(number)?;
        op()?;
        recorder.lap();
    }
    let of_all = |other: &mut CaseProcess| match other.number()? {
        Some(ops) if ops == each => Ok(()),
        _ => Err(CommandError::new(format!("another process ended before it had run its {each} operations"))),
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
    Ok(CaseResult::of_clients(clients, elapsed))
}

/// In the other process: runs `op` `ops` times at the start signal. Then reports the count and, at
/// the next signal, the time of each operation in nanoseconds.
///
/// # Errors
/// The errors of `op`, and an error when the first process has ended.
pub(super) fn repeat(ops: u64, out: &mut dyn Write, mut op: impl FnMut() -> Result) -> Result {
    let mut took = Vec::with_capacity(usize::try_from(ops).unwrap_or_default());
    ready(out)?;
    await_go();
    let mut watch = Stopwatch::start();
    for _ in 0..ops {
        op()?;
        took.push(watch.lap());
    }
    writeln!(out, "{}", took.len())?;
    out.flush()?;
    await_go();
    Ok(took.iter().try_for_each(|took| writeln!(out, "{}", took.as_nanos()))?)
}

/// In the other process: reports that it is ready. From here on it ends with the first process.
///
/// # Errors
/// When the first process has ended.
pub(super) fn ready(out: &mut dyn Write) -> Result {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| CommandError::at("bind the life of this process to the first one", error))?;
    writeln!(out, "{READY}")?;
    Ok(out.flush()?)
}

/// In the other process: waits for the start signal. The end of the first process counts as one.
pub(super) fn await_go() {
    let _ = std::io::stdin().read_line(&mut String::new());
}
