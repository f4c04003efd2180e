//! Random commits, each of a few commands, against the naive model: all replies are equal.

use crate::naive::Naive;
use crate::yard::Yard;
use proptest::prelude::*;
use quire_jobs::{
    Backoff, Change, Clash, Command, Filter, JobId, JobSpec, JobState, LeaseToken, Order, Priority, QueueChange, Rate,
    Refusal, Reply, Retry, States, Unique, UniqueHold, UniqueScope,
};
use quire_model::{Model, Place, Timestamp};

const QUEUES: [&str; 2] = ["a", "b/c"];
const ORDERS: [&[&str]; 5] = [&["a"], &["b/c"], &["a", "b/c"], &["b/c", "a", "b/c"], &["nobody-used-it", "b/c"]];
const BACKOFF: Backoff<&[u64]> = Backoff::Exponential { base_micros: 2, max_micros: 5 };
const GROUPS: [&str; 3] = ["", "x", "y"];
const CLASHES: [Clash; 4] = [Clash::Reject, Clash::Keep, Clash::Replace, Clash::Extend];

/// A command to be: a job or a lease is a number into those there are, counted from the newest.
#[derive(Debug, Clone)]
enum Step {
    Enqueue { queue: usize, priority: u8, delay: Option<u64>, attempts_max: u16, group: usize, more: RareProperties },
    Fetch { order: usize, count: u32, lease_micros: u64 },
    Ack { lease: usize },
    Fail { lease: usize, retry: u8 },
    Snooze { lease: usize, delay: u64 },
    Heartbeat { lease: usize, lease_micros: Option<u64>, says: bool },
    Change { job: usize, change: usize, number: u8 },
    Set { queue: usize, change: usize, number: u8 },
    Clear { queue: usize, destroy: bool },
    Each(Vec<Step>),
    Tick,
}

/// Rare properties of a job.
#[derive(Debug, Clone, Copy, Default)]
struct RareProperties {
    expires: Option<u64>,
    timeout: Option<u64>,
    unique: Option<(usize, usize, bool)>,
}

fn more() -> impl Strategy<Value = RareProperties> {
    let unique = (0..4usize, 0..3usize, any::<bool>());
    prop_oneof![
        4 => Just(RareProperties::default()),
        1 => (0..9u64).prop_map(|expires| RareProperties { expires: Some(expires), ..RareProperties::default() }),
        1 => (1..6u64).prop_map(|timeout| RareProperties { timeout: Some(timeout), ..RareProperties::default() }),
        4 => unique.prop_map(|unique| RareProperties { unique: Some(unique), ..RareProperties::default() }),
    ]
}

fn step() -> BoxedStrategy<Step> {
    let lease = || 0..8usize;
    let delay = prop_oneof![2 => Just(None), 1 => (0..6u64).prop_map(Some)];
    let enqueue = (0..2usize, 0..3u8, delay, 1..4u16, 0..GROUPS.len(), more());
    let heartbeat = (lease(), prop::option::of(1..8u64), any::<bool>());
    let one = prop_oneof![
        8 => enqueue.prop_map(|(queue, priority, delay, attempts_max, group, more)| {
            Step::Enqueue { queue, priority, delay, attempts_max, group, more }
        }),
        8 => (0..ORDERS.len(), 1..5u32, 1..8u64).prop_map(|(order, count, lease_micros)| Step::Fetch { order, count, lease_micros }),
        3 => lease().prop_map(|lease| Step::Ack { lease }),
        3 => (lease(), 0..6u8).prop_map(|(lease, retry)| Step::Fail { lease, retry }),
        2 => (lease(), 0..5u64).prop_map(|(lease, delay)| Step::Snooze { lease, delay }),
        2 => heartbeat.prop_map(|(lease, lease_micros, says)| Step::Heartbeat { lease, lease_micros, says }),
        6 => (0..9usize, 0..10usize, 0..4u8).prop_map(|(job, change, number)| Step::Change { job, change, number }),
        3 => (0..2usize, 0..8usize, 0..4u8).prop_map(|(queue, change, number)| Step::Set { queue, change, number }),
        1 => (0..2usize, any::<bool>()).prop_map(|(queue, destroy)| Step::Clear { queue, destroy }),
        1 => Just(Step::Tick),
    ];
    let one = one.boxed();
    prop_oneof![6 => one.clone(), 1 => prop::collection::vec(one, 0..5).prop_map(Step::Each)].boxed()
}

fn rate(number: u8) -> Option<Rate> {
    (number > 1).then(|| Rate::SlidingWindow { count: u32::from(number), window_micros: 5 })
}

