//! Queues as a whole: limits, turns, pausing, clearing; and keys.

use quire_jobs::{
    Cause, Change, Clash, Command, Filter, JobEvent, JobId, JobLimit, JobSpec, JobState, Order, Priority, QueueChange,
    Rate, Refusal, Reply, Retry, States, Status, Unique, UniqueHold, UniqueScope,
};
use quire_model::Place;

use crate::yard::{LEASE_MICROS, Yard, fetch, fetched};

fn set(yard: &mut Yard, change: QueueChange) {
    assert_eq!(yard.one(Command::SetQueue { queue: "q", change }), Reply::QueueSet);
}

fn of_group(group: &str) -> JobSpec<'_> {
    JobSpec { group, ..JobSpec::new(b"{}") }
}

fn groups(yard: &mut Yard, count: u32) -> String {
    yard.fetch(&["q"], count).iter().map(|job| job.group.as_str()).collect()
}

#[test]
fn groups_take_turns_however_many_jobs_each_has() {
    let mut yard = Yard::new();
    for group in ["a", "a", "a", "a", "b", "b", "c"] {
        yard.enqueue("q", of_group(group));
    }
    assert_eq!(groups(&mut yard, 4), "abca");
    yard.enqueue("q", of_group("d"));
    assert_eq!(groups(&mut yard, 1), "b", "who comes later waits behind all who wait");
    assert_eq!(groups(&mut yard, 9), "ada");
}

#[test]
fn an_urgent_job_is_delivered_before_the_turns_of_groups() {
    let mut yard = Yard::new();
    for group in ["a", "b", "c"] {
        yard.enqueue("q", of_group(group));
    }
    yard.enqueue("q", JobSpec { priority: quire_jobs::Priority::HIGH, ..of_group("c") });
    assert_eq!(groups(&mut yard, 4), "cabc");
}

#[test]
fn active_jobs_stay_within_the_limit_and_an_ack_frees_a_place_in_its_own_commit() {
    let mut yard = Yard::new();
    set(&mut yard, QueueChange::ActiveMax(Some(2)));
    for _ in 0..5 {
        yard.enqueue("q", JobSpec::new(b"{}"));
    }
    let jobs = yard.fetch(&["q"], 5);
    assert_eq!(jobs.len(), 2);
    assert_eq!(yard.fetch(&["q"], 5), []);
    let ack = Command::Ack { job: jobs[0].job, token: jobs[0].token, result: b"" };
    let replies = yard.commit(&[ack, fetch(&["q"], 5)]).expect("accepted");
    assert_eq!(fetched(replies[1].clone()).len(), 1);
    assert_eq!(yard.stats("q").active, 2);
    yard.wait(LEASE_MICROS);
    assert_eq!(yard.fetch(&["q"], 5).len(), 2, "leases that ran out make room");
    set(&mut yard, QueueChange::ActiveMax(None));
    assert_eq!(yard.fetch(&["q"], 5).len(), 2);
}

#[test]
fn an_active_job_is_not_moved_where_as_many_are_active_as_may_be() {
    let refused = |setting| Refusal::TooManyActive { queue: "q".into(), setting, most: 1 };
    for (change, setting) in
        [(QueueChange::ActiveMax(Some(1)), "active_max"), (QueueChange::GroupActiveMax(Some(1)), "group_active_max")]
    {
        let mut yard = Yard::new();
        set(&mut yard, change);
        for _ in 0..3 {
            yard.enqueue("other", of_group("a"));
        }
        let jobs = yard.fetch(&["other"], 2);
        let to = |job| Command::Change { job, change: Change::Move { queue: "q" } };
        // Within one commit, too; one that waits is no matter.
        assert_eq!(yard.commit(&[to(jobs[0].job), to(jobs[1].job)]), Err((1, refused(setting))));
        yard.one(to(jobs[0].job));
        assert_eq!(yard.refusal(to(jobs[1].job)), refused(setting));
        let waiting = yard.enqueue("other", of_group("a"));
        yard.one(to(waiting));
        assert_eq!(yard.stats("q").active, 1);
        // An ack frees a slot in the same commit; so does an expired lease that no command has
        // noticed.
        let ack = Command::Ack { job: jobs[0].job, token: jobs[0].token, result: b"" };
        yard.commit(&[ack, to(jobs[1].job)]).expect("accepted");
        yard.wait(LEASE_MICROS - 1);
        let third = yard.fetch(&["other"], 1).remove(0);
        assert_eq!(yard.refusal(to(third.job)), refused(setting));
        yard.wait(1);
        yard.one(to(third.job));
        assert_eq!(yard.stats("q").active, 1);
        // Another group has its own limit.
        yard.enqueue("other", of_group("b"));
        let of_b = yard.fetch(&["other"], 1).remove(0);
        assert_eq!(yard.commit(&[to(of_b.job)]).is_ok(), setting == "group_active_max");
    }
}

#[test]
fn a_setting_holds_for_the_next_fetch_of_its_commit_and_hides_no_group() {
    let mut yard = Yard::new();
    for group in ["a", "a", "b", "c"] {
        yard.enqueue("q", of_group(group));
    }
    let limit = |most| Command::SetQueue { queue: "q", change: QueueChange::GroupActiveMax(most) };
    let one = || fetch(&["q"], 1);
    let replies = yard.commit(&[one(), limit(Some(1)), one(), limit(Some(2)), one(), one()]).expect("accepted");
    let group = |reply: &Reply| match reply {
        Reply::Fetched(jobs) => jobs.iter().map(|job| job.group.as_str()).collect(),
        _ => String::new(),
    };
    assert_eq!(replies.iter().map(group).collect::<String>(), "abca");
}

