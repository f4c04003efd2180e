//! The deadline of a body or a message that a client sends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::settings::ConnectionSettings;
use crate::statistics::{ConnectionCounters, Deadline};

/// Measures how long the server waits for the bytes of a client. It sets no timer for bytes that
/// have already arrived.
#[derive(Debug, Default)]
pub struct ArrivalDeadline {
    /// When the wait began, and when it ends.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl ArrivalDeadline {
    /// To be polled while the next bytes are missing, after `bytes` have arrived. Ready when the
    /// client is late: see [`ConnectionSettings::request`]. The counters then count it.
    pub fn poll_late(
        &mut self,
        context: &mut Context<'_>,
        settings: &ConnectionSettings,
        bytes: u64,
        counters: &ConnectionCounters,
    ) -> Poll<()> {
        let (begun, end) = self.wait.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + settings.request(0))))
        });
        loop {
            ready!(end.as_mut().poll(context));
            let until = *begun + settings.request(bytes);
            if until <= end.deadline() {
                counters.expired(Deadline::Request);
                return Poll::Ready(());
            }
            end.as_mut().reset(until);
        }
    }

    /// Ends the wait: the client may be silent until it sends again.
    pub fn rest(&mut self) {
        self.wait = None;
    }
}
