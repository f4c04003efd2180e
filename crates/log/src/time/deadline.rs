//! How long somebody is ready to wait: real time, whatever the log's clock says.

use std::time::{Duration, Instant};

/// A moment at which a wait ends. The clock of a log may be set, and that of a test stands still; who waits at most a second does
/// not mean theirs.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// `None`: never.
    at: Option<Instant>,
}

impl Deadline {
    /// That so much time from now on is over. What is too long to be told, such as [`Duration::MAX`], is never.
    pub fn after(time: Duration) -> Self {
        Deadline { at: now().checked_add(time) }
    }

    /// How much time is left.
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