#[test]
fn a_rate_counts_from_when_it_was_set_within_a_commit_too() {
    let mut yard = Yard::new();
    for group in ["a", "a", "b", "b", "c", "c"] {
        yard.enqueue("q", of_group(group));
    }
    let window = |count| Some(Rate::SlidingWindow { count, window_micros: 1_000 });
    let rate = |change| Command::SetQueue { queue: "q", change };
    let commands = [
        rate(QueueChange::Rate(window(2))),
        fetch(&["q"], 3),
        rate(QueueChange::Rate(window(3))),
        fetch(&["q"], 4),
        fetch(&["q"], 1),
    ];
    let replies = yard.commit(&commands).expect("accepted");
    let counts: Vec<usize> = [1, 3, 4].iter().map(|at: &usize| fetched(replies[*at].clone()).len()).collect();
    assert_eq!(counts, [2, 3, 0]);
    assert_eq!(yard.fetch(&["q"], 1), [], "what is applied counts the same");
    yard.wait(1_000);
    assert_eq!(yard.fetch(&["q"], 4).len(), 1);
}

#[test]
fn a_job_that_dies_and_is_retried_in_one_commit_has_its_key_again_and_may_end_again() {
    let unique = Some(Unique { clash: Clash::Reject, ..Unique::new(b"k") });
    let lost = || {
        let mut yard = Yard::new();
        let job = yard.enqueue("q", JobSpec { unique, attempts_max: 1, ..JobSpec::new(b"{}") });
        assert_eq!(yard.fetch(&["q"], 1).len(), 1);
        yard.wait(LEASE_MICROS);
        (yard, job)
    };
    let (mut yard, job) = lost();
    let change = |change| Command::Change { job, change };
    let retry = change(Change::Retry { payload: None });
    let (cancel, delete) = (change(Change::Cancel { reason: "" }), change(Change::Delete));
    let replies = yard.commit(&[retry, cancel, delete]).expect("accepted");
    assert_eq!(replies[2], Reply::Changed { state: None });
    let (mut yard, _) = lost();
    let enqueue = Command::Enqueue { queue: "q", job: JobSpec { unique, ..JobSpec::new(b"{}") } };
    assert_eq!(yard.commit(&[retry, enqueue]), Err((1, Refusal::Duplicate { job })));
    // The job is dead although no command has noticed, so the next job gets its key.
    let Reply::Enqueued { job: rival, .. } = yard.one(enqueue) else { panic!("enqueued") };
    assert_eq!(yard.refusal(retry), Refusal::Duplicate { job: rival });
    assert_eq!(yard.stats("q").pending, 1);
}

#[test]
fn a_group_at_its_limit_hides_no_other() {
    let mut yard = Yard::new();
    set(&mut yard, QueueChange::GroupActiveMax(Some(1)));
    for group in ["a", "a", "a", "b", "c"] {
        yard.enqueue("q", of_group(group));
    }
    assert_eq!(groups(&mut yard, 9), "abc");
    assert_eq!(groups(&mut yard, 9), "");
}

#[test]
fn an_active_job_that_is_edited_or_moved_counts_in_its_group_in_the_same_commit() {
    for moved in [false, true] {
        let mut yard = Yard::new();
        set(&mut yard, QueueChange::GroupActiveMax(Some(1)));
        let from = if moved { "other" } else { "q" };
        let job = yard.enqueue(from, of_group("a"));
        assert_eq!(yard.fetch(&[from], 1).len(), 1);
        yard.enqueue("q", of_group("a"));
        let change = if moved { Change::Move { queue: "q" } } else { Change::Priority(Priority::new(1)) };
        let replies = yard.commit(&[Command::Change { job, change }, fetch(&["q"], 5)]).expect("accepted");
        assert_eq!(fetched(replies[1].clone()), []);
        assert_eq!(yard.fetch(&["q"], 5), []);
    }
}

#[test]
fn a_rate_holds_in_every_window_and_reports_when_the_next_job_may_start() {
    let mut yard = Yard::new();
    set(&mut yard, QueueChange::Rate(Some(Rate::SlidingWindow { count: 2, window_micros: 100 })));
    for _ in 0..9 {
        yard.enqueue("q", JobSpec::new(b"{}"));
    }
    assert_eq!(yard.fetch(&["q"], 1).len(), 1);
    yard.wait(60);
    assert_eq!(yard.fetch(&["q"], 9).len(), 1);
    let opens = yard.now.plus_micros(40);
    assert_eq!(yard.world.model.fetchable_at(&["q"], yard.now), Some(opens));
    yard.wait(39);
    assert_eq!(yard.fetch(&["q"], 9).len(), 0);
    yard.wait(1);
    assert_eq!(yard.world.model.fetchable_at(&["q"], yard.now), Some(yard.now));
    assert_eq!(yard.fetch(&["q"], 9).len(), 1);
}

