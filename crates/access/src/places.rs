//! The places of a listener: one for each open connection, in all and per address.
//!
//! A new connection beyond a limit takes the place of the longest idle connection: of its own
//! address at the limit of an address, of the address with the most connections at the limit on
//! all. Connections that have had no request lose their places first. The new connection is refused
//! if each of those connections has a running request, or had one within the last second. A
//! connection that the server closes needs its place no longer.
//!
//! Invariant: a connection has a place from its admission until it is dropped or displaced. So the
//! numbers of open connections exceed the limits by at most [`DISPLACED_MAX`], the displaced
//! connections that have not ended yet. The reserve is beyond them: its places are for short
//! requests, and a new connection ends the oldest one of the reserve.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire::system::Principal;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::activity::ConnectionActivity;
use crate::forwarding::ForwardedClient;
use crate::peer::{Origin, Peer};
use crate::settings::ConnectionSettings;
use crate::statistics::{ConnectionCounters, Refusal};

/// How many displaced connections may still be open. A listener accepts no further connection until
/// one of them has ended.
const DISPLACED_MAX: usize = 16;

/// The places; see the module.
#[derive(Debug)]
pub(crate) struct Places {
    limit: AtomicUsize,
    limit_per_address: AtomicUsize,
    /// The number of connections beyond the limit that are admitted for health and metrics.
    reserve: usize,
    taken: Mutex<TakenPlaces>,
    /// The time that idle times are counted from.
    origin: Instant,
    /// Notified when a displaced connection has ended.
    displaced_ended: Notify,
    counters: Arc<ConnectionCounters>,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    /// The number of ordinary places that were ever taken: the id of the next one.
    count: u64,
    ordinary: usize,
    /// The connections of the reserve, the oldest first.
    reserved: VecDeque<(u64, ConnectionActivity)>,
    /// Ordinary places only, by id. An origin without a connection has no entry.
    by_origin: HashMap<Origin, HashMap<u64, ConnectionActivity>>,
    /// The displaced connections that have not ended.
    displaced: usize,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    places: Arc<Places>,
    id: u64,
    kind: PlaceKind,
    activity: ConnectionActivity,
    /// The client, if another node forwards the connection.
    forwarded: Option<ForwardedClient>,
}

#[derive(Debug, Clone, Copy)]
enum PlaceKind {
    Ordinary(Origin),
    Reserved,
}

/// The limits of a listener, which can change while it listens.
#[derive(Debug, Clone)]
pub struct ConnectionLimits(Arc<Places>);

