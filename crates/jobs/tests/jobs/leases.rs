//! Leases: the holder of a job, and stale holders.

use quire_jobs::{
    Backoff, Cause, Change, Command, FetchedJob, JobId, JobSpec, JobState, LeaseToken, Refusal, Reply, Retry, Status,
    Unique, UniqueHold,
};
use quire_model::Place;

use crate::yard::{LEASE_MICROS, Yard, fetch, fetched};

fn yard_with_active_job(attempts_max: u16) -> (Yard, FetchedJob) {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec { attempts_max, ..JobSpec::new(b"{}") });
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
    Command::Heartbeat {
        job: job.job,
        token: job.token,
        lease_micros: Some(lease_micros),
        progress: None,
        checkpoint: None,
    }
}

#[test]
fn a_fetched_job_brings_all_that_its_worker_needs() {
    let mut yard = Yard::new();
    let id = yard.enqueue("air/delays", JobSpec { kind: "notify", ..JobSpec::new(b"{\"plane\":\"N14228\"}") });
    let job = yard.fetch(&["air/delays"], 10).remove(0);
    assert_eq!((job.job, job.attempt), (id, 1));
    assert_eq!((&*job.queue, job.kind.as_str()), ("air/delays", "notify"));
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
    let ids: Vec<JobId> = (0..3).map(|_| yard.enqueue("q", JobSpec::new(b"{}"))).collect();
    let replies = yard.commit(&[fetch(&["q"], 1), fetch(&["q"], 5)]).expect("accepted");
    let got: Vec<JobId> = replies.into_iter().flat_map(fetched).map(|job| job.job).collect();
    assert_eq!(got, ids);
}

#[test]
fn two_fetches_of_one_commit_share_out_what_time_brought() {
    let mut yard = Yard::new();
    for _ in 0..2 {
        yard.enqueue("q", JobSpec { run_at: Some(yard.now.plus_micros(5)), ..JobSpec::new(b"{}") });
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
fn a_heartbeat_moves_the_deadline_later_or_earlier() {
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
    let view = yard.view(job.job).expect("there");
    assert_eq!((view.status, view.attempt), (Status::Dead { at: yard.now, cause: Cause::LeaseExpired }, 2));
    assert_eq!(view.last_error.as_deref(), Some("lease expired"));
    assert_eq!(yard.fetch(&["q"], 1), []);
}

#[test]
fn a_job_that_loses_its_workers_again_waits_its_backoff() {
    let waits = Backoff::List(&[7, 70, 700][..]);
    for timeout_micros in [None, Some(LEASE_MICROS / 2)] {
        let mut yard = Yard::new();
        let held = timeout_micros.unwrap_or(LEASE_MICROS);
        let id = yard.enqueue("q", JobSpec { attempts_max: 4, backoff: waits, timeout_micros, ..JobSpec::new(b"{}") });
        yard.fetch(&["q"], 1);
        yard.wait(held);
        assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 2, "the lease was the wait");
        yard.wait(held);
        let due = yard.now.plus_micros(70);
        // Whoever notices it later: the wait counts from the end of the lease.
        yard.wait(3);
        assert_eq!(yard.fetch(&["q"], 1), []);
        assert_eq!(yard.view(id).expect("there").status, Status::Retrying { due });
        yard.wait(66);
        assert_eq!(yard.fetch(&["q"], 1), []);
        yard.wait(1);
        assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 3);
        yard.wait(held + 699);
        assert_eq!(yard.fetch(&["q"], 1), []);
        yard.wait(1);
        assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 4);
        yard.wait(held);
        yard.one(Command::Tick);
        assert_eq!(yard.state(id), JobState::Dead);
        yard.one(Command::Change { job: id, change: Change::Retry { payload: None } });
        for attempt in [1, 2] {
            assert_eq!(yard.fetch(&["q"], 1)[0].attempt, attempt, "a retried job begins anew");
            yard.wait(held);
        }
        assert_eq!(yard.fetch(&["q"], 1), []);
    }
}

