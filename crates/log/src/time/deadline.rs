//! The deadline of a wait, in real time, independent of the log's clock.

use std::time::{Duration, Instant};

/// The moment at which a wait ends. A log's clock may be set, and the clock of a test stands still,
/// so a wait uses real time.
#[derive(Debug, Clone, Copy)]
pub struct WaitDeadline {
    /// `None` means never.
    at: Option<Instant>,
}

impl WaitDeadline {
    /// Returns the deadline `time` from now. A duration that is too long, such as
    /// [`Duration::MAX`], never ends.
    pub fn after(time: Duration) -> Self {
        WaitDeadline { at: now().checked_add(time) }
    }

    /// Returns the remaining time.
    pub fn left(self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.saturating_duration_since(now()))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a wait ends in real time; nothing that is decided or stored depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
