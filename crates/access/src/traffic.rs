//! The counters of a server's front ends: requests by name and status, and their durations.
//!
//! Invariant: the names of requests come from tables of the front ends, never from clients, so the
//! number of series is bounded.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use quire::{DurationCounts, Durations};

use crate::listener::Listener;
use crate::statistics::{ConnectionCounters, ConnectionStatistics};
use crate::tls::ServerTls;

/// The counts of all front ends of a server.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The Kafka protocol. A request is named after its API.
    pub kafka: FrontEndTraffic,
    /// HTTP. A request is named after its route.
    pub http: FrontEndTraffic,
    /// gRPC. A request is named after its method.
    pub grpc: FrontEndTraffic,
}

/// The counts of one front end.
#[derive(Debug, Default)]
pub struct FrontEndTraffic {
    requests: RwLock<BTreeMap<String, Arc<RequestCounts>>>,
    active: AtomicU64,
    connections: OnceLock<Arc<ConnectionCounters>>,
    tls: OnceLock<Arc<ServerTls>>,
}

/// The counts of the requests of one name.
#[derive(Debug, Default)]
struct RequestCounts {
    durations: Durations,
    statuses: Mutex<Vec<(u16, u64)>>,
}

/// A request in progress. Dropping it without an end means that its client left.
#[derive(Debug)]
pub struct ActiveRequest<'t>(&'t AtomicU64);

/// The requests of one name that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRequests {
    /// The name.
    pub name: String,
    /// The durations.
    pub durations: DurationCounts,
    /// The number of requests by status, in order.
    pub statuses: Vec<(u16, u64)>,
}

impl Traffic {
    /// The front ends with their names, in the order of their names.
    pub fn front_ends(&self) -> [(&'static str, &FrontEndTraffic); 3] {
        [("grpc", &self.grpc), ("http", &self.http), ("kafka", &self.kafka)]
    }
}

impl FrontEndTraffic {
    /// Counts a request in progress until the returned value is dropped.
    pub fn begin(&self) -> ActiveRequest<'_> {
        self.active.fetch_add(1, Relaxed);
        ActiveRequest(&self.active)
    }

    /// Counts a request that ended. `name` is from a table of the front end.
    pub fn end(&self, name: &str, status: u16, duration: Duration) {
        let known = self.requests.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let counts = known.unwrap_or_else(|| {
            let mut requests = self.requests.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(requests.entry(name.to_owned()).or_default())
        });
        counts.durations.record(duration);
        let mut statuses = counts.statuses();
        match statuses.binary_search_by_key(&status, |(status, _)| *status) {
            Ok(index) => statuses[index].1 += 1,
            Err(index) => statuses.insert(index, (status, 1)),
        }
    }

    /// Notes the counts and the TLS of a listener of the front end. Its listeners share the counts.
    pub fn listens(&self, listener: &Listener) {
        // Further listeners of the front end have the same.
        let _ = self.connections.set(Arc::clone(listener.counters()));
        if let Some(tls) = listener.tls() {
            let _ = self.tls.set(Arc::clone(tls));
        }
    }

    /// Returns the TLS of the front end's listeners; `None` when none has TLS.
    pub fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.get()
    }

    /// Returns the counts of connections; zeros before the front end listens.
    pub fn connections(&self) -> ConnectionStatistics {
        self.connections.get().map(|connections| connections.statistics()).unwrap_or_default()
    }

    /// Returns the number of requests in progress.
    pub fn active(&self) -> u64 {
        self.active.load(Relaxed)
    }

    /// Returns the requests that ended, by name.
    pub fn ended(&self) -> Vec<EndedRequests> {
        let requests = self.requests.read().unwrap_or_else(PoisonError::into_inner);
        let ended = |(name, counts): (&String, &Arc<RequestCounts>)| EndedRequests {
            name: name.clone(),
            durations: counts.durations.counts(),
            statuses: counts.statuses().clone(),
        };
        requests.iter().map(ended).collect()
    }
}

impl RequestCounts {
    fn statuses(&self) -> MutexGuard<'_, Vec<(u16, u64)>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_name_and_status() {
        let traffic = FrontEndTraffic::default();
        for (name, status) in [("b", 200), ("a", 409), ("a", 200), ("a", 409)] {
            let _active = traffic.begin();
            assert_eq!(traffic.active(), 1);
            traffic.end(name, status, Duration::from_millis(1));
        }
        let ended: Vec<_> = traffic.ended().into_iter().map(|ended| (ended.name, ended.statuses)).collect();
        assert_eq!(ended, [("a".to_owned(), vec![(200, 1), (409, 2)]), ("b".to_owned(), vec![(200, 1)])]);
        assert_eq!((traffic.ended()[0].durations.count(), traffic.active()), (3, 0));
    }
}
