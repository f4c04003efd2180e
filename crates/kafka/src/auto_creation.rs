//! The bounds on topics that metadata requests create: a number for each request, and a rate for
//! all of them.
//!
//! A client that misspells a topic, or asks for thousands, must not fill the database with topics:
//! a topic stays until it is deleted. A refused creation is not permanent: the client gets
//! THROTTLING_QUOTA_EXCEEDED for the topic, and asks again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The period over which the rate holds on average. A full period may be used at once.
const PERIOD: Duration = Duration::from_secs(1);

/// A rate of creations (GCRA).
#[derive(Debug, Default)]
pub(crate) struct CreationRate {
    /// When all past creations would have ended at the rate.
    ends: Mutex<Option<Instant>>,
}

impl CreationRate {
    /// Takes one creation at the time `now`. Returns whether the rate of `per_second` allows it.
    pub(crate) fn take(&self, now: Instant, per_second: u32) -> bool {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let next = ends.unwrap_or(now).max(now) + PERIOD / per_second;
        let is_allowed = next <= now + PERIOD;
        if is_allowed {
            *ends = Some(next);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_of_creations_is_taken_at_once_and_then_one_an_interval() {
        let (rate, start) = (CreationRate::default(), Instant::now());
        let taken = |at: Duration| (0..200).take_while(|_| rate.take(start + at, 100)).count();
        assert_eq!(taken(Duration::ZERO), 100);
        assert_eq!(taken(Duration::from_millis(9)), 0);
        assert_eq!(taken(Duration::from_millis(10)), 1);
        assert_eq!(taken(Duration::from_millis(50)), 4);
        assert_eq!(taken(Duration::from_secs(60)), 100, "an idle time saves one period");
    }
}
