//! A clear writes no record of a job, however many jobs it cancels, and a state that was loaded
//! decides as the one that went on.

extern crate std;

use alloc::vec::Vec;
use std::format;

use quire_model::memory::World;
use quire_model::{Effects, Model, Timestamp};

use crate::job::Job;
use crate::{
    Change, Command, JobId, JobSpec, JobState, Jobs, Order, QueueChange, Rate, Reply, Retry, Unique, UniqueHold,
};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn one(world: &mut World<Jobs>, now: u64, command: Command<'_>) -> Reply {
    world.commit(at(now), &[command]).expect("accepted").remove(0)
}

/// The records of the jobs, as they are in memory.
fn records(world: &World<Jobs>) -> Vec<(JobId, Job)> {
    world.model.jobs.iter().map(|(id, job)| (*id, *job)).collect()
}

fn fetch(count: u32) -> Command<'static> {
    Command::Fetch { queues: &["q"], order: Order::Strict, count, lease_micros: 1_000_000, worker: "w" }
}

#[test]
fn a_clear_writes_no_record_and_each_tick_a_few() {
    for is_destroyed in [false, true] {
        let mut world = World::<Jobs>::new();
        let groups = ["", "a", "b"];
        let enqueues: Vec<_> = (0..3_000)
            .map(|number: u64| {
                let run_at = number.is_multiple_of(5).then(|| at(1_000 + number));
                let job = JobSpec { group: groups[number as usize % 3], run_at, ..JobSpec::new(b"{}") };
                Command::Enqueue { queue: "q", job }
            })
            .collect();
        world.commit(at(1), &enqueues).expect("accepted");
        one(&mut world, 2, fetch(10));
        let before = records(&world);
        let command = if is_destroyed { Command::Destroy { queue: "q" } } else { Command::Clear { queue: "q" } };
        let cleared = if is_destroyed { 3_000 } else { 2_990 };
        assert_eq!(one(&mut world, 3, command), Reply::Cleared { jobs: cleared });
        assert_eq!(records(&world), before, "the clear has written records");
        let state = |id: &JobId| world.model.known(*id).expect("it is there").state;
        let cancelled = before.iter().filter(|(id, _)| state(id) == JobState::Cancelled);
        assert_eq!(cancelled.count() as u64, cleared);
        assert_eq!(world.model.job_count() as u64, 3_000 - cleared);

        let mut left = before.len();
        while world.model.next_due() == Some(Timestamp::ZERO) {
            one(&mut world, 4, Command::Tick);
            let told = left - world.model.jobs.len();
            assert!((1..=1_024).contains(&told), "a tick has told the end of {told} jobs");
            left -= told;
        }
        assert_eq!(left as u64, 3_000 - cleared);
    }
}

#[test]
fn a_loaded_state_decides_as_the_one_that_went_on() {
    let unique = |hold| Some(Unique { hold, ..Unique::new(b"k") });
    let of_group = JobSpec { group: "g", unique: unique(UniqueHold::For(900)), ..JobSpec::new(b"1") };
    let expiring = JobSpec { expires_at: Some(at(50)), retention_micros: Some(9), ..JobSpec::new(b"2") };
    let later = JobSpec { group: "h", run_at: Some(at(60)), ..JobSpec::new(b"3") };
    let enqueue = |job| Command::Enqueue { queue: "q", job };
    let rate = Some(Rate::SlidingWindow { count: 2, window_micros: 30 });
    let mut world = World::<Jobs>::new();
    one(&mut world, 1, Command::SetQueue { queue: "q", change: QueueChange::GroupRate(rate) });
    let mut jobs = Vec::new();
    for job in [JobSpec::new(b"0"), of_group, expiring, later, JobSpec { group: "h", ..JobSpec::new(b"4") }] {
        let Reply::Enqueued { job, .. } = one(&mut world, 2, enqueue(job)) else { panic!("enqueued") };
        jobs.push(job);
    }
    let Reply::Fetched(fetched) = one(&mut world, 3, fetch(1)) else { panic!("fetched") };
    let (active, token) = (fetched[0].job, fetched[0].token);
    one(&mut world, 4, Command::Change { job: jobs[4], change: Change::Hold { reason: "" } });
    let clear = Command::Clear { queue: "q" };
    let change = |job, change| Command::Change { job, change };
    let commands = [
        clear,
        change(jobs[1], Change::Release),
        change(jobs[2], Change::Delete),
        // The cleared job has its key no longer.
        enqueue(of_group),
        enqueue(of_group),
        Command::Fail { job: active, token, error: "", retry: Retry::At(at(10)) },
        fetch(9),
        enqueue(later),
        clear,
        change(jobs[4], Change::Retry { payload: None }),
        Command::Tick,
        enqueue(JobSpec { group: "g", ..JobSpec::new(b"5") }),
        fetch(9),
        Command::Destroy { queue: "q" },
        change(active, Change::Cancel { reason: "" }),
        enqueue(JobSpec::new(b"6")),
        Command::Tick,
        fetch(9),
    ];
    for (now, command) in (20..).step_by(10).zip(commands) {
        let place = format!("at {now}: {command:?}");
        for checkpoint in world.log.entries().map(|entry| entry.place.position) {
            assert_eq!(world.model, world.restarted(checkpoint), "before the command, {place}");
        }
        let loaded = world.restarted(world.log.tail());
        let decide = |state: &Jobs| {
            let mut draft = world.log.draft(at(now));
            let (place, mut replies) = (draft.at(), Vec::new());
            let decided = state.decide(&world.log, place, &[command], &mut draft, &mut replies);
            (format!("{decided:?}"), replies)
        };
        assert_eq!(decide(&world.model), decide(&loaded), "{place}");
        // A refused command changes nothing.
        let _ = world.commit(at(now), &[command]);
    }
    assert_ne!(world.model.next_due(), Some(Timestamp::ZERO), "every end is told");
}
