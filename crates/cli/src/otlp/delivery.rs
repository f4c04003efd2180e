//! Whether exports succeed: the log has a line when they begin to fail, and one when they succeed
//! again.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{info, warn};

/// The target of the server's own events.
const TARGET: &str = "quire::server";

/// The failures of exports since the last success.
#[derive(Debug)]
pub(super) struct DeliveryState {
    /// What is exported.
    signal: &'static str,
    failures: AtomicU64,
}

impl DeliveryState {
    pub(super) fn new(signal: &'static str) -> Self {
        DeliveryState { signal, failures: AtomicU64::new(0) }
    }

    /// Notes the result of an export. Only one export of a signal runs at a time.
    pub(super) fn note<E: Display>(&self, result: &Result<(), E>) {
        let signal = self.signal;
        match result {
            Ok(()) => match self.failures.swap(0, Ordering::Relaxed) {
                0 => {}
                failures => info!(target: TARGET, signal, failures, "the collector accepts exports again"),
            },
            Err(error) => {
                if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    warn!(target: TARGET, signal, %error, "can't export to the collector");
                }
            }
        }
    }
}