#[test]
fn a_queue_reports_the_number_of_jobs_that_fetches_may_return() {
    let mut yard = Yard::new();
    let count = |yard: &Yard| yard.world.model.fetchable_count("q", yard.now, 9);
    assert_eq!(count(&yard), 0);
    for _ in 0..5 {
        yard.enqueue("q", JobSpec::new(b"{}"));
    }
    let run_at = Some(yard.now.plus_micros(50));
    yard.enqueue("q", JobSpec { run_at, ..JobSpec::new(b"{}") });
    assert_eq!(count(&yard), 5);
    assert_eq!(yard.world.model.fetchable_count("q", yard.now, 2), 2);
    set(&mut yard, QueueChange::ActiveMax(Some(3)));
    assert_eq!(count(&yard), 3);
    assert_eq!(yard.fetch(&["q"], 2).len(), 2);
    assert_eq!(count(&yard), 1);
    set(&mut yard, QueueChange::ActiveMax(None));
    assert_eq!(count(&yard), 3);
    yard.wait(50);
    assert_eq!(count(&yard), 4);
    set(&mut yard, QueueChange::Rate(Some(Rate::SlidingWindow { count: 2, window_micros: 100 })));
    assert_eq!(count(&yard), 2);
    set(&mut yard, QueueChange::Paused(true));
    assert_eq!(count(&yard), 0);
}

#[test]
fn a_rate_of_a_group_holds_for_each_by_itself() {
    let mut yard = Yard::new();
    set(&mut yard, QueueChange::GroupRate(Some(Rate::TokenBucket { count: 1, per_micros: 100, burst: 1 })));
    for group in ["a", "a", "b", "b"] {
        yard.enqueue("q", of_group(group));
    }
    assert_eq!(groups(&mut yard, 9), "ab");
    assert_eq!(yard.world.model.fetchable_at(&["q"], yard.now), Some(yard.now.plus_micros(100)));
    yard.wait(100);
    assert_eq!(groups(&mut yard, 9), "ab");
}

#[test]
fn a_weighted_fetch_takes_from_queues_by_their_weights_and_empties_all() {
    let mut yard = Yard::new();
    let job = JobSpec::new(b"{}");
    for queue in ["a", "b"] {
        yard.commit(&vec![Command::Enqueue { queue, job }; 600]).expect("accepted");
    }
    let fetch = |count| Command::Fetch {
        queues: &["a", "b"],
        order: Order::Weighted(&[3, 1]),
        count,
        lease_micros: 1_000,
        worker: "w",
    };
    let jobs = fetched(yard.one(fetch(400)));
    let of_a = jobs.iter().filter(|job| &*job.queue == "a").count();
    assert!((260..340).contains(&of_a), "{of_a} of 400");
    assert_eq!(fetched(yard.one(fetch(1_000))).len(), 800);
    let odd =
        Command::Fetch { queues: &["a", "b"], order: Order::Weighted(&[1]), count: 1, lease_micros: 1, worker: "" };
    assert_eq!(yard.refusal(odd), Refusal::InvalidWeights);
}

#[test]
fn a_paused_queue_delivers_nothing_and_active_jobs_continue() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec::new(b"{}"));
    yard.enqueue("q", JobSpec::new(b"{}"));
    let job = yard.fetch(&["q"], 1).remove(0);
    set(&mut yard, QueueChange::Paused(true));
    assert_eq!(yard.fetch(&["q"], 9), []);
    assert_eq!(yard.world.model.fetchable_at(&["q"], yard.now), None);
    yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
    set(&mut yard, QueueChange::Paused(false));
    assert_eq!(yard.fetch(&["q"], 9).len(), 1);
}

#[test]
fn a_draining_queue_takes_nothing_and_is_worked_off() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec::new(b"{}"));
    let elsewhere = yard.enqueue("other", JobSpec::new(b"{}"));
    set(&mut yard, QueueChange::Draining(true));
    let draining = Refusal::QueueDraining { queue: "q".into() };
    assert_eq!(yard.refusal(Command::Enqueue { queue: "q", job: JobSpec::new(b"") }), draining);
    assert_eq!(yard.refusal(Command::Change { job: elsewhere, change: Change::Move { queue: "q" } }), draining);
    assert_eq!(yard.fetch(&["q"], 9).len(), 1);
}

#[test]
fn after_clear_and_destroy_nothing_can_be_fetched_not_even_later() {
    for destroy in [false, true] {
        let mut yard = Yard::new();
        let later = Some(yard.now.plus_micros(5));
        yard.enqueue("q", JobSpec { run_at: later, ..JobSpec::new(b"{}") });
        let mut add = || yard.enqueue("q", JobSpec::new(b"{}"));
        let (active, retrying, held, waiting) = (add(), add(), add(), add());
        let jobs = yard.fetch(&["q"], 2);
        yard.one(Command::Fail { job: retrying, token: jobs[1].token, error: "", retry: Retry::Backoff });
        yard.one(Command::Change { job: held, change: Change::Hold { reason: "" } });
        let (command, jobs_gone) =
            if destroy { (Command::Destroy { queue: "q" }, 5) } else { (Command::Clear { queue: "q" }, 4) };
        assert_eq!(yard.one(command), Reply::Cleared { jobs: jobs_gone });
        for job in [retrying, held, waiting] {
            assert_eq!(yard.state(job), JobState::Cancelled);
        }
        yard.wait(1_000_000_000);
        let ack = Command::Ack { job: active, token: jobs[0].token, result: b"" };
        if destroy {
            assert_eq!(yard.refusal(ack), Refusal::StaleLease { job: active, state: JobState::Cancelled });
            assert_eq!(yard.world.model.queue_stats("q"), None);
            yard.enqueue("q", JobSpec::new(b"new"));
            assert_eq!(yard.fetch(&["q"], 9).len(), 1, "a new queue of the name has no old jobs");
        } else {
            let fetched: Vec<JobId> = yard.fetch(&["q"], 9).iter().map(|job| job.job).collect();
            assert_eq!(fetched, [active], "its lease ran out");
        }
    }
}