#[test]
fn a_loss_that_is_noticed_after_the_wait_delays_the_job_no_further() {
    let mut yard = Yard::new();
    let backoff = Backoff::Fixed { micros: 70 };
    yard.enqueue("q", JobSpec { backoff, ..JobSpec::new(b"{}") });
    yard.fetch(&["q"], 1);
    yard.wait(LEASE_MICROS);
    yard.fetch(&["q"], 1);
    yard.wait(LEASE_MICROS + 70);
    assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 3);
}

#[test]
fn a_commit_may_delete_or_retry_a_job_that_it_ended() {
    let change = |job: &FetchedJob, change| Command::Change { job: job.job, change };
    let retry = Change::Retry { payload: Some(b"again") };
    let cancel = Change::Cancel { reason: "" };
    let deleted = Reply::Changed { state: None };
    for is_each in [false, true] {
        let commit = |yard: &mut Yard, commands: &[Command<'_>]| match is_each {
            false => yard.commit(commands).map_err(|(_, refusal)| refusal),
            true => match yard.one(Command::Each(commands)) {
                Reply::Each(answers) => answers.into_iter().collect(),
                other => panic!("{other:?}"),
            },
        };
        for (end, state) in [
            (ack as fn(&FetchedJob) -> Command<'static>, JobState::Completed),
            (|job| fail(job, Retry::Never), JobState::Dead),
            (|job| Command::Change { job: job.job, change: Change::Cancel { reason: "" } }, JobState::Cancelled),
        ] {
            let (mut yard, job) = yard_with_active_job(5);
            let replies = commit(&mut yard, &[end(&job), change(&job, Change::Delete)]).expect("accepted");
            assert_eq!(replies[1], deleted);
            assert_eq!(yard.view(job.job), None);
            let stats = yard.stats("q");
            assert_eq!((stats.active, stats.completed, stats.dead, stats.cancelled), (0, 0, 0, 0));
            assert_eq!(yard.refusal(change(&job, Change::Delete)), Refusal::UnknownJob { job: job.job });

            let (mut yard, job) = yard_with_active_job(5);
            let retried = commit(&mut yard, &[end(&job), change(&job, retry)]);
            match state {
                JobState::Dead => {
                    assert_eq!(retried.expect("accepted")[1], Reply::Changed { state: Some(JobState::Pending) });
                    let again = yard.fetch(&["q"], 1).remove(0);
                    assert_eq!((again.attempt, again.payload), (1, b"again".to_vec()));
                }
                _ => assert_eq!(retried, Err(Refusal::WrongState { job: job.job, state })),
            }
            let (mut yard, job) = yard_with_active_job(5);
            let refused = commit(&mut yard, &[end(&job), change(&job, cancel)]);
            assert_eq!(refused, Err(Refusal::WrongState { job: job.job, state }), "it is finished");
        }
    }
}

#[test]
fn a_commit_that_acknowledges_and_deletes_a_job_frees_its_timed_key() {
    let mut yard = Yard::new();
    let unique = Some(Unique { hold: UniqueHold::For(1_000_000), ..Unique::new(b"k") });
    yard.enqueue("q", JobSpec { unique, ..JobSpec::new(b"{}") });
    let job = yard.fetch(&["q"], 1).remove(0);
    let delete = Command::Change { job: job.job, change: Change::Delete };
    let replies = yard.commit(&[
        ack(&job),
        delete,
        Command::Enqueue { queue: "q", job: JobSpec { unique, ..JobSpec::new(b"") } },
    ]);
    assert!(matches!(replies.expect("accepted")[2], Reply::Enqueued { duplicate: false, .. }));
    yard.enqueue("q", JobSpec { unique: None, ..JobSpec::new(b"") });
    assert_eq!(yard.stats("q").pending, 2);
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
fn each_is_answered_one_by_one() {
    let mut yard = Yard::new();
    for _ in 0..3 {
        yard.enqueue("q", JobSpec::new(b"{}"));
    }
    let jobs = yard.fetch(&["q"], 3);
    yard.one(ack(&jobs[1]));
    let nobody = JobId::new(Place::END);
    let mut commands: Vec<Command<'_>> = jobs.iter().map(ack).collect();
    commands.push(Command::Ack { job: nobody, token: jobs[0].token, result: b"" });
    commands.push(commands[0]);
    commands.push(Command::Each(&[]));
    let stale = |job: &FetchedJob| Err(Refusal::StaleLease { job: job.job, state: JobState::Completed });
    assert_eq!(
        yard.one(Command::Each(&commands)),
        Reply::Each(vec![
            Ok(Reply::Acked),
            stale(&jobs[1]),
            Ok(Reply::Acked),
            Err(Refusal::UnknownJob { job: nobody }),
            stale(&jobs[0]),
            Err(Refusal::NestedEach),
        ])
    );
    assert_eq!(yard.stats("q").completed, 3);
}

#[test]
fn each_of_a_lease_that_ran_out_gives_the_job_back() {
    let (mut yard, job) = yard_with_active_job(5);
    yard.wait(LEASE_MICROS);
    let stale = Refusal::StaleLease { job: job.job, state: JobState::Pending };
    assert_eq!(yard.one(Command::Each(&[ack(&job)])), Reply::Each(vec![Err(stale)]));
    assert_eq!(yard.stats("q").pending, 1);
}

#[test]
fn jobs_of_one_fetch_share_a_token_and_each_is_acknowledged_by_itself() {
    let mut yard = Yard::new();
    for _ in 0..450 {
        yard.enqueue("q", JobSpec::new(b"{}"));
    }
    let jobs = yard.fetch(&["q"], 450);
    assert_eq!(jobs.len(), 450);
    let acks: Vec<Command<'_>> = jobs.iter().map(ack).collect();
    // The steps take more than one entry, so there is more than one token. Each job has the token
    // of its reply.
    assert_ne!(jobs[0].token, jobs[449].token);
    assert_eq!(yard.one(ack(&jobs[0])), Reply::Acked);
    assert_eq!(yard.stats("q").active, 449);
    assert_eq!(yard.one(Command::Each(&acks[1..])), Reply::Each(vec![Ok(Reply::Acked); 449]));
}

#[test]
fn a_heartbeat_leaves_word_for_people_and_for_the_next_attempt() {
    let (mut yard, job) = yard_with_active_job(5);
    let say = |progress, checkpoint| Command::Heartbeat {
        job: job.job,
        token: job.token,
        lease_micros: None,
        progress,
        checkpoint,
    };
    assert_eq!(
        yard.one(say(Some(b"10 %"), None)),
        Reply::Extended { deadline: job.deadline },
        "the lease is as it was"
    );
    yard.one(say(None, Some(b"row 7")));
    yard.one(say(Some(b"20 %"), None));
    let view = yard.view(job.job).expect("there");
    assert_eq!((view.progress.as_deref(), view.checkpoint.as_deref()), (Some(&b"20 %"[..]), Some(&b"row 7"[..])));
    yard.wait(LEASE_MICROS);
    let next = yard.fetch(&["q"], 1).remove(0);
    assert_eq!((next.attempt, next.checkpoint.as_deref()), (2, Some(&b"row 7"[..])));
}

#[test]
fn a_snoozed_job_comes_back_and_the_attempt_does_not_count() {
    let (mut yard, job) = yard_with_active_job(1);
    let until = yard.now.plus_micros(50);
    let snooze = Command::Snooze { job: job.job, token: job.token, until };
    assert_eq!(yard.one(snooze), Reply::Snoozed { until });
    assert_eq!(yard.refusal(snooze), Refusal::StaleLease { job: job.job, state: JobState::Scheduled });
    yard.wait(50);
    assert_eq!(yard.fetch(&["q"], 1)[0].attempt, 1);
}

#[test]
fn an_attempt_ends_with_its_timeout_despite_heartbeats() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec { timeout_micros: Some(50), attempts_max: 1, ..JobSpec::new(b"{}") });
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!((job.deadline, job.run_until), (yard.now.plus_micros(50), Some(yard.now.plus_micros(50))));
    yard.wait(49);
    assert_eq!(yard.one(heartbeat(&job, 1_000)), Reply::Extended { deadline: job.deadline });
    yard.wait(1);
    yard.one(Command::Tick);
    let status = yard.view(job.job).expect("there").status;
    assert_eq!(status, Status::Dead { at: yard.now, cause: Cause::TimedOut });
}