fn command(step: &Step, naive: &Naive, now: Timestamp) -> Command<'static> {
    let lease = |number: &usize| match naive.leases.len() {
        0 => (JobId::new(Place::START), LeaseToken::new(Place::START)),
        count => naive.leases[count - 1 - number % count],
    };
    let job = |number: &usize| match naive.all().count() {
        0 => JobId::new(Place::START),
        count => naive.all().nth(count - 1 - number % count).expect("in range").0,
    };
    let at = |delay: &u64| now.plus_micros(*delay);
    match step {
        Step::Enqueue { queue, priority, delay, attempts_max, group, more } => Command::Enqueue {
            queue: QUEUES[*queue],
            job: JobSpec {
                kind: "mail",
                priority: Priority::new(*priority),
                run_at: delay.as_ref().map(at),
                attempts_max: *attempts_max,
                backoff: BACKOFF,
                group: GROUPS[*group],
                expires_at: more.expires.as_ref().map(at),
                timeout_micros: more.timeout,
                unique: more.unique.map(|(clash, hold, everywhere)| Unique {
                    key: b"key",
                    scope: if everywhere { UniqueScope::Everywhere } else { UniqueScope::Queue },
                    hold: [UniqueHold::UntilFinished, UniqueHold::UntilStarted, UniqueHold::For(6)][hold],
                    clash: CLASHES[clash],
                }),
                ..JobSpec::new(&b"payload"[*queue..])
            },
        },
        Step::Fetch { order, count, lease_micros } => Command::Fetch {
            queues: ORDERS[*order],
            order: Order::Strict,
            count: *count,
            lease_micros: *lease_micros,
            worker: "w",
        },
        Step::Ack { lease: number } => {
            let (job, token) = lease(number);
            Command::Ack { job, token, result: b"ok" }
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
        Step::Snooze { lease: number, delay } => {
            let (job, token) = lease(number);
            Command::Snooze { job, token, until: at(delay) }
        }
        Step::Heartbeat { lease: number, lease_micros, says } => {
            let (job, token) = lease(number);
            let checkpoint = says.then_some(&b"so far"[..]);
            Command::Heartbeat { job, token, lease_micros: *lease_micros, progress: checkpoint, checkpoint }
        }
        Step::Change { job: wanted, change, number } => {
            let job = job(wanted);
            let change = match change {
                0 => Change::Cancel { reason: "r" },
                1 => Change::Hold { reason: "r" },
                2 => Change::Release,
                3 => Change::Reschedule { run_at: at(&u64::from(*number)) },
                4 => Change::Retry { payload: (*number == 0).then_some(b"edited") },
                5 => Change::Delete,
                6 => Change::Move { queue: QUEUES[usize::from(*number % 2)] },
                7 => Change::Priority(Priority::new(*number)),
                8 => Change::AttemptsMax(u16::from(*number) + 1),
                _ => Change::Payload(b"other"),
            };
            Command::Change { job, change }
        }
        Step::Set { queue, change, number } => {
            let most = Some(u32::from(*number)).filter(|most| *most > 0);
            let change = match change {
                0 => QueueChange::Paused(*number == 0),
                1 => QueueChange::Draining(*number == 0),
                2 => QueueChange::ActiveMax(most),
                3 => QueueChange::GroupActiveMax(most),
                4 => QueueChange::Rate(rate(*number)),
                5 => QueueChange::JobsMax(most.map(|most| most * 3)),
                6 => QueueChange::Retention(most.map(u64::from)),
                _ => QueueChange::GroupRate(rate(*number)),
            };
            Command::SetQueue { queue: QUEUES[*queue], change }
        }
        Step::Clear { queue, destroy: false } => Command::Clear { queue: QUEUES[*queue] },
        Step::Clear { queue, destroy: true } => Command::Destroy { queue: QUEUES[*queue] },
        Step::Each(steps) => {
            Command::Each(steps.iter().map(|step| command(step, naive, now)).collect::<Vec<_>>().leak())
        }
        Step::Tick => Command::Tick,
    }
}

fn may_choose(command: &Command<'_>) -> bool {
    match command {
        Command::Fetch { .. } => true,
        Command::Each(commands) => commands.iter().any(may_choose),
        _ => false,
    }
}

