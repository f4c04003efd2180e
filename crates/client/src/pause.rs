//! Pauses between attempts: they double, and end early at a stop.

use std::time::{Duration, Instant};

use crate::ClientError;

/// The longest pause that the client chooses.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The shortest pause, also when the settings or the server ask for none.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// How soon a pause notices a stop.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// The pauses between attempts: each one doubles, and half of it is random, so that clients do not
/// return together.
#[derive(Debug)]
pub(crate) struct RetryPauses(Duration);

impl RetryPauses {
    pub(crate) fn new(first: Duration) -> Self {
        RetryPauses(first.max(PAUSE_MIN))
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = pause.saturating_mul(2).min(PAUSE_MAX.max(pause));
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The pause after an error: the one that the server asks for, if it is longer.
    pub(crate) fn after(&mut self, error: Option<&ClientError>) -> Duration {
        let asked = error.and_then(ClientError::retry_after).unwrap_or_default();
        self.next().max(asked)
    }
}

/// Waits, at most until `is_stopped` returns true. Calls it at least every tenth of a second.
#[expect(clippy::disallowed_methods, reason = "the pauses of a client are real time")]
pub(crate) fn pause_unless(pause: Duration, mut is_stopped: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_stopped() {
        let left = pause.saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(STOP_CHECK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_shorter_than_that_of_the_client_and_never_without_an_end() {
        let asking = |retry_after| ClientError::of_response("x", 503, b"", retry_after);
        for first in [Duration::ZERO, Duration::from_millis(50), Duration::MAX] {
            let mut pauses = RetryPauses::new(first);
            for asked in [None, Some(Duration::ZERO)] {
                let least = pauses.0 / 2;
                assert!(pauses.after(Some(&asking(asked))) >= least.max(PAUSE_MIN / 2), "{first:?} {asked:?}");
            }
            let hour = Duration::from_secs(3_600);
            assert!(pauses.after(Some(&asking(Some(hour)))) >= hour);
        }
        let mut pauses = RetryPauses::new(Duration::ZERO);
        assert!((0..100).map(|_| pauses.next()).all(|pause| pause <= PAUSE_MAX));
    }
}
