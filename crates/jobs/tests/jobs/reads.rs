//! Reads of jobs and queues.

use quire_jobs::{
    Cause, Change, Command, Cursor, Filter, HistoryPage, JobEvent, JobId, JobPage, JobSpec, JobState, LeaseToken,
    LifeFilter, Priority, QueueStats, Refusal, Reply, Retry, States, Status,
};
use quire_model::Place;

use crate::yard::{LEASE_MICROS, Yard};

fn view(yard: &Yard, job: JobId) -> quire_jobs::JobView {
    yard.view(job).expect("there")
}

#[test]
fn a_job_shows_the_values_of_its_producer() {
    let mut yard = Yard::new();
    let job = JobSpec {
        kind: "notify",
        priority: Priority::HIGH,
        run_at: Some(yard.now.plus_micros(7)),
        attempts_max: 3,
        tags: &["plane:N14228", "airline:UA", "plane:N14228"],
        ..JobSpec::new(b"{}")
    };
    let id = yard.enqueue("air/delays", job);
    let view = view(&yard, id);
    assert_eq!((view.id, view.queue.as_str(), view.kind.as_str()), (id, "air/delays", "notify"));
    assert_eq!((view.payload.as_slice(), view.priority, view.attempts_max), (&b"{}"[..], Priority::HIGH, 3));
    assert_eq!(view.tags, ["airline:UA", "plane:N14228"], "one given twice counts once");
    assert_eq!((view.enqueued_at, view.run_at), (yard.now, yard.now.plus_micros(7)));
    assert_eq!((view.attempt, view.status), (0, Status::Scheduled { run_at: yard.now.plus_micros(7) }));
}

#[test]
fn a_job_of_a_time_that_is_past_runs_at_once() {
    let mut yard = Yard::new();
    let past = Some(quire_model::Timestamp::from_micros(1));
    let id = yard.enqueue("q", JobSpec { run_at: past, ..JobSpec::new(b"{}") });
    assert_eq!((view(&yard, id).run_at, view(&yard, id).status), (yard.now, Status::Pending));
}

#[test]
fn a_job_shows_its_state_from_enqueue_to_end() {
    let mut yard = Yard::new();
    let id = yard.enqueue("q", JobSpec::new(b"{}"));
    assert_eq!(view(&yard, id).status, Status::Pending);

    let job = yard.fetch(&["q"], 1).remove(0);
    let active = Status::Active { token: job.token, deadline: job.deadline, worker: "w1".into() };
    assert_eq!((view(&yard, id).status, view(&yard, id).last_error), (active, None));

    let due = yard.now.plus_micros(5);
    yard.one(Command::Fail { job: id, token: job.token, error: "boom", retry: Retry::At(due) });
    let boom = Some("boom".to_owned());
    assert_eq!((view(&yard, id).status, view(&yard, id).last_error), (Status::Retrying { due }, boom.clone()));

    yard.wait(5);
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!((view(&yard, id).state(), view(&yard, id).last_error), (JobState::Active, boom));

    yard.wait(LEASE_MICROS);
    yard.one(Command::Tick);
    assert_eq!(
        (view(&yard, id).status, view(&yard, id).last_error),
        (Status::Pending, Some("lease expired".to_owned()))
    );
    assert_ne!(yard.fetch(&["q"], 1)[0].token, job.token);

    let Status::Active { token, .. } = view(&yard, id).status else { panic!("active") };
    yard.one(Command::Ack { job: id, token, result: b"42" });
    let completed = view(&yard, id);
    assert_eq!(completed.status, Status::Completed { at: yard.now, result: b"42".to_vec() });
    assert_eq!((completed.attempt, completed.queue.as_str()), (3, "q"));
}

#[test]
fn the_history_of_a_job_has_every_step_with_its_time() {
    let mut yard = Yard::new();
    let begin = yard.now;
    let id = yard.enqueue("q", JobSpec { run_at: Some(begin.plus_micros(10)), ..JobSpec::new(b"{}") });
    yard.wait(10);
    let job = yard.fetch(&["q"], 1).remove(0);
    yard.wait(2);
    yard.one(Command::Fail { job: id, token: job.token, error: "boom", retry: Retry::Never });

    let history = |older, count| yard.world.model.history(&yard.world.log, id, older, count).expect("readable");
    let HistoryPage { steps, older } = history(None, 100);
    assert_eq!(older, None);
    let told: Vec<_> =
        steps.iter().map(|step| (step.time.as_micros() - begin.as_micros(), step.event, step.state)).collect();
    let expected = [
        (12, JobEvent::Step(Cause::Failed), Some(JobState::Dead)),
        (10, JobEvent::Step(Cause::Leased), Some(JobState::Active)),
        (10, JobEvent::Step(Cause::Due), Some(JobState::Pending)),
        (0, JobEvent::Enqueued, Some(JobState::Scheduled)),
    ];
    assert_eq!(told, expected);
    assert_eq!(LeaseToken::new(steps[1].place), job.token);
    assert_eq!((steps[0].note.as_str(), steps[1].note.as_str()), ("boom", "w1"));
    assert_eq!((steps[1].until, steps[1].attempt), (Some(job.deadline), 1));

    let newest = history(None, 3);
    assert_eq!(newest.steps, steps[..3]);
    let rest = history(newest.older, 3);
    assert_eq!((rest.steps.as_slice(), rest.older), (&steps[3..], None));
}

