//! `quire serve` as a child process, which can be killed.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use quire::Durability;
use rustix::process::{Pid, Signal, kill_process};

use super::check;
use crate::failure::{CommandError, Result};
use crate::stopwatch::Stopwatch;
use crate::with_parent::WithParent;

/// A server on free ports of the loopback interface. Dropping it kills it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    /// The address for HTTP.
    pub(super) http: SocketAddr,
    /// The line that it printed about its recovery.
    pub(super) recovered: String,
    /// From the start of the process until it served.
    pub(super) started_in: Duration,
}

impl ServerProcess {
    /// Starts a server on the database in `data`, and waits until it serves.
    ///
    /// # Errors
    /// When it can't be started, or ends before it serves.
    pub(super) fn start(data: &Path, durability: Durability) -> Result<Self> {
        let failed = |error| CommandError::at("start a server", error);
        let watch = Stopwatch::start();
        let mut command = WithParent::command().map_err(failed)?;
        command.args(["serve", "--log", "warn", "--durability", &durability.to_string()]);
        for protocol in ["--kafka", "--http", "--grpc"] {
            command.args([protocol, "127.0.0.1:0"]);
        }
        let mut child =
            command.arg("--data").arg(data).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = ServerProcess { child, http, recovered: String::new(), started_in: Duration::ZERO };
        for line in lines {
            let line = line.map_err(failed)?;
            match line.split_once(' ').map(|(label, value)| (label, value.trim())) {
                Some(("http", address)) => {
                    server.http = address.parse().map_err(|error| CommandError::at("read an address", error))?
                }
                Some(("recovered", recovered)) => recovered.clone_into(&mut server.recovered),
                Some(("serving", _)) => {
                    server.started_in = watch.elapsed();
                    return Ok(server);
                }
                _ => {}
            }
        }
        Err(CommandError::new("the server ended before it served"))
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it by SIGKILL.
    ///
    /// # Errors
    /// When it ended in another way.
    pub(super) fn kill(mut self) -> Result {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        let status = killed.map_err(|error| CommandError::at("kill the server", error))?;
        check(status.signal() == Some(Signal::KILL.as_raw()), || format!("the server ended with {status}"))
    }

    /// Stops it by SIGTERM.
    ///
    /// # Errors
    /// When it does not end with status 0.
    pub(super) fn stop(mut self) -> Result {
        let stopped = kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(std::io::Error::from);
        let status =
            stopped.and_then(|()| self.child.wait()).map_err(|error| CommandError::at("stop the server", error))?;
        check(status.success(), || format!("the server ended with {status}"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
