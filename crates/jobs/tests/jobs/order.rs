//! The order of jobs. A job that may run is never blocked.

use quire_jobs::{Command, JobId, JobSpec, Priority, Reply, Retry};

use crate::yard::{LEASE_MICROS, Yard};

fn ids(yard: &mut Yard, queues: &[&str], count: u32) -> Vec<JobId> {
    yard.fetch(queues, count).into_iter().map(|job| job.job).collect()
}

#[test]
fn the_urgent_go_first_and_the_older_among_equals() {
    let mut yard = Yard::new();
    let mut add = |priority| yard.enqueue("q", JobSpec { priority, ..JobSpec::new(b"{}") });
    let normal = [add(Priority::NORMAL), add(Priority::NORMAL)];
    let low = add(Priority::LOW);
    let high = add(Priority::HIGH);
    let critical = add(Priority::CRITICAL);
    assert_eq!(ids(&mut yard, &["q"], 10), [critical, high, normal[0], normal[1], low]);
}

#[test]
fn queues_are_emptied_in_the_order_given() {
    let mut yard = Yard::new();
    let a = yard.enqueue("a", JobSpec::new(b"{}"));
    let b = yard.enqueue("b", JobSpec { priority: Priority::CRITICAL, ..JobSpec::new(b"{}") });
    let more = yard.enqueue("b", JobSpec::new(b"{}"));
    assert_eq!(ids(&mut yard, &["nobody-used-it", "a", "b"], 2), [a, b]);
    assert_eq!(ids(&mut yard, &["a", "b"], 2), [more]);
}

#[test]
fn a_retried_job_keeps_its_place() {
    let mut yard = Yard::new();
    let first = yard.enqueue("q", JobSpec::new(b"{}"));
    let second = yard.enqueue("q", JobSpec::new(b"{}"));
    let job = yard.fetch(&["q"], 1).remove(0);
    yard.one(Command::Fail { job: first, token: job.token, error: "no", retry: Retry::At(yard.now.plus_micros(9)) });
    yard.wait(9);
    assert_eq!(ids(&mut yard, &["q"], 2), [first, second]);
}

#[test]
fn a_job_that_may_not_run_yet_hides_none_that_may() {
    let mut yard = Yard::new();
    let later = yard.now.plus_micros(50);
    let scheduled =
        yard.enqueue("q", JobSpec { run_at: Some(later), priority: Priority::CRITICAL, ..JobSpec::new(b"{}") });
    let now = yard.enqueue("q", JobSpec { priority: Priority::LOW, ..JobSpec::new(b"{}") });
    assert_eq!(ids(&mut yard, &["q"], 1), [now]);
    yard.wait(50);
    assert_eq!(ids(&mut yard, &["q"], 1), [scheduled]);
}

#[test]
fn a_fetch_delivers_whatever_waits_in_other_queues() {
    let mut yard = Yard::new();
    let later = yard.now.plus_micros(5);
    let many: Vec<Command<'_>> = (0..3_000)
        .map(|_| Command::Enqueue { queue: "crowd", job: JobSpec { run_at: Some(later), ..JobSpec::new(b"{}") } })
        .collect();
    yard.commit(&many).expect("accepted");
    let alone = yard.enqueue("alone", JobSpec { run_at: Some(later), ..JobSpec::new(b"{}") });
    yard.wait(5);
    assert_eq!(ids(&mut yard, &["alone"], 1), [alone]);
}

#[test]
fn a_tick_handles_a_bounded_number_of_jobs_and_reports_whether_more_are_due() {
    let mut yard = Yard::new();
    let later = yard.now.plus_micros(5);
    let job = JobSpec { run_at: Some(later), ..JobSpec::new(b"{}") };
    yard.commit(&vec![Command::Enqueue { queue: "q", job }; 1_500]).expect("accepted");
    assert_eq!(yard.world.model.next_due(), Some(later));
    yard.wait(5);
    assert_eq!(yard.one(Command::Tick), Reply::Ticked { jobs: 1_024, more: true });
    assert_eq!(yard.stats("q").pending, 1_024);
    assert_eq!(yard.one(Command::Tick), Reply::Ticked { jobs: 476, more: false });
    assert_eq!(yard.world.model.next_due(), None);
}

#[test]
fn two_ticks_of_one_commit_do_not_handle_the_same_jobs() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec { run_at: Some(yard.now.plus_micros(5)), ..JobSpec::new(b"{}") });
    yard.wait(5);
    let replies = yard.commit(&[Command::Tick, Command::Tick]).expect("accepted");
    assert_eq!(replies, [Reply::Ticked { jobs: 1, more: false }, Reply::Ticked { jobs: 0, more: false }]);
}

#[test]
fn a_command_that_finds_no_job_writes_nothing() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec { run_at: Some(yard.now.plus_micros(LEASE_MICROS)), ..JobSpec::new(b"{}") });
    let before = yard.world.log.entries().count();
    assert_eq!(yard.fetch(&["q", "nobody-used-it"], 10), []);
    assert_eq!(yard.one(Command::Tick), Reply::Ticked { jobs: 0, more: false });
    assert_eq!(yard.world.log.entries().count(), before);
    assert_eq!(yard.world.model.queue_stats("nobody-used-it"), None, "to look is not to create");
}

#[test]
fn the_oldest_pending_job_is_found_among_urgent_ones_and_in_any_group() {
    let mut yard = Yard::new();
    let oldest = |yard: &Yard| yard.world.model.oldest_pending("q");
    assert_eq!(oldest(&yard), None);
    let later = Some(yard.now.plus_micros(50));
    let scheduled = yard.enqueue("q", JobSpec { run_at: later, ..JobSpec::new(b"{}") });
    assert_eq!(oldest(&yard), None, "a scheduled job does not wait");
    yard.wait(10);
    let low = yard.enqueue("q", JobSpec { priority: Priority::LOW, group: "b", ..JobSpec::new(b"{}") });
    let since = yard.now;
    yard.wait(10);
    yard.enqueue("q", JobSpec { priority: Priority::CRITICAL, group: "a", ..JobSpec::new(b"{}") });
    yard.enqueue("q", JobSpec { priority: Priority::HIGH, group: "b", ..JobSpec::new(b"{}") });
    assert_eq!(oldest(&yard), Some(low));
    assert_eq!(yard.world.model.runnable_since(&yard.world.log, low), Ok(Some(since)));
    yard.wait(30);
    yard.one(Command::Tick);
    assert_eq!(oldest(&yard), Some(scheduled));
    assert_eq!(yard.world.model.runnable_since(&yard.world.log, scheduled), Ok(later));
    ids(&mut yard, &["q"], 9);
    assert_eq!(oldest(&yard), None);
}
