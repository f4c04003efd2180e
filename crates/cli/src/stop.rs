//! Ctrl-C and SIGTERM as a stop signal that every part of a command can poll or await.
//!
//! The exit status is 0 for a command that runs until it is stopped. It is 130 for a command that
//! was stopped before its result was complete.

use std::fmt;
use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::{CommandError, Result};

/// The stop signal. It stays requested once it is.
#[derive(Debug, Clone)]
pub struct StopSignal {
    asked: watch::Sender<Option<StopReason>>,
}

/// Why the stop was requested first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Ctrl-C, or SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The program itself, because a part of it ended.
    Program,
    /// Access control was disabled while the servers ran.
    AccessDisabled,
    /// The node of a cluster can't continue.
    NodeFailed,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Interrupt => "SIGINT",
            StopReason::Terminate => "SIGTERM",
            StopReason::Program => "a server ended",
            StopReason::AccessDisabled => "access control was disabled",
            StopReason::NodeFailed => "the node of the cluster has stopped",
        })
    }
}

impl StopSignal {
    /// Creates a signal that the first SIGINT or SIGTERM from now on requests.
    ///
    /// # Errors
    /// When signals can't be received.
    pub fn on_signals(runtime: &Runtime) -> Result<Self> {
        let stop = StopSignal { asked: watch::Sender::new(None) };
        let failed = |error: io::Error| CommandError::at("listen to signals", error);
        let _in_runtime = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let theirs = stop.clone();
        runtime.spawn(async move {
            let reason = tokio::select! {
                _ = interrupt.recv() => StopReason::Interrupt,
                _ = terminate.recv() => StopReason::Terminate,
            };
            theirs.ask_for(reason);
        });
        Ok(stop)
    }

    /// Requests the stop without a signal.
    pub fn ask(&self) {
        self.ask_for(StopReason::Program);
    }

    /// Requests the stop for this reason, unless it is requested.
    pub fn ask_for(&self, reason: StopReason) {
        self.asked.send_modify(|asked| *asked = asked.or(Some(reason)));
    }

    /// Reports whether the stop was requested.
    pub fn is_asked(&self) -> bool {
        self.asked.borrow().is_some()
    }

    /// The reason, once the stop is requested.
    pub fn reason(&self) -> Option<StopReason> {
        *self.asked.borrow()
    }

    /// Completes once the stop is requested.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut asked = self.asked.subscribe();
        async move {
            // The sender is dropped only after the run has ended.
            let _ = asked.wait_for(Option::is_some).await;
        }
    }
}
