//! Life-cycle events: readings of the log about jobs and queues.

use std::collections::BTreeMap;

use quire_jobs::{
    Cause, Change, Command, Cursor, JobEvent, JobId, JobSpec, JobState, LifeEvent, LifeFilter, LifeReading,
    QueueChange, Retry,
};
use quire_model::{Sequence, Timestamp};

use crate::yard::{Yard, fetch};

/// All events of a reading from `after` on, `count` at a time.
pub(crate) fn read(yard: &Yard, filter: &LifeFilter, after: Cursor, events_max: usize) -> Vec<LifeEvent> {
    let mut reading = LifeReading::new(filter.clone(), after).expect("a filter");
    let mut all = Vec::new();
    loop {
        let up_to = yard.world.log.tail();
        let progress = reading.read(&yard.world.log, up_to, events_max, 1 << 20, |event| all.push(event));
        if progress.expect("readable").is_caught_up {
            return all;
        }
    }
}

fn of_queue(queue: &str) -> LifeFilter {
    LifeFilter { queues: vec![queue.to_owned()], ..LifeFilter::default() }
}

fn names(events: &[LifeEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.step.event.name()).collect()
}

/// Asserts that the events lead to the state of each of these jobs, that the numbers of a queue's
/// events are dense and find the events again, and that a reading can be resumed after each event.
pub(crate) fn assert_told(yard: &Yard, queues: &[&str], jobs: impl Iterator<Item = (JobId, JobState)>) {
    let all = read(yard, &LifeFilter::default(), Cursor::START, 1_000);
    for (number, event) in all.iter().enumerate() {
        assert_eq!(read(yard, &LifeFilter::default(), event.after, 3), all[number + 1..], "behind {}", event.after);
    }
    // The queue, which may be the second or third of its name, and the state.
    let mut told: BTreeMap<JobId, ((&str, u64), JobState)> = BTreeMap::new();
    let mut generations: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &all {
        let queue = event.queue.as_ref();
        let generation = generations.entry(queue).or_default();
        let own = (queue, *generation);
        match (event.step.event, event.job) {
            (JobEvent::QueueCreated, _) => *generation += 1,
            (JobEvent::QueueCleared | JobEvent::QueueDestroyed, _) => {
                let destroyed = event.step.event == JobEvent::QueueDestroyed;
                for (_, state) in told.values_mut().filter(|(queue, _)| *queue == own) {
                    if !state.is_finished() && (destroyed || *state != JobState::Active) {
                        *state = JobState::Cancelled;
                    }
                }
            }
            (JobEvent::Step(Cause::Deleted), Some(job)) => drop(told.remove(&job)),
            (JobEvent::MovedOut, _) | (_, None) => {}
            (_, Some(job)) => {
                let state = event.step.state.or(told.get(&job).map(|(_, state)| *state));
                told.insert(job, (own, state.expect("its enqueue told it")));
            }
        }
    }
    let told: BTreeMap<JobId, JobState> = told.into_iter().map(|(job, (_, state))| (job, state)).collect();
    assert_eq!(told, jobs.collect());
    for queue in queues {
        let Some(log) = yard.world.model.queue_log(queue) else { continue };
        let (first, next) = log.bounds(&yard.world.log).expect("readable");
        let mut numbered = Vec::new();
        for number in first.get()..next.get() {
            let events = log.events_from(&yard.world.log, Sequence::new(number)).expect("readable");
            assert_eq!(events[0].number.get(), number);
            numbered.push(events[0].clone());
        }
        let under_its_name: Vec<_> = all.iter().filter(|event| &*event.queue == *queue).cloned().collect();
        assert_eq!(read(yard, &of_queue(queue), Cursor::START, 2), under_its_name);
        assert!(numbered.iter().all(|event| under_its_name.contains(event)));
        assert!(log.events_from(&yard.world.log, next).expect("readable").is_empty());
    }
}

