//! Ctrl-C in the shell: it ends the running statement, and not the shell.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{CommandError, Result};
use crate::threads;
use crate::verbs::client::HttpClient;

/// Receives SIGINT.
#[derive(Debug)]
pub(super) struct Interrupts {
    state: Arc<Mutex<InterruptState>>,
    /// The thread that receives.
    _runtime: Runtime,
}

#[derive(Debug, Default)]
struct InterruptState {
    is_interrupted: bool,
    /// The client with the running statement.
    running: Option<HttpClient>,
}

impl Interrupts {
    /// From now on, SIGINT does not end the process.
    ///
    /// # Errors
    /// When signals can't be received.
    pub(super) fn receive() -> Result<Self> {
        let runtime = threads::start(1)?;
        let in_runtime = runtime.enter();
        let interrupt = signal(SignalKind::interrupt());
        drop(in_runtime);
        let mut interrupt = interrupt.map_err(|error| CommandError::at("listen to signals", error))?;
        let state = Arc::new(Mutex::new(InterruptState::default()));
        let theirs = Arc::clone(&state);
        runtime.spawn(async move {
            while interrupt.recv().await.is_some() {
                let mut state = lock(&theirs);
                state.is_interrupted = true;
                if let Some(client) = state.running.take() {
                    client.close();
                }
            }
        });
        Ok(Interrupts { state, _runtime: runtime })
    }

    /// Forgets an interrupt.
    pub(super) fn reset(&self) {
        lock(&self.state).is_interrupted = false;
    }

    /// Makes calls that an interrupt ends, also an interrupt since the last [`Interrupts::reset`].
    /// It closes the client, and `None` is returned.
    ///
    /// # Errors
    /// Those of `calls`.
    pub(super) fn during<T>(&self, client: &HttpClient, calls: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        {
            let mut state = lock(&self.state);
            if state.is_interrupted {
                return Ok(None);
            }
            state.running = Some(client.clone());
        }
        let done = calls();
        let mut state = lock(&self.state);
        state.running = None;
        match done {
            Ok(done) => Ok(Some(done)),
            Err(CommandError::Message(_)) if state.is_interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn lock(state: &Mutex<InterruptState>) -> MutexGuard<'_, InterruptState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
