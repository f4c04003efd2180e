//! Jobs of one queue that are enqueued, fetched, acknowledged, failed and cancelled.

use quire::jobs::{Change, FetchedJob, JobSpec, Retry};
use quire::{Database, Durability, ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};
use stateright::semantics::SequentialSpec;

use crate::{Client, Recorder, STEPS, rounds};

/// The unfinished jobs of the queue, by the number that each carries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    /// In the order of their enqueues, with how often they were tried.
    waiting: Vec<(usize, u16)>,
    /// With the current attempt.
    leased: Vec<(usize, u16)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PlanStep {
    Enqueue {
        job: usize,
    },
    Fetch,
    Ack {
        job: usize,
        attempt: u16,
    },
    /// To be tried again at once.
    Fail {
        job: usize,
        attempt: u16,
    },
    Cancel {
        job: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Response {
    Fetched(Option<(usize, u16)>),
    Done,
    Refused,
}

impl Jobs {
    /// Removes a job from the leased ones, if this attempt is current.
    fn end(&mut self, job: usize, attempt: u16) -> bool {
        let at = self.leased.iter().position(|leased| *leased == (job, attempt));
        at.map(|at| self.leased.swap_remove(at)).is_some()
    }
}

impl SequentialSpec for Jobs {
    type Op = PlanStep;
    type Ret = Response;

    /// The effect of a step without an answer. With such steps, no job is retried.
    fn invoke(&mut self, step: &PlanStep) -> Response {
        match step {
            PlanStep::Enqueue { job } => self.waiting.push((*job, 0)),
            PlanStep::Fetch if self.waiting.is_empty() => {}
            PlanStep::Fetch => {
                let (job, attempts) = self.waiting.remove(0);
                self.leased.push((job, attempts + 1));
            }
            PlanStep::Ack { job, attempt } | PlanStep::Fail { job, attempt } => _ = self.end(*job, *attempt),
            PlanStep::Cancel { job } => {
                self.waiting.retain(|(waiting, _)| waiting != job);
                self.leased.retain(|(leased, _)| leased != job);
            }
        }
        Response::Refused
    }

    /// The specification leaves open whether a retried job is fetched before or after a new one.
    fn is_valid_step(&mut self, step: &PlanStep, told: &Response) -> bool {
        match (step, told) {
            (PlanStep::Enqueue { job }, Response::Done) => {
                self.waiting.push((*job, 0));
                true
            }
            (PlanStep::Fetch, Response::Fetched(None)) => self.waiting.is_empty(),
            (PlanStep::Fetch, Response::Fetched(Some((job, attempt)))) => {
                let Some(at) = self.waiting.iter().position(|waiting| *waiting == (*job, attempt - 1)) else {
                    return false;
                };
                let in_turn = *attempt > 1 || self.waiting[..at].iter().all(|(_, attempts)| *attempts > 0);
                self.waiting.remove(at);
                self.leased.push((*job, *attempt));
                in_turn
            }
            (PlanStep::Ack { job, attempt }, told) => self.end(*job, *attempt) == (*told == Response::Done),
            (PlanStep::Fail { job, attempt }, told) => {
                let is_held = self.end(*job, *attempt);
                if is_held {
                    self.waiting.push((*job, *attempt));
                }
                is_held == (*told == Response::Done)
            }
            (PlanStep::Cancel { job }, told) => {
                let before = self.waiting.len() + self.leased.len();
                self.waiting.retain(|(waiting, _)| waiting != job);
                self.leased.retain(|(leased, _)| leased != job);
                (self.waiting.len() + self.leased.len() < before) == (*told == Response::Done)
            }
            _ => false,
        }
    }
}

fn told<T>(answer: quire::Result<T>) -> (Response, ()) {
    match answer {
        Ok(_) => (Response::Done, ()),
        Err(error) if error.kind() == ErrorKind::Refused => (Response::Refused, ()),
        Err(error) => panic!("{error}"),
    }
}

/// Fetches until the queue is empty.
pub(crate) fn look(database: &Database, client: &Client<'_, Jobs>) {
    let name = queue(client);
    while client.step(PlanStep::Fetch, || fetch(database, &name)).is_some() {}
}

fn queue(client: &Client<'_, Jobs>) -> String {
    format!("queue-{}", client.number)
}

fn number(job: &FetchedJob) -> usize {
    String::from_utf8_lossy(&job.payload).parse().expect("a number")
}

fn fetch(database: &Database, queue: &str) -> (Response, Option<FetchedJob>) {
    let fetched = database.queue(queue).fetch("worker", 1).expect("accepted").pop();
    (Response::Fetched(fetched.as_ref().map(|job| (number(job), job.attempt))), fetched)
}

pub(crate) fn round(database: &Database, client: &Client<'_, Jobs>) {
    let name = queue(client);
    let queue = database.queue(&name);
    let mut choices = client.choices();
    // Includes leases that have ended: ending them again must be refused.
    let mut leases: Vec<FetchedJob> = Vec::new();
    for step in 0..STEPS {
        let chosen = choices.u8(..10);
        match leases.get(choices.usize(..leases.len().max(1))) {
            Some(lease) if chosen >= 5 => {
                let (id, token, job, attempt) = (lease.job, lease.token, number(lease), lease.attempt);
                match chosen {
                    8 if !client.may_die => client.step(PlanStep::Fail { job, attempt }, || {
                        told(queue.fail(id, token, "again", Retry::At(Timestamp::from_micros(0))))
                    }),
                    5..9 => client.step(PlanStep::Ack { job, attempt }, || told(queue.ack(id, token, b""))),
                    _ => {
                        client.step(PlanStep::Cancel { job }, || told(queue.change(id, Change::Cancel { reason: "" })))
                    }
                }
            }
            _ if chosen < 2 => {
                let job = client.unique(step);
                let payload = job.to_string();
                let new = JobSpec { attempts_max: u16::MAX, ..JobSpec::new(payload.as_bytes()) };
                client.step(PlanStep::Enqueue { job }, || told(queue.enqueue(new)));
            }
            _ => leases.extend(client.step(PlanStep::Fetch, || fetch(database, &name))),
        }
    }
}

#[test]
fn fetches_and_what_ends_them_are_linearizable() {
    rounds(Durability::Os, 1_500, round);
}

#[test]
fn fetches_and_what_ends_them_are_linearizable_also_when_commits_wait_for_the_disk() {
    rounds(Durability::Sync, 100, round);
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn a_job_that_two_get_is_noticed() {
    let recorder = Recorder::<Jobs>::new();
    let job = 1;
    recorder.step(0, PlanStep::Enqueue { job }, || (Response::Done, ()));
    recorder.step(1, PlanStep::Fetch, || {
        recorder.step(2, PlanStep::Fetch, || (Response::Fetched(Some((job, 1))), ()));
        (Response::Fetched(Some((job, 1))), ())
    });
    recorder.check();
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn an_acknowledgement_with_a_lost_lease_is_noticed() {
    let recorder = Recorder::<Jobs>::new();
    let job = 1;
    recorder.step(0, PlanStep::Enqueue { job }, || (Response::Done, ()));
    recorder.step(0, PlanStep::Fetch, || (Response::Fetched(Some((job, 1))), ()));
    recorder.step(1, PlanStep::Cancel { job }, || (Response::Done, ()));
    recorder.step(0, PlanStep::Ack { job, attempt: 1 }, || (Response::Done, ()));
    recorder.check();
}
