//! Searches page by page, and bulk changes by filter, while jobs move, die again and are cleared:
//! each job is met once.

use quire_jobs::{Change, Command, Cursor, Filter, JobId, JobSpec, JobState, Priority, Reply, Retry, States};

use crate::yard::Yard;

fn change(yard: &mut Yard, job: JobId, change: Change<'_>) {
    yard.one(Command::Change { job, change });
}

/// All that a search gives, one job a page; `between` is done between the pages.
fn pages(yard: &mut Yard, filter: &Filter<'_>, mut between: impl FnMut(&mut Yard, JobId)) -> Vec<JobId> {
    let (mut found, mut after): (Vec<JobId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = yard.world.model.search(&yard.world.log, filter, after, 1).expect("readable");
        found.extend(&page.jobs);
        let Some(next) = page.next else { return found };
        // The cursor as a client writes it and reads it for the next page.
        after = Some(next.to_string().parse().expect("a cursor"));
        page.jobs.iter().for_each(|job| between(yard, *job));
        assert!(found.len() < 100, "the walk ends: {found:?}");
    }
}

fn of(queue: &str) -> Filter<'_> {
    Filter { queue: Some(queue), ..Filter::default() }
}

fn in_states<'c>(queue: &'c str, states: &[JobState]) -> Filter<'c> {
    Filter { states: States::of(states.iter().copied()), ..of(queue) }
}

/// Begins a bulk change, has it done, and says how many jobs it changed and was refused.
fn bulk(yard: &mut Yard, filter: Filter<'_>, change: Change<'_>) -> (u64, u64) {
    let Reply::BulkBegun { bulk } = yard.one(Command::Bulk { filter, change }) else { panic!("begun") };
    while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
    let progress = yard.world.model.bulk(bulk).expect("known");
    assert!(progress.done);
    (progress.changed, progress.refused)
}

fn dead(yard: &mut Yard, queue: &str, count: usize) -> Vec<JobId> {
    let ids = (0..count).map(|_| yard.enqueue(queue, JobSpec { attempts_max: 1, ..JobSpec::new(b"{}") })).collect();
    while let Some(job) = yard.fetch(&[queue], 1).pop() {
        yard.one(Command::Fail { job: job.job, token: job.token, error: "e", retry: Retry::Never });
    }
    ids
}

fn die_again(yard: &mut Yard, job: JobId) {
    let queue = yard.view(job).expect("there").queue;
    change(yard, job, Change::Retry { payload: None });
    let job = yard.fetch(&[&queue], 1).remove(0);
    yard.one(Command::Fail { job: job.job, token: job.token, error: "e", retry: Retry::Never });
}

#[test]
fn a_job_that_was_moved_and_edited_is_listed_once_at_its_first_entry_into_the_queue() {
    let mut yard = Yard::new();
    let early = yard.enqueue("a", JobSpec::new(b"{}"));
    let own = yard.enqueue("b", JobSpec::new(b"{}"));
    for queue in ["b", "a", "b"] {
        change(&mut yard, early, Change::Move { queue });
        change(&mut yard, early, Change::Priority(Priority::new(1)));
        change(&mut yard, early, Change::Priority(Priority::new(2)));
    }
    let again = |yard: &mut Yard, job| {
        change(yard, job, Change::Priority(Priority::new(3)));
        change(yard, job, Change::Move { queue: "a" });
        change(yard, job, Change::Move { queue: "b" });
    };
    assert_eq!(pages(&mut yard, &of("b"), again), [own, early]);
    assert_eq!(pages(&mut yard, &of("a"), |_, _| ()), []);
    assert_eq!(bulk(&mut yard, of("b"), Change::Priority(Priority::new(9))), (2, 0));
    // The same when it is finished.
    for job in yard.fetch(&["b"], 2) {
        yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
    }
    assert_eq!(pages(&mut yard, &of("b"), |_, _| ()), [own, early]);
    assert_eq!(bulk(&mut yard, of("b"), Change::Delete), (2, 0));
}

