//! The database of a killed process, compared with its output: every acknowledged commit exists,
//! whole, in order, once, and no commit exists in part.
//!
//! The events order the checks of the other models. Each model has the commits in the same order,
//! with nothing missing or added. A commit that one model has is therefore in all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quire::events::{EventPosition, Query, ReadOptions};
use quire::graph::{BlockId, Direction};
use quire::jobs::{Filter, JobId, JobState};
use quire::{Database, Durability, Event, Position, Sequence};

use crate::child::{GRAPH, QUEUE, STORE, TOPIC};
use crate::ledger::{Ledger, Made};

/// The commits that exist, by the events.
struct Story {
    /// In order.
    made: Vec<(String, EventPosition)>,
    /// By the id of the commit that enqueued the job.
    acked: BTreeSet<String>,
    /// By group: the offset of its last commit.
    offsets: BTreeMap<String, Sequence>,
}

pub(crate) fn inspect(path: &Path, durability: Durability, ledger: &Ledger) {
    let database = crate::builder(path, durability).open().expect("what was killed opens");
    for position in 1..=database.published().get() {
        assert!(database.history().record(Position::new(position)).unwrap().is_some(), "record {position} is there");
    }
    let story = tell_story(&database);
    let offsets = check_messages(&database, &story);
    let jobs = check_jobs(&database, &story);
    check_graph(&database, &story);
    for (group, offset) in &story.offsets {
        let committed = database.topic(TOPIC).committed_offset(group, 0).expect("readable");
        assert_eq!(committed, Some(*offset), "the offset of {group} is that of its last acknowledged job");
    }
    let found: BTreeMap<&str, Made> = story
        .made
        .iter()
        .zip(offsets)
        .zip(jobs)
        .map(|(((id, event), offset), job)| {
            (id.as_str(), Made { position: job.place().position, event: *event, offset, job })
        })
        .collect();
    assert_eq!(found.len(), story.made.len(), "no commit is there twice");
    for (id, made) in &ledger.made {
        assert_eq!(found.get(id.as_str()), Some(made), "commit {id} was acknowledged");
    }
    for id in ledger.acked.keys() {
        assert!(story.acked.contains(id), "the end of job {id} was acknowledged");
    }
}

fn tell_story(database: &Database) -> Story {
    let read = database.events(STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
    let mut story = Story { made: Vec::new(), acked: BTreeSet::new(), offsets: BTreeMap::new() };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut events = (1..).zip(&read.events).map(|(position, event): (u64, &Event)| {
        assert_eq!(event.position.get(), position, "positions of events are dense");
        event
    });
    while let Some(event) = events.next() {
        match event.event_type.as_str() {
            "Made" => {
                let also = events.next().expect("the other event of the commit");
                assert_eq!((also.event_type.as_str(), &also.data), ("Also", &event.data));
                story.made.push((text(&event.data), event.position));
            }
            "Acked" => {
                assert!(story.acked.insert(text(&event.tags[0])), "a job is acknowledged once");
                let offset = text(&event.data).parse().expect("an offset");
                story.offsets.insert(text(&event.metadata), Sequence::new(offset));
            }
            other => panic!("event {} is of type {other}", event.position),
        }
    }
    assert_eq!(read.head.get(), read.events.len() as u64);
    story
}

/// The offsets of the commits' messages, in order.
fn check_messages(database: &Database, story: &Story) -> Vec<Sequence> {
    let mut offsets = Vec::new();
    let mut next = Sequence::new(0);
    while !story.made.is_empty() {
        let fetched = database.topic(TOPIC).fetch(0, next, 1 << 20).expect("readable");
        if fetched.records.is_empty() {
            break;
        }
        for record in fetched.records {
            let (id, _) = story.made.get(offsets.len()).expect("no message is without its events");
            assert_eq!(record.value.as_deref(), Some(id.as_bytes()), "messages come in the order of the commits");
            assert_eq!(record.offset.get(), offsets.len() as u64, "offsets are dense");
            offsets.push(record.offset);
        }
        next = fetched.next_offset;
    }
    assert_eq!(offsets.len(), story.made.len(), "every commit has its message");
    offsets
}

/// The commits' jobs, in order.
fn check_jobs(database: &Database, story: &Story) -> Vec<JobId> {
    // One search over all states, so that a job whose lease or backoff ends during the search is
    // found once.
    let (queue, filter) = (database.queue(QUEUE), Filter { queue: Some(QUEUE), ..Filter::default() });
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = database.search_jobs(&filter, after, 1_000).expect("readable");
        jobs.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(jobs.len(), story.made.len(), "every commit has its job");
    for ((id, _), job) in story.made.iter().zip(&jobs) {
        let view = queue.job(*job).expect("readable").expect("there");
        assert_eq!(view.payload, id.as_bytes(), "jobs come in the order of the commits");
        let state = view.state();
        let live = matches!(state, JobState::Pending | JobState::Active | JobState::Retrying);
        assert!(live || state == JobState::Completed, "job {job} of {id} is {state}");
        assert_eq!(state == JobState::Completed, story.acked.contains(id), "job {job} of {id} is {state}");
    }
    jobs
}

fn check_graph(database: &Database, story: &Story) {
    let looked = database.graph(GRAPH).read(|graph, view| {
        assert_eq!(graph.block_count(), story.made.len(), "every commit has its block");
        assert_eq!(graph.edge_count(), story.made.len() + story.acked.len(), "every commit has its edge");
        for (id, _) in &story.made {
            let name = BlockId::of_name(id);
            let block = graph.block(view.history, name).expect("readable").expect("there");
            assert_eq!((block.content, block.version.get()), (id.as_bytes(), 1), "the block of {id} is put once");
            let follows: Vec<_> = graph.neighbours(name, Direction::Outgoing, &["follows"], None).collect();
            assert_eq!(follows.len(), 1, "{id} follows one other");
            assert!(graph.contains(follows[0].block), "an edge has both its ends");
            let acked: Vec<_> = graph.neighbours(name, Direction::Outgoing, &["acked"], None).collect();
            assert_eq!(acked.len(), usize::from(story.acked.contains(id)), "the edge of the acknowledgement of {id}");
        }
    });
    let is_there = looked.expect("readable").is_some();
    assert!(is_there || story.made.is_empty(), "the graph is there");
}
