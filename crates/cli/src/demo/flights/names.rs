//! What the demo calls things.

/// The event store.
pub(in crate::demo) const FLIGHTS: &str = "air/flights";
/// The topic, keyed by origin.
pub(in crate::demo) const DEPARTURES: &str = "departures";
/// The queue of flights that left late.
pub(in crate::demo) const DELAYS: &str = "air/delays";
/// The graph.
pub(in crate::demo) const ROUTES: &str = "air/routes";
/// The kind of its blocks.
pub(super) const AIRPORT: &str = "airport";
/// The type of its edges.
pub(super) const FLIES_TO: &str = "flies_to";
/// The event that a worker appends when it has done a job.
pub(super) const NOTIFIED: &str = "PassengersNotified";
/// From so many minutes of delay on, passengers are to be notified.
pub(super) const LATE_MINUTES: i64 = 30;
