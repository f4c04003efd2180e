//! Ctrl-C and SIGTERM, as something to wait for or to look at: every part of a run ends by it. The status is 0 where a run goes on
//! until it is stopped, and that of an interruption where it had not come to its end.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::{Failure, Result};

/// Whether the run is to end. Once it is, it stays so.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    asked: watch::Sender<bool>,
}

impl Stop {
    /// Asked for by the first SIGINT or SIGTERM from now on.
    ///
    /// # Errors
    /// When signals can't be listened to.
    pub(crate) fn on_signals(runtime: &Runtime) -> Result<Self> {
        let stop = Stop { asked: watch::Sender::new(false) };
        let failed = |error: io::Error| Failure::at("listen to signals", error);
        let _in_runtime = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let theirs = stop.clone();
        runtime.spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            theirs.ask();
        });
        Ok(stop)
    }

    /// Asks for it without a signal.
    pub(crate) fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Ready once it is asked for.
    pub(crate) fn asked(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut asked = self.asked.subscribe();
        async move {
            // The sender is gone when the run has ended anyhow.
            let _ = asked.wait_for(|asked| *asked).await;
        }
    }
}
