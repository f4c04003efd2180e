//! Watches an open database, and logs each change of its state once.
//!
//! The core has no log. It keeps its state where callers can read it: failing duties, damage, the
//! slowest sync, counters. [`DatabaseWatch::look`] compares that state with the last look, about
//! once a second. A duty that fails and succeeds between two looks is not logged; it had no effect.
//!
//! Invariant: a state that lasts is logged when it begins and when it ends, and not in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quire::{Compaction, Database, Duty, DutyFailure};
use quire_access::Traffic;
use tracing::{error, info, warn};

/// Least time between two lines about one counter, in milliseconds.
const COUNTED_MS: u64 = 60_000;

/// Watches a database and the counters of its servers; see the module.
#[derive(Debug)]
pub(crate) struct DatabaseWatch {
    database: Database,
    traffic: Arc<Traffic>,
    kafka: Arc<quire_kafka::Counters>,
    /// The failing duties at the last look.
    failing: Vec<DutyFailure>,
    /// How much damage was logged.
    damaged: usize,
    /// Whether the database refused commits at the last look.
    refuses: bool,
    slow_syncs: SlowSyncs,
    /// The background compactions that were logged.
    compacted: Compaction,
    /// The counters of connections, by front end and name.
    grown: BTreeMap<(&'static str, &'static str), CounterGrowth>,
}

/// The syncs over the threshold that were not logged yet.
#[derive(Debug, Default)]
struct SlowSyncs {
    looks: u64,
    slowest: Duration,
    logged_ms: Option<u64>,
}

/// The growth of a counter that was not logged yet.
#[derive(Debug, Default)]
struct CounterGrowth {
    logged: u64,
    logged_ms: Option<u64>,
}

impl CounterGrowth {
    /// The growth since the last line, when a line is due.
    fn due(&mut self, now_ms: u64, total: u64) -> Option<u64> {
        let grown = total.saturating_sub(self.logged);
        if grown == 0 || !is_due(self.logged_ms, now_ms) {
            return None;
        }
        (self.logged, self.logged_ms) = (total, Some(now_ms));
        Some(grown)
    }
}

/// Whether the last line is long ago. A clock that was set back makes it so.
fn is_due(logged_ms: Option<u64>, now_ms: u64) -> bool {
    logged_ms.is_none_or(|logged_ms| now_ms < logged_ms || now_ms - logged_ms >= COUNTED_MS)
}

impl DatabaseWatch {
    /// Begins to watch. The opening has reported `damaged` places already.
    pub(crate) fn new(
        database: Database,
        traffic: Arc<Traffic>,
        kafka: Arc<quire_kafka::Counters>,
        damaged: usize,
    ) -> Self {
        DatabaseWatch {
            database,
            traffic,
            kafka,
            failing: Vec::new(),
            damaged,
            refuses: false,
            slow_syncs: SlowSyncs::default(),
            compacted: Compaction::default(),
            grown: BTreeMap::new(),
        }
    }

    /// Logs what changed since the last look. `slow_sync` is the shortest sync that is logged.
    pub(crate) fn look(&mut self, slow_sync: Duration) {
        let now_ms = self.database.now().as_millis();
        let failing = self.database.failing();
        log_duties(&self.failing, &failing, now_ms);
        self.failing = failing;
        let damage = self.database.damage();
        damage.iter().skip(self.damaged).for_each(log_damage);
        self.damaged = damage.len();
        self.log_refusal();
        let slowest = self.database.take_slowest_sync();
        if slowest > Duration::ZERO && slowest >= slow_sync {
            self.slow_syncs.looks += 1;
            self.slow_syncs.slowest = self.slow_syncs.slowest.max(slowest);
        }
        self.slow_syncs.log(now_ms);
        self.log_compactions();
        self.log_connections(now_ms);
    }

