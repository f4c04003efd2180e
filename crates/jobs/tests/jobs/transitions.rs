//! The transition table of the documentation, held against the model: every row happens, nothing else does.

use crate::yard::{Yard, fetch};
use quire_jobs::{Backoff, Command, JobId, JobState, LeaseToken, NewJob, Reply, Retry};

const TABLE: &str = include_str!("../../src/transitions.md");

fn rows() -> Vec<[&'static str; 3]> {
    let cells = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().expect("three columns")
    };
    TABLE.lines().skip(2).map(cells).collect()
}

/// A job in a state, its last token, and how long until what the event is about.
struct Case {
    yard: Yard,
    job: JobId,
    token: LeaseToken,
    soon: u64,
}

/// What the event is about comes soon, everything else late, so that waiting for one thing is not waiting for another.
fn case(state: JobState, event: &str) -> Case {
    let (soon, late) = (1_000, 50_000);
    let (delay, lease) = if event.starts_with("lease") { (late, soon) } else { (soon, late) };
    let attempts_max = if event.contains("last attempt") && state == JobState::Active { 1 } else { 2 };

    let mut yard = Yard::new();
    let run_at = (state == JobState::Scheduled).then(|| yard.now.plus_micros(delay));
    let backoff = Backoff { base_micros: delay, max_micros: delay };
    let job = yard.enqueue("q", NewJob { attempts_max, run_at, backoff, ..NewJob::new(b"{}") });
    let mut token = LeaseToken::new(job.place());
    if !matches!(state, JobState::Scheduled | JobState::Pending) {
        let Reply::Fetched(jobs) =
            yard.one(Command::Fetch { queues: &["q"], count: 1, lease_micros: lease, worker: "w1" })
        else {
            panic!("fetched")
        };
        token = jobs[0].token;
    }
    match state {
        JobState::Retrying => drop(yard.one(Command::Fail { job, token, error: "e", retry: Retry::Backoff })),
        JobState::Dead => drop(yard.one(Command::Fail { job, token, error: "e", retry: Retry::Never })),
        JobState::Completed => drop(yard.one(Command::Ack { job, token, result: b"" })),
        _ => {}
    }
    assert_eq!(yard.state(job), state, "the case is set up");
    Case { yard, job, token, soon }
}

fn perform(case: &mut Case, event: &str) {
    let Case { yard, job, token, soon } = case;
    let (job, token) = (*job, *token);
    let command = match event {
        "its time comes" | "lease runs out, attempts left" | "lease runs out, last attempt" => {
            yard.wait(*soon);
            Command::Tick
        }
        "fetch" => fetch(&["q"], 1),
        "heartbeat" => Command::Heartbeat { job, token, lease_micros: 1 },
        "ack" => Command::Ack { job, token, result: b"ok" },
        "fail, attempts left" | "fail, last attempt" => Command::Fail { job, token, error: "e", retry: Retry::Backoff },
        "fail, never again" => Command::Fail { job, token, error: "e", retry: Retry::Never },
        _ => panic!("the table has an event that the test does not know: {event}"),
    };
    // Where the table has no row the command may be refused; what counts is the state afterwards.
    drop(yard.commit(&[command]));
}

#[test]
fn a_job_moves_as_the_table_says_and_in_no_other_way() {
    let rows = rows();
    assert!(rows.len() >= 12, "the table was read");
    let events: std::collections::BTreeSet<&str> = rows.iter().filter(|row| row[0] != "-").map(|row| row[1]).collect();
    for from in JobState::ALL {
        for event in &events {
            let row = rows.iter().find(|row| row[0] == from.name() && row[1] == *event);
            let expected = row.map_or(from, |row| JobState::from_name(row[2]).expect("a state"));
            let mut case = case(from, event);
            perform(&mut case, event);
            assert_eq!(case.yard.state(case.job), expected, "{from}, {event}");
        }
    }
}

#[test]
fn a_job_begins_as_the_table_says() {
    for row in rows().iter().filter(|row| row[0] == "-") {
        let mut yard = Yard::new();
        let run_at = match row[1] {
            "enqueue to run now" => None,
            "enqueue to run later" => Some(yard.now.plus_micros(1)),
            event => panic!("the table has an event that the test does not know: {event}"),
        };
        let job = yard.enqueue("q", NewJob { run_at, ..NewJob::new(b"{}") });
        assert_eq!(yard.state(job).name(), row[2], "{}", row[1]);
    }
}
