//! Failed attempts to authenticate, by address and by user. Each makes the next ones wait, so that
//! guessing stays slow: on one connection, on many, and when the client leaves and returns.
//!
//! * An address with recent failures has one attempt per pause. Further attempts wait for their
//!   turn, and are refused unchecked after [`PAUSE_MAX`].
//! * An attempt for a user with recent failures waits, at most [`PAUSE_MAX`], and is then checked:
//!   failures from one address do not lock the user out from another one.
//!
//! A success frees the turn of its address, and does not undo failures.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::peer::Origin;

/// The pause after the first failure. It doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause, and the longest wait of an attempt.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long an address or a user needs to be without failures for them to be forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The most addresses, and the most users, with failures.
const ENTRIES_MAX: usize = 4_096;

/// The recent failures.
#[derive(Debug, Default)]
pub(super) struct FailedAttempts {
    origins: FailureTable<Origin>,
    /// By the hashes of their names.
    users: FailureTable<u64>,
    hasher: RandomState,
}

/// An attempt of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct SaslAttempt {
    origin: Origin,
    /// The hash of the user's name, if the message has one.
    user: Option<u64>,
    begun: Instant,
}

/// When an attempt may be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptTurn {
    /// Now. The failures of its address are as many.
    Now(u32),
    /// Not before this instant.
    Later(Instant),
    /// Never: other attempts of its address took their turns for too long.
    Never,
}

impl FailedAttempts {
    /// Begins an attempt.
    pub(super) fn begin(&self, origin: Origin, user: Option<&str>, now: Instant) -> SaslAttempt {
        SaslAttempt { origin, user: user.map(|user| self.hasher.hash_one(user)), begun: now }
    }

    /// Whether it is the turn of an attempt. If it is, further attempts of the address and for the
    /// user wait as if this one failed, until [`FailedAttempts::succeed`].
    pub(super) fn turn(&mut self, attempt: &SaslAttempt, now: Instant) -> AttemptTurn {
        let end = attempt.begun + PAUSE_MAX;
        if let Some(next) = self.origins.next(&attempt.origin, now) {
            return if now < end { AttemptTurn::Later(next.min(end)) } else { AttemptTurn::Never };
        }
        if let Some(next) = attempt.user.and_then(|user| self.users.next(&user, now))
            && now < end
        {
            return AttemptTurn::Later(next.min(end));
        }
        self.origins.reserve(&attempt.origin, now);
        attempt.user.iter().for_each(|user| self.users.reserve(user, now));
        AttemptTurn::Now(self.failures_of(attempt, now))
    }

    /// The recent failures of the address of an attempt.
    pub(super) fn failures_of(&self, attempt: &SaslAttempt, now: Instant) -> u32 {
        self.origins.recent(&attempt.origin, now).map_or(0, |failures| failures.count)
    }

    /// Counts a failure, and returns the pause before it is reported.
    pub(super) fn fail(&mut self, attempt: &SaslAttempt, now: Instant) -> Duration {
        let of_origin = self.origins.fail(attempt.origin, now);
        let of_user = attempt.user.map(|user| self.users.fail(user, now));
        of_origin.max(of_user.unwrap_or_default())
    }

    /// Frees the turn that an attempt took.
    pub(super) fn succeed(&mut self, attempt: &SaslAttempt, now: Instant) {
        self.origins.free(&attempt.origin, now);
        attempt.user.iter().for_each(|user| self.users.free(user, now));
    }
}

/// The recent failures by one property of attempts. Its memory is bounded: the entry with the
/// oldest failure makes space for a new one.
#[derive(Debug)]
struct FailureTable<K>(HashMap<K, RecentFailures>);

#[derive(Debug, Clone, Copy)]
struct RecentFailures {
    count: u32,
    last: Instant,
    /// When the next attempt may be checked.
    next: Instant,
}

impl RecentFailures {
    fn is_recent(&self, now: Instant) -> bool {
        now.duration_since(self.last) < FORGOTTEN_AFTER
    }
}

impl<K> Default for FailureTable<K> {
    fn default() -> Self {
        FailureTable(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> FailureTable<K> {
    fn recent(&self, key: &K, now: Instant) -> Option<&RecentFailures> {
        self.0.get(key).filter(|failures| failures.is_recent(now))
    }

    /// When the next attempt may be checked; `None` if it may be now.
    fn next(&self, key: &K, now: Instant) -> Option<Instant> {
        self.recent(key, now).map(|failures| failures.next).filter(|next| *next > now)
    }

    fn reserve(&mut self, key: &K, now: Instant) {
        if let Some(failures) = self.0.get_mut(key).filter(|failures| failures.is_recent(now)) {
            failures.next = now + pause_after(failures.count);
        }
    }

    fn free(&mut self, key: &K, now: Instant) {
        if let Some(failures) = self.0.get_mut(key) {
            failures.next = now;
        }
    }

    fn fail(&mut self, key: K, now: Instant) -> Duration {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, failures| failures.is_recent(now));
            let oldest = self.0.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| *key);
            if let (true, Some(oldest)) = (self.0.len() >= ENTRIES_MAX, oldest) {
                self.0.remove(&oldest);
            }
        }
        let count = self.recent(&key, now).map_or(0, |failures| failures.count).saturating_add(1);
        let pause = pause_after(count);
        self.0.insert(key, RecentFailures { count, last: now, next: now + pause });
        pause
    }
}

