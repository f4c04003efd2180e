//! The places of a listener: one for each open connection, in all and per address.
//!
//! Invariant: a connection has a place from its admission until it is dropped, so the numbers of
//! open connections never exceed the limits. The reserve is beyond them: its places are for short
//! requests, and a new connection ends the oldest one of the reserve.

use std::collections::{HashMap, VecDeque};
use std::future;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::peer::{Origin, Peer};
use crate::settings::ConnectionSettings;
use crate::statistics::{ConnectionCounters, Refusal};

/// The places; see the module.
#[derive(Debug)]
pub(crate) struct Places {
    limit: AtomicUsize,
    limit_per_address: AtomicUsize,
    /// The number of connections beyond the limit that are admitted for health and metrics.
    reserve: usize,
    taken: Mutex<TakenPlaces>,
    counters: Arc<ConnectionCounters>,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    ordinary: usize,
    /// The connections of the reserve, the oldest first: each is notified when it has to end.
    reserved: VecDeque<Arc<Notify>>,
    /// Ordinary places only. An origin without a connection has no entry.
    by_origin: HashMap<Origin, usize>,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: Arc<Places>,
    kind: PlaceKind,
}

#[derive(Debug)]
enum PlaceKind {
    Ordinary(Origin),
    /// Notified when it has to end.
    Reserved(Arc<Notify>),
}

/// The limits of a listener, which can change while it listens.
#[derive(Debug, Clone)]
pub struct ConnectionLimits(Arc<Places>);

impl ConnectionLimits {
    /// Changes the limits on connections to those of valid settings. A lower limit closes no
    /// connection: it refuses further ones.
    pub fn change(&self, settings: &ConnectionSettings) {
        self.0.limit.store(settings.connections_max, Relaxed);
        self.0.limit_per_address.store(settings.per_address_max(), Relaxed);
    }
}

impl Places {
    pub(crate) fn new(settings: &ConnectionSettings, reserve: usize) -> Arc<Self> {
        Arc::new(Places {
            limit: AtomicUsize::new(settings.connections_max),
            limit_per_address: AtomicUsize::new(settings.per_address_max()),
            reserve,
            taken: Mutex::default(),
            counters: Arc::default(),
        })
    }

