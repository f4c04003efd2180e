//! The activity of a connection: how many of its requests run, or since when it is idle.
//!
//! Invariant: a connection that has lost its place begins no request, and a connection with a
//! running request keeps its place. One atomic value holds both facts.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The bits of the number of running requests. The bits above are an [`IdleSince`].
const RUNNING_BITS: u32 = 16;
const RUNNING: u64 = (1 << RUNNING_BITS) - 1;

/// The state of a connection that has lost its place. No connection has that many requests.
const DISPLACED: u64 = RUNNING;

/// The highest bit of the state of an idle connection: it has had a request.
const SERVED: u64 = 1 << 63;

/// How long a connection that has had a request must be idle until it can lose its place. A client
/// with shorter pauses between its requests keeps its connection.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// The activity of one connection; see the module. Clones share it.
#[derive(Debug, Clone)]
pub struct ConnectionActivity(Arc<ActivityState>);

/// The activity of an idle connection outside of a listener: it keeps its place.
impl Default for ConnectionActivity {
    fn default() -> Self {
        ConnectionActivity::new(Instant::now())
    }
}

#[derive(Debug)]
struct ActivityState {
    state: AtomicU64,
    /// Whether the server closes the connection: it needs its place no longer.
    closes: AtomicBool,
    /// The time that idle times are counted from. It is the same for all connections of a listener.
    origin: Instant,
    /// Notified when the connection must end.
    needed: Notify,
}

/// Since when a connection is idle. Connections that have had no request are before all others:
/// they lose their places first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdleSince(u64);

/// A running request. Until it is dropped, its connection is not idle.
#[derive(Debug)]
pub struct RunningRequest(ConnectionActivity);

impl ConnectionActivity {
    /// The activity of a new connection, which is idle. Idle times are counted from `origin`.
    pub(crate) fn new(origin: Instant) -> Self {
        let state = AtomicU64::new(idle_state(origin, Instant::now()));
        ConnectionActivity(Arc::new(ActivityState {
            state,
            closes: AtomicBool::new(false),
            origin,
            needed: Notify::new(),
        }))
    }

    /// Begins a request. `None` when the connection has lost its place: it is about to be closed.
    #[must_use = "the request ends when the value is dropped"]
    pub fn begin(&self) -> Option<RunningRequest> {
        let add = |state| (state != DISPLACED).then_some(state + 1);
        let begun = self.0.state.fetch_update(Relaxed, Relaxed, add);
        begun.is_ok().then(|| RunningRequest(self.clone()))
    }

    /// Waits until the connection must end.
    pub fn needed(&self) -> impl Future<Output = ()> + use<> {
        let this = self.clone();
        async move { this.0.needed.notified().await }
    }

    /// Notes that the server closes the connection. Called before the client can see it: the
    /// client's next connection finds a place.
    pub(crate) fn closes(&self) {
        self.0.closes.store(true, Release);
    }

    /// Since when the connection is idle. `None` while a request runs, and when the last one ended
    /// less than [`IDLE_MIN`] before `now` and the server does not close the connection.
    pub(crate) fn idle_since(&self, now: Instant) -> Option<IdleSince> {
        let closes = self.0.closes.load(Acquire);
        let state = self.0.state.load(Relaxed);
        let is_served = state & SERVED != 0 && !closes;
        let since = self.0.origin + Duration::from_micros((state & !SERVED) >> RUNNING_BITS);
        let is_long = !is_served || since + IDLE_MIN <= now;
        (state & RUNNING == 0 && is_long).then_some(IdleSince(state))
    }

    /// Takes the place of a connection that is idle since then. Returns whether it still was.
    pub(crate) fn displace(&self, IdleSince(state): IdleSince) -> bool {
        let displaced = self.0.state.compare_exchange(state, DISPLACED, Relaxed, Relaxed).is_ok();
        if displaced {
            self.end();
        }
        displaced
    }

    /// Ends the connection, whatever it does.
    pub(crate) fn end(&self) {
        self.0.needed.notify_one();
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let ActivityState { state, origin, .. } = &*self.0.0;
        let subtract =
            |state| Some(if state & RUNNING == 1 { SERVED | idle_state(*origin, Instant::now()) } else { state - 1 });
        state.fetch_update(Relaxed, Relaxed, subtract).expect("it always subtracts");
    }
}

/// The state of a connection without a request that is idle since then: the microseconds since
/// `origin`.
fn idle_state(origin: Instant, since: Instant) -> u64 {
    let us = since.saturating_duration_since(origin).as_micros();
    let us_max = (SERVED >> RUNNING_BITS) - 1;
    u64::try_from(us).unwrap_or(us_max).min(us_max) << RUNNING_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_idle_again_some_time_after_its_last_request() {
        let activity = ConnectionActivity::default();
        let later = || Instant::now() + IDLE_MIN;
        let since = activity.idle_since(Instant::now()).expect("new connections are idle");
        let requests = [activity.begin().expect("a place"), activity.begin().expect("a place")];
        let [first, second] = requests;
        drop(first);
        assert_eq!(activity.idle_since(later()), None);
        assert!(!activity.displace(since), "a request runs");
        let end = Instant::now();
        drop(second);
        assert_eq!(activity.idle_since(end + IDLE_MIN / 2), None, "the request has just ended");
        assert!(activity.idle_since(later()).is_some_and(|idle| idle > since));
        assert!(!activity.displace(since), "a request ran meanwhile");
    }

    #[test]
    fn a_connection_that_had_a_request_at_once_is_idle_some_time_after_it() {
        let origin = Instant::now();
        let activity = ConnectionActivity::new(origin);
        activity.0.state.store(SERVED | idle_state(origin, origin), Relaxed);
        assert_eq!(activity.idle_since(origin), None);
        assert_eq!(activity.idle_since(origin + IDLE_MIN / 2), None);
        assert!(activity.idle_since(origin + IDLE_MIN).is_some());
    }

    #[test]
    fn a_connection_without_a_request_is_before_one_that_had_one() {
        let origin = Instant::now();
        let served = ConnectionActivity::new(origin);
        drop(served.begin());
        let silent = ConnectionActivity::new(origin);
        let since = |activity: &ConnectionActivity| activity.idle_since(Instant::now() + IDLE_MIN).expect("idle");
        assert!(since(&silent) < since(&served));
    }

    #[test]
    fn a_connection_that_the_server_closes_can_lose_its_place_at_once() {
        let activity = ConnectionActivity::default();
        let running = activity.begin();
        activity.closes();
        assert_eq!(activity.idle_since(Instant::now()), None, "a request runs");
        drop(running);
        assert!(activity.displace(activity.idle_since(Instant::now()).expect("it needs no place")));
    }

    #[test]
    fn a_displaced_connection_begins_no_request() {
        let activity = ConnectionActivity::default();
        assert!(activity.displace(activity.idle_since(Instant::now()).expect("idle")));
        assert!(activity.begin().is_none() && activity.idle_since(Instant::now()).is_none());
    }
}
