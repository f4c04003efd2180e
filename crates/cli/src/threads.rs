//! The runtime that servers and signals run on, begun only when there are file handles enough for it.
//!
//! Tokio panics when it finds no handle for its signals, and a server that finds none for a connection tries again for ever;
//! both are told here, before anything runs.

use std::os::fd::AsFd;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};

/// What a runtime, two listeners, their first connections and the closing of a database take, with some to spare.
const HANDLES: usize = 24;

/// Starts a runtime with so many threads.
///
/// # Errors
/// When the system gives too few file handles, or no threads.
pub(crate) fn start(threads: usize) -> Result<Runtime> {
    begin(Builder::new_multi_thread().worker_threads(threads))
}

/// Starts a runtime that has this thread alone, while it waits for something.
///
/// # Errors
/// As [`start`].
pub(crate) fn only_this() -> Result<Runtime> {
    begin(&mut Builder::new_current_thread())
}

fn begin(builder: &mut Builder) -> Result<Runtime> {
    let spare: std::io::Result<Vec<_>> = (0..HANDLES).map(|_| std::io::stderr().as_fd().try_clone_to_owned()).collect();
    drop(spare.map_err(|error| {
        let attempt = format_args!("have {HANDLES} more file handles (`ulimit -n` says how many there may be, and `ulimit -n 1024` allows more)");
        Failure::at(attempt, error)
    })?);
    builder.enable_all().build().map_err(|error| Failure::at("start threads", error))
}