    pub(crate) fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.counters
    }

    /// Takes a place for a connection that was accepted.
    ///
    /// # Errors
    /// When there is no place. The refusal is counted.
    pub(crate) fn take(self: &Arc<Self>, peer: &Peer) -> Result<ConnectionPlace, Refusal> {
        self.counters.accepted();
        let origin = peer.origin();
        let mut taken = self.taken();
        let refusal = if taken.ordinary >= self.limit.load(Relaxed) {
            Refusal::Limit
        } else {
            let of_origin = taken.by_origin.entry(origin).or_default();
            if *of_origin < self.limit_per_address.load(Relaxed) {
                *of_origin += 1;
                taken.ordinary += 1;
                return Ok(ConnectionPlace { places: Arc::clone(self), kind: PlaceKind::Ordinary(origin) });
            }
            Refusal::Address
        };
        self.counters.refused(refusal);
        if self.reserve == 0 {
            self.counters.closed();
            return Err(refusal);
        }
        if taken.reserved.len() == self.reserve
            && let Some(oldest) = taken.reserved.pop_front()
        {
            oldest.notify_one();
        }
        let ended = Arc::new(Notify::new());
        taken.reserved.push_back(Arc::clone(&ended));
        Ok(ConnectionPlace { places: Arc::clone(self), kind: PlaceKind::Reserved(ended) })
    }

    pub(crate) fn limits(self: &Arc<Self>) -> ConnectionLimits {
        ConnectionLimits(Arc::clone(self))
    }

    fn taken(&self) -> MutexGuard<'_, TakenPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPlace {
    /// Whether the connection was admitted beyond the limits, for health and metrics only.
    pub fn is_reserved(&self) -> bool {
        matches!(self.kind, PlaceKind::Reserved(_))
    }

    /// Waits until another connection needs the place. An ordinary place is never needed.
    pub fn needed(&self) -> impl Future<Output = ()> + use<> {
        let ended = match &self.kind {
            PlaceKind::Ordinary(_) => None,
            PlaceKind::Reserved(ended) => Some(Arc::clone(ended)),
        };
        async move {
            match ended {
                None => future::pending().await,
                Some(ended) => ended.notified().await,
            }
        }
    }

    /// The counts of the listener.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.places.counters
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match &self.kind {
            PlaceKind::Reserved(ended) => taken.reserved.retain(|other| !Arc::ptr_eq(other, ended)),
            PlaceKind::Ordinary(origin) => {
                taken.ordinary -= 1;
                let of_origin = taken.by_origin.get_mut(origin).expect("an origin with a place has an entry");
                *of_origin -= 1;
                if *of_origin == 0 {
                    taken.by_origin.remove(origin);
                }
            }
        }
        drop(taken);
        self.places.counters.closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(remote: &str) -> Peer {
        Peer::Tcp {
            local: "127.0.0.1:1".parse().expect("an address"),
            remote: format!("{remote}:1").parse().expect("an address"),
        }
    }

    fn places(connections_max: usize, per_address_max: usize, reserve: usize) -> Arc<Places> {
        let connections_per_address_max = Some(per_address_max);
        let settings =
            ConnectionSettings { connections_max, connections_per_address_max, ..ConnectionSettings::default() };
        Places::new(&settings, reserve)
    }

    #[test]
    fn one_address_can_not_take_all_places_and_a_place_is_free_again() {
        let places = places(3, 2, 0);
        let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let first = places.take(&one).expect("a place");
        let _second = places.take(&one).expect("a place");
        assert_eq!(places.take(&one).err(), Some(Refusal::Address));
        let _third = places.take(&other).expect("a place");
        assert_eq!(places.take(&other).err(), Some(Refusal::Limit));
        drop(first);
        let _fourth = places.take(&other).expect("a place");
        let counts = places.counters().statistics();
        assert_eq!((counts.accepted, counts.open), (6, 3));
        assert_eq!((counts.refused_limit, counts.refused_address), (1, 1));
    }

    #[test]
    fn a_changed_limit_holds_for_further_connections() {
        let places = places(1, 1, 0);
        let client = peer("192.0.2.1");
        let _first = places.take(&client).expect("a place");
        let change = |connections_max| {
            let settings = ConnectionSettings { connections_max, ..ConnectionSettings::default() };
            places.limits().change(&settings);
        };
        assert_eq!(places.take(&client).err(), Some(Refusal::Limit));
        change(2);
        let _second = places.take(&client).expect("a place");
        change(1);
        assert_eq!(places.take(&client).err(), Some(Refusal::Limit));
        assert_eq!(places.counters().statistics().open, 2, "open connections stay");
    }

    #[tokio::test]
    async fn a_reserve_is_used_beyond_the_limits_and_a_new_connection_ends_its_oldest() {
        let places = places(1, 1, 2);
        let client = peer("192.0.2.1");
        let ordinary = places.take(&client).expect("a place");
        let [oldest, second, _third] = [(); 3].map(|()| places.take(&client).expect("a place"));
        assert_eq!((ordinary.is_reserved(), oldest.is_reserved()), (false, true));
        tokio::select! {
            biased;
            () = ordinary.needed() => panic!("an ordinary place stays"),
            () = second.needed() => panic!("it is not the oldest"),
            () = oldest.needed() => {}
        }
        drop((ordinary, oldest, second, _third));
        assert!(!places.take(&client).expect("a place").is_reserved());
        let counts = places.counters().statistics();
        assert_eq!((counts.accepted, counts.open, counts.refused_limit), (5, 0, 3));
        assert!(places.taken().by_origin.is_empty() && places.taken().reserved.is_empty());
    }
}