    /// Logs refused connections, and those that were cut off, with their numbers.
    fn log_connections(&mut self, now_ms: u64) {
        let traffic = Arc::clone(&self.traffic);
        for (front_end, traffic) in traffic.front_ends() {
            let counts = traffic.connections();
            for (reason, total) in [
                ("limit", counts.refused_limit),
                ("limit of one address", counts.refused_address),
                ("file handles", counts.accept_failures),
            ] {
                if let Some(count) = self.grown_by(front_end, reason, total, now_ms) {
                    warn!(target: "quire::connection", front_end, reason, count, "refused connections");
                }
            }
            self.log_cut(front_end, "no first request in time", counts.ended_first_request, now_ms);
            self.log_cut(front_end, "slow request", counts.ended_request, now_ms);
            self.log_cut(front_end, "idle", counts.ended_idle, now_ms);
            self.log_cut(front_end, "idle at the limit on connections", counts.displaced, now_ms);
            self.log_cut(front_end, "response not read", counts.ended_response, now_ms);
            self.log_cut(front_end, "not authenticated", counts.authentication_missing, now_ms);
            self.log_cut(front_end, "authentication failed", counts.authentication_failed, now_ms);
        }
        let counts = self.kafka.statistics();
        self.log_cut("kafka", "malformed request", counts.closed_malformed, now_ms);
        self.log_cut("kafka", "unsupported request", counts.closed_unsupported, now_ms);
        self.log_cut("kafka", "refused batch without acknowledgement", counts.closed_unacknowledged, now_ms);
    }

    fn log_cut(&mut self, front_end: &'static str, reason: &'static str, total: u64, now_ms: u64) {
        if let Some(count) = self.grown_by(front_end, reason, total, now_ms) {
            warn!(target: "quire::connection", front_end, reason, count, "cut off connections");
        }
    }

    fn grown_by(&mut self, front_end: &'static str, reason: &'static str, total: u64, now_ms: u64) -> Option<u64> {
        self.grown.entry((front_end, reason)).or_default().due(now_ms, total)
    }

    /// Logs the segments that background compactions rewrote since the last look.
    fn log_compactions(&mut self) {
        let now = self.database.background_compactions();
        let before = std::mem::replace(&mut self.compacted, now);
        let segments = now.segments - before.segments;
        if segments > 0 {
            let entries_dropped = now.entries_dropped - before.entries_dropped;
            let (bytes_before, bytes_after) =
                (now.bytes_before - before.bytes_before, now.bytes_after - before.bytes_after);
            info!(target: "quire::duty", segments, entries_dropped, bytes_before, bytes_after, "compacted in the background");
        }
    }

    fn log_refusal(&mut self) {
        match (self.database.check(), self.refuses) {
            (Err(error), false) => {
                self.refuses = true;
                error!(target: "quire::duty", %error, "the database refuses commits");
            }
            (Ok(()), true) => {
                self.refuses = false;
                info!(target: "quire::duty", "the database accepts commits again");
            }
            (Err(_), true) | (Ok(()), false) => {}
        }
    }
}

/// Logs damage, with the file, the byte and the record.
pub(crate) fn log_damage(found: &quire::Damage) {
    let hint = "`quire verify` lists all damage, and a backup has the lost records";
    error!(target: "quire::damage", place = %found, hint, "found damage");
}

fn log_duties(before: &[DutyFailure], now: &[DutyFailure], now_ms: u64) {
    let find = |all: &[DutyFailure], duty: Duty| all.iter().find(|failing| failing.duty == duty).cloned();
    for ended in before {
        // Failures since another time are others.
        if find(now, ended.duty).is_none_or(|failing| failing.since != ended.since) {
            let for_ms = now_ms.saturating_sub(ended.since.as_millis());
            info!(target: "quire::duty", duty = %ended.duty, failures = ended.times, for_ms, "a duty works again");
        }
    }
    for begun in now {
        if find(before, begun.duty).is_none_or(|failing| failing.since != begun.since) {
            let (duty, error) = (begun.duty, &begun.message);
            match duty {
                Duty::Prepare => error!(target: "quire::duty", %duty, error, "commits are refused"),
                _ => warn!(target: "quire::duty", %duty, error, "a duty fails, and is tried again"),
            }
        }
    }
}

impl SlowSyncs {
    fn log(&mut self, now_ms: u64) {
        if self.looks > 0 && is_due(self.logged_ms, now_ms) {
            let slowest_ms = u64::try_from(self.slowest.as_millis()).unwrap_or(u64::MAX);
            warn!(target: "quire::sync", slowest_ms, seconds = self.looks, "syncs are slow");
            *self = SlowSyncs { logged_ms: Some(now_ms), ..SlowSyncs::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_growth_of_a_counter_is_logged_at_once_and_then_once_a_minute() {
        let mut growth = CounterGrowth::default();
        let looks = [(0, 0), (1_000, 3), (2_000, 80), (30_000, 81), (61_000, 89), (62_000, 89), (122_000, 90)];
        let due: Vec<_> = looks.into_iter().filter_map(|(now_ms, total)| growth.due(now_ms, total)).collect();
        assert_eq!(due, [3, 86, 1]);
    }
}