#[test]
fn every_step_of_a_job_is_an_event_with_what_it_brought() {
    let mut yard = Yard::new();
    let later = yard.now.plus_micros(5);
    let id = yard.enqueue("q", JobSpec { kind: "mail", run_at: Some(later), ..JobSpec::new(b"{}") });
    yard.wait(5);
    let job = yard.fetch(&["q"], 1).remove(0);
    let beat = |progress, checkpoint| Command::Heartbeat {
        job: id,
        token: job.token,
        lease_micros: None,
        progress,
        checkpoint,
    };
    yard.one(beat(Some(b"half"), None));
    yard.one(beat(None, Some(b"for the next")));
    yard.one(Command::Fail { job: id, token: job.token, error: "boom", retry: Retry::At(Timestamp::ZERO) });
    let job = yard.fetch(&["q"], 1).remove(0);
    yard.one(Command::Ack { job: id, token: job.token, result: b"sent" });
    let events = read(&yard, &LifeFilter::default(), Cursor::START, 100);
    let expected = ["queue created", "enqueued", "due", "leased", "progress", "failed", "due", "leased", "completed"];
    assert_eq!(names(&events), expected, "a checkpoint alone is nobody else's business");
    let numbers: Vec<u64> = events.iter().map(|event| event.number.get()).collect();
    assert_eq!(numbers, (0..9).collect::<Vec<_>>());
    assert!(events[1..].iter().all(|event| event.job == Some(id) && event.kind == "mail" && &*event.queue == "q"));
    let states: Vec<_> = events[1..].iter().filter_map(|event| event.step.state).collect();
    use JobState::{Active, Completed, Pending, Retrying, Scheduled};
    assert_eq!(states, [Scheduled, Pending, Active, Retrying, Pending, Active, Completed]);
    assert_eq!((events[1].data.as_slice(), events[1].step.until), (&b"{}"[..], Some(later)));
    assert_eq!((events[3].step.note.as_str(), events[3].step.attempt), ("w1", 1));
    assert_eq!((events[4].data.as_slice(), events[5].step.note.as_str()), (&b"half"[..], "boom"));
    assert_eq!(events[8].data, b"sent");
}

#[test]
fn events_are_filtered_by_queue_job_kind_tag_and_what_happened() {
    let mut yard = Yard::new();
    let a = yard.enqueue("a", JobSpec { kind: "mail", tags: &["vip", "new"], ..JobSpec::new(b"1") });
    let b = yard.enqueue("b", JobSpec { kind: "sms", tags: &["vip"], ..JobSpec::new(b"2") });
    yard.fetch(&["a", "b"], 2);
    let none = LifeFilter::default;
    let jobs = |filter: LifeFilter| -> Vec<Option<JobId>> {
        read(&yard, &filter, Cursor::START, 100).iter().map(|event| event.job).collect()
    };
    let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(jobs(LifeFilter { queues: strings(&["b"]), ..none() }), [None, Some(b), Some(b)]);
    assert_eq!(jobs(LifeFilter { queues: strings(&["b", "a", "c"]), ..none() }).len(), 6);
    assert_eq!(jobs(LifeFilter { jobs: vec![a], ..none() }), [Some(a); 2]);
    assert_eq!(jobs(LifeFilter { kinds: strings(&["sms", "x"]), ..none() }), [Some(b); 2]);
    assert_eq!(jobs(LifeFilter { tags: strings(&["vip", "new"]), ..none() }), [Some(a); 2]);
    assert_eq!(jobs(LifeFilter { tags: strings(&["vip"]), ..none() }).len(), 4);
    let created = LifeFilter { events: vec![JobEvent::QueueCreated], ..none() };
    assert_eq!(jobs(created), [None, None]);
    assert!(LifeReading::new(LifeFilter { queues: strings(&["no queue"]), ..none() }, Cursor::START).is_err());
    for event in JobEvent::all() {
        assert_eq!(JobEvent::from_name(event.name()), Some(event));
    }
}

