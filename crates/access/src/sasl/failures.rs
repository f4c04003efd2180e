//! The pause after a failed authentication. It grows with the failures of an address, so that
//! guessing stays slow, and a client that mistypes once hardly notices.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::peer::Origin;

/// The pause after the first failure. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long an address needs to be without failures for them to be forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The most addresses with failures.
const ORIGINS_MAX: usize = 4_096;

/// The recent failures by address.
#[derive(Debug, Default)]
pub(super) struct FailedAttempts(HashMap<Origin, RecentFailures>);

#[derive(Debug, Clone, Copy)]
struct RecentFailures {
    count: u32,
    last: Instant,
}

impl FailedAttempts {
    /// Counts a failure, and returns the pause before it is reported.
    pub(super) fn pause(&mut self, origin: Origin, now: Instant) -> Duration {
        let is_recent = |failures: &RecentFailures| now.duration_since(failures.last) < FORGOTTEN_AFTER;
        if self.0.len() >= ORIGINS_MAX {
            self.0.retain(|_, failures| is_recent(failures));
        }
        if self.0.len() >= ORIGINS_MAX {
            // The failures of so many addresses are no single client's.
            self.0.clear();
        }
        let before = self.0.get(&origin).filter(|failures| is_recent(failures)).map_or(0, |failures| failures.count);
        self.0.insert(origin, RecentFailures { count: before.saturating_add(1), last: now });
        PAUSE_MAX.min(PAUSE_MIN * (1 << before.min(16)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::Ip(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn the_pause_doubles_up_to_its_limit_for_each_address_alone_and_is_forgotten() {
        let mut failed = FailedAttempts::default();
        let now = Instant::now();
        let pauses: Vec<u128> = (0..8).map(|_| failed.pause(origin(1), now).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(failed.pause(origin(2), now), PAUSE_MIN);
        for _ in 0..100 {
            failed.pause(origin(1), now);
        }
        assert_eq!(failed.pause(origin(1), now + FORGOTTEN_AFTER / 2), PAUSE_MAX);
        assert_eq!(failed.pause(origin(1), now + FORGOTTEN_AFTER * 3 / 2), PAUSE_MIN);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut failed = FailedAttempts::default();
        let now = Instant::now();
        for number in 0..3 * ORIGINS_MAX as u32 {
            failed.pause(origin(number), now);
            assert!(failed.0.len() <= ORIGINS_MAX);
        }
    }
}