#[test]
fn a_commit_that_clears_a_queue_gives_none_of_its_jobs() {
    let mut yard = Yard::new();
    let old = yard.enqueue("q", JobSpec::new(b"{}"));
    let commands = [
        Command::Clear { queue: "q" },
        fetch(&["q"], 9),
        Command::Enqueue { queue: "q", job: JobSpec::new(b"new") },
        Command::Clear { queue: "q" },
        Command::Enqueue { queue: "q", job: JobSpec::new(b"newest") },
    ];
    let replies = yard.commit(&commands).expect("accepted");
    assert_eq!((&replies[0], &replies[1]), (&Reply::Cleared { jobs: 1 }, &Reply::Fetched(vec![])));
    assert_eq!(replies[3], Reply::Cleared { jobs: 1 });
    assert_eq!(yard.state(old), JobState::Cancelled);
    assert_eq!(yard.fetch(&["q"], 9)[0].payload, b"newest");
}

/// Applies all due changes and logs the steps of all cleared jobs.
fn tick(yard: &mut Yard) {
    while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
}

#[test]
fn a_job_that_is_deleted_with_its_queue_has_an_end_event_like_any_other() {
    for (destroy, told) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut yard = Yard::new();
        let waiting = yard.enqueue("q", JobSpec { attempts_max: 7, ..JobSpec::new(b"1") });
        let token = yard.fetch(&["q"], 1)[0].token;
        yard.one(Command::Fail { job: waiting, token, error: "boom", retry: Retry::At(yard.now) });
        yard.one(Command::Change { job: waiting, change: Change::Payload(b"2") });
        let active = yard.enqueue("q", JobSpec { priority: Priority::HIGH, ..JobSpec::new(b"3") });
        assert_eq!(yard.fetch(&["q"], 1)[0].job, active);
        let at = yard.now;
        let (command, reason) = match destroy {
            true => (Command::Destroy { queue: "q" }, "the queue was destroyed"),
            false => (Command::Clear { queue: "q" }, "the queue was cleared"),
        };
        yard.one(command);
        yard.wait(7);
        if told {
            tick(&mut yard);
        }
        let case = format!("destroyed: {destroy}, told: {told}");
        let mut events = Vec::from([(waiting, 1, &b"2"[..])]);
        events.extend(destroy.then_some((active, 1, &b"3"[..])));
        for (job, attempt, payload) in events {
            let view = yard.view(job).expect("there");
            assert_eq!(view.status, Status::Cancelled { at, reason: reason.to_owned() }, "{case}");
            assert_eq!((view.attempt, view.payload.as_slice()), (attempt, payload), "{case}");
            assert_eq!(view.last_error.is_some(), job == waiting, "{case}");
            let steps = yard.world.model.history(&yard.world.log, job, None, 99).expect("readable").steps;
            let has = |event| steps.iter().any(|step| step.event == event);
            assert!(has(JobEvent::Step(Cause::Leased)) && has(JobEvent::Enqueued), "{case}: {steps:?}");
            let end = (JobEvent::Step(Cause::Cancelled), at, reason.to_owned());
            assert!(!told || (steps[0].event, steps[0].time, steps[0].note.clone()) == end, "{case}: {steps:?}");
        }
        assert_eq!(yard.state(active), if destroy { JobState::Cancelled } else { JobState::Active });
        assert_eq!(yard.world.model.job_count(), usize::from(!destroy));
    }
}

#[test]
fn many_jobs_are_cleared_at_once_and_their_events_follow_in_bounded_parts() {
    let mut yard = Yard::new();
    yard.commit(&vec![Command::Enqueue { queue: "q", job: JobSpec::new(b"{}") }; 3_000]).expect("accepted");
    assert_eq!(yard.one(Command::Clear { queue: "q" }), Reply::Cleared { jobs: 3_000 });
    assert_eq!((yard.stats("q").cancelled, yard.stats("q").pending), (3_000, 0));
    assert_eq!(yard.world.model.next_due(), Some(quire_model::Timestamp::ZERO));
    let more = yard.enqueue("q", JobSpec::new(b"{}"));
    for left in [true, true, false] {
        let Reply::Ticked { jobs, more } = yard.one(Command::Tick) else { panic!("ticked") };
        assert!((900..=1_024).contains(&jobs) && more == left, "{jobs}, {more}");
    }
    assert_eq!(yard.world.model.next_due(), None);
    assert_eq!(yard.fetch(&["q"], 9)[0].job, more);
    assert_eq!(yard.stats("q").cancelled, 3_000);
}

#[test]
fn a_dead_job_of_a_destroyed_queue_is_retried_in_another_of_its_name() {
    for made_anew in [false, true] {
        let mut yard = Yard::new();
        let [job, other] = [(); 2].map(|()| yard.enqueue("q", JobSpec { group: "g", ..JobSpec::new(b"{}") }));
        for job in yard.fetch(&["q"], 2) {
            yard.one(Command::Fail { job: job.job, token: job.token, error: "e", retry: Retry::Never });
        }
        yard.one(Command::Destroy { queue: "q" });
        if made_anew {
            yard.one(Command::SetQueue { queue: "q", change: QueueChange::JobsMax(Some(1)) });
        }
        let retry = |job| Command::Change { job, change: Change::Retry { payload: None } };
        assert_eq!(yard.one(retry(job)), Reply::Changed { state: Some(JobState::Pending) });
        if made_anew {
            let full = Refusal::Overloaded { queue: "q".into(), jobs_max: 1, retry_after_micros: 100_000 };
            assert_eq!(yard.refusal(retry(other)), full);
        }
        assert_eq!(yard.one(Command::Change { job: other, change: Change::Delete }), Reply::Changed { state: None });
        let fetched = yard.fetch(&["q"], 9);
        assert_eq!((fetched.len(), fetched[0].job, fetched[0].group.as_str()), (1, job, "g"));
        yard.one(Command::Fail { job, token: fetched[0].token, error: "e", retry: Retry::Never });
        assert_eq!(yard.stats("q").dead, 1);
    }
}

