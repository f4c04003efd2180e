//! The transition table of the documentation, held against the model: every row happens, nothing
//! else does.

use crate::yard::{Yard, fetch};
use quire_jobs::{Backoff, Change, Clash, Command, JobId, JobSpec, JobState, LeaseToken, Order, Reply, Retry, Unique};
use quire_model::ReadErrorKind;

const PAGE: &str = include_str!("../../../../docs/jobs.md");

/// The time until the deadline of the tested event, and until all other deadlines.
const SOON: u64 = 1_000;
const LATE: u64 = 50_000;

fn rows() -> Vec<[&'static str; 3]> {
    let table = PAGE.split("| from ").nth(1).expect("the page has the table");
    let cells = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().expect("three columns")
    };
    table.lines().skip(2).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// A job in a state, and its last token.
struct Case {
    yard: Yard,
    job: JobId,
    token: LeaseToken,
}

/// The time of the event under test is near and all others are far, so that waiting for one does
/// not trigger another.
fn case(state: JobState, event: &str) -> Case {
    let soon = |events: &[&str]| if events.iter().any(|known| event.starts_with(known)) { SOON } else { LATE };
    let attempts_max = if event.contains("last attempt") && state == JobState::Active { 1 } else { 3 };
    let mut yard = Yard::new();
    let (delay, lease) = (soon(&["its time comes"]), soon(&["lease runs out"]));
    let job = JobSpec {
        attempts_max,
        run_at: (state == JobState::Scheduled).then(|| yard.now.plus_micros(delay)),
        expires_at: (event == "it expires").then(|| yard.now.plus_micros(SOON)),
        timeout_micros: Some(soon(&["timeout runs out"])),
        backoff: Backoff::Fixed { micros: delay },
        unique: Some(Unique { clash: Clash::Replace, ..Unique::new(b"key") }),
        ..JobSpec::new(b"{}")
    };
    let job = yard.enqueue("q", job);
    let mut token = LeaseToken::new(job.place());
    if matches!(state, JobState::Active | JobState::Retrying | JobState::Dead | JobState::Completed) {
        let fetch =
            Command::Fetch { queues: &["q"], order: Order::Strict, count: 1, lease_micros: lease, worker: "w1" };
        if event.contains("runs out again") {
            yard.one(fetch);
            yard.wait(SOON);
        }
        let Reply::Fetched(jobs) = yard.one(fetch) else { panic!("fetched") };
        token = jobs[0].token;
    }
    let setup = match state {
        JobState::Retrying => Some(Command::Fail { job, token, error: "e", retry: Retry::Backoff }),
        JobState::Dead => Some(Command::Fail { job, token, error: "e", retry: Retry::Never }),
        JobState::Completed => Some(Command::Ack { job, token, result: b"" }),
        JobState::Held => Some(Command::Change { job, change: Change::Hold { reason: "" } }),
        JobState::Cancelled => Some(Command::Change { job, change: Change::Cancel { reason: "" } }),
        _ => None,
    };
    setup.map(|command| yard.one(command));
    assert_eq!(yard.state(job), state, "the case is set up");
    Case { yard, job, token }
}

fn perform(case: &mut Case, event: &str) {
    let Case { yard, job, token } = case;
    let (job, token) = (*job, *token);
    let change = |change| Command::Change { job, change };
    let command = match event {
        "its time comes"
        | "lease runs out, attempts left"
        | "lease runs out again, attempts left"
        | "lease runs out, last attempt"
        | "timeout runs out, attempts left"
        | "timeout runs out again, attempts left"
        | "timeout runs out, last attempt"
        | "it expires" => {
            yard.wait(SOON);
            Command::Tick
        }
        "fetch" => fetch(&["q"], 1),
        "fetch, its payload is damaged" => {
            yard.one_while_unreadable(job.place(), ReadErrorKind::Damaged, fetch(&["q"], 1)).expect("decided");
            return;
        }
        "heartbeat" => {
            Command::Heartbeat { job, token, lease_micros: Some(1), progress: Some(b"1"), checkpoint: Some(b"2") }
        }
        "ack" => Command::Ack { job, token, result: b"ok" },
        "fail, attempts left" | "fail, last attempt" => Command::Fail { job, token, error: "e", retry: Retry::Backoff },
        "fail, never again" => Command::Fail { job, token, error: "e", retry: Retry::Never },
        "snooze" => Command::Snooze { job, token, until: yard.now.plus_micros(1) },
        "cancel" => change(Change::Cancel { reason: "r" }),
        "hold" => change(Change::Hold { reason: "r" }),
        "release" => change(Change::Release),
        "reschedule, later" => change(Change::Reschedule { run_at: yard.now.plus_micros(1) }),
        "reschedule, now" => change(Change::Reschedule { run_at: yard.now }),
        "retry" => change(Change::Retry { payload: None }),
        "delete" => change(Change::Delete),
        "a newer job of its key replaces it" => {
            let unique = Some(Unique { clash: Clash::Replace, ..Unique::new(b"key") });
            Command::Enqueue { queue: "q", job: JobSpec { unique, ..JobSpec::new(b"") } }
        }
        "its queue is cleared" => Command::Clear { queue: "q" },
        "its queue is destroyed" => Command::Destroy { queue: "q" },
        _ => panic!("the table has an event that the test does not know: {event}"),
    };
    // Where the table has no row the command may be refused; what counts is the state afterwards.
    drop(yard.commit(&[command]));
}

