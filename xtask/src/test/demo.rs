//! `quire demo --keep` as a child process: its addresses, its report, its end.
//!
//! The demo is recognized by its output, as a person would. Dropping it kills it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::now;

/// How long the demo may take to load the flights: a slow disk syncs a few thousand times.
const FEED_TIME_MAX: Duration = Duration::from_secs(300);
/// How long it may take to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);

/// A demo that has loaded its flights and keeps serving.
#[derive(Debug)]
pub(super) struct Demo {
    child: Child,
    lines: Receiver<String>,
    /// Its output.
    pub(super) report: Report,
}

/// The numbers in the demo's report that the Kafka client can check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Where it serves the Kafka protocol.
    pub(super) kafka: Option<SocketAddr>,
    /// Where it serves HTTP.
    pub(super) http: Option<SocketAddr>,
    /// Events in `air/flights`.
    pub(super) events: Option<u64>,
    /// Messages in `departures`.
    pub(super) messages: Option<u64>,
    /// Jobs done, each with a `PassengersNotified`.
    pub(super) jobs: Option<u64>,
}

impl Report {
    /// Parses a line like `  kafka  127.0.0.1:9092` or `  events  12,345`.
    fn read(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (Some(label), Some(value)) = (words.next(), words.next()) else { return };
        let number = || value.replace(',', "").parse().ok();
        match label {
            "kafka" => self.kafka = self.kafka.or(value.parse().ok()),
            "http" => self.http = self.http.or(value.parse().ok()),
            "events" => self.events = self.events.or_else(number),
            "messages" => self.messages = self.messages.or_else(number),
            "jobs" => self.jobs = self.jobs.or_else(number),
            _ => {}
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        let lines = [
            ("kafka  ADDRESS", self.kafka.is_none()),
            ("http  ADDRESS", self.http.is_none()),
            ("events  NUMBER", self.events.is_none()),
            ("messages  NUMBER", self.messages.is_none()),
            ("jobs  NUMBER", self.jobs.is_none()),
        ];
        lines.into_iter().filter(|(_, missing)| *missing).map(|(line, _)| line).collect()
    }
}

impl Demo {
    /// Starts the demo on free ports with its database in `data`, and waits until its report is
    /// complete.
    ///
    /// # Errors
    /// When it ends, or prints nothing for too long, before its report is complete.
    pub(super) fn start(quire: &Path, root: &Path, data: &Path) -> Result<Self, String> {
        let mut child = Command::new(quire)
            .args([
                "demo",
                "--keep",
                "--kafka",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(data)
            .current_dir(root)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("could not start {}: {error}", quire.display()))?;
        let lines = pass_lines_through(child.stdout.take().expect("stdout is piped"));
        let mut demo = Demo { child, lines, report: Report::default() };
        let begun = now();
        while !demo.report.missing().is_empty() {
            let missing = demo.report.missing().join("`, `");
            match demo.lines.recv_timeout(FEED_TIME_MAX.saturating_sub(begun.elapsed())) {
                Ok(line) => demo.report.read(&line),
                Err(RecvTimeoutError::Timeout) => {
                    let limit = FEED_TIME_MAX.as_secs();
                    return Err(format!("within {limit} s the demo printed no line `{missing}`"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = demo.child.wait().map_err(|error| format!("could not await the demo: {error}"))?;
                    return Err(format!("the demo ended ({status}) before it printed a line `{missing}`"));
                }
            }
        }
        Ok(demo)
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for its end.
    ///
    /// # Errors
    /// When it does not end.
    pub(super) fn interrupt(mut self) -> Result<ExitStatus, String> {
        // Every POSIX shell has `kill` built in, and the standard library has no signals.
        let sent = Command::new("sh").args(["-c", "kill -INT \"$0\"", &self.child.id().to_string()]).status();
        if !sent.is_ok_and(|status| status.success()) {
            return Err("could not send SIGINT to the demo".to_owned());
        }
        let begun = now();
        // Its standard output closes when it ends.
        loop {
            match self.lines.recv_timeout(STOP_TIME_MAX.saturating_sub(begun.elapsed())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the demo still runs {} s after SIGINT", STOP_TIME_MAX.as_secs()));
                }
            }
        }
        self.child.wait().map_err(|error| format!("could not await the demo: {error}"))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints the child's output, and passes on each line.
fn pass_lines_through(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("  | {line}");
            // The demo may print more lines than the receiver reads.
            let _ = sender.send(line);
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::{env, process};

    use super::*;

    const SAID: &str = "echo ' kafka 127.0.0.1:1'; echo ' http 127.0.0.1:2'; echo ' events 1'; echo ' jobs 2'; ";

    /// A shell script in place of `quire`.
    fn start(name: &str, script: &str) -> Result<Demo, String> {
        let path = env::temp_dir().join(format!("quire-xtask-{}-{name}", process::id()));
        // A shell can't trap a signal that was ignored at its start, as SIGINT is for background
        // processes of a script.
        let interpreter = "/usr/bin/env -S --default-signal=INT sh";
        fs::write(&path, format!("#!{interpreter}\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable script");
        let demo = Demo::start(&path, Path::new("/"), Path::new("data"));
        fs::remove_file(&path).expect("the script");
        demo
    }

    #[test]
    fn the_report_is_read_from_lines_for_people() {
        let mut report = Report::default();
        let lines =
            ["done in 3 s", "  events     12,198   in air/flights", "  messages 6099", "  jobs  1,024 done", ""];
        lines.into_iter().for_each(|line| report.read(line));
        assert_eq!(report.missing(), ["kafka  ADDRESS", "http  ADDRESS"]);
        report.read("  kafka  127.0.0.1:9092");
        report.read("  http   [::1]:80");
        report.read("  kafka  -b localhost:1 is how a client reads it");
        assert_eq!(
            report,
            Report {
                kafka: "127.0.0.1:9092".parse().ok(),
                http: "[::1]:80".parse().ok(),
                events: Some(12_198),
                messages: Some(6_099),
                jobs: Some(1_024),
            }
        );
    }

    #[test]
    fn a_demo_that_ends_early_is_reported_with_its_status_and_the_missing_line() {
        let error = start("early", &format!("{SAID} exit 7")).unwrap_err();
        assert_eq!(error, "the demo ended (exit status: 7) before it printed a line `messages  NUMBER`");
    }

    #[test]
    fn an_interrupted_demo_ends_with_its_own_status() {
        let script = format!("trap 'exit 5' INT; {SAID} echo messages 3; while :; do read line; done");
        let demo = start("interrupted", &script).expect("a whole report");
        assert_eq!(demo.report.messages, Some(3));
        assert_eq!(demo.interrupt().expect("an end").code(), Some(5));
    }
}
