//! Messages that are produced to one partition, and fetched.

use quire::{Database, Durability, Message, Sequence};
use serde::{Deserialize, Serialize};
use stateright::semantics::SequentialSpec;

use crate::{Client, Recorder, STEPS, rounds};

/// The messages of the partition, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition(Vec<usize>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PlanStep {
    Produce { message: usize },
    FetchAll,
    NextOffset,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Response {
    Offset(u64),
    Messages(Vec<usize>),
}

impl SequentialSpec for Partition {
    type Op = PlanStep;
    type Ret = Response;

    fn invoke(&mut self, step: &PlanStep) -> Response {
        let next = self.0.len() as u64;
        match step {
            PlanStep::Produce { message } => {
                self.0.push(*message);
                Response::Offset(next)
            }
            PlanStep::FetchAll => Response::Messages(self.0.clone()),
            PlanStep::NextOffset => Response::Offset(next),
        }
    }
}

/// Fetches what there is.
pub(crate) fn look(database: &Database, client: &Client<'_, Partition>) {
    client.step(PlanStep::FetchAll, || fetch(database, &topic(client)));
}

fn topic(client: &Client<'_, Partition>) -> String {
    format!("topic-{}", client.number)
}

fn fetch(database: &Database, topic: &str) -> (Response, ()) {
    let fetched = database.topic(topic).fetch(0, Sequence::new(0), usize::MAX).map(|fetched| fetched.records);
    let number = |value: &[u8]| String::from_utf8_lossy(value).parse().expect("a number");
    let messages = fetched.iter().flatten().map(|record| number(record.value.as_deref().unwrap_or_default()));
    (Response::Messages(messages.collect()), ())
}

pub(crate) fn round(database: &Database, client: &Client<'_, Partition>) {
    let name = topic(client);
    let topic = database.topic(&name);
    let mut choices = client.choices();
    for step in 0..STEPS {
        let message = client.unique(step);
        match choices.u8(..3) {
            0 => client.step(PlanStep::Produce { message }, || {
                let produced = topic.produce(Message::new(message.to_string())).expect("durable");
                (Response::Offset(produced.base_offset.get()), ())
            }),
            1 => client.step(PlanStep::FetchAll, || fetch(database, &name)),
            _ => client.step(PlanStep::NextOffset, || {
                (Response::Offset(topic.offsets(0).map_or(0, |offsets| offsets.next.get())), ())
            }),
        }
    }
}

#[test]
fn produces_and_fetches_are_linearizable() {
    rounds(Durability::Os, 1_500, round);
}

#[test]
fn produces_and_fetches_are_linearizable_also_when_commits_wait_for_the_disk() {
    rounds(Durability::Sync, 100, round);
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn an_offset_that_is_given_twice_is_noticed() {
    let recorder = Recorder::<Partition>::new();
    recorder.step(0, PlanStep::Produce { message: 0 }, || (Response::Offset(0), ()));
    recorder.step(1, PlanStep::Produce { message: 1 }, || (Response::Offset(0), ()));
    recorder.check();
}
