//! The steps of a table in order of time: departures, arrivals and cancellations, by minute.
//!
//! Within a minute arrivals come first, so that an aircraft may leave in the minute of its arrival.

use super::flight::Flight;
use super::minute::Minute;

/// A flight, by its index in the input.
pub(super) type FlightIndex = usize;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimelineStep {
    Arrive(FlightIndex),
    Cancel(FlightIndex),
    Depart(FlightIndex),
}

/// All steps in order. A flight that never left is cancelled at its scheduled time.
pub(super) fn timeline(flights: &[Flight]) -> Vec<TimelineStep> {
    let mut steps: Vec<(Minute, TimelineStep)> = Vec::with_capacity(flights.len() * 2);
    for (index, flight) in flights.iter().enumerate() {
        match &flight.departure {
            None => steps.push((flight.scheduled, TimelineStep::Cancel(index))),
            Some(departure) => {
                steps.push((departure.at, TimelineStep::Depart(index)));
                steps.extend(departure.arrival.minute().map(|minute| (minute, TimelineStep::Arrive(index))));
            }
        }
    }
    steps.sort_unstable();
    steps.into_iter().map(|(_, step)| step).collect()
}