#[test]
fn a_dead_job_that_dies_again_between_two_pages_is_listed_once() {
    let all = Filter { queue: None, ..in_states("q", &[JobState::Dead]) };
    for filter in [in_states("q", &[JobState::Dead]), in_states("q", &[JobState::Dead, JobState::Pending]), all] {
        let mut yard = Yard::new();
        let ids = dead(&mut yard, "q", 4);
        assert_eq!(pages(&mut yard, &filter, die_again), ids);
        assert_eq!(pages(&mut yard, &filter, |_, _| ()), ids, "in the same order whenever they died");
    }
}

#[test]
fn the_dead_of_all_queues_are_found_in_the_order_of_their_ids() {
    let mut yard = Yard::new();
    let (b, a) = (dead(&mut yard, "b", 2), dead(&mut yard, "a", 2));
    let waiting = yard.enqueue("a", JobSpec::new(b"{}"));
    let filter = |states: &[JobState]| Filter { queue: None, ..in_states("", states) };
    assert_eq!(pages(&mut yard, &filter(&[JobState::Dead]), |_, _| ()), [b[0], b[1], a[0], a[1]]);
    let both = filter(&[JobState::Dead, JobState::Pending]);
    assert_eq!(pages(&mut yard, &both, |_, _| ()), [b[0], b[1], a[0], a[1], waiting]);
    assert_eq!(bulk(&mut yard, both, Change::Delete), (5, 0));
}
#[test]
fn jobs_that_were_cleared_are_found_and_changed_like_others_that_were_cancelled() {
    for told in [false, true] {
        let mut yard = Yard::new();
        let one = yard.enqueue("q", JobSpec::new(b"{}"));
        change(&mut yard, one, Change::Cancel { reason: "" });
        let ids: Vec<JobId> = (0..3).map(|_| yard.enqueue("q", JobSpec::new(b"{}"))).collect();
        yard.one(Command::Clear { queue: "q" });
        while told && yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
        let filter = in_states("q", &[JobState::Cancelled]);
        let all = [&[one][..], &ids].concat();
        assert_eq!(pages(&mut yard, &filter, |_, _| ()), all, "told: {told}");
        let tick = |yard: &mut Yard, _| drop(yard.one(Command::Tick));
        assert_eq!(pages(&mut yard, &filter, tick), all, "told: {told}");
        assert_eq!(bulk(&mut yard, filter, Change::Delete), (4, 0), "told: {told}");
        assert_eq!(yard.stats("q").cancelled, 0);
    }
}

