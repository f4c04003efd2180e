//! Results in the form of all suites.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::counters::ThreadCounters;
use super::undisturbed::DisturbanceFilter;
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// The result of a case. The names and their order are the JSON form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measurement {
    pub(super) suite: String,
    pub(super) case: String,
    pub(super) payload_bytes: usize,
    /// Threads, connections or members that work at the same time.
    #[serde(rename = "threads")]
    pub(super) clients: u32,
    pub(super) processes: u32,
    pub(super) durability: String,
    #[serde(rename = "entries_per_op")]
    pub(super) batch: usize,
    pub(super) ops: u64,
    pub(super) ops_per_s: f64,
    pub(super) ns_per_entry: f64,
    pub(super) mean_ns: f64,
    pub(super) p50_ns: u64,
    pub(super) p95_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
    /// The median time of the machine for the bounding resource, without Quire, before and after
    /// the case. 0 in reports of earlier versions.
    #[serde(default)]
    pub(super) bound_ns: u64,
    /// Numbers that only some cases have, such as memory, by name. The unit is last in the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) also: BTreeMap<String, f64>,
}

/// The name of the processor share that other programs had during the case.
pub(super) const OTHERS: &str = "others_percent";

impl Measurement {
    /// The share of the processors that other programs had; 0 when it is not known.
    pub(super) fn others_percent(&self) -> f64 {
        self.also.get(OTHERS).copied().unwrap_or_default()
    }

    /// The name of the case.
    pub(super) fn name(&self) -> String {
        format!("{} {} {}", self.suite, self.case, self.durability)
    }

    /// Whether `other` is of the same case, with the same batch and the same number of clients.
    pub(super) fn is_of_the_case_of(&self, other: &Self) -> bool {
        let work = |of: &Self| (of.payload_bytes, of.batch, of.clients, of.processes);
        self.name() == other.name() && work(self) == work(other)
    }
}

/// The result of running a case.
#[derive(Debug)]
pub(super) struct CaseResult {
    latencies: Latencies,
    /// From the start of the first operation to the end of the last one, over all clients.
    elapsed: Duration,
    also: BTreeMap<String, f64>,
}

/// The number of latencies that are kept before they are counted, outside of the timed part.
const PENDING: usize = 1024;

/// The shortest stretch of operations that is judged as a whole, unless its buffer is full.
const STRETCH: Duration = Duration::from_millis(1);

/// Times the operations of one client. The end of an operation is the start of the next one, so the
/// clock is read once per operation.
#[derive(Debug)]
pub(super) struct Recorder {
    watch: Stopwatch,
    pending: Vec<Duration>,
    pending_total: Duration,
    latencies: Latencies,
    /// Measures a single client. With several clients, the check for disturbance would itself
    /// disturb the other clients.
    undisturbed: Option<DisturbanceFilter>,
    counters: Option<ThreadCounters>,
    /// Time between operations that is not measured.
    between: Duration,
}

/// Largest share of time between operations for which counters are reported.
const BETWEEN_MAX: f64 = 0.05;

impl Recorder {
    /// Starts the first operation of the only client.
    pub(super) fn start() -> Self {
        let mut recorder = Recorder::start_among_others();
        recorder.undisturbed = Some(DisturbanceFilter::begin());
        recorder.counters = Some(ThreadCounters::begin());
        recorder.watch.lap();
        recorder
    }

    /// Starts the first operation of one client among several.
    pub(super) fn start_among_others() -> Self {
        let (pending, latencies) = (Vec::with_capacity(PENDING), Latencies::new());
        let (watch, zero) = (Stopwatch::start(), Duration::ZERO);
        Recorder { watch, pending, pending_total: zero, latencies, undisturbed: None, counters: None, between: zero }
    }

    /// Starts the next operation. The time since the last one is not measured.
    pub(super) fn restart(&mut self) {
        self.between += self.watch.lap();
    }

