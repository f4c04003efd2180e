//! A commit happens whole or not at all, and its replies come in the order of its parts.

use quire::events::{Append, Command, Condition, EventPosition, NewEvent, Query, QueryItem};
use quire::graph::{PutBlock, PutEdge};
use quire::jobs::{JobId, JobSpec, LeaseToken};
use quire::streams::partition_for_key;
use quire::{
    Commit, Database, ErrorKind, Message, NewBlock, NewEdge, Part, Place, Position, Reason, Reply, Sequence, graph,
    jobs, streams, system,
};

use crate::support::{check, everything, refusal};

/// Commits parts of every model.
fn first(database: &Database) {
    let commit = Commit::new()
        .append("store", [NewEvent::new("Made").tag("id:1").data("one")])
        .produce("topic", Message::new("one").key("1"))
        .enqueue("queue", JobSpec::new(b"one"))
        .put_block("graph", NewBlock::new("a", "thing").content(b"one"));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

/// Parts that are accepted after [`first`], one for each model.
fn good() -> Vec<Part<'static>> {
    let job = JobSpec::new(b"two");
    vec![
        Part::Produce { topic: "topic".into(), message: Message::new("two") },
        append(NewEvent::new("Made").tag("id:2"), vec![]),
        Part::Jobs(jobs::Command::Enqueue { queue: "queue", job }),
        Part::Graph(graph::Command::PutBlock(PutBlock::new("graph", "b", "thing"))),
    ]
}

/// Parts that are refused after [`first`], one for each model.
fn bad() -> Vec<Part<'static>> {
    let taken = Condition::fail_if_matches(Query::from(QueryItem::new().tag("id:1")));
    let nowhere = Place::new(Position::new(77), 0);
    let (group, topic) = ("group", streams::TopicRef::Name("nothing"));
    let offset = Sequence::new(0);
    vec![
        Part::Streams(streams::Command::CommitOffset {
            group,
            topic,
            partition: 0,
            offset,
            leader_epoch: None,
            metadata: "",
            by: streams::Committer::Anyone,
        }),
        append(NewEvent::new("Made").tag("id:1"), vec![taken]),
        Part::Jobs(jobs::Command::Ack { job: JobId::new(nowhere), token: LeaseToken::new(nowhere), result: b"" }),
        Part::Graph(graph::Command::PutEdge(PutEdge::new("graph", "a", "knows", "c"))),
        Part::System(system::Command::DropUser { user: "nobody" }),
    ]
}

fn append(event: NewEvent<'static>, conditions: Vec<Condition<'static>>) -> Part<'static> {
    Part::Events(Command::Append(Append { store: "store", events: vec![event], conditions }))
}

#[test]
fn a_commit_with_a_refused_part_changes_nothing_whichever_part_and_model_refuse() {
    let scenario = |database: &Database| {
        first(database);
        let before = everything(database);
        for model in 0..5 {
            for at in 0..=4 {
                let mut parts = good();
                parts.insert(at, bad().swap_remove(model));
                let commit = parts.into_iter().fold(Commit::new(), Commit::part);
                let refused = refusal(database.commit(&commit).expect("answered"));
                assert_eq!(refused.part, at, "{refused}");
                let of_model = match refused.reason {
                    Reason::Streams(_) => 0,
                    Reason::Events(_) => 1,
                    Reason::Jobs(_) => 2,
                    Reason::Graph(_) => 3,
                    Reason::System(_) => 4,
                    Reason::Idempotency(_) => 5,
                    Reason::NotPermitted(_) => 6,
                };
                assert_eq!(of_model, model, "{refused}");
                assert_eq!(before, everything(database), "after {refused}");
            }
        }
        assert_eq!(database.statistics().refusals, 25);
    };
    check(scenario, |database| {
        assert_eq!(database.published(), Position::new(1));
        assert_eq!(database.events("store").head().expect("readable"), EventPosition::new(1));
        assert_eq!(database.topic("topic").offsets(0).expect("readable").next, Sequence::new(1));
        assert_eq!(database.queue("queue").stats().expect("readable").expect("there").pending, 1);
        let blocks = database.graph("graph").read(|graph, _| (graph.block_count(), graph.edge_count()));
        assert_eq!(blocks.expect("readable"), Some((1, 0)));
    });
}

