//! A finished job is found until compaction drops its entries.

use quire_jobs::{
    Change, Command, Filter, JobEvent, JobId, JobSpec, JobState, Jobs, QueueChange, Reply, Retry, States,
};
use quire_model::memory::MemoryLog;
use quire_model::{Model, Timestamp};

use crate::yard::{LEASE_MICROS, Yard};

const HOUR: u64 = 3_600_000_000;

/// A state, and its log after a compaction.
struct CompactedLog<'y> {
    model: &'y Jobs,
    log: MemoryLog,
}

/// The log after a compaction that removes history older than `history_micros`.
fn compacted(yard: &mut Yard, history_micros: u64) -> CompactedLog<'_> {
    // The passing of time is applied by an entry for each queue.
    for queue in ["q", "other"] {
        yard.enqueue(queue, JobSpec::new(b"now"));
    }
    let from = Timestamp::from_micros(yard.now.as_micros().saturating_sub(history_micros));
    let (model, mut log) = (&yard.world.model, yard.world.log.clone());
    log.compact(log.tail(), |entry| model.survives(entry, from));
    CompactedLog { model, log }
}

fn set(yard: &mut Yard, retention_micros: Option<u64>) {
    yard.one(Command::SetQueue { queue: "q", change: QueueChange::Retention(retention_micros) });
}

fn end(yard: &mut Yard, queue: &str, state: JobState, retention_micros: Option<u64>) -> JobId {
    let id =
        yard.enqueue(queue, JobSpec { retention_micros, priority: quire_jobs::Priority::HIGH, ..JobSpec::new(b"{}") });
    let fetched = yard.fetch(&[queue], 1).remove(0);
    let (job, token) = (fetched.job, fetched.token);
    assert_eq!(job, id);
    yard.one(match state {
        JobState::Completed => Command::Ack { job, token, result: b"42" },
        JobState::Cancelled => Command::Change { job, change: Change::Cancel { reason: "r" } },
        _ => Command::Fail { job, token, error: "e", retry: Retry::Never },
    });
    id
}

/// Whether a job is found with all its facts. A removed job is not in searches either.
fn is_found(at: &CompactedLog<'_>, job: JobId) -> bool {
    let view = at.model.job(&at.log, job).expect("readable");
    let history = at.model.history(&at.log, job, None, 99).expect("readable").steps;
    let ended = States::of([JobState::Completed, JobState::Cancelled, JobState::Dead]);
    for states in [ended, States::of([JobState::Completed]), States::of([JobState::Cancelled])] {
        for queue in ["q", "other"] {
            let filter = Filter { queue: Some(queue), states, ..Filter::default() };
            let found = at.model.search(&at.log, &filter, None, 1_000).expect("readable").jobs;
            let is_match = view.as_ref().is_some_and(|view| view.queue == queue && states.contains(view.state()));
            assert_eq!(found.contains(&job), is_match, "{job} in {queue}");
        }
    }
    if view.is_some() {
        assert_eq!(history.last().map(|step| step.event), Some(JobEvent::Enqueued), "its history is whole");
    }
    view.is_some()
}

#[test]
fn a_finished_job_is_found_for_the_retention_of_its_queue_and_then_deleted() {
    for state in [JobState::Completed, JobState::Cancelled] {
        // Longer than all else is kept, and shorter.
        for (retention, history) in [(24 * HOUR, 0), (HOUR, 1_000 * HOUR)] {
            let mut yard = Yard::new();
            set(&mut yard, Some(retention));
            let old = end(&mut yard, "q", state, None);
            let elsewhere = end(&mut yard, "other", state, None);
            yard.wait(retention - 2_000_000);
            let young = end(&mut yard, "q", state, None);
            let at = compacted(&mut yard, history);
            assert!(is_found(&at, old) && is_found(&at, young), "{state}, {retention}");
            assert_eq!(is_found(&at, elsewhere), history > 0, "as ever without a retention");
            yard.wait(3_000_001);
            let at = compacted(&mut yard, history);
            assert!(!is_found(&at, old) && is_found(&at, young), "{state}, {retention}");
        }
    }
}

#[test]
fn a_job_has_its_own_retention_also_when_it_was_retried() {
    let mut yard = Yard::new();
    set(&mut yard, Some(10 * HOUR));
    let short = end(&mut yard, "q", JobState::Completed, Some(HOUR));
    let long = end(&mut yard, "q", JobState::Completed, Some(100 * HOUR));
    let retried = end(&mut yard, "q", JobState::Dead, Some(100 * HOUR));
    yard.one(Command::Change { job: retried, change: Change::Retry { payload: None } });
    let job = yard.fetch(&["q"], 1).remove(0);
    yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
    assert_eq!(job.job, retried);
    assert_eq!(yard.view(long).expect("there").retention_micros, Some(100 * HOUR));
    yard.wait(2 * HOUR);
    let at = compacted(&mut yard, 1_000 * HOUR);
    assert!(!is_found(&at, short) && is_found(&at, long) && is_found(&at, retried));
    yard.wait(20 * HOUR);
    let at = compacted(&mut yard, 0);
    assert!(is_found(&at, long) && is_found(&at, retried));
    yard.wait(100 * HOUR);
    let at = compacted(&mut yard, 0);
    assert!(!is_found(&at, long) && !is_found(&at, retried));
}

#[test]
fn dead_and_unfinished_jobs_stay_whatever_the_retention_is() {
    let mut yard = Yard::new();
    set(&mut yard, Some(1));
    let dead = end(&mut yard, "q", JobState::Dead, None);
    let waiting = yard.enqueue("q", JobSpec { retention_micros: Some(1), ..JobSpec::new(b"{}") });
    yard.wait(1_000 * HOUR);
    let at = compacted(&mut yard, 0);
    assert!(is_found(&at, dead) && is_found(&at, waiting));
    yard.one(Command::Change { job: dead, change: Change::Delete });
    let at = compacted(&mut yard, 0);
    assert!(!is_found(&at, dead));
}

#[test]
fn cleared_and_deleted_jobs_are_kept_like_other_finished_ones_or_not_at_all() {
    let mut yard = Yard::new();
    set(&mut yard, Some(10 * HOUR));
    let cleared = yard.enqueue("q", JobSpec::new(b"{}"));
    yard.one(Command::Clear { queue: "q" });
    while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
    let deleted = end(&mut yard, "q", JobState::Completed, None);
    yard.one(Command::Change { job: deleted, change: Change::Delete });
    yard.wait(HOUR);
    let at = compacted(&mut yard, 0);
    assert!(is_found(&at, cleared) && !is_found(&at, deleted));
    // A setting that is taken back brings nothing back, and what was to be kept is.
    set(&mut yard, None);
    let at = compacted(&mut yard, 0);
    assert!(is_found(&at, cleared));
    yard.wait(10 * HOUR + LEASE_MICROS);
    let at = compacted(&mut yard, 0);
    assert!(!is_found(&at, cleared));
}
