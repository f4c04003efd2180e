//! `GET /v1/history`: figures of the last hour, one sample every ten seconds, in memory.
//!
//! ```text
//! keep ── every ten seconds ─▶ SampleTotals, since the start
//!                                 │ minus those of the sample before
//!                                 ▼
//!                              HistorySample ─▶ MetricsHistory, the oldest one leaves
//! ```
//!
//! The samples have sums over all objects, and no names.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::tools::Histogram;
use quire::{Database, DurationCounts, Operation, Resource, Statistics};
use quire_access::Traffic;
use quire_api::MetricsHistory;
use quire_api::reply::{HistoryReply, HistorySample};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::app::{App, closing};
use crate::error::Problem;
use crate::params::Params;
use crate::response::{JsonResponse, aside};
use crate::{groups, queues};

/// The most groups and queues of a sample, and the most committed offsets of the groups together,
/// so that a sample has bounded cost.
const OBJECTS_MAX: usize = 1_000;
const OFFSETS_MAX: usize = 10_000;

/// Responds with the samples; with `after`, those after a time.
pub(crate) async fn history(State(app): State<Arc<App>>, mut params: Params) -> Result<JsonResponse, Problem> {
    let after = params.one("after")?.unwrap_or(0);
    params.end()?;
    app.database().check_permission(Resource::DATABASE, Operation::Describe)?;
    let interval_ms = u64::try_from(MetricsHistory::INTERVAL.as_millis()).expect("it is short");
    JsonResponse::of(&app.memory, &HistoryReply { interval_ms, samples: app.history.after(after) })
}

/// Takes a sample at each interval, until the server stops.
pub(crate) async fn keep(app: Arc<App>, closed: watch::Receiver<bool>, interval: Duration) {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut before = SampleTotals::read(&app);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = closing(closed.clone()) => return,
        }
        let counts = SampleTotals::read(&app);
        let database = app.owner().clone();
        let read_aside = Arc::clone(&app);
        let gauges = aside(move || Ok(SampleGauges::read(&read_aside, &database))).await;
        // A task that ended early is that of a server that stops.
        let Ok(gauges) = gauges else { return };
        app.history.add(counts.sample_after(&before, gauges, &app));
        before = counts;
    }
}

/// Totals since the start.
struct SampleTotals {
    statistics: Statistics,
    commits: DurationCounts,
    syncs: Histogram,
    requests: u64,
}

impl SampleTotals {
    fn read(app: &App) -> Self {
        let database = app.owner();
        SampleTotals {
            statistics: database.statistics(),
            commits: database.commit_durations(),
            syncs: database.storage_durations().sync,
            requests: requests(&app.traffic),
        }
    }

    /// The sample of the time since `before`.
    fn sample_after(&self, before: &SampleTotals, gauges: SampleGauges, app: &App) -> HistorySample {
        let since = |total: fn(&Statistics) -> u64| total(&self.statistics).saturating_sub(total(&before.statistics));
        let syncs = self.syncs.since(&before.syncs);
        let connections = app.traffic.front_ends().map(|(_, front_end)| front_end.connections().open);
        HistorySample {
            time_ms: app.owner().now().as_millis(),
            commits: since(|statistics| statistics.commits),
            refusals: since(|statistics| statistics.refusals),
            entries: since(|statistics| statistics.entries),
            log_bytes: since(|statistics| statistics.bytes),
            syncs: since(|statistics| statistics.syncs),
            requests: self.requests.saturating_sub(before.requests),
            commit_p99_ms: p99(&before.commits, &self.commits).map(millis),
            sync_p99_ms: (syncs.count() > 0).then(|| millis(Duration::from_nanos(syncs.quantile_ns(0.99)))),
            connections: connections.into_iter().sum(),
            client_bytes: app.budget.usage().bytes_used,
            lag: gauges.lag,
            oldest_pending_ms: gauges.oldest_pending.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            disk_free_bytes: gauges.disk_free_bytes,
        }
    }
}

/// Figures whose reading may wait for the disk. One that can't be read is left out.
struct SampleGauges {
    lag: Option<u64>,
    oldest_pending: Option<Duration>,
    disk_free_bytes: Option<u64>,
}