fn unique<'c>(key: &'c [u8], clash: Clash, hold: UniqueHold) -> JobSpec<'c> {
    JobSpec { unique: Some(Unique { clash, hold, ..Unique::new(key) }), ..JobSpec::new(b"{}") }
}

fn enqueued(reply: Reply) -> (JobId, JobState, bool) {
    let Reply::Enqueued { job, state, duplicate } = reply else { panic!("enqueued, not {reply:?}") };
    (job, state, duplicate)
}

#[test]
fn a_second_job_of_a_key_is_kept_out_until_the_first_is_finished() {
    let keep = unique(b"k", Clash::Keep, UniqueHold::UntilFinished);
    let add = |queue| Command::Enqueue { queue, job: keep };
    let mut yard = Yard::new();
    // Also within one commit.
    let replies = yard.commit(&[add("q"), add("q"), add("other")]).expect("accepted");
    let (first, ..) = enqueued(replies[0].clone());
    assert_eq!(enqueued(replies[1].clone()), (first, JobState::Pending, true));
    assert!(!enqueued(replies[2].clone()).2, "another queue, another key");
    let reject = Command::Enqueue { queue: "q", job: unique(b"k", Clash::Reject, UniqueHold::UntilFinished) };
    assert_eq!(yard.refusal(reject), Refusal::Duplicate { job: first });
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!(enqueued(yard.one(add("q"))), (first, JobState::Active, true));
    yard.one(Command::Ack { job: first, token: job.token, result: b"" });
    assert!(!enqueued(yard.one(add("q"))).2);
}

#[test]
fn every_end_of_a_job_frees_its_key() {
    for (hold, free) in
        [(UniqueHold::UntilFinished, [true; 4]), (UniqueHold::For(1_000_000), [true, true, false, false])]
    {
        for (end, free) in ["cancel", "delete", "fail", "ack"].into_iter().zip(free) {
            let mut yard = Yard::new();
            let job = yard.enqueue("q", unique(b"k", Clash::Keep, hold));
            let token = yard.fetch(&["q"], 1)[0].token;
            yard.one(match end {
                "cancel" => Command::Change { job, change: Change::Cancel { reason: "" } },
                "delete" => Command::Change { job, change: Change::Delete },
                "fail" => Command::Fail { job, token, error: "", retry: Retry::Never },
                _ => Command::Ack { job, token, result: b"" },
            });
            let (_, _, duplicate) =
                enqueued(yard.one(Command::Enqueue { queue: "q", job: unique(b"k", Clash::Keep, hold) }));
            assert_eq!(duplicate, !free, "{hold:?}, {end}");
        }
    }
}

fn with_key<'c>(scope: UniqueScope, hold: UniqueHold) -> JobSpec<'c> {
    let unique = Some(Unique { scope, hold, ..Unique::new(b"k") });
    JobSpec { unique, attempts_max: 1, ..JobSpec::new(b"{}") }
}

fn die(yard: &mut Yard, queue: &str) {
    let job = yard.fetch(&[queue], 1).remove(0);
    yard.one(Command::Fail { job: job.job, token: job.token, error: "", retry: Retry::Never });
}

#[test]
fn deleting_a_finished_job_frees_its_timed_key_and_a_duplicate_names_the_state_of_its_job() {
    for scope in [UniqueScope::Queue, UniqueScope::Everywhere] {
        let mut yard = Yard::new();
        let job = with_key(scope, UniqueHold::For(1_000_000));
        let enqueue = Command::Enqueue { queue: "q", job };
        let dead = yard.enqueue("q", job);
        die(&mut yard, "q");
        assert_eq!(enqueued(yard.one(enqueue)), (dead, JobState::Dead, true));
        let delete = Command::Change { job: dead, change: Change::Delete };
        // Within the commit, and behind it.
        let replies = yard.commit(&[delete, enqueue]).expect("accepted");
        let (second, _, duplicate) = enqueued(replies[1].clone());
        assert!(!duplicate, "{scope:?}");
        let token = yard.fetch(&["q"], 1)[0].token;
        yard.one(Command::Ack { job: second, token, result: b"" });
        assert_eq!(enqueued(yard.one(enqueue)), (second, JobState::Completed, true));
        yard.one(Command::Change { job: second, change: Change::Delete });
        assert!(!enqueued(yard.one(enqueue)).2, "{scope:?}");
    }
}

#[test]
fn a_job_that_is_retried_has_its_key_again_or_is_refused_with_the_job_that_has_it() {
    for scope in [UniqueScope::Queue, UniqueScope::Everywhere] {
        for hold in [UniqueHold::UntilFinished, UniqueHold::UntilStarted, UniqueHold::For(1_000_000)] {
            let case = format!("{scope:?}, {hold:?}");
            let mut yard = Yard::new();
            let job = with_key(scope, hold);
            let enqueue = Command::Enqueue { queue: "q", job };
            let first = yard.enqueue("q", job);
            die(&mut yard, "q");
            let retry = Command::Change { job: first, change: Change::Retry { payload: None } };
            yard.one(retry);
            assert_eq!(enqueued(yard.one(enqueue)), (first, JobState::Pending, true), "{case}");
            // It frees it as it would have.
            yard.one(Command::Change { job: first, change: Change::Cancel { reason: "" } });
            let (second, _, duplicate) = enqueued(yard.one(enqueue));
            assert!(!duplicate, "{case}");
            if let UniqueHold::For(_) = hold {
                continue;
            }
            die(&mut yard, "q");
            let (third, ..) = enqueued(yard.one(enqueue));
            let retry = Command::Change { job: second, change: Change::Retry { payload: None } };
            assert_eq!(yard.refusal(retry), Refusal::Duplicate { job: third }, "{case}");
            assert_eq!(yard.state(second), JobState::Dead);
        }
    }
}

