//! The broker under load: a running one, or `quire serve` as a child process on a directory of the
//! case.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use quire::Durability;

use crate::case::CaseRun;
use quire_cli::failure::{CommandError, Result};
use quire_cli::with_parent::WithParent;

/// A broker.
#[derive(Debug)]
pub(super) struct BenchBroker {
    /// The address for clients.
    pub(super) bootstrap: String,
    child: Option<Child>,
}

impl BenchBroker {
    /// Returns the broker that the user named, or starts one.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn of(run: &CaseRun<'_>) -> Result<Self> {
        match run.bootstrap {
            Some(bootstrap) => Ok(BenchBroker { bootstrap: bootstrap.to_owned(), child: None }),
            None => BenchBroker::start(run),
        }
    }

    /// Starts a broker.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(run: &CaseRun<'_>) -> Result<Self> {
        let failed = |error| CommandError::at("start a broker", error);
        let durability = match run.case.durability {
            Durability::Sync => "sync",
            Durability::Os => "os",
        };
        let mut command = WithParent::command().map_err(failed)?;
        command.arg("serve").arg("--data").arg(&run.path).args(["--durability", durability]);
        for server in ["--kafka", "--http", "--grpc"] {
            command.args([server, "127.0.0.1:0"]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        // From here on, dropping the broker kills the child.
        let mut broker = BenchBroker { bootstrap: String::new(), child: Some(child) };
        for line in lines {
            let line = line.map_err(failed)?;
            if let Some(address) = line.strip_prefix("kafka ") {
                address.trim().clone_into(&mut broker.bootstrap);
            }
            // The last line before the broker is stopped. The rest of its output can be ignored.
            if line.starts_with("serving") {
                return Ok(broker);
            }
        }
        Err(CommandError::new("the started broker printed no address"))
    }

    /// The memory of the broker without files. `None` for a broker that this process did not start,
    /// or when the system does not report it.
    pub(super) fn memory_bytes(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.as_ref()?.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0)
    }
}

impl Drop for BenchBroker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