#[test]
fn an_id_of_another_entry_is_an_unknown_job() {
    let (mut yard, job) = yard_with_active_job(5);
    let not_a_job = JobId::new(job.token.place());
    let command = Command::Ack { job: not_a_job, token: job.token, result: b"" };
    assert_eq!(yard.refusal(command), Refusal::UnknownJob { job: not_a_job });
}

#[test]
fn a_job_that_was_never_fetched_cannot_be_acknowledged() {
    let mut yard = Yard::new();
    let job = yard.enqueue("q", JobSpec::new(b"{}"));
    let command = Command::Ack { job, token: LeaseToken::new(job.place()), result: b"" };
    assert_eq!(yard.refusal(command), Refusal::StaleLease { job, state: JobState::Pending });
}

#[test]
fn the_wait_between_attempts_doubles_up_to_its_maximum() {
    let mut yard = Yard::new();
    let backoff = Backoff::Exponential { base_micros: 100, max_micros: 350 };
    yard.enqueue("q", JobSpec { backoff, ..JobSpec::new(b"{}") });
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
    let backoff = |base_micros, max_micros| Backoff::<[u64; 0]>::Exponential { base_micros, max_micros };
    assert_eq!(backoff(u64::MAX / 2, u64::MAX).delay_micros(1), u64::MAX / 2);
    assert_eq!(backoff(u64::MAX / 2, u64::MAX).delay_micros(3), u64::MAX);
    assert_eq!(backoff(u64::MAX / 2, u64::MAX).delay_micros(u16::MAX), u64::MAX);
    assert_eq!(backoff(0, 9).delay_micros(u16::MAX), 0);
}