#[test]
fn the_commit_after_a_refused_one_is_not_touched_by_it() {
    check(
        |database| {
            first(database);
            for model in 0..4 {
                let refused = good().into_iter().chain([bad().swap_remove(model)]).fold(Commit::new(), Commit::part);
                refusal(database.commit(&refused).expect("answered"));
            }
            let accepted = good().into_iter().fold(Commit::new(), Commit::part);
            let committed = database.commit(&accepted).expect("durable").committed().expect("accepted");
            assert_eq!(committed.at.position, Position::new(2));
        },
        |database| {
            assert_eq!(database.events("store").head().expect("readable"), EventPosition::new(2));
            let records = database.topic("topic").fetch(0, Sequence::new(0), 1 << 20).expect("readable");
            let values: Vec<_> = records.records.iter().map(|record| record.value.as_deref()).collect();
            assert_eq!(values, [Some(&b"one"[..]), Some(b"two")]);
        },
    );
}

#[test]
fn the_answers_come_in_the_order_of_the_parts_however_the_models_are_mixed() {
    let part = |model: usize| match model {
        0 => Part::Produce { topic: "topic".into(), message: Message::new("m") },
        1 => good().swap_remove(1),
        2 => good().swap_remove(2),
        _ => good().swap_remove(3),
    };
    let scenario = |database: &Database| {
        // Eight parts, two of each model, have too many orders. These are all rotations of one
        // order, and their reversals.
        let orders = (0..8usize).map(|shift| (0..8).map(|at| ((at + shift) * 3 % 8) / 2).collect::<Vec<_>>());
        let mut offset = 0;
        let mut event = 0;
        for order in orders.clone().chain(orders.map(|order| order.into_iter().rev().collect())) {
            let commit = order.iter().fold(Commit::new(), |commit, model| commit.part(part(*model)));
            let committed = database.commit(&commit).expect("durable").committed().expect("accepted");
            assert_eq!(committed.replies.len(), order.len());
            let mut jobs = Vec::new();
            for (model, reply) in order.iter().zip(&committed.replies) {
                match (model, reply) {
                    (0, Reply::Streams(streams::Reply::Produced(produced))) => {
                        assert_eq!(
                            produced.base_offset,
                            Sequence::new(offset),
                            "messages keep the order of their parts"
                        );
                        offset += 1;
                    }
                    (1, Reply::Events(appended)) => {
                        event += 1;
                        assert_eq!(
                            appended.first,
                            Some(EventPosition::new(event)),
                            "events keep the order of their parts"
                        );
                    }
                    (2, Reply::Jobs(jobs::Reply::Enqueued { job, .. })) => jobs.push(*job),
                    (3, Reply::Graph(graph::Reply::BlockPut { .. })) => {}
                    (model, reply) => panic!("a part of model {model} was answered by {reply:?}"),
                }
            }
            assert!(jobs.is_sorted(), "jobs keep the order of their parts: {jobs:?}");
        }
    };
    check(scenario, |database| assert_eq!(database.published(), Position::new(16)));
}

