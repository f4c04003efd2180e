//! The states that the server reports to the service manager that started it: see `sd_notify(3)`.
//!
//! Without a service manager (no `NOTIFY_SOCKET` in the environment) nothing is sent.

use std::io;

use sd_notify::NotifyState;
use tracing::warn;

/// The target of the server's own events.
const TARGET: &str = "quire::server";

/// Reports that the server serves, with its state in words for `systemctl status`.
pub(crate) fn report_ready(status: &str) {
    report(sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]));
}

/// Reports that the server reads its settings again. [`report_ready`] must follow.
pub(crate) fn report_reload() {
    let reported = NotifyState::monotonic_usec_now().and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now]));
    report(reported);
}

/// Reports that the server stops.
pub(crate) fn report_stop() {
    report(sd_notify::notify(&[NotifyState::Stopping]));
}

/// Logs an error. The server goes on: its service manager decides by its own timeouts.
fn report(reported: io::Result<()>) {
    if let Err(error) = reported {
        warn!(target: TARGET, %error, "can't report to the service manager");
    }
}