#[test]
fn the_jobs_of_a_destroyed_queue_are_found_under_its_name_with_those_of_the_next_of_that_name() {
    let mut yard = Yard::new();
    let mut of_state: Vec<(JobState, Vec<JobId>)> = Vec::new();
    for _ in 0..2 {
        let died = dead(&mut yard, "q", 2);
        let ids: Vec<JobId> = (0..4).map(|_| yard.enqueue("q", JobSpec::new(b"{}"))).collect();
        for job in yard.fetch(&["q"], 1) {
            yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
        }
        change(&mut yard, ids[1], Change::Cancel { reason: "" });
        yard.one(Command::Destroy { queue: "q" });
        let ended =
            [(JobState::Dead, died), (JobState::Completed, vec![ids[0]]), (JobState::Cancelled, ids[1..].to_vec())];
        of_state.extend(ended);
    }
    let waiting = yard.enqueue("q", JobSpec::new(b"{}"));
    let elsewhere = yard.enqueue("other", JobSpec::new(b"{}"));
    for queue in ["q", "other"] {
        change(&mut yard, elsewhere, Change::Move { queue });
    }
    change(&mut yard, elsewhere, Change::Move { queue: "q" });
    of_state.push((JobState::Pending, vec![waiting, elsewhere]));
    for told in [false, true] {
        while told && yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
        let mut all = Vec::new();
        for state in JobState::ALL {
            let own = of_state.iter().filter(|(of, _)| *of == state);
            let wanted: Vec<JobId> = own.flat_map(|(_, ids)| ids.iter().copied()).collect();
            let mut found = pages(&mut yard, &in_states("q", &[state]), |_, _| ());
            if state == JobState::Cancelled {
                // They come as they ended.
                found.sort();
            }
            assert_eq!(found, wanted, "{state}, told: {told}");
            all.extend(wanted);
        }
        all.sort();
        assert_eq!(pages(&mut yard, &of("q"), |_, _| ()), all, "told: {told}");
        assert!(all.iter().all(|job| yard.view(*job).expect("there").queue == "q"));
    }
    // A job that dies again in the next queue with this name is found once, and so is a job that is
    // retried there.
    let died = [&of_state[0].1[..], &of_state[3].1].concat();
    assert_eq!(
        pages(&mut yard, &in_states("q", &[JobState::Dead]), |yard, job| {
            let others = yard.fetch(&["q"], 9);
            die_again(yard, job);
            for job in others {
                yard.one(Command::Snooze { job: job.job, token: job.token, until: yard.now });
            }
        }),
        died
    );
    assert_eq!(bulk(&mut yard, in_states("q", &[JobState::Cancelled]), Change::Delete), (6, 0));
    assert_eq!(bulk(&mut yard, of("q"), Change::Delete), (8, 0));
    assert_eq!(pages(&mut yard, &of("q"), |_, _| ()), []);
}

#[test]
fn a_bulk_change_takes_half_of_the_steps_of_a_commit_and_continues_in_the_next() {
    let mut yard = Yard::new();
    let ids = dead(&mut yard, "old", 60);
    let filter = Filter { error: Some("e"), ..in_states("old", &[JobState::Dead]) };
    let Reply::BulkBegun { bulk } = yard.one(Command::Bulk { filter, change: Change::Retry { payload: None } }) else {
        panic!("begun")
    };
    let (steps, mut looked_at) = (100, 0);
    loop {
        let ticked = yard.one_within(steps, Command::Tick).expect("within the steps");
        let progress = yard.world.model.bulk(bulk).expect("known");
        assert!(progress.looked_at - looked_at <= steps / 2, "a look takes a step at least: {progress:?}");
        assert!(progress.done || progress.looked_at > looked_at, "each commit advances: {progress:?}");
        looked_at = progress.looked_at;
        if ticked == (Reply::Ticked { jobs: 0, more: false }) {
            break;
        }
    }
    let progress = yard.world.model.bulk(bulk).expect("known");
    assert_eq!((progress.looked_at, progress.changed, progress.refused, progress.done), (60, 60, 0, true));
    assert!(ids.iter().all(|id| yard.state(*id) == JobState::Pending));
}

#[test]
fn a_bulk_change_is_put_off_whose_next_job_takes_more_steps() {
    let mut yard = Yard::new();
    dead(&mut yard, "old", 1);
    let filter = Filter { error: Some("e"), ..in_states("old", &[JobState::Dead]) };
    yard.one(Command::Bulk { filter, change: Change::Retry { payload: None } });
    assert!(yard.one_within(3, Command::Tick).expect_err("too few").is_too_costly());
    assert_eq!(yard.one_within(100, Command::Tick), Ok(Reply::Ticked { jobs: 1, more: false }));
}

#[test]
fn a_failure_is_not_scheduled_by_a_look_up_that_the_steps_of_its_commit_ended() {
    let mut yard = Yard::new();
    let id = yard.enqueue("mails", JobSpec { attempts_max: 3, ..JobSpec::new(b"{}") });
    let job = yard.fetch(&["mails"], 1).remove(0);
    let fail = Command::Fail { job: id, token: job.token, error: "e", retry: Retry::Backoff };
    assert!(yard.one_within(0, fail).expect_err("too few").is_too_costly());
    assert_eq!(yard.state(id), JobState::Active);
}