impl ConnectionLimits {
    /// Changes the limits on connections to those of valid settings. A lower limit closes no
    /// connection at once.
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
            origin: Instant::now(),
            displaced_ended: Notify::new(),
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
        let activity = ConnectionActivity::new(self.origin);
        let mut taken = self.taken();
        taken.count += 1;
        let id = taken.count;
        let place =
            |kind| ConnectionPlace { places: Arc::clone(self), id, kind, activity: activity.clone(), forwarded: None };
        let Some(refusal) = self.refusal(&mut taken, origin) else {
            taken.ordinary += 1;
            taken.by_origin.entry(origin).or_default().insert(id, activity.clone());
            return Ok(place(PlaceKind::Ordinary(origin)));
        };
        self.counters.refused(refusal);
        if self.reserve == 0 {
            self.counters.closed();
            return Err(refusal);
        }
        if taken.reserved.len() == self.reserve
            && let Some((_, oldest)) = taken.reserved.pop_front()
        {
            oldest.end();
        }
        taken.reserved.push_back((id, activity.clone()));
        Ok(place(PlaceKind::Reserved))
    }

    /// Why there is no place for a connection of this origin, also not that of an idle connection.
    fn refusal(&self, taken: &mut TakenPlaces, origin: Origin) -> Option<Refusal> {
        let is_full = taken.ordinary >= self.limit.load(Relaxed);
        let of_origin = taken.by_origin.get(&origin).map_or(0, HashMap::len);
        if of_origin >= self.limit_per_address.load(Relaxed) {
            let refusal = if is_full { Refusal::Limit } else { Refusal::Address };
            return (!self.displace(taken, &[origin])).then_some(refusal);
        }
        if !is_full {
            return None;
        }
        // An origin keeps its places while the new connection's origin has more of them.
        let mut origins: Vec<_> = taken.by_origin.iter().map(|(origin, places)| (places.len(), *origin)).collect();
        origins.retain(|(count, _)| *count >= of_origin);
        origins.sort_unstable_by_key(|(count, _)| Reverse(*count));
        let same = origins.chunk_by(|one, next| one.0 == next.0);
        for same in same {
            let origins: Vec<_> = same.iter().map(|(_, origin)| *origin).collect();
            if self.displace(taken, &origins) {
                return None;
            }
        }
        Some(Refusal::Limit)
    }

    /// Displaces the longest idle connection of these origins. Returns whether there was one.
    fn displace(&self, taken: &mut TakenPlaces, origins: &[Origin]) -> bool {
        let now = Instant::now();
        loop {
            let places = origins.iter().filter_map(|origin| Some((origin, taken.by_origin.get(origin)?)));
            let idle = places.flat_map(|(origin, places)| {
                places.iter().filter_map(|(id, activity)| Some((activity.idle_since(now)?, *origin, *id)))
            });
            let Some((idle_since, origin, id)) = idle.min_by_key(|(idle_since, _, id)| (*idle_since, *id)) else {
                return false;
            };
            let activity = taken.remove(origin, id).expect("it was found");
            if activity.displace(idle_since) {
                taken.displaced += 1;
                self.counters.displaced();
                return true;
            }
            // A request began meanwhile.
            taken.ordinary += 1;
            taken.by_origin.entry(origin).or_default().insert(id, activity);
        }
    }

    /// Waits until few displaced connections are still open.
    pub(crate) async fn settled(&self) {
        loop {
            // Created before the check, so that no end is missed.
            let ended = self.displaced_ended.notified();
            if self.taken().displaced < DISPLACED_MAX {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn limits(self: &Arc<Self>) -> ConnectionLimits {
        ConnectionLimits(Arc::clone(self))
    }

    fn taken(&self) -> MutexGuard<'_, TakenPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakenPlaces {
    /// Frees an ordinary place; `None` when its connection was displaced.
    fn remove(&mut self, origin: Origin, id: u64) -> Option<ConnectionActivity> {
        let places = self.by_origin.get_mut(&origin)?;
        let activity = places.remove(&id)?;
        if places.is_empty() {
            self.by_origin.remove(&origin);
        }
        self.ordinary -= 1;
        Some(activity)
    }
}

impl ConnectionPlace {
    /// Whether the connection was admitted beyond the limits, for health and metrics only.
    pub fn is_reserved(&self) -> bool {
        matches!(self.kind, PlaceKind::Reserved)
    }

    /// Whether another node of the cluster forwards the connection. That node has checked where its
    /// requests come from, and they are not forwarded again.
    pub fn is_forwarded(&self) -> bool {
        self.forwarded.is_some()
    }

    /// The principal that the connection has verified: that of its certificate or of the operating
    /// system, or the one that the forwarding node has authenticated.
    pub fn verified(&self, peer: &Peer) -> Option<Principal> {
        match &self.forwarded {
            Some(client) => client.principal.clone(),
            None => peer.verified(),
        }
    }

    /// The place of the forwarded connection of this client.
    pub(crate) fn of_forwarded(mut self, client: ForwardedClient) -> Self {
        self.forwarded = Some(client);
        self
    }

    /// Waits until another connection needs the place.
    pub fn needed(&self) -> impl Future<Output = ()> + use<> {
        self.activity.needed()
    }

    /// The activity of the connection: a front end begins each request there.
    pub fn activity(&self) -> &ConnectionActivity {
        &self.activity
    }

    /// The counts of the listener.
    pub fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.places.counters
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match self.kind {
            PlaceKind::Reserved => taken.reserved.retain(|(id, _)| *id != self.id),
            PlaceKind::Ordinary(origin) => {
                if taken.remove(origin, self.id).is_none() {
                    taken.displaced -= 1;
                    self.places.displaced_ended.notify_waiters();
                }
            }
        }
        drop(taken);
        self.places.counters.closed();
    }
}

#[cfg(test)]
mod tests {
    use crate::activity::RunningRequest;

    use super::*;

    fn peer(remote: &str) -> Peer {
        let address = |text: &str| text.parse().expect("an address");
        Peer::tcp(address("127.0.0.1:1"), address(&format!("{remote}:1")))
    }

    fn places(connections_max: usize, per_address_max: usize, reserve: usize) -> Arc<Places> {
        let connections_per_address_max = Some(per_address_max);
        let settings =
            ConnectionSettings { connections_max, connections_per_address_max, ..ConnectionSettings::default() };
        Places::new(&settings, reserve)
    }

    /// A place with a running request.
    fn busy(places: &Arc<Places>, peer: &Peer) -> (ConnectionPlace, RunningRequest) {
        let place = places.take(peer).expect("a place");
        let running = place.activity().begin().expect("it has its place");
        (place, running)
    }

    /// Whether the connection must end.
    async fn is_needed(place: &ConnectionPlace) -> bool {
        tokio::select! {
            biased;
            () = place.needed() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[test]
    fn one_address_can_not_use_all_connection_places_and_a_closed_connection_frees_its_place() {
        let places = places(3, 2, 0);
        let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let first = busy(&places, &one);
        let _second = busy(&places, &one);
        assert_eq!(places.take(&one).err(), Some(Refusal::Address));
        let _third = busy(&places, &other);
        assert_eq!(places.take(&other).err(), Some(Refusal::Limit));
        drop(first);
        let _fourth = busy(&places, &other);
        let counts = places.counters().statistics();
        assert_eq!((counts.accepted, counts.open), (6, 3));
        assert_eq!((counts.refused_limit, counts.refused_address), (1, 1));
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_longest_idle_one_of_its_address() {
        let places = places(10, 3, 0);
        let (client, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let other = places.take(&other).expect("a place");
        let [first, second, third] = [(); 3].map(|()| places.take(&client).expect("a place"));
        drop(first.activity().begin());
        let running = second.activity().begin();
        let _fourth = places.take(&client).expect("the place of the third");
        assert!(is_needed(&third).await && third.activity().begin().is_none());
        for place in [&other, &first, &second] {
            assert!(!is_needed(place).await, "it stays");
        }
        drop(running);
        let counts = places.counters().statistics();
        assert_eq!((counts.open, counts.displaced, counts.refused_address), (5, 1, 0));
        drop(third);
        assert_eq!(places.counters().statistics().open, 4);
        assert_eq!(places.taken().displaced, 0);
    }

    #[tokio::test]
    async fn at_the_limit_the_address_with_the_most_connections_loses_one() {
        let places = places(4, 3, 0);
        let [greedy, small, new] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(peer);
        let oldest = places.take(&small).expect("a place");
        let of_greedy = [(); 3].map(|()| places.take(&greedy).expect("a place"));
        let _new = places.take(&new).expect("a place of the greedy address");
        assert!(is_needed(&of_greedy[0]).await && !is_needed(&oldest).await);
        // An address keeps its places if the new connection's address has more of them.
        let _busy = of_greedy[1..].iter().map(|place| place.activity().begin()).collect::<Vec<_>>();
        assert_eq!(places.take(&greedy).err(), Some(Refusal::Limit));
        assert!(!is_needed(&oldest).await);
    }

    #[tokio::test]
    async fn no_further_connection_is_accepted_while_many_displaced_ones_are_open() {
        let places = places(1, 1, 0);
        let client = peer("192.0.2.1");
        let mut open: Vec<_> = (0..DISPLACED_MAX).map(|_| places.take(&client).expect("a place")).collect();
        places.settled().await;
        open.push(places.take(&client).expect("a place"));
        tokio::select! {
            biased;
            () = places.settled() => panic!("{DISPLACED_MAX} displaced connections are open"),
            () = std::future::ready(()) => {}
        }
        open.remove(0);
        places.settled().await;
    }

    #[test]
    fn a_changed_limit_holds_for_further_connections() {
        let places = places(1, 1, 0);
        let client = peer("192.0.2.1");
        let _first = busy(&places, &client);
        let change = |connections_max| {
            let settings = ConnectionSettings { connections_max, ..ConnectionSettings::default() };
            places.limits().change(&settings);
        };
        assert_eq!(places.take(&client).err(), Some(Refusal::Limit));
        change(2);
        let _second = busy(&places, &client);
        change(1);
        assert_eq!(places.take(&client).err(), Some(Refusal::Limit));
        assert_eq!(places.counters().statistics().open, 2, "open connections stay");
    }

    #[tokio::test]
    async fn a_reserve_is_used_beyond_the_limits_and_a_new_connection_ends_its_oldest() {
        let places = places(1, 1, 2);
        let client = peer("192.0.2.1");
        let (ordinary, running) = busy(&places, &client);
        let [oldest, second, third] = [(); 3].map(|()| places.take(&client).expect("a place"));
        assert_eq!((ordinary.is_reserved(), oldest.is_reserved()), (false, true));
        assert!(!is_needed(&ordinary).await && !is_needed(&second).await && is_needed(&oldest).await);
        drop((ordinary, running, oldest, second, third));
        assert!(!places.take(&client).expect("a place").is_reserved());
        let counts = places.counters().statistics();
        assert_eq!((counts.accepted, counts.open, counts.refused_limit), (5, 0, 3));
        assert!(places.taken().by_origin.is_empty() && places.taken().reserved.is_empty());
    }
}