#[test]
fn the_result_of_a_worker_is_shown_with_the_finished_job_and_passed_to_its_retry() {
    for (dies_of_its_lease, new_payload) in [(false, None), (true, None), (false, Some(&b"new"[..]))] {
        let mut yard = Yard::new();
        let id = yard.enqueue("q", JobSpec { attempts_max: 1, ..JobSpec::new(b"{}") });
        let token = yard.fetch(&["q"], 1)[0].token;
        let said =
            |progress, checkpoint| Command::Heartbeat { job: id, token, lease_micros: None, progress, checkpoint };
        yard.one(said(Some(b"half"), Some(b"row 7")));
        yard.one(said(None, Some(b"row 9")));
        if dies_of_its_lease {
            yard.wait(LEASE_MICROS);
            yard.one(Command::Tick);
        } else {
            yard.one(Command::Fail { job: id, token, error: "e", retry: Retry::Backoff });
        }
        let shown = |yard: &Yard| (view(yard, id).state(), view(yard, id).progress, view(yard, id).checkpoint);
        let (half, row) = (Some(b"half".to_vec()), Some(b"row 9".to_vec()));
        assert_eq!(shown(&yard), (JobState::Dead, half.clone(), row.clone()));
        yard.one(Command::Change { job: id, change: Change::Retry { payload: new_payload } });
        assert_eq!(shown(&yard), (JobState::Pending, half.clone(), row.clone()));
        let job = yard.fetch(&["q"], 1).remove(0);
        assert_eq!(job.checkpoint, row);
        yard.one(Command::Ack { job: id, token: job.token, result: b"" });
        assert_eq!(shown(&yard), (JobState::Completed, half, row));
    }
}

#[test]
fn a_job_shows_the_last_time_that_was_set_for_its_run() {
    let mut yard = Yard::new();
    let later = yard.now.plus_micros(1_000);
    let id = yard.enqueue("q", JobSpec { run_at: Some(later), ..JobSpec::new(b"{}") });
    let change = |yard: &mut Yard, change| drop(yard.one(Command::Change { job: id, change }));
    assert_eq!(view(&yard, id).run_at, later);
    yard.wait(1);
    let now = yard.now;
    change(&mut yard, Change::Reschedule { run_at: now });
    assert_eq!(view(&yard, id).run_at, yard.now);
    let latest = yard.now.plus_micros(2_000);
    change(&mut yard, Change::Reschedule { run_at: latest });
    assert_eq!(view(&yard, id).run_at, latest);
    change(&mut yard, Change::Hold { reason: "" });
    yard.wait(1);
    change(&mut yard, Change::Release);
    let released = yard.now;
    assert_eq!(view(&yard, id).run_at, released);
    let token = yard.fetch(&["q"], 1)[0].token;
    yard.wait(1);
    assert_eq!(view(&yard, id).run_at, released, "that it began says nothing of it");
    let until = yard.now.plus_micros(5);
    yard.one(Command::Snooze { job: id, token, until });
    assert_eq!(view(&yard, id).run_at, until);
    yard.wait(5);
    let token = yard.fetch(&["q"], 1)[0].token;
    yard.one(Command::Fail { job: id, token, error: "", retry: Retry::Never });
    assert_eq!(view(&yard, id).run_at, until);
    yard.wait(1);
    change(&mut yard, Change::Retry { payload: None });
    assert_eq!(view(&yard, id).run_at, yard.now);
}

#[test]
fn a_job_that_expired_and_is_retried_no_longer_expires() {
    let mut yard = Yard::new();
    let expires_at = Some(yard.now.plus_micros(5));
    let id = yard.enqueue("q", JobSpec { expires_at, ..JobSpec::new(b"{}") });
    assert_eq!(view(&yard, id).expires_at, expires_at);
    yard.wait(5);
    yard.one(Command::Tick);
    assert_eq!((view(&yard, id).state(), view(&yard, id).expires_at), (JobState::Dead, expires_at));
    yard.one(Command::Change { job: id, change: Change::Retry { payload: None } });
    assert_eq!((view(&yard, id).state(), view(&yard, id).expires_at), (JobState::Pending, None));
    assert_eq!(yard.fetch(&["q"], 1).len(), 1);
}

