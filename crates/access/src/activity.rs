//! The activity of a connection: how many of its requests run, or since when it is idle.
//!
//! Invariant: a connection that has lost its place begins no request, and a connection with a
//! running request keeps its place. One atomic value holds both facts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;

/// The bits of the number of running requests. The bits above are the time since when the
/// connection is idle, as the count of connections that became idle before.
const RUNNING_BITS: u32 = 16;
const RUNNING: u64 = (1 << RUNNING_BITS) - 1;

/// The state of a connection that has lost its place. No connection has that many requests.
const DISPLACED: u64 = RUNNING;

/// The activity of one connection; see the module. Clones share it.
#[derive(Debug, Clone)]
pub struct ConnectionActivity(Arc<ActivityState>);

/// The activity of an idle connection outside of a listener: it keeps its place.
impl Default for ConnectionActivity {
    fn default() -> Self {
        ConnectionActivity::new(&Arc::default())
    }
}

#[derive(Debug)]
struct ActivityState {
    state: AtomicU64,
    /// The count of connections of the listener that became idle.
    idle_count: Arc<AtomicU64>,
    /// Notified when the connection must end.
    needed: Notify,
}

/// A running request. Until it is dropped, its connection is not idle.
#[derive(Debug)]
pub struct RunningRequest(ConnectionActivity);

impl ConnectionActivity {
    /// The activity of a new connection, which is idle.
    pub(crate) fn new(idle_count: &Arc<AtomicU64>) -> Self {
        let activity = ActivityState {
            state: AtomicU64::new(next_idle(idle_count)),
            idle_count: Arc::clone(idle_count),
            needed: Notify::new(),
        };
        ConnectionActivity(Arc::new(activity))
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

    /// Since when the connection is idle; `None` while a request runs.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let state = self.0.state.load(Relaxed);
        (state & RUNNING == 0).then_some(state)
    }

    /// Takes the place of a connection that is idle since then. Returns whether it still was.
    pub(crate) fn displace(&self, idle_since: u64) -> bool {
        let displaced = self.0.state.compare_exchange(idle_since, DISPLACED, Relaxed, Relaxed).is_ok();
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
        let ActivityState { state, idle_count, .. } = &*self.0.0;
        let subtract = |state| Some(if state & RUNNING == 1 { next_idle(idle_count) } else { state - 1 });
        state.fetch_update(Relaxed, Relaxed, subtract).expect("it always subtracts");
    }
}

fn next_idle(idle_count: &AtomicU64) -> u64 {
    idle_count.fetch_add(1, Relaxed) << RUNNING_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_idle_again_after_its_last_request() {
        let activity = ConnectionActivity::new(&Arc::default());
        let since = activity.idle_since().expect("new connections are idle");
        let requests = [activity.begin().expect("a place"), activity.begin().expect("a place")];
        let [first, second] = requests;
        drop(first);
        assert_eq!(activity.idle_since(), None);
        assert!(!activity.displace(since), "a request runs");
        drop(second);
        assert!(activity.idle_since().is_some_and(|later| later > since));
        assert!(!activity.displace(since), "a request ran meanwhile");
    }

    #[test]
    fn a_displaced_connection_begins_no_request() {
        let activity = ConnectionActivity::new(&Arc::default());
        assert!(activity.displace(activity.idle_since().expect("idle")));
        assert!(activity.begin().is_none() && activity.idle_since().is_none());
    }
}