#[test]
fn a_moved_job_keeps_its_key_or_is_refused_with_the_job_that_holds_it() {
    for hold in [UniqueHold::UntilFinished, UniqueHold::UntilStarted, UniqueHold::For(1_000_000)] {
        let mut yard = Yard::new();
        let job = with_key(UniqueScope::Queue, hold);
        let (a, b) = (yard.enqueue("a", job), yard.enqueue("b", job));
        let to = |job, queue| Command::Change { job, change: Change::Move { queue } };
        assert_eq!(yard.refusal(to(a, "b")), Refusal::Duplicate { job: b }, "{hold:?}");
        yard.one(to(a, "c"));
        let enqueue = |queue| Command::Enqueue { queue, job };
        assert_eq!(enqueued(yard.one(enqueue("c"))), (a, JobState::Pending, true), "{hold:?}");
        assert!(!enqueued(yard.one(enqueue("a"))).2, "it is free where it was: {hold:?}");
        yard.one(Command::Change { job: a, change: Change::Delete });
        assert!(!enqueued(yard.one(enqueue("c"))).2, "{hold:?}");
        // Enqueued and moved by one commit; the next commit shows its id.
        let next = JobId::new(quire_model::Place::new(yard.world.log.tail().next(), 1));
        let replies = yard.commit(&[enqueue("d"), to(next, "e"), enqueue("e"), enqueue("d")]).expect("accepted");
        assert_eq!(enqueued(replies[2].clone()), (next, JobState::Pending, true), "{hold:?}");
        assert!(!enqueued(replies[3].clone()).2, "{hold:?}");
        // One that is everywhere has nothing to take along.
        let everywhere = yard.enqueue("f", with_key(UniqueScope::Everywhere, hold));
        yard.one(to(everywhere, "a"));
        let again = Command::Enqueue { queue: "g", job: with_key(UniqueScope::Everywhere, hold) };
        assert_eq!(enqueued(yard.one(again)).0, everywhere, "{hold:?}");
    }
}

#[test]
fn a_key_may_be_held_for_a_time_or_until_the_start() {
    let mut yard = Yard::new();
    let once = unique(b"k", Clash::Keep, UniqueHold::For(50));
    yard.enqueue("q", once);
    yard.wait(49);
    assert!(enqueued(yard.one(Command::Enqueue { queue: "q", job: once })).2);
    yard.wait(1);
    assert!(!enqueued(yard.one(Command::Enqueue { queue: "q", job: once })).2);

    let mut yard = Yard::new();
    let waiting = unique(b"k", Clash::Keep, UniqueHold::UntilStarted);
    yard.enqueue("q", waiting);
    assert!(enqueued(yard.one(Command::Enqueue { queue: "q", job: waiting })).2);
    yard.fetch(&["q"], 1);
    assert!(!enqueued(yard.one(Command::Enqueue { queue: "q", job: waiting })).2);
}

#[test]
fn a_key_may_be_unique_in_all_queues() {
    let mut yard = Yard::new();
    let job =
        JobSpec { unique: Some(Unique { scope: UniqueScope::Everywhere, ..Unique::new(b"k") }), ..JobSpec::new(b"") };
    let first = yard.enqueue("a", job);
    assert_eq!(enqueued(yard.one(Command::Enqueue { queue: "b", job })).0, first);
    assert_eq!(yard.world.model.queue_stats("b"), None, "no queue is created for it");
}

#[test]
fn a_newer_job_takes_the_place_of_one_that_waits_but_not_of_one_under_way() {
    let mut yard = Yard::new();
    let replace = unique(b"k", Clash::Replace, UniqueHold::UntilFinished);
    let first = yard.enqueue("q", replace);
    let (second, _, duplicate) = enqueued(yard.one(Command::Enqueue { queue: "q", job: replace }));
    assert!(!duplicate && yard.state(first) == JobState::Cancelled);
    yard.fetch(&["q"], 1);
    assert_eq!(enqueued(yard.one(Command::Enqueue { queue: "q", job: replace })), (second, JobState::Active, true));
}

#[test]
fn a_newer_job_may_push_the_first_back_and_hold_its_key_longer() {
    let mut yard = Yard::new();
    let at = |yard: &Yard, micros| Some(yard.now.plus_micros(micros));
    let extend = unique(b"k", Clash::Extend, UniqueHold::For(100));
    let first = yard.enqueue("q", JobSpec { run_at: at(&yard, 10), ..extend });
    yard.wait(9);
    let again = JobSpec { run_at: at(&yard, 10), ..extend };
    assert_eq!(enqueued(yard.one(Command::Enqueue { queue: "q", job: again })), (first, JobState::Scheduled, true));
    yard.wait(9);
    assert_eq!(yard.fetch(&["q"], 1), []);
    yard.wait(1);
    assert_eq!(yard.fetch(&["q"], 1).len(), 1);
    yard.wait(89);
    assert!(enqueued(yard.one(Command::Enqueue { queue: "q", job: unique(b"k", Clash::Keep, UniqueHold::For(1)) })).2);
    yard.wait(1);
    assert!(!enqueued(yard.one(Command::Enqueue { queue: "q", job: unique(b"k", Clash::Keep, UniqueHold::For(1)) })).2);
}

