//! Random commits over all models against four naive ones, with restarts in between.

use std::sync::Arc;

use proptest::prelude::*;
use quire::events::{self, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::graph::{BlockId, Direction, Version};
use quire::jobs::{JobId, JobSpec, LeaseToken, Priority};
use quire::{
    Commit, Database, Durability, ManualClock, Message, NewBlock, NewEdge, Outcome, Position, Reply, Sequence,
};
use quire::{graph, jobs, streams};

use crate::naive::{Answer, Condition, Naive, Part, Standing};
use crate::support::{BLOCKS, Place, everything};

/// Names of topics, queues and groups.
const NAMES: [&str; 2] = ["one", "two"];
/// Names of stores. Kafka clients see stores as topics, so no topic has such a name.
const STORES: [&str; 2] = ["events/one", "events/two"];
const TAGS: [&str; 3] = ["red", "green", "blue"];

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Part>),
    Checkpoint,
    Restart { with_checkpoint: bool },
}

fn part() -> impl Strategy<Value = Part> {
    let (name, tag, block) = (0..NAMES.len(), 0..TAGS.len(), 0..BLOCKS.len());
    let condition = prop_oneof![
        3 => Just(None),
        2 => tag.clone().prop_map(|tag| Some(Condition::NoneWith { tag })),
        1 => (tag.clone(), 0..4u64).prop_map(|(tag, position)| Some(Condition::LastIs { tag, position })),
    ];
    let append = (name.clone(), tag, 0..3usize, condition).prop_map(|(store, tag, events, condition)| {
        // An append has an event or a condition.
        let events = if condition.is_none() { events.max(1) } else { events };
        Part::Append { store, tag, events, condition, value: 0 }
    });
    let (source, target) = (block.clone(), block.clone());
    let (from, to) = (block.clone(), block.clone());
    prop_oneof![
        4 => append,
        3 => name.clone().prop_map(|topic| Part::Produce { topic, value: 0 }),
        1 => (name.clone(), name.clone(), 0..100u64).prop_map(|(group, topic, offset)| Part::Offset { group, topic, offset }),
        4 => (name.clone(), 0..3u8).prop_map(|(queue, priority)| Part::Enqueue { queue, priority, value: 0 }),
        2 => (name, 1..4u32).prop_map(|(queue, count)| Part::Fetch { queue, count }),
        2 => any::<usize>().prop_map(|job| Part::Ack { job }),
        5 => (block.clone(), prop::bool::weighted(0.2)).prop_map(|(block, must_be_new)| {
            Part::PutBlock { block, must_be_new, value: 0 }
        }),
        1 => block.prop_map(|block| Part::DeleteBlock { block }),
        3 => (source, target).prop_map(|(source, target)| Part::PutEdge { source, target }),
        1 => (from, to).prop_map(|(source, target)| Part::DeleteEdge { source, target }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => prop::collection::vec(part(), 1..6).prop_map(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => any::<bool>().prop_map(|with_checkpoint| Step::Restart { with_checkpoint }),
    ]
}

/// Gives each part its own value, so that the values of two parts always differ.
fn number(parts: &mut [Part], next: &mut u64) {
    for part in parts {
        if let Part::Append { value, .. }
        | Part::Produce { value, .. }
        | Part::Enqueue { value, .. }
        | Part::PutBlock { value, .. } = part
        {
            *next += 1;
            *value = *next;
        }
    }
}

/// Commits the same to the database.
fn commit(database: &Database, naive: &Naive, parts: &[Part]) -> Outcome {
    let texts: Vec<String> = parts.iter().map(|part| value_of(part).to_string()).collect();
    let queues: Vec<[&str; 1]> = NAMES.iter().map(|name| [*name]).collect();
    let commit = parts.iter().zip(&texts).fold(Commit::new(), |commit, (part, text)| match *part {
        Part::Append { store, tag, events, ref condition, .. } => {
            let events = (0..events).map(|_| NewEvent::new("Made").tag(TAGS[tag]).data(text));
            let query = |tag: usize| Query::from(QueryItem::new().tag(TAGS[tag]));
            let condition = condition.as_ref().map(|condition| match *condition {
                Condition::NoneWith { tag } => events::Condition::fail_if_matches(query(tag)),
                Condition::LastIs { tag, position } => {
                    events::Condition::last_is(query(tag), EventPosition::new(position))
                }
            });
            commit.append_if(STORES[store], events, condition)
        }
        Part::Produce { topic, .. } => commit.produce(NAMES[topic], Message::new(text)),
        Part::Offset { group, topic, offset } => {
            commit.commit_offset(NAMES[group], NAMES[topic], 0, Sequence::new(offset))
        }
        Part::Enqueue { queue, priority, .. } => {
            let job = JobSpec { priority: Priority::new(priority), ..JobSpec::new(text.as_bytes()) };
            commit.enqueue(NAMES[queue], job)
        }
        Part::Fetch { queue, count } => {
            let (queues, worker) = (&queues[queue], "worker");
            commit.part(quire::Part::Jobs(jobs::Command::Fetch {
                queues,
                order: jobs::Order::Strict,
                count,
                lease_micros: 1_000_000,
                worker,
            }))
        }
        Part::Ack { job } => {
            let nowhere = quire::Place::new(Position::new(u64::MAX), 7);
            let known = naive.jobs.get(job % naive.jobs.len().max(1));
            let id = known.and_then(|job| job.id).unwrap_or(JobId::new(nowhere));
            let token = known.and_then(|job| job.token).unwrap_or(LeaseToken::new(nowhere));
            commit.ack(id, token, b"")
        }
        Part::PutBlock { block, must_be_new, .. } => {
            let block = NewBlock::new(BLOCKS[block], "thing").content(text);
            commit.put_block("graph", if must_be_new { block.expect_version(Version::ABSENT) } else { block })
        }
        Part::DeleteBlock { block } => commit.delete_block("graph", BLOCKS[block]),
        Part::PutEdge { source, target } => {
            commit.put_edge("graph", NewEdge::new(BLOCKS[source], "knows", BLOCKS[target]))
        }
        Part::DeleteEdge { source, target } => commit.delete_edge("graph", BLOCKS[source], "knows", BLOCKS[target]),
    });
    database.commit(&commit).expect("durable")
}

fn value_of(part: &Part) -> u64 {
    match *part {
        Part::Append { value, .. }
        | Part::Produce { value, .. }
        | Part::Enqueue { value, .. }
        | Part::PutBlock { value, .. } => value,
        _ => 0,
    }
}

/// Compares a reply with the naive one, and notes ids and tokens, which only the database assigns.
fn compare(naive: &mut Naive, answer: &Answer, reply: &Reply) {
    match (answer, reply) {
        (Answer::Appended(positions), Reply::Events(appended)) => {
            let told = appended.first.zip(appended.last).map(|(first, last)| (first.get(), last.get()));
            assert_eq!((told, appended.duplicate), (*positions, false));
        }
        (Answer::Produced(offset), Reply::Streams(streams::Reply::Produced(produced))) => {
            assert_eq!((produced.base_offset.get(), produced.last_offset.get()), (*offset, *offset));
        }
        (Answer::Done, Reply::Streams(streams::Reply::OffsetCommitted(_)) | Reply::Jobs(jobs::Reply::Acked)) => {}
        (Answer::Enqueued(number), Reply::Jobs(jobs::Reply::Enqueued { job, .. })) => {
            naive.jobs[*number].id = Some(*job)
        }
        (Answer::Fetched(numbers), Reply::Jobs(jobs::Reply::Fetched(fetched))) => {
            assert_eq!(numbers.len(), fetched.len());
            for (number, fetched) in numbers.iter().zip(fetched) {
                let job = &mut naive.jobs[*number];
                assert_eq!((job.id, job.value.to_string().as_bytes()), (Some(fetched.job), &fetched.payload[..]));
                job.token = Some(fetched.token);
            }
        }
        (Answer::Was(was), Reply::Graph(reply)) => {
            let told = match reply {
                graph::Reply::BlockPut { created, .. } | graph::Reply::EdgePut { created } => !created,
                graph::Reply::BlockDeleted { version, .. } => *version != Version::ABSENT,
                graph::Reply::EdgeDeleted { existed } => *existed,
                other => panic!("nobody asked for {other:?}"),
            };
            assert_eq!(told, *was);
        }
        (answer, reply) => panic!("{answer:?} is not answered by {reply:?}"),
    }
}

/// Compares everything readable with the naive models.
fn read(database: &Database, naive: &Naive) {
    for (number, name) in NAMES.into_iter().enumerate() {
        let found = database.events(STORES[number]).read(&Query::all(), ReadOptions::default()).expect("readable");
        let events: Vec<_> = found.events.iter().map(|event| (event.tags[0].clone(), event.data.clone())).collect();
        let expected = naive.events.get(&number).into_iter().flatten();
        let expected: Vec<_> =
            expected.map(|(tag, value)| (TAGS[*tag].as_bytes().to_vec(), value.to_string().into_bytes())).collect();
        assert_eq!(events, expected, "store {name}");

        match naive.topics.get(&number) {
            None => assert!(database.topic(name).offsets(0).is_err()),
            Some(values) => {
                let fetched = database.topic(name).fetch(0, Sequence::new(0), usize::MAX).expect("readable");
                let found: Vec<_> = fetched.records.into_iter().filter_map(|record| record.value).collect();
                let expected: Vec<_> = values.iter().map(|value| value.to_string().into_bytes()).collect();
                assert_eq!(found, expected, "topic {name}");
                for (group, group_name) in NAMES.into_iter().enumerate() {
                    let committed = database.topic(name).committed_offset(group_name, 0).expect("there");
                    assert_eq!(committed.map(Sequence::get), naive.offsets.get(&(group, number)).copied());
                }
            }
        }

        let stats = database.queue(name).stats().expect("readable").unwrap_or_default();
        let count =
            |standing| naive.jobs.iter().filter(|job| job.queue == number && job.standing == standing).count() as u64;
        let counts = [Standing::Pending, Standing::Active, Standing::Completed].map(count);
        assert_eq!([stats.pending, stats.active, stats.completed], counts, "queue {name}");
        assert_eq!((stats.scheduled, stats.retrying, stats.dead), (0, 0, 0));
    }
    let graph = database.graph("graph").read(|graph, view| {
        let blocks = BLOCKS.iter().enumerate().filter_map(|(number, name)| {
            let block = graph.block(view.history, BlockId::of_name(name)).expect("readable")?;
            Some((number, std::str::from_utf8(block.content).expect("text").parse::<u64>().expect("a number")))
        });
        let blocks: Vec<_> = blocks.collect();
        let knows = |source: &str, target: &str| {
            let mut targets = graph.neighbours(BlockId::of_name(source), Direction::Outgoing, &["knows"], None);
            targets.any(|neighbour| neighbour.block == BlockId::of_name(target))
        };
        let pairs = (0..BLOCKS.len()).flat_map(|source| (0..BLOCKS.len()).map(move |target| (source, target)));
        let edges: Vec<_> = pairs.filter(|(source, target)| knows(BLOCKS[*source], BLOCKS[*target])).collect();
        (blocks, edges)
    });
    let (blocks, edges) = graph.expect("readable").unwrap_or_default();
    assert_eq!(blocks, naive.blocks.iter().map(|(block, value)| (*block, *value)).collect::<Vec<_>>());
    assert_eq!(edges, naive.edges.iter().copied().collect::<Vec<_>>());
}

fn play(durability: Durability, steps: Vec<Step>) {
    let place = Place::new();
    let clock = Arc::new(ManualClock::default());
    let open = || place.builder(durability).segment_bytes(4096).clock(clock.clone()).open().expect("opened");
    let mut database = Some(open());
    let mut naive = Naive::default();
    let mut next = 0;
    for step in steps {
        let current = database.as_ref().expect("open between the steps");
        match step {
            Step::Commit(mut parts) => {
                number(&mut parts, &mut next);
                let outcome = commit(current, &naive, &parts);
                match (naive.commit(&parts), outcome) {
                    (Ok(answers), Outcome::Committed(committed)) => {
                        assert_eq!(answers.len(), committed.replies.len());
                        let pairs = answers.iter().zip(&committed.replies);
                        pairs.for_each(|(answer, reply)| compare(&mut naive, answer, reply));
                    }
                    (Err(part), Outcome::Refused(refused)) => assert_eq!(refused.part, part, "{refused}"),
                    (expected, found) => panic!("{expected:?} is not {found:?}"),
                }
            }
            Step::Checkpoint => current.checkpoint().expect("saved"),
            Step::Restart { with_checkpoint } => {
                let live = everything(current);
                drop(database.take());
                if !with_checkpoint {
                    place.remove_checkpoints();
                }
                database = Some(open());
                assert_eq!(live, everything(database.as_ref().expect("just opened")));
            }
        }
        read(database.as_ref().expect("open between the steps"), &naive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_commits_over_all_models_agree_with_naive_ones_in_an_os_database(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        play(Durability::Os, steps);
    }

    #[test]
    fn random_commits_over_all_models_agree_with_naive_ones_in_a_sync_database(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        play(Durability::Sync, steps);
    }
}
