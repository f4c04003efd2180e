//! A read at the place that a reply names returns the part that was committed.

use quire::events::{EventPosition, NewEvent, Query, ReadOptions};
use quire::graph::BlockId;
use quire::jobs::{self, JobId, JobSpec};
use quire::{Commit, Database, Durability, Message, NewBlock, Position, Reply, Sequence, graph, streams};

use crate::support::Place;

const THREADS: usize = 8;
const COMMITS: usize = 125;

/// The places that the reply to a commit names.
struct Answer {
    id: String,
    position: Position,
    event: EventPosition,
    partition: u32,
    offset: Sequence,
    job: JobId,
}

fn commit(database: &Database, id: &str) -> Answer {
    let commit = Commit::new()
        .put_block("graph", NewBlock::new(id, "thing").content(id.as_bytes()))
        .append("store", [NewEvent::new("Made").tag(id).data(id), NewEvent::new("Counted").tag(id).data(id)])
        .enqueue("queue", JobSpec::new(id.as_bytes()))
        .produce("topic", Message::new(id).key(id));
    let committed = database.commit(&commit).expect("durable").committed().expect("accepted");
    match committed.replies[..] {
        [
            Reply::Graph(graph::Reply::BlockPut { block, .. }),
            Reply::Events(appended),
            Reply::Jobs(jobs::Reply::Enqueued { job, .. }),
            Reply::Streams(streams::Reply::Produced(produced)),
        ] => {
            assert_eq!(block, BlockId::of_name(id));
            Answer {
                id: id.to_owned(),
                position: committed.at.position,
                event: appended.first.expect("two events"),
                partition: produced.partition,
                offset: produced.base_offset,
                job,
            }
        }
        ref other => panic!("the answers are those of the parts, not {other:?}"),
    }
}

fn verify(database: &Database, answers: &[Answer]) {
    let head = EventPosition::new(2 * answers.len() as u64);
    assert_eq!(database.events("store").head().expect("readable"), head);
    for answer in answers {
        let id = answer.id.as_bytes();
        let options = ReadOptions {
            after: EventPosition::new(answer.event.get() - 1),
            up_to: Some(answer.event.next()),
            ..ReadOptions::default()
        };
        let read = database.events("store").read(&Query::all(), options).expect("readable");
        let events: Vec<_> = read.events.iter().map(|event| (event.event_type.as_str(), &event.data[..])).collect();
        assert_eq!(events, [("Made", id), ("Counted", id)], "the events of {}", answer.id);
        let fetched = database.topic("topic").fetch(answer.partition, answer.offset, 1).expect("readable");
        assert_eq!(fetched.records[0].value.as_deref(), Some(id), "the message of {}", answer.id);
        assert_eq!(fetched.records[0].offset, answer.offset);
        let job = database.queue("queue").job(answer.job).expect("readable").expect("there");
        assert_eq!(job.payload, id, "the job of {}", answer.id);
        let place = database.graph("graph").read(|graph, view| {
            let block = graph.block(view.history, BlockId::of_name(&answer.id)).expect("readable").expect("there");
            assert_eq!(block.content, id, "the block of {}", answer.id);
            block.place
        });
        assert_eq!(place.expect("readable").expect("there").position, answer.position);
        assert_eq!(answer.job.place().position, answer.position);
    }
    let mut positions: Vec<_> = answers.iter().map(|answer| answer.position.get()).collect();
    positions.sort_unstable();
    assert!(positions.windows(2).all(|pair| pair[0] + 1 == pair[1]), "each position is given once, without gaps");
}

#[test]
fn a_thousand_commits_of_eight_threads_are_found_at_their_returned_positions() {
    for durability in [Durability::Os, Durability::Sync] {
        let place = Place::new();
        let database = place.open(durability);
        database.topic("topic").create(3).expect("created");
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let ids = (0..COMMITS).map(|number| format!("{thread}:{number}"));
                    ids.map(|id| commit(&database, &id)).collect::<Vec<_>>()
                })
            })
            .collect();
        let answers: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(answers.len(), 1_000);
        verify(&database, &answers);
        drop(database);
        verify(&place.open(durability), &answers);
    }
}
