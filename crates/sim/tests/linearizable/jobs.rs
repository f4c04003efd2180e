//! Jobs of one queue that are enqueued, fetched, acknowledged, failed and cancelled.

use quire::jobs::{Change, FetchedJob, JobId, NewJob, Retry};
use quire::{Database, Durability, ErrorKind, Place, Position, Timestamp};
use stateright::semantics::SequentialSpec;

use crate::{Client, Recorder, STEPS, rounds};

/// The unfinished jobs of the queue.
#[derive(Debug, Clone, Default)]
struct Jobs {
    /// In the order of their enqueues, with how often they were tried.
    waiting: Vec<(JobId, u16)>,
    /// With the attempt that goes on.
    leased: Vec<(JobId, u16)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Enqueue,
    Fetch,
    Ack {
        job: JobId,
        attempt: u16,
    },
    /// To be tried again at once.
    Fail {
        job: JobId,
        attempt: u16,
    },
    Cancel {
        job: JobId,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Told {
    Enqueued(JobId),
    Fetched(Option<(JobId, u16)>),
    Done,
    Refused,
}

impl Jobs {
    /// Takes a job out of those that are leased, if this attempt goes on.
    fn end(&mut self, job: JobId, attempt: u16) -> bool {
        let at = self.leased.iter().position(|leased| *leased == (job, attempt));
        at.map(|at| self.leased.swap_remove(at)).is_some()
    }
}

impl SequentialSpec for Jobs {
    type Op = Step;
    type Ret = Told;

    fn invoke(&mut self, _: &Step) -> Told {
        unreachable!("every step of a history was told something")
    }

    /// Which id a job has, and which of two jobs is fetched first of which one was tried before, the specification leaves open.
    fn is_valid_step(&mut self, step: &Step, told: &Told) -> bool {
        match (step, told) {
            (Step::Enqueue, Told::Enqueued(job)) => {
                let is_new = !self.waiting.iter().chain(&self.leased).any(|(known, _)| known == job);
                self.waiting.push((*job, 0));
                is_new
            }
            (Step::Fetch, Told::Fetched(None)) => self.waiting.is_empty(),
            (Step::Fetch, Told::Fetched(Some((job, attempt)))) => {
                let Some(at) = self.waiting.iter().position(|waiting| *waiting == (*job, attempt - 1)) else {
                    return false;
                };
                let in_turn = *attempt > 1 || self.waiting[..at].iter().all(|(_, attempts)| *attempts > 0);
                self.waiting.remove(at);
                self.leased.push((*job, *attempt));
                in_turn
            }
            (Step::Ack { job, attempt }, told) => self.end(*job, *attempt) == (*told == Told::Done),
            (Step::Fail { job, attempt }, told) => {
                let is_held = self.end(*job, *attempt);
                if is_held {
                    self.waiting.push((*job, *attempt));
                }
                is_held == (*told == Told::Done)
            }
            (Step::Cancel { job }, told) => {
                let before = self.waiting.len() + self.leased.len();
                self.waiting.retain(|(waiting, _)| waiting != job);
                self.leased.retain(|(leased, _)| leased != job);
                (self.waiting.len() + self.leased.len() < before) == (*told == Told::Done)
            }
            _ => false,
        }
    }
}

fn told<T>(answer: quire::Result<T>) -> (Told, ()) {
    match answer {
        Ok(_) => (Told::Done, ()),
        Err(error) if error.kind() == ErrorKind::Refused => (Told::Refused, ()),
        Err(error) => panic!("{error}"),
    }
}

fn round(database: &Database, client: &Client<'_, Jobs>) {
    let name = format!("queue-{}", client.number);
    let queue = database.queue(&name);
    let mut choices = client.choices();
    // Those that ended are there still: to end them again is refused.
    let mut leases: Vec<FetchedJob> = Vec::new();
    for _ in 0..STEPS {
        let chosen = choices.u8(..10);
        match leases.get(choices.usize(..leases.len().max(1))) {
            Some(FetchedJob { job, token, attempt, .. }) if chosen >= 5 => {
                let (job, attempt) = (*job, *attempt);
                match chosen {
                    5..8 => client.step(Step::Ack { job, attempt }, || told(queue.ack(job, *token, b""))),
                    8 => client.step(Step::Fail { job, attempt }, || {
                        told(queue.fail(job, *token, "again", Retry::At(Timestamp::from_micros(0))))
                    }),
                    _ => client.step(Step::Cancel { job }, || told(queue.change(job, Change::Cancel { reason: "" }))),
                }
            }
            _ if chosen < 2 => client.step(Step::Enqueue, || {
                let job = queue.enqueue(NewJob { attempts_max: u16::MAX, ..NewJob::new(b"") }).expect("accepted");
                (Told::Enqueued(job), ())
            }),
            _ => leases.extend(client.step(Step::Fetch, || {
                let fetched = queue.fetch("worker", 1).expect("accepted").pop();
                (Told::Fetched(fetched.as_ref().map(|job| (job.job, job.attempt))), fetched)
            })),
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
    let job = JobId::new(Place::new(Position::new(1), 0));
    recorder.step(0, Step::Enqueue, || (Told::Enqueued(job), ()));
    recorder.step(1, Step::Fetch, || {
        recorder.step(2, Step::Fetch, || (Told::Fetched(Some((job, 1))), ()));
        (Told::Fetched(Some((job, 1))), ())
    });
    recorder.check();
}

#[test]
#[should_panic(expected = "no order of these steps")]
fn an_acknowledgement_by_who_lost_its_lease_is_noticed() {
    let recorder = Recorder::<Jobs>::new();
    let job = JobId::new(Place::new(Position::new(1), 0));
    recorder.step(0, Step::Enqueue, || (Told::Enqueued(job), ()));
    recorder.step(0, Step::Fetch, || (Told::Fetched(Some((job, 1))), ()));
    recorder.step(1, Step::Cancel { job }, || (Told::Done, ()));
    recorder.step(0, Step::Ack { job, attempt: 1 }, || (Told::Done, ()));
    recorder.check();
}
