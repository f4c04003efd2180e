//! Compares the answers of racing clients with a sequential specification.
//!
//! Threads use one database, half of them through one opening of its directory and half through
//! another, as two processes would. Each step records its call and its answer. An independent
//! checker (`stateright`, after Wing and Gong, "Testing and Verifying Concurrent Objects", 1993)
//! then searches an order of the steps. In that order each step takes effect between its call and
//! its answer, and the specification gives the same answers. Histories are short, because the
//! search is exponential, and there are many. In some tests, processes race, and one of them dies
//! ([`deaths`]).

mod deaths;
mod events;
mod graph;
mod jobs;
mod streams;

use std::fmt::Debug;
use std::sync::{Barrier, Mutex};

use quire::{Database, Durability};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

const THREADS: usize = 4;

/// Steps of a thread in one history.
const STEPS: usize = 6;

/// The recorded calls and responses, in order.
struct Recorder<S: SequentialSpec>(Mutex<Vec<(usize, HistoryEntry<S>)>>);

#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "S::Op: Serialize, S::Ret: Serialize",
    deserialize = "S::Op: DeserializeOwned, S::Ret: DeserializeOwned"
))]
enum HistoryEntry<S: SequentialSpec> {
    Called(S::Op),
    Returned(S::Ret),
}

/// A recorder of calls and responses.
trait HistoryRecorder<S: SequentialSpec>: Sync {
    fn note(&self, thread: usize, noted: HistoryEntry<S>);
}

impl<S: SequentialSpec> HistoryRecorder<S> for Recorder<S>
where
    S::Op: Send,
    S::Ret: Send,
{
    fn note(&self, thread: usize, noted: HistoryEntry<S>) {
        self.0.lock().expect("no step panics").push((thread, noted));
    }
}

/// Runs a step of a thread.
fn step<S: SequentialSpec, T>(
    notes: &dyn HistoryRecorder<S>,
    thread: usize,
    op: S::Op,
    step: impl FnOnce() -> (S::Ret, T),
) -> T {
    notes.note(thread, HistoryEntry::Called(op));
    let (told, kept) = step();
    notes.note(thread, HistoryEntry::Returned(told));
    kept
}

impl<S: SequentialSpec> Recorder<S> {
    fn new() -> Self {
        Recorder(Mutex::new(Vec::new()))
    }

    /// Runs and records a step of a thread.
    fn step<T>(&self, thread: usize, op: S::Op, taken: impl FnOnce() -> (S::Ret, T)) -> T
    where
        S::Op: Send,
        S::Ret: Send,
    {
        step(self, thread, op, taken)
    }
}

impl<S> Recorder<S>
where
    S: SequentialSpec + Clone + Default,
    S::Op: Clone + Debug,
    S::Ret: Clone + Debug,
{
    /// Panics with the history when no order of the steps explains it. A step without an answer may
    /// have taken effect, or not.
    fn check(self) {
        let mut tester = LinearizabilityTester::new(S::default());
        let mut told = Vec::new();
        for (thread, noted) in self.0.into_inner().expect("no step panicked") {
            match noted {
                HistoryEntry::Called(op) => {
                    told.push(format!("{thread}: {op:?}"));
                    tester.on_invoke(thread, op).map(|_| ())
                }
                HistoryEntry::Returned(ret) => {
                    told.push(format!("{thread}:     {ret:?}"));
                    tester.on_return(thread, ret).map(|_| ())
                }
            }
            .expect("a thread takes one step after the other");
        }
        assert!(tester.is_consistent(), "no order of these steps explains what was told:\n{}", told.join("\n"));
    }
}

/// Runs `rounds` rounds of the threads' steps, and compares the answers of each with the
/// specification.
fn rounds<S>(durability: Durability, rounds: u64, round: impl Fn(&Database, &Client<'_, S>) + Sync)
where
    S: SequentialSpec + Clone + Default,
    S::Op: Clone + Debug + Send,
    S::Ret: Clone + Debug + Send,
{
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data");
    let open = || Database::builder(&path).durability(durability).segment_bytes(256 << 10).open().expect("it opens");
    let openings = [open(), open()];
    for number in 0..rounds {
        let (recorder, start) = (Recorder::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let client = Client { number, thread, notes: &recorder, may_die: false };
                let (round, start, database) = (&round, &start, &openings[thread % openings.len()]);
                scope.spawn(move || {
                    start.wait();
                    round(database, &client);
                });
            }
        });
        recorder.check();
    }
}

/// One thread in one round.
struct Client<'r, S: SequentialSpec> {
    number: u64,
    thread: usize,
    notes: &'r dyn HistoryRecorder<S>,
    /// Whether its process may die in the round: the specification then has to know the effect of a
    /// step without an answer.
    may_die: bool,
}

impl<S: SequentialSpec> Client<'_, S> {
    fn step<T>(&self, op: S::Op, step: impl FnOnce() -> (S::Ret, T)) -> T {
        crate::step(self.notes, self.thread, op, step)
    }

    /// The choices are the same in every run; their results depend on the race.
    fn choices(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.number * THREADS as u64 + self.thread as u64)
    }

    /// A number that no other step of the round has.
    fn unique(&self, step: usize) -> usize {
        self.thread * STEPS + step
    }
}