#[test]
fn a_moved_job_has_events_in_both_queues_and_a_recreated_queue_continues_the_events_of_its_name() {
    let mut yard = Yard::new();
    let id = yard.enqueue("a", JobSpec::new(b"{}"));
    yard.one(Command::Change { job: id, change: Change::Move { queue: "b" } });
    assert_eq!(names(&read(&yard, &of_queue("a"), Cursor::START, 100)), ["queue created", "enqueued", "moved out"]);
    assert_eq!(names(&read(&yard, &of_queue("b"), Cursor::START, 100)), ["queue created", "edited"]);

    let mut reading = LifeReading::new(of_queue("b"), Cursor::behind(yard.world.log.tail())).expect("a filter");
    yard.one(Command::SetQueue { queue: "b", change: QueueChange::Paused(true) });
    yard.one(Command::Clear { queue: "b" });
    yard.one(Command::Destroy { queue: "b" });
    yard.enqueue("b", JobSpec::new(b"{}"));
    let mut all = Vec::new();
    let up_to = yard.world.log.tail();
    reading.read(&yard.world.log, up_to, 100, 1 << 20, |event| all.push(event)).expect("readable");
    let expected = ["queue set", "queue cleared", "queue destroyed", "queue created", "enqueued"];
    assert_eq!(names(&all), expected);
}

#[test]
fn the_events_of_a_destroyed_queue_are_followed_under_its_name_with_those_of_the_next_of_that_name() {
    let mut yard = Yard::new();
    yard.enqueue("q", JobSpec::new(b"1"));
    let job = yard.fetch(&["q"], 1).remove(0);
    yard.one(Command::Ack { job: job.job, token: job.token, result: b"" });
    yard.enqueue("q", JobSpec::new(b"2"));
    yard.one(Command::Destroy { queue: "q" });
    let mut expected = vec!["queue created", "enqueued", "leased", "completed", "enqueued", "queue destroyed"];
    let followed = |yard: &Yard| read(yard, &of_queue("q"), Cursor::START, 1);
    assert_eq!(names(&followed(&yard)), expected);
    yard.enqueue("q", JobSpec::new(b"3"));
    yard.one(Command::Tick);
    yard.enqueue("q", JobSpec::new(b"4"));
    expected.extend(["queue created", "enqueued", "cancelled", "enqueued"]);
    let events = followed(&yard);
    assert_eq!(names(&events), expected);
    assert!(events.iter().all(|event| &*event.queue == "q"));
    let numbers: Vec<u64> = events.iter().map(|event| event.number.get()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 0, 1, 6, 2], "each queue has its own numbers");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(read(&yard, &of_queue("q"), event.after, 3), events[number + 1..], "behind {}", event.after);
    }
}

#[test]
fn an_event_between_the_lookup_of_the_queues_and_the_read_is_returned_by_the_next_read() {
    let mut yard = Yard::new();
    yard.enqueue("a", JobSpec::new(b"1"));
    let filter = LifeFilter { queues: vec!["a".to_owned(), "b".to_owned()], ..LifeFilter::default() };
    let mut reading = LifeReading::new(filter, Cursor::START).expect("a filter");
    let up_to = yard.world.log.tail();
    yard.enqueue("b", JobSpec::new(b"2"));
    yard.enqueue("a", JobSpec::new(b"3"));
    let mut all = Vec::new();
    assert!(
        reading.read(&yard.world.log, up_to, 100, 1 << 20, |event| all.push(event)).expect("readable").is_caught_up
    );
    let up_to = yard.world.log.tail();
    reading.read(&yard.world.log, up_to, 100, 1 << 20, |event| all.push(event)).expect("readable");
    let payloads: Vec<_> = all.iter().filter(|event| event.job.is_some()).map(|event| event.data.as_slice()).collect();
    assert_eq!(payloads, [b"1", b"2", b"3"]);
}

#[test]
fn a_reading_ends_with_the_event_that_reaches_its_maximum_of_bytes() {
    let mut yard = Yard::new();
    let each: Vec<_> = (0..5).map(|_| Command::Enqueue { queue: "q", job: JobSpec::new(&[7; 100]) }).collect();
    yard.one(Command::Each(&each));
    let jobs = yard.commit(&[fetch(&["q"], 5)]).expect("accepted");
    assert_eq!(jobs.len(), 1);
    let mut reading = LifeReading::new(of_queue("q"), Cursor::START).expect("a filter");
    let mut given = Vec::new();
    let up_to = yard.world.log.tail();
    while !reading
        .read(&yard.world.log, up_to, 100, 150, |event| given.push(event.number.get()))
        .expect("read")
        .is_caught_up
    {
        assert!([3, 5, 6, 11].contains(&given.len()), "{given:?}");
    }
    assert_eq!(given, (0..11).collect::<Vec<_>>());
}
