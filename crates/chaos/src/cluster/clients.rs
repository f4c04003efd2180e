//! Clients that repeat each commit until a node acknowledges it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quire_client::{Call, Client};
use serde_json::json;

use crate::round::now;

/// The number of clients.
const CLIENTS: usize = 4;

/// How long a client waits for one answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after all nodes refused.
const PAUSE: Duration = Duration::from_millis(5);

/// Without an acknowledgement for this time, the cluster counts as stuck.
const SILENCE: Duration = Duration::from_secs(30);

/// The number of acknowledgements that count as progress.
const PROGRESS: usize = 50;

pub(super) const STORE: &str = "cluster";
pub(super) const TOPIC: &str = "commits";

/// The answers of the clients.
#[derive(Debug, Default)]
pub(super) struct ClusterLedger {
    /// The last number that each client got an answer for: all up to it are acknowledged.
    pub(super) last: BTreeMap<usize, u64>,
    pub(super) retries: u64,
    /// When each commit was acknowledged.
    times: Vec<Instant>,
    failure: Option<String>,
}

impl ClusterLedger {
    pub(super) fn acknowledged(&self) -> u64 {
        self.last.values().sum()
    }
}

#[derive(Debug, Default)]
struct SharedLedger {
    ledger: Mutex<ClusterLedger>,
    changed: Condvar,
    stops: AtomicBool,
}

impl SharedLedger {
    fn lock(&self) -> MutexGuard<'_, ClusterLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clients, which run.
pub(super) struct LoadClients {
    shared: Arc<SharedLedger>,
    threads: Vec<JoinHandle<()>>,
}

impl LoadClients {
    pub(super) fn start(addresses: Vec<String>) -> Self {
        let shared = Arc::new(SharedLedger::default());
        let threads = (0..CLIENTS).map(|number| {
            let (shared, addresses) = (Arc::clone(&shared), addresses.clone());
            std::thread::spawn(move || LoadClient::new(number, &addresses, &shared).run())
        });
        LoadClients { threads: threads.collect(), shared }
    }

    /// Waits until many more commits are acknowledged.
    pub(super) fn wait_for_progress(&self) -> Result<(), String> {
        let goal = self.shared.lock().times.len() + PROGRESS;
        self.wait(|ledger| (ledger.times.len() >= goal).then_some(()))
    }

    /// Waits until commits are acknowledged again, and returns the longest time without one since
    /// `from`.
    pub(super) fn gap_since(&self, from: Instant) -> Result<Duration, String> {
        // Answers that were on their way may arrive after an attack: a cluster without a leader
        // acknowledges these at most.
        self.wait(|ledger| {
            let after: Vec<Instant> = ledger.times.iter().rev().take_while(|time| **time >= from).copied().collect();
            let ends = [after, vec![from]].concat();
            let longest = ends.windows(2).map(|pair| pair[0].saturating_duration_since(pair[1])).max()?;
            (ends.len() > PROGRESS).then_some(longest)
        })
    }

    fn wait<T>(&self, look: impl Fn(&ClusterLedger) -> Option<T>) -> Result<T, String> {
        let mut ledger = self.shared.lock();
        let end = now() + SILENCE;
        loop {
            if let Some(failure) = &ledger.failure {
                return Err(failure.clone());
            }
            if let Some(found) = look(&ledger) {
                return Ok(found);
            }
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return Err(format!("too few commits were acknowledged within {} s", SILENCE.as_secs()));
            }
            ledger = self.shared.changed.wait_timeout(ledger, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the clients, each after its commit is acknowledged.
    pub(super) fn stop(self) -> Result<ClusterLedger, String> {
        self.shared.stops.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().map_err(|_| "a client panicked".to_owned())?;
        }
        let ledger = std::mem::take(&mut *self.shared.lock());
        ledger.failure.map_or(Ok(ClusterLedger { failure: None, ..ledger }), Err)
    }
}

struct LoadClient<'s> {
    number: usize,
    nodes: Vec<Client>,
    addresses: Vec<String>,
    at: usize,
    shared: &'s SharedLedger,
}

impl<'s> LoadClient<'s> {
    fn new(number: usize, addresses: &[String], shared: &'s SharedLedger) -> Self {
        let client = |address: &String| {
            let builder = Client::builder(format!("http://{address}")).timeout(TIMEOUT).without_retries();
            builder.build().expect("the address of a server")
        };
        let nodes = addresses.iter().map(client).collect();
        LoadClient { number, nodes, addresses: addresses.to_vec(), at: 0, shared }
    }

    fn run(mut self) {
        for value in 1.. {
            if self.shared.stops.load(Ordering::Acquire) {
                return;
            }
            let id = format!("{}.{value}", self.number);
            if let Err(failure) = self.commit(&id) {
                self.shared.lock().failure = Some(failure);
                self.shared.changed.notify_all();
                return;
            }
            let mut ledger = self.shared.lock();
            ledger.last.insert(self.number, value);
            ledger.times.push(now());
            drop(ledger);
            self.shared.changed.notify_all();
        }
    }

    /// Commits at one node after the other, until one acknowledges it.
    fn commit(&mut self, id: &str) -> Result<(), String> {
        let parts = json!({ "parts": [
            { "append": { "store": STORE, "events": [{ "type": "Made", "data_text": id }] } },
            { "produce": { "topic": TOPIC, "value_text": id } },
        ] });
        let end = now() + SILENCE;
        loop {
            let call = Call::post(&["commit"]).json(&parts).map_err(|error| error.to_string())?.idempotency_key(id);
            let error = match self.nodes[self.at].send(&call) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            // Only a node that can't serve now, or a lost answer, is a reason to repeat.
            if (1..500).contains(&error.status()) && error.status() != 429 {
                return Err(format!("{id} was refused: {error:?}"));
            }
            if now() >= end {
                return Err(format!("{id} was not acknowledged within {} s: {error:?}", SILENCE.as_secs()));
            }
            let named = error.facts().get("leader_http").and_then(|leader| leader.as_str());
            let leader = named.and_then(|leader| self.addresses.iter().position(|address| address == leader));
            let mut ledger = self.shared.lock();
            ledger.retries += 1;
            match leader.filter(|leader| *leader != self.at) {
                Some(leader) => self.at = leader,
                None => {
                    self.at = (self.at + 1) % self.nodes.len();
                    // Others wake it earlier, which does no harm.
                    drop(self.shared.changed.wait_timeout(ledger, PAUSE).unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }
}
