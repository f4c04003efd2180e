//! The runtime of servers and signals. It starts only when the process can open enough file
//! handles.
//!
//! Tokio panics when it gets no handle for its signals. A server that gets no handle for a
//! connection retries forever. The check here reports the shortage before anything runs.

use std::os::fd::AsFd;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{CommandError, Result};

/// File handles for a runtime, its listeners, their first connections and the closing of a
/// database, and a few spare ones.
const HANDLES: usize = 24;

/// Starts a runtime with `threads` threads.
///
/// # Errors
/// When the system has too few file handles or threads.
pub fn start(threads: usize) -> Result<Runtime> {
    begin(Builder::new_multi_thread().worker_threads(threads))
}

/// Starts a runtime that runs on the calling thread, while the thread waits for a future.
///
/// # Errors
/// As [`start`].
pub fn only_this() -> Result<Runtime> {
    begin(&mut Builder::new_current_thread())
}

fn begin(builder: &mut Builder) -> Result<Runtime> {
    let spare: std::io::Result<Vec<_>> = (0..HANDLES).map(|_| std::io::stderr().as_fd().try_clone_to_owned()).collect();
    drop(spare.map_err(|error| {
        let attempt = format_args!("have {HANDLES} more file handles (`ulimit -n` says how many there may be, and `ulimit -n 1024` allows more)");
        CommandError::at(attempt, error)
    })?);
    builder.enable_all().build().map_err(|error| CommandError::at("start threads", error))
}
