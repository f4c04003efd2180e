//! Random commits, each of a few commands, against the naive model: no answer may tell the two apart.

use crate::naive::Naive;
use crate::yard::Yard;
use proptest::prelude::*;
use quire_jobs::{AckItem, Backoff, Command, JobId, JobState, LeaseToken, NewJob, Priority, Reply, Retry};
use quire_model::{Place, Timestamp};

const QUEUES: [&str; 2] = ["a", "b/c"];
const ORDERS: [&[&str]; 5] = [&["a"], &["b/c"], &["a", "b/c"], &["b/c", "a", "b/c"], &["nobody-used-it", "b/c"]];
const BACKOFF: Backoff = Backoff { base_micros: 2, max_micros: 5 };

/// A command to be: a lease is a number into the leases granted before the commit, counted from the newest.
#[derive(Debug, Clone)]
enum Step {
    Enqueue { queue: usize, priority: u8, delay: Option<u64>, attempts_max: u16 },
    Fetch { order: usize, count: u32, lease_micros: u64 },
    Ack { lease: usize },
    AckMany { leases: Vec<usize> },
    Fail { lease: usize, retry: u8 },
    Heartbeat { lease: usize, lease_micros: u64 },
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let lease = || 0..8usize;
    let delay = prop_oneof![2 => Just(None), 1 => (0..6u64).prop_map(Some)];
    let enqueue = (0..2usize, 0..3u8, delay, 1..4u16);
    prop_oneof![
        4 => enqueue.prop_map(|(queue, priority, delay, attempts_max)| Step::Enqueue { queue, priority, delay, attempts_max }),
        4 => (0..ORDERS.len(), 1..4u32, 1..8u64).prop_map(|(order, count, lease_micros)| Step::Fetch { order, count, lease_micros }),
        1 => lease().prop_map(|lease| Step::Ack { lease }),
        2 => prop::collection::vec(lease(), 0..4).prop_map(|leases| Step::AckMany { leases }),
        2 => (lease(), 0..6u8).prop_map(|(lease, retry)| Step::Fail { lease, retry }),
        1 => (lease(), 1..8u64).prop_map(|(lease, lease_micros)| Step::Heartbeat { lease, lease_micros }),
        1 => Just(Step::Tick),
    ]
}

fn command(step: &Step, naive: &Naive, now: Timestamp) -> Command<'static> {
    let lease = |number: &usize| match naive.leases.len() {
        0 => (JobId::new(Place::START), LeaseToken::new(Place::START)),
        count => naive.leases[count - 1 - number % count],
    };
    match step {
        Step::Enqueue { queue, priority, delay, attempts_max } => Command::Enqueue {
            queue: QUEUES[*queue],
            job: NewJob {
                kind: "mail",
                priority: Priority::new(*priority),
                run_at: delay.map(|delay| now.plus_micros(delay)),
                attempts_max: *attempts_max,
                backoff: BACKOFF,
                ..NewJob::new(&b"payload"[*queue..])
            },
        },
        Step::Fetch { order, count, lease_micros } => {
            Command::Fetch { queues: ORDERS[*order], count: *count, lease_micros: *lease_micros, worker: "w" }
        }
        Step::Ack { lease: number } => {
            let (job, token) = lease(number);
            Command::Ack { job, token, result: b"ok" }
        }
        Step::AckMany { leases } => {
            let items = leases.iter().map(lease).map(|(job, token)| AckItem { job, token, result: b"" });
            Command::AckMany { items: items.collect::<Vec<_>>().leak() }
        }
        Step::Fail { lease: number, retry } => {
            let (job, token) = lease(number);
            let retry = match retry {
                0 => Retry::Never,
                1 => Retry::At(Timestamp::ZERO),
                2 => Retry::At(now.plus_micros(3)),
                _ => Retry::Backoff,
            };
            Command::Fail { job, token, error: "no", retry }
        }
        Step::Heartbeat { lease: number, lease_micros } => {
            let (job, token) = lease(number);
            Command::Heartbeat { job, token, lease_micros: *lease_micros }
        }
        Step::Tick => Command::Tick,
    }
}

/// Commits the same to both and compares the answers.
fn commit(yard: &mut Yard, naive: &mut Naive, commands: &[Command<'static>]) {
    let real = yard.commit(commands);
    naive.begin_commit(yard.now);
    let mut after = naive.clone();
    let mut replies = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        match after.answer(command, real.as_ref().ok().map(|replies| &replies[index])) {
            Ok(reply) => replies.push(reply),
            Err(refusal) => {
                assert_eq!(real, Err((index, refusal)), "refused");
                return;
            }
        }
    }
    assert_eq!(real, Ok(replies), "accepted");
    *naive = after;
}

/// Takes all time in, then compares what can be read.
fn compare_reads(yard: &mut Yard, naive: &mut Naive) {
    commit(yard, naive, &[Command::Tick]);
    assert_eq!(yard.world.model.next_due(), naive.next_due());
    for (queue, stats) in yard.world.model.queues() {
        assert_eq!(stats, naive.stats(queue), "{queue}");
        for state in JobState::ALL {
            let page = yard.world.model.list(&yard.world.log, queue, state, None, 1_000).expect("readable");
            assert_eq!((page.jobs, page.next), (naive.ids(queue, state), None), "{state} jobs of {queue}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_and_reads_are_those_of_the_naive_model(
        commits in prop::collection::vec((0..4u64, prop::collection::vec(step(), 1..4), prop::bool::weighted(0.2)), 1..50)
    ) {
        let mut yard = Yard::new();
        let mut naive = Naive::default();
        for (wait, steps, read) in &commits {
            yard.wait(*wait);
            let commands: Vec<_> = steps.iter().map(|step| command(step, &naive, yard.now)).collect();
            commit(&mut yard, &mut naive, &commands);
            if *read {
                compare_reads(&mut yard, &mut naive);
            }
        }
        compare_reads(&mut yard, &mut naive);
        naive.assert_tokens_unique();

        for position in 0..=yard.world.log.tail().get() {
            yard.assert_restart_equal(quire_model::Position::new(position));
        }

        // As many as are pending can be fetched, one by one.
        for queue in QUEUES {
            let pending = naive.stats(queue).pending;
            let fetched = (0..pending + 1).map(|_| yard.fetch(&[queue], 1).len() as u64).sum::<u64>();
            prop_assert_eq!(fetched, pending);
        }
    }
}

#[test]
fn the_generator_reaches_every_state() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    let (mut refused, mut accepted) = (0, 0);
    let mut yard = Yard::new();
    let mut naive = Naive::default();
    for number in 0..600 {
        yard.wait(number % 4);
        let step = step().new_tree(&mut runner).expect("a step").current();
        let command = command(&step, &naive, yard.now);
        let outcome = yard.commit(&[command]);
        naive.begin_commit(yard.now);
        match outcome {
            Ok(replies) => {
                accepted += usize::from(!matches!(replies[0], Reply::Ticked { .. }));
                drop(naive.answer(&command, Some(&replies[0])));
            }
            Err(_) => refused += 1,
        }
        seen.extend(JobState::ALL.into_iter().filter(|state| QUEUES.iter().any(|q| !naive.ids(q, *state).is_empty())));
    }
    assert_eq!(seen.len(), JobState::ALL.len(), "saw {seen:?}");
    assert!(refused > 20 && accepted > 200, "{refused} refused, {accepted} accepted");
}
