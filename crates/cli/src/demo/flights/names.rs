//! The names of the demo's objects.

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
/// The type of the event that a worker appends for a finished job.
pub(super) const NOTIFIED: &str = "PassengersNotified";
/// Smallest delay, in minutes, for which passengers are notified.
pub(super) const LATE_MINUTES: i64 = 30;