#[test]
fn a_move_is_marked_as_such_in_the_history_and_the_events() {
    let mut yard = Yard::new();
    let id = yard.enqueue("a", JobSpec::new(b"{}"));
    yard.one(Command::Change { job: id, change: Change::Move { queue: "b/c" } });
    yard.one(Command::Change { job: id, change: Change::Priority(Priority::LOW) });
    let steps = yard.world.model.history(&yard.world.log, id, None, 9).expect("readable").steps;
    let told: Vec<_> = steps.iter().map(|step| (step.event, step.note.as_str())).collect();
    let expected = [(JobEvent::Edited, ""), (JobEvent::Edited, "moved from a"), (JobEvent::Enqueued, "")];
    assert_eq!(told, expected);
    let events = crate::life::read(&yard, &LifeFilter { jobs: vec![id], ..LifeFilter::default() }, Cursor::START, 9);
    let told: Vec<_> = events.iter().map(|event| (&*event.queue, event.step.event, event.step.note.as_str())).collect();
    let expected = [
        ("a", JobEvent::Enqueued, ""),
        ("a", JobEvent::MovedOut, "moved to b/c"),
        ("b/c", JobEvent::Edited, "moved from a"),
        ("b/c", JobEvent::Edited, ""),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_job_is_not_left_without_the_attempts_that_it_has_begun() {
    let mut yard = Yard::new();
    let id = yard.enqueue("q", JobSpec::new(b"{}"));
    let set = |attempts| Command::Change { job: id, change: Change::AttemptsMax(attempts) };
    for _ in 0..2 {
        let token = yard.fetch(&["q"], 1)[0].token;
        yard.one(Command::Fail { job: id, token, error: "", retry: Retry::At(yard.now) });
    }
    // It waits for its third.
    assert_eq!(yard.refusal(set(2)), Refusal::TooFewAttempts { job: id, least: 3 });
    yard.one(set(3));
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!((job.attempt, job.attempts_max), (3, 3));
    assert_eq!(yard.refusal(set(2)), Refusal::TooFewAttempts { job: id, least: 3 });
    yard.one(set(4));
    yard.one(set(3));
    yard.one(Command::Fail { job: id, token: job.token, error: "", retry: Retry::Backoff });
    assert_eq!(yard.state(id), JobState::Dead);
}

#[test]
fn ids_of_other_entries_read_as_none() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec::new(b"{}"));
    let token = yard.fetch(&["q"], 1)[0].token;
    for place in [Place::START, Place::END, token.place()] {
        let id = JobId::new(place);
        assert_eq!(yard.world.model.job(&yard.world.log, id), Ok(None), "{id}");
        assert_eq!(yard.world.model.history(&yard.world.log, id, None, 9), Ok(HistoryPage::default()), "{id}");
    }
}

#[test]
fn queues_count_their_jobs_by_state() {
    let mut yard = Yard::new();
    let later = Some(yard.now.plus_micros(5));
    yard.enqueue("b", JobSpec { run_at: later, ..JobSpec::new(b"{}") });
    for _ in 0..5 {
        yard.enqueue("a", JobSpec::new(b"{}"));
    }
    let jobs = yard.fetch(&["a"], 4);
    yard.one(Command::Ack { job: jobs[0].job, token: jobs[0].token, result: b"" });
    yard.one(Command::Fail { job: jobs[1].job, token: jobs[1].token, error: "", retry: Retry::Never });
    yard.one(Command::Fail { job: jobs[2].job, token: jobs[2].token, error: "", retry: Retry::Backoff });
    let a =
        QueueStats { scheduled: 0, pending: 1, active: 1, retrying: 1, held: 0, completed: 1, cancelled: 0, dead: 1 };
    let b = QueueStats { scheduled: 1, ..QueueStats::default() };
    assert_eq!(yard.world.model.queues().collect::<Vec<_>>(), [("a", a), ("b", b)]);
}

#[test]
fn pages_neither_skip_nor_repeat_while_jobs_come_and_go() {
    for state in [JobState::Pending, JobState::Completed, JobState::Dead] {
        let mut yard = Yard::new();
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(yard.enqueue("q", JobSpec::new(b"{}")));
            yard.enqueue("other", JobSpec::new(b"{}"));
        }
        let end = |yard: &mut Yard| {
            let job = yard.fetch(&["q"], 1).remove(0);
            let (job, token) = (job.job, job.token);
            match state {
                JobState::Completed => yard.one(Command::Ack { job, token, result: b"" }),
                JobState::Dead => yard.one(Command::Fail { job, token, error: "", retry: Retry::Never }),
                _ => Reply::Acked,
            }
        };
        let filter = Filter { queue: Some("q"), states: States::of([state]), ..Filter::default() };
        let list = |yard: &Yard, after| yard.world.model.search(&yard.world.log, &filter, after, 2).expect("readable");
        if state != JobState::Pending {
            (0..4).for_each(|_| drop(end(&mut yard)));
        }
        let mut listed = Vec::new();
        let first = list(&yard, None);
        assert_eq!(first.jobs, ids[..2], "{state}");
        listed.extend(first.jobs);
        // The oldest leaves the pending, or one more ends: neither shifts the pages behind the
        // cursor.
        end(&mut yard);
        let mut next: Option<Cursor> = first.next;
        while let Some(after) = next {
            let page = list(&yard, Some(after));
            listed.extend(page.jobs);
            next = page.next;
        }
        assert_eq!(listed, ids, "{state}");
    }
}

#[test]
fn an_unknown_queue_lists_nothing() {
    let yard = Yard::new();
    let filter = Filter { queue: Some("q"), ..Filter::default() };
    assert_eq!(yard.world.model.search(&yard.world.log, &filter, None, 9), Ok(JobPage::default()));
}
