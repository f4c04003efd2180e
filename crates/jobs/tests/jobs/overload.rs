//! Queues with a limit on unfinished jobs.

use quire_jobs::{
    Change, Clash, Command, JobId, JobSpec, JobState, QueueChange, Refusal, Reply, Retry, Unique, UniqueHold,
};

use crate::yard::{LEASE_MICROS, Yard};

fn bounded(jobs_max: u32) -> Yard {
    let mut yard = Yard::new();
    yard.one(Command::SetQueue { queue: "q", change: QueueChange::JobsMax(Some(jobs_max)) });
    yard
}

fn overloaded(jobs_max: u32) -> Refusal {
    Refusal::Overloaded { queue: "q".into(), jobs_max, retry_after_micros: 100_000 }
}

fn job() -> Command<'static> {
    Command::Enqueue { queue: "q", job: JobSpec::new(b"{}") }
}

#[test]
fn a_full_queue_takes_a_job_again_for_each_that_is_finished_in_every_form() {
    let mut yard = bounded(3);
    // Of five in one call, each by itself, three are taken.
    let Reply::Each(answers) = yard.one(Command::Each(&[job(); 5])) else { panic!("one by one") };
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused, [overloaded(3), overloaded(3)]);
    assert_eq!(yard.refusal(job()), overloaded(3));
    let jobs = yard.fetch(&["q"], 2);
    assert_eq!(yard.refusal(job()), overloaded(3), "who is worked on counts");
    // Room that a command makes is there for the next of its commit.
    let ack = Command::Ack { job: jobs[0].job, token: jobs[0].token, result: b"" };
    assert_eq!(yard.commit(&[ack, job(), job()]), Err((2, overloaded(3))));
    yard.commit(&[ack, job()]).expect("accepted");
    yard.one(Command::Fail { job: jobs[1].job, token: jobs[1].token, error: "", retry: Retry::Backoff });
    assert_eq!(yard.refusal(job()), overloaded(3), "who waits to be tried again counts");
    yard.one(Command::Clear { queue: "q" });
    yard.one(Command::Each(&[job(); 3]));
    yard.one(Command::SetQueue { queue: "q", change: QueueChange::JobsMax(Some(1)) });
    assert_eq!((yard.stats("q").pending, yard.refusal(job())), (3, overloaded(1)), "what is there stays");
    yard.one(Command::SetQueue { queue: "q", change: QueueChange::JobsMax(None) });
    yard.one(job());
}

#[test]
fn jobs_that_time_has_ended_free_their_places_before_a_tick() {
    let mut yard = bounded(2);
    let expires = Some(yard.now.plus_micros(5));
    yard.enqueue("q", JobSpec { attempts_max: 1, ..JobSpec::new(b"") });
    yard.enqueue("q", JobSpec { expires_at: expires, ..JobSpec::new(b"") });
    yard.fetch(&["q"], 1);
    assert_eq!(yard.refusal(job()), overloaded(2));
    yard.wait(LEASE_MICROS);
    yard.commit(&[job(), job()]).expect("one has lost its only worker, and one has expired");
    assert_eq!(yard.refusal(job()), overloaded(2));
}

#[test]
fn moved_and_retried_jobs_need_space_in_a_bounded_queue_and_a_replaced_one_frees_it() {
    let mut yard = bounded(1);
    let elsewhere = yard.enqueue("other", JobSpec::new(b""));
    let keyed = JobSpec {
        unique: Some(Unique { clash: Clash::Replace, hold: UniqueHold::UntilFinished, ..Unique::new(b"k") }),
        ..JobSpec::new(b"first")
    };
    let first = yard.enqueue("q", keyed);
    let change = |job: JobId, change| Command::Change { job, change };
    assert_eq!(yard.refusal(change(elsewhere, Change::Move { queue: "q" })), overloaded(1));
    let second = yard.enqueue("q", JobSpec { payload: b"second", ..keyed });
    assert_eq!((yard.state(first), yard.state(second)), (JobState::Cancelled, JobState::Pending));
    let leased = yard.fetch(&["q"], 1).remove(0);
    yard.one(Command::Fail { job: second, token: leased.token, error: "", retry: Retry::Never });
    yard.one(job());
    assert_eq!(yard.refusal(change(second, Change::Retry { payload: None })), overloaded(1));
    yard.one(Command::Clear { queue: "q" });
    yard.one(change(second, Change::Retry { payload: None }));
    assert_eq!(yard.refusal(job()), overloaded(1));
}