#[test]
fn each_shape_of_backoff_has_its_waits() {
    let waits = |backoff: Backoff<&[u64]>| [1, 2, 3, 4].map(|attempt| backoff.delay_micros(attempt));
    assert_eq!(waits(Backoff::None), [0; 4]);
    assert_eq!(waits(Backoff::Fixed { micros: 7 }), [7; 4]);
    assert_eq!(waits(Backoff::Linear { base_micros: 5, max_micros: 12 }), [5, 10, 12, 12]);
    assert_eq!(waits(Backoff::Exponential { base_micros: 5, max_micros: 25 }), [5, 10, 20, 25]);
    assert_eq!(waits(Backoff::List(&[3, 1])), [3, 1, 1, 1]);
}

#[test]
fn a_jitter_shortens_waits_by_at_most_its_percent_and_differently() {
    let mut yard = Yard::new();
    let job = JobSpec { backoff: Backoff::Fixed { micros: 1_000 }, jitter_percent: 40, ..JobSpec::new(b"{}") };
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..50 {
        yard.enqueue("q", job);
        let job = yard.fetch(&["q"], 1).remove(0);
        let Reply::Failed { retry_at: Some(at) } = yard.one(fail(&job, Retry::Backoff)) else { panic!("failed") };
        waits.insert(at.as_micros() - yard.now.as_micros());
    }
    assert!(waits.iter().all(|wait| (600..=1_000).contains(wait)), "{waits:?}");
    assert!(waits.len() > 20 && waits.first() < Some(&700) && waits.last() > Some(&900), "{waits:?}");
}

#[test]
fn a_worker_may_choose_the_time_of_the_next_attempt_but_gets_no_further_attempts() {
    let (mut yard, job) = yard_with_active_job(2);
    let later = yard.now.plus_micros(777);
    assert_eq!(yard.one(fail(&job, Retry::At(later))), Reply::Failed { retry_at: Some(later) });
    yard.wait(777);
    let job = yard.fetch(&["q"], 1).remove(0);
    assert_eq!(yard.one(fail(&job, Retry::At(later))), Reply::Failed { retry_at: None });
}
