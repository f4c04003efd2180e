//! What happens, in the order in which it happened: departures, arrivals and cancellations of one table, by minute.
//!
//! Within a minute arrivals come first, so that an aircraft may leave in the minute in which it arrived.

use super::flight::Flight;
use super::minute::Minute;

/// A flight, by its index in the input.
pub(super) type FlightIndex = usize;

/// Something that happens to a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Arrive(FlightIndex),
    Cancel(FlightIndex),
    Depart(FlightIndex),
}

/// Everything that happens, in order. A flight that never left is cancelled at the time at which it was to leave.
pub(super) fn timeline(flights: &[Flight]) -> Vec<Step> {
    let mut steps: Vec<(Minute, Step)> = Vec::with_capacity(flights.len() * 2);
    for (index, flight) in flights.iter().enumerate() {
        match &flight.departure {
            None => steps.push((flight.scheduled, Step::Cancel(index))),
            Some(departure) => {
                steps.push((departure.at, Step::Depart(index)));
                steps.extend(departure.arrival.minute().map(|minute| (minute, Step::Arrive(index))));
            }
        }
    }
    steps.sort_unstable();
    steps.into_iter().map(|(_, step)| step).collect()
}