#[test]
fn an_expired_job_is_not_delivered_even_before_a_tick() {
    let mut yard = Yard::new();
    let job = JobSpec { expires_at: Some(yard.now.plus_micros(5)), ..JobSpec::new(b"{}") };
    yard.commit(&vec![Command::Enqueue { queue: "q", job }; 3_000]).expect("accepted");
    let last = yard.enqueue("q", JobSpec::new(b"{}"));
    yard.wait(5);
    let fetched: Vec<JobId> = yard.fetch(&["q"], 1).iter().map(|job| job.job).collect();
    assert_eq!(fetched, [last], "none of 3,000 hides it");
    while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
    assert_eq!(yard.stats("q").dead, 3_000);
}

#[test]
fn a_bulk_change_changes_each_job_once_whatever_happens_between_its_commits() {
    let mut yard = Yard::new();
    let enqueue = Command::Enqueue { queue: "q", job: JobSpec::new(b"{}") };
    yard.commit(&vec![enqueue; 1_000]).expect("accepted");
    let filter = Filter { queue: Some("q"), states: States::of([JobState::Pending]), ..Filter::default() };
    let Reply::BulkBegun { bulk } =
        yard.one(Command::Bulk { filter, change: Change::Priority(quire_jobs::Priority::LOW) })
    else {
        panic!("begun")
    };
    let mut commits = 0;
    while !yard.world.model.bulk(bulk).expect("known").done {
        commits += 1;
        yard.one(Command::Tick);
        yard.one(enqueue);
    }
    let progress = yard.world.model.bulk(bulk).expect("known");
    assert_eq!((progress.changed, progress.refused), (1_000, 0), "those that were there when it began");
    assert!(commits >= 4, "a bounded part a commit");
    assert_eq!(yard.world.model.next_due(), None);
}

#[test]
fn two_ticks_of_a_commit_advance_a_bulk_change_once() {
    let mut yard = Yard::new();
    let jobs: Vec<JobId> = (0..3).map(|_| yard.enqueue("q", JobSpec::new(b"{}"))).collect();
    let filter = Filter { queue: Some("q"), ..Filter::default() };
    let begun = |yard: &mut Yard| match yard.one(Command::Bulk { filter, change: Change::Priority(Priority::LOW) }) {
        Reply::BulkBegun { bulk } => bulk,
        other => panic!("a bulk change begins, and is not answered by {other:?}"),
    };
    let bulks = [begun(&mut yard), begun(&mut yard)];
    let ticked = |jobs, more| Reply::Ticked { jobs, more };
    let ticks = [Command::Tick, Command::Each(&[Command::Tick])];
    let replies = yard.commit(&ticks).expect("accepted");
    assert_eq!(replies, [ticked(jobs.len(), true), Reply::Each(vec![Ok(ticked(0, true))])]);
    let changed = |yard: &Yard| bulks.map(|bulk| yard.world.model.bulk(bulk).expect("known").changed);
    assert_eq!(changed(&yard), [3, 0]);
    assert_eq!(yard.commit(&[Command::Tick, Command::Tick]).expect("accepted")[0], ticked(jobs.len(), false));
    assert_eq!(changed(&yard), [3, 3]);
    assert_eq!(yard.one(Command::Tick), ticked(0, false));
}

#[test]
fn a_commit_does_not_begin_more_bulk_changes_than_there_may_be() {
    let mut yard = Yard::new();
    let (_, most) = JobLimit::Bulks.range();
    let bulk = Command::Bulk { filter: Filter::default(), change: Change::Priority(Priority::LOW) };
    let count = usize::try_from(most).expect("few");
    let (part, refusal) = yard.commit(&vec![bulk; count + 1]).expect_err("one too many");
    assert_eq!(part, count);
    assert!(matches!(refusal, Refusal::OutOfRange { limit: JobLimit::Bulks, .. }), "{refusal:?}");
    yard.commit(&vec![bulk; count]).expect("accepted");
}

#[test]
fn a_bulk_change_by_ids_changes_exactly_these_jobs_in_any_queue() {
    let mut yard = Yard::new();
    let ids: Vec<JobId> = (0..600).map(|number| yard.enqueue(["a", "b"][number % 2], JobSpec::new(b"{}"))).collect();
    let few: Vec<JobId> = ids.iter().rev().copied().filter(|id| *id != ids[7]).chain([ids[3]]).collect();
    let filter = Filter { jobs: Some(&few), ..Filter::default() };
    let Reply::BulkBegun { bulk } = yard.one(Command::Bulk { filter, change: Change::Hold { reason: "" } }) else {
        panic!("begun")
    };
    let mut commits = 0;
    while !yard.world.model.bulk(bulk).expect("known").done {
        commits += 1;
        yard.one(Command::Tick);
    }
    let progress = yard.world.model.bulk(bulk).expect("known");
    assert_eq!((progress.looked_at, progress.changed, progress.refused), (599, 599, 0));
    assert!(commits >= 3, "a bounded part a commit");
    let held: Vec<JobId> = yard.fetch(&["a", "b"], 9).into_iter().map(|job| job.job).collect();
    assert_eq!(held, [ids[7]]);
}

