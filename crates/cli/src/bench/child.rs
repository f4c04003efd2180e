//! A second process of a case: this program, which says when it is ready, and what it measured when it is done.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use quire::Durability;

use super::case::Run;
use super::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::stopwatch::Stopwatch;

/// What it says when it waits for its work.
const READY: &str = "ready";

/// A process that was started; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Other {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts `quire bench ROLE DATA DURABILITY NUMBER...`, and waits until it is ready.
    ///
    /// # Errors
    /// When it can't be started, or ends before.
    pub(super) fn start(role: &str, data: &Path, durability: Durability, numbers: &[u64]) -> Result<Self> {
        let failed = |error| Failure::at(format_args!("start the other process ({role})"), error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["bench", role]).arg(data).arg(durability.to_string());
        command.args(numbers.iter().map(u64::to_string)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("it is piped");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut other = Other { child, input, lines };
        match other.line()?.as_deref() {
            Some(READY) => Ok(other),
            _ => Err(Failure::new(format!("the other process ({role}) ended before it was ready"))),
        }
    }

    /// Has it begin, if it waits for that.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn go(&mut self) -> Result {
        writeln!(self.input).map_err(|error| Failure::at("have the other process begin", error))
    }

    /// The next line that it says; `None` when it has ended.
    ///
    /// # Errors
    /// When that can't be read.
    pub(super) fn line(&mut self) -> Result<Option<String>> {
        self.lines.next().transpose().map_err(|error| Failure::at("read from the other process", error))
    }

    /// The next line as a number; `None` when it has ended.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn number(&mut self) -> Result<Option<u64>> {
        let number = |line: String| line.parse().map_err(|_| Failure::new(format!("the other process said {line:?}")));
        self.line()?.map(number).transpose()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This process and others, which [`repeat`] the same, do it `each` so often at the same time.
///
/// # Errors
/// What `op` fails with, and when another process ends before.
pub(super) fn together(
    run: &Run<'_>,
    mut others: Vec<Other>,
    each: u64,
    mut op: impl FnMut() -> Result,
) -> Result<Measured> {
    let watch = Stopwatch::start();
    others.iter_mut().try_for_each(Other::go)?;
    let mut recorder = Recorder::start_among_others();
    for number in 0..each {
        run.go_on(number)?;
        op()?;
        recorder.lap();
    }
    let of_all = |other: &mut Other| match other.number()? {
        Some(ops) if ops == each => Ok(()),
        _ => Err(Failure::new(format!("another process ended before it had done its part {each} times"))),
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
    Ok(Measured::of_clients(clients, elapsed))
}

/// In the other process: does something so often when it is told to, says how often that was, and when it is told to, how many
/// nanoseconds each time took.
///
/// # Errors
/// What `op` fails with, and when nobody listens.
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

/// In the other process: says that it is ready. From here on it dies with the one that started it.
///
/// # Errors
/// When nobody listens.
pub(super) fn ready(out: &mut dyn Write) -> Result {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Failure::at("be told when the first process ends", error))?;
    writeln!(out, "{READY}")?;
    Ok(out.flush()?)
}

/// In the other process: waits until it is to begin, which it is too when whoever started it is gone.
pub(super) fn await_go() {
    let _ = std::io::stdin().read_line(&mut String::new());
}
