//! Who holds a job, and who no longer does.

use quire_jobs::{
    AckItem, Backoff, Command, Failure, FetchedJob, JobId, JobState, LeaseToken, NewJob, Refusal, Reply, Retry,
};
use quire_model::Place;

use crate::yard::{LEASE_MICROS, Yard, fetch, fetched};

fn yard_with_active_job(attempts_max: u16) -> (Yard, FetchedJob) {
    let mut yard = Yard::new();
    yard.enqueue("q", NewJob { attempts_max, ..NewJob::new(b"{}") });
    let job = yard.fetch(&["q"], 1).remove(0);
    (yard, job)
}

fn ack(job: &FetchedJob) -> Command<'static> {
    Command::Ack { job: job.job, token: job.token, result: b"ok" }
}

fn fail(job: &FetchedJob, retry: Retry) -> Command<'static> {
    Command::Fail { job: job.job, token: job.token, error: "no", retry }
}

fn heartbeat(job: &FetchedJob, lease_micros: u64) -> Command<'static> {
    Command::Heartbeat { job: job.job, token: job.token, lease_micros }
}

#[test]
fn a_fetched_job_brings_all_that_its_worker_needs() {
    let mut yard = Yard::new();
    let id = yard.enqueue("air/delays", NewJob { kind: "notify", ..NewJob::new(b"{\"plane\":\"N14228\"}") });
    let job = yard.fetch(&["air/delays"], 10).remove(0);
    assert_eq!((job.job, job.attempt), (id, 1));
    assert_eq!((job.queue.as_str(), job.kind.as_str()), ("air/delays", "notify"));
    assert_eq!(job.payload, b"{\"plane\":\"N14228\"}");
    assert_eq!(job.deadline, yard.now.plus_micros(LEASE_MICROS));
}

#[test]
fn a_job_is_held_by_one_worker_at_a_time() {
    let (mut yard, _) = yard_with_active_job(5);
    assert_eq!(yard.fetch(&["q"], 1), []);
}

#[test]
fn two_fetches_of_one_commit_get_different_jobs() {
    let mut yard = Yard::new();
    let ids: Vec<JobId> = (0..3).map(|_| yard.enqueue("q", NewJob::new(b"{}"))).collect();
    let replies = yard.commit(&[fetch(&["q"], 1), fetch(&["q"], 5)]).expect("accepted");
    let got: Vec<JobId> = replies.into_iter().flat_map(fetched).map(|job| job.job).collect();
    assert_eq!(got, ids);
}

#[test]
fn two_fetches_of_one_commit_share_out_what_time_brought() {
    let mut yard = Yard::new();
    for _ in 0..2 {
        yard.enqueue("q", NewJob { run_at: Some(yard.now.plus_micros(5)), ..NewJob::new(b"{}") });
    }
    yard.wait(5);
    let replies = yard.commit(&[fetch(&["q"], 1), fetch(&["q"], 5)]).expect("accepted");
    let counts: Vec<usize> = replies.into_iter().map(|reply| fetched(reply).len()).collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn after_the_lease_ran_out_its_token_is_worth_nothing() {
    let (mut yard, first) = yard_with_active_job(5);
    yard.wait(LEASE_MICROS);
    let second = yard.fetch(&["q"], 1).remove(0);
    assert_eq!((second.job, second.attempt), (first.job, 2));
    assert_ne!(second.token, first.token);
    let stale = Refusal::StaleLease { job: first.job, state: JobState::Active };
    for command in [ack(&first), fail(&first, Retry::Backoff), heartbeat(&first, 5)] {
        assert_eq!(yard.refusal(command), stale);
    }
    assert_eq!(yard.one(ack(&second)), Reply::Acked);
}

#[test]
fn a_lease_that_ran_out_is_refused_before_anyone_noticed() {
    let (mut yard, job) = yard_with_active_job(5);
    yard.wait(LEASE_MICROS - 1);
    assert!(matches!(yard.one(heartbeat(&job, 1)), Reply::Extended { .. }), "one microsecond before, it holds");
    yard.wait(1);
    assert_eq!(yard.refusal(ack(&job)), Refusal::StaleLease { job: job.job, state: JobState::Pending });
}

#[test]
fn a_heartbeat_moves_the_deadline_both_ways() {
    let (mut yard, job) = yard_with_active_job(5);
    yard.one(heartbeat(&job, 3 * LEASE_MICROS));
    yard.wait(2 * LEASE_MICROS);
    assert_eq!(yard.fetch(&["q"], 1), [], "held for longer");
    yard.one(heartbeat(&job, 1));
    yard.wait(1);
    assert_eq!(yard.fetch(&["q"], 1).len(), 1, "and now for less");
}

#[test]
fn a_job_whose_workers_die_ends_in_dead() {
    let (mut yard, job) = yard_with_active_job(2);
    yard.wait(LEASE_MICROS);
    assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 2);
    yard.wait(LEASE_MICROS);
    assert_eq!(yard.one(Command::Tick), Reply::Ticked { jobs: 1, more: false });
    let view = yard.world.model.job(&yard.world.log, job.job).expect("readable").expect("there");
    assert_eq!((view.state(), view.attempt), (JobState::Dead, 2));
    assert_eq!(view.last_failure, Some(Failure::LeaseExpired));
    assert_eq!(yard.fetch(&["q"], 1), []);
}