/// Commits the same to both and compares the answers.
fn commit(yard: &mut Yard, naive: &mut Naive, commands: &[Command<'static>]) {
    let real = yard.commit(commands);
    naive.begin_commit(yard.now);
    if real.is_err() && commands.iter().any(may_choose) {
        // Only an accepted commit shows which job of which group was fetched.
        return;
    }
    let mut after = naive.clone();
    let mut replies = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        match after.answer(command, real.as_ref().ok().map(|replies| &replies[index])) {
            Ok(reply) => replies.push(reply),
            Err(refusal) => {
                // Of a job that the refused commit itself would have enqueued, the naive one does
                // not know the id.
                let unknown = refusal == Refusal::Duplicate { job: JobId::new(Place::END) };
                let same = matches!(&real, Err((at, Refusal::Duplicate { .. })) if *at == index);
                assert!(
                    unknown && same || real == Err((index, refusal.clone())),
                    "{real:?}, not refused {index}: {refusal:?}"
                );
                return;
            }
        }
    }
    assert_eq!(real, Ok(replies), "accepted");
    *naive = after;
}

/// Takes all time in, then compares what can be read.
fn compare_reads(yard: &mut Yard, naive: &mut Naive) {
    while yard.one(Command::Tick) != (Reply::Ticked { jobs: 0, more: false }) {}
    naive.begin_commit(yard.now);
    assert_eq!(yard.world.model.next_due(), naive.next_due());
    for queue in QUEUES {
        assert_eq!(yard.world.model.queue_stats(queue), naive.stats(queue), "{queue}");
        let mut all = Vec::new();
        for state in JobState::ALL {
            let filter = Filter { queue: Some(queue), states: States::of([state]), ..Filter::default() };
            let mut listed = yard.world.model.search(&yard.world.log, &filter, None, 1_000).expect("readable").jobs;
            if matches!(state, JobState::Completed | JobState::Cancelled) {
                listed.sort();
            }
            assert_eq!(listed, naive.ids(queue, state), "{queue}, {state}");
            all.extend(listed);
        }
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let filter = Filter { queue: Some(queue), ..Filter::default() };
            let page = yard.world.model.search(&yard.world.log, &filter, after, 2).expect("readable");
            paged.extend(page.jobs);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        paged.sort();
        all.sort();
        assert_eq!(paged, all, "each job of {queue} once");
    }
    for (id, state, attempt, payload) in naive.all() {
        let view = yard.view(id).expect("there");
        assert_eq!((view.state(), view.payload.as_slice()), (state, payload), "{id}");
        assert_eq!(view.attempt, attempt, "{id}");
        let history = yard.world.model.history(&yard.world.log, id, None, 1_000).expect("readable");
        assert_eq!(history.steps.last().map(|step| step.place), Some(id.place()), "the chain ends with the enqueue");
    }
}

/// A compaction keeps everything of an unfinished or dead job. Of a finished job it keeps
/// everything or removes the beginning of its history: its time in a queue with a shorter
/// retention.
fn compare_compacted(yard: &Yard, naive: &Naive) {
    for history_from in [Timestamp::ZERO, yard.now] {
        let (model, mut log) = (&yard.world.model, yard.world.log.clone());
        log.compact(log.tail().next(), |entry| model.survives(entry, history_from));
        for (id, state, ..) in naive.all() {
            let (left, whole) = (model.job(&log, id).expect("readable"), yard.view(id));
            let may_go = matches!(state, JobState::Completed | JobState::Cancelled);
            assert!(left == whole || left.is_none() && may_go, "{id}, {state}: {left:?}, was {whole:?}");
            if left.is_some() {
                let steps = |log| model.history(log, id, None, 1_000).expect("readable").steps;
                let (left, whole) = (steps(&log), steps(&yard.world.log));
                assert!(whole.starts_with(&left) && (left == whole || may_go), "{id}: {left:?}, was {whole:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_model_answers_like_the_naive_one(
        commits in prop::collection::vec((0..4u64, prop::collection::vec(step(), 1..4)), 1..40),
    ) {
        let mut yard = Yard::new();
        let mut naive = Naive::default();
        for (wait, steps) in commits {
            yard.wait(wait);
            let commands: Vec<Command<'static>> = steps.iter().map(|step| command(step, &naive, yard.now)).collect();
            commit(&mut yard, &mut naive, &commands);
        }
        compare_reads(&mut yard, &mut naive);
        crate::life::assert_told(&yard, &QUEUES, naive.all().map(|(id, state, ..)| (id, state)));
        naive.assert_tokens_unique();
        compare_compacted(&yard, &naive);

        for position in 0..=yard.world.log.tail().get() {
            yard.assert_restart_equal(quire_model::Position::new(position));
        }

        // As many as may be fetched can be, one by one.
        for queue in QUEUES {
            let fetchable = naive.fetchable(queue);
            let mut fetched = 0;
            while yard.fetch(&[queue], 1).len() == 1 {
                fetched += 1;
            }
            prop_assert_eq!(fetched, fetchable);
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
