//! Quotas of clients: a token bucket for each holder of a quota.
//!
//! ```text
//! amount ──QuotaBuckets::take──▶ the bucket of the client's quota ──▶ how long the client must wait
//! ```
//!
//! A bucket holds the amount of one second. A request is never cut: it takes its amount, and a
//! client whose bucket is in debt waits until the debt is paid, at most [`WAIT_MAX`]. Limits are in
//! the database; the buckets are in memory, of one server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quire::system::{QuotaHolder, QuotaKind, RuleSet};
use tokio::time::Instant;

/// The longest wait, and so the largest debt.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The most buckets. Full ones make space, and then those that were not used for the longest time.
const BUCKETS_MAX: usize = 65_536;

/// The longest name of a client that has a bucket of its own, in bytes. Longer names that begin
/// alike share one.
const CLIENT_BYTES_MAX: usize = 255;

/// The user of clients without credentials.
const ANONYMOUS: &str = "ANONYMOUS";

/// A client, as quotas name it.
#[derive(Debug, Clone, Copy)]
pub struct QuotaClient<'c> {
    /// Its user; `None` while access control is disabled.
    pub user: Option<&'c str>,
    /// Its name for itself.
    pub client: &'c str,
}

/// The buckets of a server.
#[derive(Debug, Default)]
pub struct QuotaBuckets(Mutex<Buckets>);

type Buckets = HashMap<(QuotaHolder, QuotaKind), TokenBucket>;

#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    /// Less than 0 is a debt.
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// Fills the bucket for the time since the last call.
    fn fill(&mut self, rate: f64, now: Instant) {
        let added = now.saturating_duration_since(self.filled).as_secs_f64() * rate;
        self.tokens = (self.tokens + added).min(rate);
        self.filled = now;
    }

    /// Takes an amount, and returns the time until the debt is paid.
    fn take(&mut self, amount: f64, rate: f64) -> Duration {
        self.tokens = (self.tokens - amount).max(-rate * WAIT_MAX.as_secs_f64());
        Duration::from_secs_f64((-self.tokens / rate).clamp(0.0, WAIT_MAX.as_secs_f64()))
    }
}

impl QuotaBuckets {
    /// Takes an amount of a client's quota. Returns how long the client must wait before its next
    /// request.
    pub fn take(
        &self,
        rules: &RuleSet,
        client: QuotaClient<'_>,
        kind: QuotaKind,
        amount: f64,
        now: Instant,
    ) -> Duration {
        if !rules.has_quotas() {
            return Duration::ZERO;
        }
        let name = &client.client[..client.client.floor_char_boundary(CLIENT_BYTES_MAX)];
        let Some((holder, value)) = rules.quota(client.user.unwrap_or(ANONYMOUS), name, kind) else {
            return Duration::ZERO;
        };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX {
            make_space(&mut buckets, now);
        }
        let full = TokenBucket { tokens: value, filled: now };
        let bucket = buckets.entry((holder, kind)).or_insert(full);
        bucket.fill(value, now);
        bucket.take(amount, value)
    }
}

/// Drops the buckets that are full, and of the others so many that half of the space is free. A
/// dropped debt is forgiven: a client that takes many names for itself has as many quotas anyway.
fn make_space(buckets: &mut Buckets, now: Instant) {
    // A bucket that nothing was taken from for so long is full.
    buckets.retain(|_, bucket| now.saturating_duration_since(bucket.filled) <= WAIT_MAX);
    if buckets.len() > BUCKETS_MAX / 2 {
        let mut times: Vec<Instant> = buckets.values().map(|bucket| bucket.filled).collect();
        let (_, median, _) = times.select_nth_unstable(buckets.len() / 2);
        buckets.retain(|_, bucket| bucket.filled > *median);
    }
}

#[cfg(test)]
mod tests {
    use quire::Database;
    use quire::system::{Command, QuotaEntity, QuotaName, QuotaValue};

    use super::*;

    const BYTES: QuotaKind = QuotaKind::ProducerByteRate;

    fn named(name: &str) -> Option<QuotaName> {
        Some(QuotaName::Named(name.to_owned()))
    }

    #[test]
    fn a_client_that_uses_more_than_its_quota_waits_until_the_debt_is_paid() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let put = |entity: &QuotaEntity, value: f64| {
            let value = QuotaValue::new(value);
            database.access().change(&[Command::PutQuota { entity, kind: BYTES, value }]).expect("put");
        };
        let (buckets, start) = (QuotaBuckets::default(), Instant::now());
        let take = |user: Option<&str>, client: &str, amount: f64, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            let rules = database.access().rules();
            buckets.take(&rules, QuotaClient { user, client }, BYTES, amount, now).as_millis()
        };
        assert_eq!(take(Some("ann"), "app", 1e9, 0), 0, "there is no quota");
        put(&QuotaEntity { user: named("ann"), client: None }, 1_000.0);
        assert_eq!(take(Some("ann"), "app", 1_000.0, 0), 0);
        assert_eq!(take(Some("ann"), "other", 500.0, 0), 500, "the clients of a user share its quota");
        assert_eq!(take(Some("ann"), "app", 0.0, 500), 0);
        assert_eq!(take(Some("ann"), "app", 1e9, 10_000), 30_000);
        assert_eq!(take(Some("ann"), "app", 0.0, 40_000), 0, "a debt is bounded");
        assert_eq!(take(Some("bob"), "app", 1e9, 40_000), 0);
        put(&QuotaEntity { user: Some(QuotaName::Default), client: None }, 1_000.0);
        assert_eq!(take(Some("bob"), "app", 2_000.0, 40_000), 1_000);
        assert_eq!(take(None, "app", 2_000.0, 40_000), 1_000, "each user has the default for itself");
        put(&QuotaEntity { user: named("bob"), client: named("app") }, 1e6);
        assert_eq!(take(Some("bob"), "app", 2_000.0, 40_000), 0, "the pair is first");
    }

    #[test]
    fn the_memory_of_buckets_is_bounded_whatever_names_clients_take() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let entity = QuotaEntity { user: None, client: Some(QuotaName::Default) };
        let value = QuotaValue::new(1.0);
        database.access().change(&[Command::PutQuota { entity: &entity, kind: BYTES, value }]).expect("put");
        let (buckets, start, rules) = (QuotaBuckets::default(), Instant::now(), database.access().rules());
        let take = |client: &str, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            buckets.take(&rules, QuotaClient { user: None, client }, BYTES, 2.0, now).as_millis()
        };
        let most = BUCKETS_MAX as u64;
        for number in 0..most {
            take(&number.to_string(), number / 4);
        }
        assert_eq!(buckets.0.lock().expect("buckets").len(), BUCKETS_MAX);
        take("one more", most / 4);
        assert!(buckets.0.lock().expect("buckets").len() <= BUCKETS_MAX / 2 + 1);
        assert!(take(&(most - 1).to_string(), most / 4) > 2_000, "a recent debt stays");
        let long = "ä".repeat(10_000);
        assert_eq!(take(&long, most / 4), 1_000);
        assert!(
            buckets
                .0
                .lock()
                .expect("buckets")
                .keys()
                .all(|(holder, _)| { holder.client.as_ref().is_none_or(|client| client.len() <= CLIENT_BYTES_MAX) })
        );
    }
}