#[test]
fn a_job_ends_once_in_a_commit() {
    for second in
        [|job: &FetchedJob| ack(job), |job: &FetchedJob| fail(job, Retry::Never), |job: &FetchedJob| heartbeat(job, 1)]
    {
        let (mut yard, job) = yard_with_active_job(5);
        let (command, refusal) = yard.commit(&[ack(&job), second(&job)]).expect_err("refused");
        assert_eq!((command, refusal), (1, Refusal::StaleLease { job: job.job, state: JobState::Completed }));
        assert_eq!(yard.state(job.job), JobState::Active, "the first went with the second");
    }
}

#[test]
fn a_failed_job_cannot_be_acknowledged_in_the_same_commit() {
    let (mut yard, job) = yard_with_active_job(5);
    let refused = yard.commit(&[fail(&job, Retry::Backoff), ack(&job)]);
    assert_eq!(refused, Err((1, Refusal::StaleLease { job: job.job, state: JobState::Retrying })));
}

#[test]
fn ack_many_answers_item_by_item() {
    let mut yard = Yard::new();
    for _ in 0..3 {
        yard.enqueue("q", NewJob::new(b"{}"));
    }
    let jobs = yard.fetch(&["q"], 3);
    yard.one(ack(&jobs[1]));
    let nobody = JobId::new(Place::END);
    let mut items: Vec<AckItem<'_>> =
        jobs.iter().map(|job| AckItem { job: job.job, token: job.token, result: b"ok" }).collect();
    items.push(AckItem { job: nobody, token: jobs[0].token, result: b"" });
    items.push(items[0]);
    let stale = |job: &FetchedJob| Err(Refusal::StaleLease { job: job.job, state: JobState::Completed });
    assert_eq!(
        yard.one(Command::AckMany { items: &items }),
        Reply::AckedMany(vec![
            Ok(()),
            stale(&jobs[1]),
            Ok(()),
            Err(Refusal::UnknownJob { job: nobody }),
            stale(&jobs[0])
        ])
    );
    assert_eq!(yard.stats("q").completed, 3);
}

#[test]
fn ack_many_of_a_lease_that_ran_out_gives_the_job_back() {
    let (mut yard, job) = yard_with_active_job(5);
    yard.wait(LEASE_MICROS);
    let items = [AckItem { job: job.job, token: job.token, result: b"" }];
    let stale = Refusal::StaleLease { job: job.job, state: JobState::Pending };
    assert_eq!(yard.one(Command::AckMany { items: &items }), Reply::AckedMany(vec![Err(stale)]));
    assert_eq!(yard.stats("q").pending, 1);
}

#[test]
fn an_id_that_is_no_job_is_unknown() {
    let (mut yard, job) = yard_with_active_job(5);
    let not_a_job = JobId::new(job.token.place());
    let command = Command::Ack { job: not_a_job, token: job.token, result: b"" };
    assert_eq!(yard.refusal(command), Refusal::UnknownJob { job: not_a_job });
}

#[test]
fn a_job_that_was_never_fetched_cannot_be_acknowledged() {
    let mut yard = Yard::new();
    let job = yard.enqueue("q", NewJob::new(b"{}"));
    let command = Command::Ack { job, token: LeaseToken::new(job.place()), result: b"" };
    assert_eq!(yard.refusal(command), Refusal::StaleLease { job, state: JobState::Pending });
}

#[test]
fn the_wait_between_attempts_doubles_up_to_its_maximum() {
    let mut yard = Yard::new();
    let backoff = Backoff { base_micros: 100, max_micros: 350 };
    yard.enqueue("q", NewJob { backoff, ..NewJob::new(b"{}") });
    let mut waits = Vec::new();
    for _ in 0..10 {
        let job = yard.fetch(&["q"], 1).remove(0);
        let Reply::Failed { retry_at } = yard.one(fail(&job, Retry::Backoff)) else { panic!("failed") };
        let Some(retry_at) = retry_at else { break };
        let wait = retry_at.as_micros() - yard.now.as_micros();
        waits.push(wait);
        yard.wait(wait - 1);
        assert_eq!(yard.fetch(&["q"], 1), [], "not a microsecond early");
        yard.wait(1);
    }
    assert_eq!(waits, [100, 200, 350, 350], "the fifth failure, of five attempts by default, is the last");
    assert_eq!(yard.stats("q").dead, 1);
}

#[test]
fn a_long_backoff_does_not_overflow() {
    let backoff = Backoff { base_micros: u64::MAX / 2, max_micros: u64::MAX };
    assert_eq!(backoff.delay_micros(1), u64::MAX / 2);
    assert_eq!(backoff.delay_micros(3), u64::MAX);
    assert_eq!(backoff.delay_micros(u16::MAX), u64::MAX);
    assert_eq!(Backoff { base_micros: 0, max_micros: 9 }.delay_micros(u16::MAX), 0);
}

#[test]
fn a_worker_may_say_when_to_try_again_but_gets_no_more_attempts() {
    let (mut yard, job) = yard_with_active_job(2);
    let later = yard.now.plus_micros(777);
    assert_eq!(yard.one(fail(&job, Retry::At(later))), Reply::Failed { retry_at: Some(later) });
    yard.wait(777);
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!(yard.one(fail(&job, Retry::At(later))), Reply::Failed { retry_at: None });
}