impl SampleGauges {
    fn read(app: &App, database: &Database) -> Self {
        // On a node of a cluster that does not lead, the state belongs to the leader.
        let serves = database.serves();
        let lag = || {
            let mut claim = app.memory.claim_of_done();
            let groups = groups::statistics(database, OBJECTS_MAX, OFFSETS_MAX, &mut claim).ok()?;
            Some(groups.iter().map(|group| group.lag).sum())
        };
        let oldest = || queues::oldest_pending(database, OBJECTS_MAX).ok()?.into_iter().map(|(_, age)| age).max();
        SampleGauges {
            lag: serves.then(lag).flatten(),
            oldest_pending: serves.then(oldest).flatten(),
            disk_free_bytes: database.free_bytes().ok(),
        }
    }
}

/// The requests of all front ends that ended.
fn requests(traffic: &Traffic) -> u64 {
    let of = |(_, front_end): (_, &quire_access::FrontEndTraffic)| {
        front_end.ended().iter().map(|ended| ended.durations.count()).sum::<u64>()
    };
    traffic.front_ends().into_iter().map(of).sum()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// An upper bound of the 99th percentile of the durations since `before`; `None` without any.
fn p99(before: &DurationCounts, now: &DurationCounts) -> Option<Duration> {
    let count = now.count().saturating_sub(before.count());
    let wanted = count - count / 100;
    let mut up_to = before.up_to().zip(now.up_to()).map(|((_, before), (bound, now))| (bound, now - before));
    let found = up_to.find(|(_, count)| *count >= wanted);
    // A longer duration counts as the greatest bound.
    let bound = found.or_else(|| now.up_to().last()).map(|(bound, _)| bound);
    bound.filter(|_| count > 0)
}

#[cfg(test)]
mod tests {
    use quire::{Commit, Durability, Durations, Message, NewJob, Sequence};
    use quire_access::ServedDatabase;
    use quire_access::budget::ByteBudget;

    use super::*;

    #[test]
    fn a_percentile_is_that_of_the_durations_since_the_sample_before() {
        let durations = Durations::default();
        (0..100).for_each(|_| durations.record(Duration::from_secs(9)));
        let before = durations.counts();
        assert_eq!(p99(&before, &before), None);
        (0..99).for_each(|_| durations.record(Duration::from_millis(2)));
        durations.record(Duration::from_secs(100));
        assert_eq!(p99(&before, &durations.counts()), Some(Duration::from_micros(2_500)));
        (0..9).for_each(|_| durations.record(Duration::from_secs(100)));
        assert_eq!(p99(&before, &durations.counts()), Some(Duration::from_secs(60)));
    }

    #[tokio::test]
    async fn a_sample_counts_what_happened_since_the_one_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a new database");
        let (closing, closed) = watch::channel(false);
        let app =
            App::new(ServedDatabase::new(database.clone()), ByteBudget::new(16 << 20), Arc::default(), closed.clone());
        let keeping = tokio::spawn(keep(Arc::clone(&app), closed, Duration::from_millis(5)));
        let next = async || {
            let seen = app.history.after(0).len();
            while app.history.after(0).len() < seen + 2 {
                tokio::task::yield_now().await;
            }
        };
        next().await;
        let commit = Commit::new()
            .produce("placed", Message::new("order 17"))
            .produce("placed", Message::new("order 18"))
            .commit_offset("billing", "placed", 0, Sequence::new(0))
            .enqueue("mails", NewJob::new("order 17"));
        let _ = database.commit(&commit).expect("decided").committed().expect("accepted");
        app.traffic.http.end("/v1/commit", 200, Duration::from_millis(1));
        next().await;
        closing.send_replace(true);
        keeping.await.expect("it ends with the server");
        let samples = app.history.after(0);
        let sum = |figure: fn(&HistorySample) -> u64| samples.iter().map(figure).sum::<u64>();
        assert_eq!((sum(|sample| sample.commits), sum(|sample| sample.requests)), (1, 1));
        assert_eq!(sum(|sample| sample.log_bytes), database.statistics().bytes);
        let timed = samples.iter().filter(|sample| sample.commit_p99_ms.is_some()).count();
        assert!(timed <= 1, "the commit counts once");
        let last = samples.last().expect("a sample");
        assert_eq!(last.lag, Some(2));
        assert!(last.oldest_pending_ms.is_some() && last.disk_free_bytes.is_some());
        assert!(samples.is_sorted_by_key(|sample| sample.time_ms));
    }
}