#[test]
fn a_later_part_sees_what_an_earlier_part_of_its_model_does() {
    let made = Condition::fail_if_matches(Query::from(QueryItem::new().tag("id:9")));
    let scenario = |database: &Database| {
        let commit = Commit::new()
            .put_block("graph", NewBlock::new("a", "thing"))
            .put_block("graph", NewBlock::new("b", "thing"))
            .put_edge("graph", NewEdge::new("a", "knows", "b"))
            .part(Part::Streams(streams::Command::CreateTopic {
                name: "topic",
                partitions: 3,
                settings: streams::TopicSettings::default(),
            }))
            .produce("topic", Message::new("m").partition(2))
            .commit_offset("group", "topic", 2, Sequence::new(1))
            .append("store", [NewEvent::new("Made").tag("id:9")]);
        database.commit(&commit).expect("durable").committed().expect("accepted");

        let twice = Commit::new()
            .append("other", [NewEvent::new("Made").tag("id:9")])
            .put_block("graph", NewBlock::new("c", "thing"))
            .append_if("other", [NewEvent::new("Made").tag("id:9")], [made.clone()]);
        assert_eq!(refusal(database.commit(&twice).expect("answered")).part, 2);
    };
    check(scenario, |database| {
        let counts = database.graph("graph").read(|graph, _| (graph.block_count(), graph.edge_count()));
        assert_eq!(counts.expect("readable"), Some((2, 1)));
        assert_eq!(database.topic("topic").offsets(2).expect("readable").next, Sequence::new(1));
        assert_eq!(database.topic("topic").committed_offset("group", 2).expect("there"), Some(Sequence::new(1)));
        assert_eq!(database.events("other").head().expect("readable"), EventPosition::ZERO);
    });
}

#[test]
fn a_key_goes_to_its_partition_also_in_the_commit_that_creates_the_topic() {
    let keys = ["EWR", "JFK", "LGA", "IAH", "MIA", "ATL"];
    let scenario = |database: &Database| {
        let create = Part::Streams(streams::Command::CreateTopic {
            name: "topic",
            partitions: 5,
            settings: streams::TopicSettings::default(),
        });
        let commit = keys
            .iter()
            .fold(Commit::new().part(create), |commit, key| commit.produce("topic", Message::new("first").key(key)));
        database.commit(&commit).expect("durable").committed().expect("accepted");
        for key in keys {
            database.topic("topic").produce(Message::new("second").key(key)).expect("accepted");
        }
    };
    check(scenario, |database| {
        for key in keys {
            let partition = partition_for_key(key.as_bytes(), 5);
            let fetched = database.topic("topic").fetch(partition, Sequence::new(0), 1 << 20).expect("readable");
            let of_key = fetched.records.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes()));
            let values: Vec<_> = of_key.filter_map(|record| record.value.as_deref()).collect();
            assert_eq!(values, [&b"first"[..], b"second"], "key {key} in partition {partition}");
        }
    });
}

#[test]
fn a_commit_without_parts_is_accepted_and_takes_no_position() {
    check(
        |database| {
            let committed = database.commit(&Commit::new()).expect("answered").committed().expect("accepted");
            assert!(committed.replies.is_empty());
        },
        |database| assert_eq!(database.published(), Position::ZERO),
    );
}

#[test]
fn a_commit_that_is_too_large_does_nothing_and_the_next_one_works() {
    let scenario = |database: &Database| {
        let most = database.commit_bytes_max();
        let large = vec![b'x'; usize::try_from(most).expect("fits")];
        let commit = Commit::new()
            .append("store", [NewEvent::new("Made")])
            .produce("topic", Message::new("m"))
            .enqueue("queue", JobSpec::new(b"j"))
            .put_block("graph", NewBlock::new("a", "thing").content(&large));
        let error = database.commit(&commit).expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains(&most.to_string()), "it names the limit: {error}");
        assert_eq!(everything(database), [""; 0]);
        first(database);
    };
    check(scenario, |database| {
        assert_eq!(database.published(), Position::new(1));
        let content = database.graph("graph").read(|graph, view| {
            let block = graph.block(view.history, quire::graph::BlockId::of_name("a")).expect("readable");
            block.map(|block| block.content.to_vec())
        });
        assert_eq!(content.expect("readable"), Some(Some(b"one".to_vec())));
    });
}