    /// Ends an operation and starts the next one.
    pub(super) fn lap(&mut self) {
        let latency = self.watch.lap();
        self.pending.push(latency);
        self.pending_total += latency;
        if self.pending.len() == PENDING || self.pending_total >= STRETCH {
            self.count();
            self.watch.lap();
        }
    }

    fn count(&mut self) {
        if let Some(undisturbed) = &mut self.undisturbed {
            undisturbed.end_stretch(&self.pending);
        }
        self.pending.drain(..).for_each(|latency| self.latencies.record(latency));
        self.pending_total = Duration::ZERO;
    }

    /// The mean time of an operation so far.
    pub(super) fn mean(&mut self) -> Duration {
        self.count();
        let count = u32::try_from(self.latencies.count()).unwrap_or(u32::MAX);
        self.latencies.total() / count.max(1)
    }

    /// The result of a single client.
    pub(super) fn finish(mut self) -> CaseResult {
        let counted = self.counters.take().map(ThreadCounters::counted).unwrap_or_default();
        self.count();
        let elapsed = self.latencies.total();
        let mut measured = CaseResult { latencies: self.latencies, elapsed, also: BTreeMap::new() };
        if self.between.as_secs_f64() <= elapsed.as_secs_f64() * BETWEEN_MAX {
            let ops = measured.latencies.count().max(1) as f64;
            for (name, count) in counted {
                measured = measured.with(&format!("{name}_per_op"), thousandths(count as f64 / ops));
            }
        }
        match self.undisturbed.as_ref().map(DisturbanceFilter::latencies) {
            Some(undisturbed) => {
                let share = undisturbed.count() as f64 / measured.latencies.count().max(1) as f64;
                let measured = measured.with("undisturbed_percent", round(share * 100.0));
                match undisturbed.count() {
                    0 => measured,
                    _ => measured.with("undisturbed_p50_ns", undisturbed.quantile_ns(0.5) as f64),
                }
            }
            None => measured,
        }
    }

    /// The latencies of one client among several, for [`CaseResult::of_clients`].
    pub(super) fn into_latencies(mut self) -> Latencies {
        self.count();
        self.latencies
    }
}

impl CaseResult {
    /// The result of several clients that worked at the same time, for `elapsed`.
    pub(super) fn of_clients(clients: impl IntoIterator<Item = Latencies>, elapsed: Duration) -> Self {
        let mut latencies = Latencies::new();
        for client in clients {
            latencies.add(&client);
        }
        CaseResult { latencies, elapsed, also: BTreeMap::new() }
    }

    /// Adds a number. Its unit is at the end of its name: `memory_bytes`.
    pub(super) fn with(mut self, name: &str, value: f64) -> Self {
        self.also.insert(name.to_owned(), value);
        self
    }

    /// The measurement: the result, and the facts printed beside it.
    pub(super) fn of(self, case: &Case, bound_ns: u64) -> Measurement {
        let ops = self.latencies.count();
        let elapsed_ns = self.elapsed.as_nanos() as f64;
        Measurement {
            suite: case.suite.to_owned(),
            case: case.name.to_owned(),
            durability: case.durability.to_string(),
            payload_bytes: case.payload_bytes,
            clients: case.clients,
            processes: case.processes,
            batch: case.batch,
            ops,
            ops_per_s: round(ops as f64 * 1e9 / elapsed_ns),
            ns_per_entry: round(elapsed_ns / ops as f64 / case.batch as f64),
            mean_ns: round(self.latencies.total().as_nanos() as f64 / ops as f64),
            p50_ns: self.latencies.quantile_ns(0.5),
            p95_ns: self.latencies.quantile_ns(0.95),
            p99_ns: self.latencies.quantile_ns(0.99),
            p999_ns: self.latencies.quantile_ns(0.999),
            max_ns: self.latencies.max_ns(),
            bound_ns,
            also: self.also,
        }
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Rounds to a tenth: further digits are noise.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
