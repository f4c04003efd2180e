//! The jobs that killed processes left, worked off and compared with the children's output; and the
//! limits of the queues, compared with the log.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quire::jobs::{Cause, Command, Cursor, Filter, JobEvent, JobId, JobState, Order, Reply};
use quire::{Commit, Database, Part, Place, Timestamp};

use crate::child::LEASE;
use crate::ledger::Ledger;
use crate::{ACTIVE_MAX, FREE, GROUP_ACTIVE_MAX, LIMITED, RATE_COUNT, RATE_MICROS};

pub(crate) fn inspect(database: &Database, ledger: &mut Ledger) {
    work_off(database, ledger);
    for (job, token) in &ledger.acked {
        let last = ledger.leases.get(job).and_then(|leases| leases.last());
        assert!(
            last.is_none_or(|last| last <= token),
            "job {job}, acknowledged under {token}, was delivered as {last:?}"
        );
    }
    let mut ids = Vec::new();
    for queue in [FREE, LIMITED] {
        let of_queue = all(database, queue);
        check_limits(database, queue, &of_queue);
        ids.extend(of_queue);
    }
    let ids: std::collections::BTreeSet<JobId> = ids.into_iter().collect();
    for job in &ledger.enqueued {
        assert!(ids.contains(job), "job {job} was enqueued");
        assert!(ledger.leases.contains_key(job) || ledger.acked.contains_key(job), "job {job} was delivered");
    }
}

/// Fetches and acknowledges until no job is left; leases of dead processes expire meanwhile.
fn work_off(database: &Database, ledger: &mut Ledger) {
    loop {
        let seen = database.published();
        let fetch = Command::Fetch {
            queues: &[FREE, LIMITED],
            order: Order::Strict,
            count: 100,
            lease_micros: 60_000_000,
            worker: "the last",
        };
        let fetched = database.commit(&Commit::new().part(Part::Jobs(fetch))).expect("durable");
        let [quire::Reply::Jobs(Reply::Fetched(jobs))] = &fetched.committed().expect("accepted").replies[..] else {
            panic!("a fetch is answered by jobs")
        };
        let acks: Vec<Command<'_>> =
            jobs.iter().map(|job| Command::Ack { job: job.job, token: job.token, result: b"" }).collect();
        let answers = database.queue(FREE).each(&acks).expect("durable");
        assert!(answers.iter().all(Result::is_ok), "the only worker there is has its leases");
        for job in jobs {
            ledger.deliver(job.job, job.token);
            assert!(!ledger.acked.contains_key(&job.job), "job {} was acknowledged", job.job);
            ledger.acked.insert(job.job, job.token);
        }
        if jobs.is_empty() {
            let left = |queue: &str| {
                let stats = database.queue(queue).stats().expect("readable").unwrap_or_default();
                stats.pending + stats.active + stats.scheduled + stats.retrying
            };
            if left(FREE) + left(LIMITED) == 0 {
                return;
            }
            database.wait_after(seen, LEASE.min(Duration::from_millis(20))).expect("not failed");
        }
    }
}

/// Every job of a queue; each is finished.
fn all(database: &Database, queue: &str) -> Vec<JobId> {
    let mut ids = Vec::new();
    let mut after: Option<Cursor> = None;
    loop {
        let filter = Filter { queue: Some(queue), ..Filter::default() };
        let page = database.read(|view| view.jobs.search(view.history, &filter, after, 1_000)).expect("readable");
        let page = page.wait().expect("durable").expect("readable");
        ids.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

/// Replays the steps of all jobs of a queue as they stand in the log.
fn check_limits(database: &Database, queue: &str, ids: &[JobId]) {
    let mut steps: Vec<(Place, JobId, bool, bool, Timestamp)> = Vec::new();
    let mut groups = BTreeMap::new();
    for id in ids {
        let read = database.read(|view| {
            let steps = view.jobs.history(view.history, *id, None, usize::MAX)?.steps;
            Ok::<_, quire::Error>((view.jobs.job(view.history, *id)?, steps))
        });
        let (job, history) = read.expect("readable").wait().expect("durable").expect("readable");
        let job = job.expect("it is there");
        assert_eq!(job.state(), JobState::Completed, "job {id}");
        groups.insert(*id, job.group);
        let mut was_active = false;
        for step in history.iter().rev() {
            let is_active = step.state == Some(JobState::Active);
            steps.push((step.place, *id, was_active, is_active, step.time));
            assert_eq!(is_active, step.event == JobEvent::Step(Cause::Leased), "job {id} is active when it is leased");
            was_active = is_active;
        }
    }
    steps.sort();
    let (mut active, mut active_most, mut group_most) = (0, 0, 0);
    let mut active_of: BTreeMap<&str, u32> = BTreeMap::new();
    let mut starts = VecDeque::new();
    let mut starts_most = 0;
    for (_, id, was_active, is_active, time) in steps {
        let of_group = active_of.entry(groups[&id].as_str()).or_default();
        if was_active {
            active -= 1;
            *of_group -= 1;
        }
        if is_active {
            active += 1;
            *of_group += 1;
            starts.push_back(time);
            while starts.front().is_some_and(|first: &Timestamp| first.plus_micros(RATE_MICROS) <= time) {
                starts.pop_front();
            }
        }
        active_most = active_most.max(active);
        group_most = group_most.max(*of_group);
        starts_most = starts_most.max(starts.len());
    }
    println!(
        "{queue}: {} jobs, {active_most} active at a time, {group_most} of a group, {starts_most} starts",
        ids.len()
    );
    assert_eq!(active, 0, "nobody works");
    if queue == LIMITED {
        assert_eq!(active_most, ACTIVE_MAX, "never more, and as many as there may be");
        assert!(
            group_most <= GROUP_ACTIVE_MAX,
            "{group_most} of a group; the others' turns may have kept it below its limit"
        );
        assert!(starts_most <= RATE_COUNT as usize, "{starts_most} starts in a window");
    } else {
        assert!(active_most > ACTIVE_MAX && group_most > GROUP_ACTIVE_MAX, "without limits there are more");
    }
}