/// The pause after this many failures.
fn pause_after(failures: u32) -> Duration {
    PAUSE_MAX.min(PAUSE_MIN * (1 << failures.saturating_sub(1).min(16)))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::Ip(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    /// Fails `count` times from the address for the user, at once.
    fn fail(failed: &mut FailedAttempts, from: u32, user: &str, count: usize, now: Instant) -> Vec<u128> {
        let attempt = failed.begin(origin(from), Some(user), now);
        (0..count).map(|_| failed.fail(&attempt, now).as_millis()).collect()
    }

    fn turn(failed: &mut FailedAttempts, (from, user, begun): (u32, &str, Instant), now: Instant) -> AttemptTurn {
        let attempt = failed.begin(origin(from), Some(user), begun);
        failed.turn(&attempt, now)
    }

    #[test]
    fn the_pause_doubles_up_to_its_limit_for_each_address_and_user_and_is_forgotten() {
        let mut failed = FailedAttempts::default();
        let now = Instant::now();
        assert_eq!(fail(&mut failed, 1, "ann", 8, now), [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(fail(&mut failed, 2, "bob", 1, now), [100]);
        assert_eq!(fail(&mut failed, 3, "ann", 1, now), [5_000], "another address guesses the same password");
        assert_eq!(fail(&mut failed, 1, "cem", 1, now), [5_000], "the same address guesses for another user");
        fail(&mut failed, 1, "ann", 100, now);
        assert_eq!(fail(&mut failed, 1, "ann", 1, now + FORGOTTEN_AFTER / 2), [5_000]);
        assert_eq!(fail(&mut failed, 1, "ann", 1, now + FORGOTTEN_AFTER * 3 / 2), [100]);
    }

    #[test]
    fn an_address_with_failures_has_one_attempt_per_pause_and_the_others_end_unchecked() {
        let mut failed = FailedAttempts::default();
        let start = Instant::now();
        assert_eq!(turn(&mut failed, (1, "ann", start), start), AttemptTurn::Now(0));
        fail(&mut failed, 1, "ann", 7, start);
        let next = start + PAUSE_MAX;
        for user in ["ann", "bob"] {
            assert_eq!(turn(&mut failed, (1, user, start), start), AttemptTurn::Later(next));
        }
        assert_eq!(turn(&mut failed, (1, "ann", start), next), AttemptTurn::Now(7));
        assert_eq!(turn(&mut failed, (1, "bob", start), next), AttemptTurn::Never, "one took the turn");
        let end = next + PAUSE_MAX;
        assert_eq!(turn(&mut failed, (1, "bob", next), next), AttemptTurn::Later(end));
        let attempt = failed.begin(origin(1), Some("ann"), start);
        failed.succeed(&attempt, next);
        assert_eq!(turn(&mut failed, (1, "bob", next), next), AttemptTurn::Now(7), "a success frees the turn");
    }

    #[test]
    fn failures_of_one_address_delay_a_user_at_another_for_a_bounded_time() {
        let mut failed = FailedAttempts::default();
        let start = Instant::now();
        fail(&mut failed, 1, "ann", 7, start);
        let end = start + PAUSE_MAX;
        assert_eq!(turn(&mut failed, (2, "ann", start), start), AttemptTurn::Later(end));
        assert_eq!(turn(&mut failed, (2, "bob", start), start), AttemptTurn::Now(0));
        // The stranger tries again.
        fail(&mut failed, 1, "ann", 1, end - Duration::from_millis(1));
        assert_eq!(turn(&mut failed, (2, "ann", start), end), AttemptTurn::Now(0));
    }

    #[test]
    fn the_tables_are_bounded_and_keep_the_newest_failures() {
        let mut failed = FailedAttempts::default();
        let start = Instant::now();
        for number in 0..2 * ENTRIES_MAX as u32 {
            let now = start + Duration::from_millis(u64::from(number));
            fail(&mut failed, number, &number.to_string(), 1, now);
            assert!(failed.origins.0.len() <= ENTRIES_MAX && failed.users.0.len() <= ENTRIES_MAX);
            assert!(failed.origins.0.contains_key(&origin(number)));
        }
        assert!(failed.origins.0.contains_key(&origin(ENTRIES_MAX as u32)));
        assert!(!failed.origins.0.contains_key(&origin(0)));
    }
}
