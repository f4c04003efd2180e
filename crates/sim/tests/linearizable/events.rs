//! Appends under a condition, and reads, of one tag.

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::{Commit, Database, Durability, Outcome, Reply};
use serde::{Deserialize, Serialize};
use stateright::semantics::SequentialSpec;

use crate::{Client, Recorder, STEPS, rounds};

/// The events of the tag, in order: their ids distinguish them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Vec<usize>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PlanStep {
    Read,
    Append {
        event: usize,
    },
    /// Under the condition that there are as many as were seen.
    AppendIf {
        event: usize,
        seen: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Response {
    Events(Vec<usize>),
    Appended,
    Refused,
}

impl SequentialSpec for Events {
    type Op = PlanStep;
    type Ret = Response;

    fn invoke(&mut self, step: &PlanStep) -> Response {
        match step {
            PlanStep::Read => Response::Events(self.0.clone()),
            PlanStep::AppendIf { seen, .. } if *seen != self.0.len() => Response::Refused,
            PlanStep::Append { event } | PlanStep::AppendIf { event, .. } => {
                self.0.push(*event);
                Response::Appended
            }
        }
    }
}

/// A thread's knowledge of the tag.
struct TagView {
    count: usize,
    last: EventPosition,
}

fn tag(client: &Client<'_, Events>) -> String {
    format!("round:{}", client.number)
}

fn query(tag: &str) -> Query<'_> {
    Query::from(QueryItem::new().tag(tag))
}

fn read(database: &Database, tag: &str) -> (Response, TagView) {
    let read = database.events("store").read(&query(tag), ReadOptions::default()).expect("readable").events;
    let events = read.iter().map(|event| String::from_utf8_lossy(&event.data).parse().expect("a number"));
    let last = read.last().map_or(EventPosition::ZERO, |event| event.position);
    (Response::Events(events.collect()), TagView { count: read.len(), last })
}

/// The position of the event, if it was appended.
fn append(
    database: &Database,
    tag: &str,
    event: usize,
    condition: Option<Condition<'_>>,
) -> (Response, Option<EventPosition>) {
    let data = event.to_string();
    let commit = Commit::new().append_if("store", [NewEvent::new("Counted").tag(tag).data(&data)], condition);
    match database.commit(&commit).expect("durable") {
        Outcome::Committed(committed) => match committed.replies[..] {
            [Reply::Events(appended)] => (Response::Appended, appended.first),
            ref other => panic!("an append is answered by its positions, not by {other:?}"),
        },
        Outcome::Refused(_) => (Response::Refused, None),
    }
}

/// Reads what there is.
pub(crate) fn look(database: &Database, client: &Client<'_, Events>) {
    client.step(PlanStep::Read, || read(database, &tag(client)));
}

pub(crate) fn round(database: &Database, client: &Client<'_, Events>) {
    let tag = tag(client);
    let mut choices = client.choices();
    let mut seen = TagView { count: 0, last: EventPosition::ZERO };
    for step in 0..STEPS {
        let event = client.unique(step);
        match choices.u8(..10) {
            0..4 => seen = client.step(PlanStep::Read, || read(database, &tag)),
            4 => _ = client.step(PlanStep::Append { event }, || append(database, &tag, event, None)),
            _ => {
                let condition = Condition::last_is(query(&tag), seen.last);
                let op = PlanStep::AppendIf { event, seen: seen.count };
                if let Some(last) = client.step(op, || append(database, &tag, event, Some(condition))) {
                    seen = TagView { count: seen.count + 1, last };
                }
            }
        }
    }
}

#[test]
fn conditional_appends_and_reads_are_linearizable() {
    rounds(Durability::Os, 1_500, round);
}

#[test]
fn conditional_appends_and_reads_are_linearizable_also_when_commits_wait_for_the_disk() {
    rounds(Durability::Sync, 100, round);
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn two_appends_under_one_condition_are_noticed() {
    let recorder = Recorder::<Events>::new();
    recorder.step(0, PlanStep::AppendIf { event: 0, seen: 0 }, || {
        recorder.step(1, PlanStep::AppendIf { event: 1, seen: 0 }, || (Response::Appended, ()));
        (Response::Appended, ())
    });
    recorder.check();
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn a_read_that_misses_what_was_acknowledged_is_noticed() {
    let recorder = Recorder::<Events>::new();
    recorder.step(0, PlanStep::Append { event: 7 }, || (Response::Appended, ()));
    recorder.step(1, PlanStep::Read, || (Response::Events(Vec::new()), ()));
    recorder.check();
}