#[test]
fn dead_letters_are_replayed_with_an_edit_by_bulk() {
    let mut yard = Yard::new();
    for _ in 0..3 {
        yard.enqueue("q", JobSpec { attempts_max: 1, ..JobSpec::new(b"old") });
    }
    for job in yard.fetch(&["q"], 2) {
        yard.one(Command::Fail { job: job.job, token: job.token, error: "disk full", retry: Retry::Backoff });
    }
    let filter =
        Filter { queue: Some("q"), states: States::of([JobState::Dead]), error: Some("disk"), ..Filter::default() };
    let found = yard.world.model.search(&yard.world.log, &filter, None, 9).expect("readable");
    assert_eq!(found.jobs.len(), 2);
    yard.one(Command::Bulk { filter, change: Change::Retry { payload: Some(b"new") } });
    yard.one(Command::Tick);
    let payloads: Vec<_> = yard.fetch(&["q"], 9).into_iter().map(|job| (job.payload, job.attempt)).collect();
    assert_eq!(payloads, [(b"new".to_vec(), 1), (b"new".to_vec(), 1), (b"old".to_vec(), 1)]);
    assert_eq!(yard.stats("q").dead, 0);
}

#[test]
fn a_search_finds_by_each_of_its_conditions() {
    let mut yard = Yard::new();
    let a = yard.enqueue("q", JobSpec { kind: "mail", tags: &["x", "y"], ..JobSpec::new(b"") });
    yard.wait(10);
    let middle = yard.now;
    let b = yard.enqueue("q", JobSpec { kind: "sms", tags: &["y"], ..JobSpec::new(b"") });
    let c = yard.enqueue("other", JobSpec { kind: "mail", tags: &["y"], ..JobSpec::new(b"") });
    let token = yard.fetch(&["q"], 1)[0].token;
    yard.wait(10);
    yard.one(Command::Fail { job: a, token, error: "no such address", retry: Retry::Never });
    let failed = yard.now;
    let find = |filter: Filter<'_>| yard.world.model.search(&yard.world.log, &filter, None, 9).expect("readable").jobs;
    let all = Filter::default();
    assert_eq!(find(all), [a, b, c]);
    assert_eq!(find(Filter { queue: Some("q"), ..all }), [a, b]);
    assert_eq!(find(Filter { kind: Some("mail"), ..all }), [a, c]);
    assert_eq!(find(Filter { tags: &["y"], ..all }), [a, b, c]);
    assert_eq!(find(Filter { tags: &["y", "x"], ..all }), [a]);
    assert_eq!(find(Filter { enqueued_from: Some(middle), ..all }), [b, c]);
    assert_eq!(find(Filter { enqueued_before: Some(middle), ..all }), [a]);
    assert_eq!(find(Filter { attempts_min: Some(1), ..all }), [a]);
    assert_eq!(find(Filter { error: Some("address"), ..all }), [a]);
    assert_eq!(find(Filter { states: States::of([JobState::Pending]), ..all }), [b, c]);
    assert_eq!(find(Filter { jobs: Some(&[c, JobId::new(Place::END), a, c]), ..all }), [a, c]);
    assert_eq!(find(Filter { jobs: Some(&[c, a]), kind: Some("mail"), queue: Some("q"), ..all }), [a]);
    assert_eq!(find(Filter { jobs: Some(&[]), ..all }), []);
    assert_eq!(find(Filter { finished_from: Some(failed), ..all }), [a]);
    assert_eq!(find(Filter { finished_from: Some(failed.plus_micros(1)), ..all }), []);
    assert_eq!(find(Filter { finished_before: Some(failed.plus_micros(1)), ..all }), [a]);
    assert_eq!(find(Filter { finished_before: Some(failed), ..all }), []);
    assert_eq!(
        find(Filter { states: States::of([JobState::Dead, JobState::Pending]), tags: &["y"], ..all }),
        [a, b, c]
    );
}

#[test]
fn idle_queues_are_as_they_were_when_they_are_used_again() {
    const QUEUES: usize = 200;
    let mut yard = Yard::new();
    let names: Vec<String> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    // Each use leaves a queue idle, in a different way. The yard compares with a restart each time.
    for round in 0..3 {
        for (number, name) in names.iter().enumerate() {
            let group = if number % 3 == round { "g" } else { "" };
            let id = yard.enqueue(name, of_group(group));
            match number % 4 {
                0 => {
                    let job = yard.fetch(&[name], 1).remove(0);
                    yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
                }
                1 => drop(yard.one(Command::Change { job: id, change: Change::Cancel { reason: "" } })),
                2 => drop(yard.one(Command::Change { job: id, change: Change::Delete })),
                _ => drop(yard.one(Command::Clear { queue: name })),
            }
        }
        while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
    }
    for (number, name) in names.iter().enumerate() {
        let stats = yard.stats(name);
        let (completed, cancelled) = [(3, 0), (0, 3), (0, 0), (0, 3)][number % 4];
        assert_eq!((stats.completed, stats.cancelled, stats.pending), (completed, cancelled, 0), "{name}");
    }
    // Settings and dead jobs stay with a queue that was idle.
    yard.one(Command::SetQueue { queue: "q0", change: QueueChange::ActiveMax(Some(1)) });
    let job = yard.enqueue("q1", JobSpec { attempts_max: 1, ..JobSpec::new(b"{}") });
    let fetched = yard.fetch(&["q1"], 1).remove(0);
    yard.one(Command::Fail { job, token: fetched.token, error: "e", retry: Retry::Never });
    for name in &names[2..] {
        let id = yard.enqueue(name, JobSpec::new(b"{}"));
        yard.one(Command::Change { job: id, change: Change::Cancel { reason: "" } });
    }
    assert_eq!(yard.world.model.queue_settings("q0").expect("there").active_max, Some(1));
    assert_eq!(yard.state(job), JobState::Dead);
    assert_eq!(yard.stats("q1").dead, 1);
}
