//! The step `kafka`: a server against independent Kafka clients.
//!
//! `tests/kafka` has the clients' checks. This file runs four kinds of scripts: scripts that use
//! the demo's server, scripts that start and kill servers of their own, one that starts a server
//! with compaction, and one that starts a server with access control. Afterwards it checks that
//! Ctrl-C stops the demo cleanly.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::demo::{Demo, Report};
use super::{go, java, js, python, succeed};
use crate::units::Units;
use crate::workspace::Workspace;

const SCRIPT: &str = "tests/kafka/read_demo.py";
/// The scripts that only need the address of a server.
const CLIENTS: [&str; 3] = ["tests/kafka/librdkafka.py", "tests/kafka/kafka_python.py", "tests/kafka/groups.py"];
/// The scripts that start and kill servers of their own.
const KILLED: [&str; 2] = ["tests/kafka/killed.py", "tests/kafka/disturbed.py"];
const COMPACTED: &str = "tests/kafka/compacted.py";
/// The server that compacts.
const COMPACTING: &str = "compacting";
const SASL: &str = "tests/kafka/sasl.py";
const PROTECTED: &str = "tests/kafka/protected.py";
/// The server with access control.
const AUTHENTICATED: &str = "authenticated";

/// Runs the step.
///
/// # Errors
/// When a program is missing, a check fails, or the server does not stop with status 0.
pub(super) fn run(workspace: &Workspace) -> Result<(), String> {
    let python = python::interpreter(workspace)?;
    let units = Units::build(workspace)?;
    let (quire, compacting) = (units.program("bin", "quire")?, units.program("example", COMPACTING)?);
    let authenticated = units.program("example", AUTHENTICATED)?;
    let others = Others { go: go::program(workspace)?, java: java::jars(workspace), js: js::package(workspace) };
    let data = workspace.target.join("xtask-demo");
    remove(&data)?;
    let demo = Demo::start(&quire, &workspace.root, &data)?;
    let read = succeed(Command::new(&python).arg(SCRIPT).args(arguments(&demo.report)).current_dir(&workspace.root));
    let read = read.and_then(|()| clients(workspace, &python, &others, &demo.report));
    // The server is stopped in any case; a failed check takes precedence over a failed stop.
    let stopped = demo.interrupt();
    read?;
    let status = stopped?;
    if !status.success() {
        return Err(format!("the demo must stop with status 0 on Ctrl-C, got: {status}"));
    }
    println!("the demo stopped on SIGINT: {status}");
    KILLED.into_iter().try_for_each(|script| {
        succeed(Command::new(&python).args(["-B", script]).arg(&quire).current_dir(&workspace.root))
    })?;
    let mut compacted = Command::new(&python);
    compacted.args(["-B", COMPACTED]).arg(&compacting).args(others.readers()).current_dir(&workspace.root);
    succeed(&mut compacted)?;
    let mut sasl = Command::new(&python);
    sasl.args(["-B", SASL]).arg(&authenticated).current_dir(&workspace.root);
    if let Some(jars) = &others.java {
        sasl.arg("--java").arg(java::sasl(jars)).arg("--acls").arg(java::acls(jars));
    }
    succeed(&mut sasl)?;
    succeed(Command::new(&python).args(["-B", PROTECTED]).arg(&authenticated).current_dir(&workspace.root))?;
    remove(&data)
}

/// The clients that are not in Python, if they are available.
struct Others {
    go: Option<PathBuf>,
    java: Option<PathBuf>,
    js: Option<PathBuf>,
}

impl Others {
    /// The further clients that a script runs.
    fn readers(&self) -> Vec<String> {
        let go = self.go.as_ref().map(|program| ("franz-go", format!("'{}'", program.display())));
        let java = self.java.as_ref().map(|jars| ("Java", java::reader(jars)));
        [go, java].into_iter().flatten().flat_map(|(name, command)| ["--reader".into(), name.into(), command]).collect()
    }
}

/// Runs the clients on the demo's server.
fn clients(workspace: &Workspace, python: &Path, others: &Others, report: &Report) -> Result<(), String> {
    let bootstrap = report.kafka.ok_or("the demo printed no address for Kafka clients")?.to_string();
    // Without a directory of compiled modules in the source.
    let run = |script| succeed(Command::new(python).args(["-B", script]).arg(&bootstrap).current_dir(&workspace.root));
    CLIENTS.into_iter().try_for_each(run)?;
    if let Some(program) = &others.go {
        go::run(workspace, program, &bootstrap)?;
    }
    if let Some(package) = &others.js {
        js::run(workspace, package, &bootstrap)?;
    }
    others.java.as_ref().map_or(Ok(()), |jars| java::run(workspace, jars, &bootstrap))
}

/// The numbers of the demo's report for the script.
fn arguments(report: &Report) -> Vec<String> {
    let values = [
        ("--bootstrap", report.kafka.map(|address| address.to_string())),
        ("--http", report.http.map(|address| address.to_string())),
        ("--events", report.events.map(|count| count.to_string())),
        ("--messages", report.messages.map(|count| count.to_string())),
        ("--jobs", report.jobs.map(|count| count.to_string())),
    ];
    values.into_iter().flat_map(|(flag, value)| value.map(|value| [flag.to_owned(), value])).flatten().collect()
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("could not remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_gets_the_figures_of_the_report() {
        let report = Report { kafka: "127.0.0.1:9092".parse().ok(), messages: Some(6_099), ..Report::default() };
        assert_eq!(arguments(&report), ["--bootstrap", "127.0.0.1:9092", "--messages", "6099"]);
    }
}