#[test]
fn a_job_changes_state_as_in_the_table_and_in_no_other_way() {
    let rows = rows();
    assert!(rows.len() >= 57, "the table was read");
    let events: std::collections::BTreeSet<&str> = rows.iter().filter(|row| row[0] != "-").map(|row| row[1]).collect();
    for from in JobState::ALL {
        for event in &events {
            let row = rows.iter().find(|row| row[0] == from.name() && row[1] == *event);
            let expected = row.map_or(from.name(), |row| row[2]);
            let mut case = case(from, event);
            perform(&mut case, event);
            let state = case.yard.view(case.job).map_or("deleted", |view| view.state().name());
            // A step that has no row may still lead there by another row: a lease of one
            // microsecond expires.
            assert_eq!(state, expected, "{from}, {event}");
        }
    }
}

#[test]
fn a_new_job_begins_in_the_state_of_the_table() {
    for row in rows().iter().filter(|row| row[0] == "-") {
        let mut yard = Yard::new();
        let run_at = match row[1] {
            "enqueue to run now" => None,
            "enqueue to run later" => Some(yard.now.plus_micros(1)),
            event => panic!("the table has an event that the test does not know: {event}"),
        };
        let job = yard.enqueue("q", JobSpec { run_at, ..JobSpec::new(b"{}") });
        assert_eq!(yard.state(job).name(), row[2], "{}", row[1]);
    }
}

#[test]
fn a_job_that_can_be_fetched_is_delivered_whatever_made_it_pending() {
    for from in JobState::ALL {
        for change in [
            Change::Release,
            Change::Retry { payload: Some(b"new") },
            Change::Payload(b"new"),
            Change::Priority(quire_jobs::Priority::LOW),
            Change::Move { queue: "other" },
        ] {
            let Case { mut yard, job, .. } = case(from, "");
            drop(yard.commit(&[Command::Change { job, change }]));
            yard.wait(LATE);
            while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
            let expected = usize::from(yard.state(job) == JobState::Pending);
            let fetched = yard.fetch(&["q", "other"], 1);
            assert_eq!(fetched.len(), expected, "{from}, {change:?}");
        }
    }
}

#[test]
fn a_job_that_cannot_be_read_is_held_with_the_reason_and_hides_none() {
    let mut yard = Yard::new();
    let broken = yard.enqueue("q", JobSpec::new(b"1"));
    let whole = yard.enqueue("q", JobSpec::new(b"2"));
    let fetch_one = fetch(&["q"], 1);
    let refused = yard.one_while_unreadable(broken.place(), ReadErrorKind::Io, fetch_one).expect_err("not now");
    assert_eq!(refused.place, Some(broken.place()));
    assert_eq!(yard.state(broken), JobState::Pending, "what the system refuses now it may give later");
    let reply = yard.one_while_unreadable(broken.place(), ReadErrorKind::Damaged, fetch_one).expect("decided");
    let Reply::Fetched(jobs) = reply else { panic!("fetched") };
    assert_eq!(jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [whole]);
    let quire_jobs::Status::Held { reason } = yard.view(broken).expect("there").status else { panic!("held") };
    assert!(reason.contains("a flipped bit"), "{reason}");
    yard.one(Command::Change { job: broken, change: Change::Release });
    assert_eq!(yard.fetch(&["q"], 1)[0].payload, b"1");
}
