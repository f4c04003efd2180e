//! Counts of the input. Every row is counted once by its outcome, and once for each missing value.

use super::airports::Airports;
use super::flight::{Flight, FlightArrival};
use super::input::FlightTables;
use crate::latencies::Latencies;

/// Counts, filled by the feed and the worker.
#[derive(Debug)]
pub(super) struct Tally {
    /// Rows of the input.
    pub(super) rows: u64,
    /// Rows whose departure was committed.
    pub(super) departed: u64,
    /// Rows whose departure the condition refused.
    pub(super) refused: u64,
    /// Rows whose flight never left.
    pub(super) cancelled: u64,
    /// Invalid rows: the line, and the problem.
    pub(super) unreadable: Vec<(u64, String)>,
    /// Departures that were followed by an arrival.
    pub(super) arrived: u64,
    /// Departures that enqueued a job.
    pub(super) late: u64,
    /// Jobs acknowledged.
    pub(super) jobs_done: u64,
    /// The first refusal.
    pub(super) refusal_example: Option<RefusalExample>,
    /// The latency of each commit, from the call to the outcome. Refusals are left out.
    pub(super) latencies: Latencies,
    pub(super) dirt: Dirt,
}

/// A refused commit.
#[derive(Debug)]
pub(super) struct RefusalExample {
    /// The tail number of the aircraft.
    pub(super) plane: String,
    /// The description, in lines.
    pub(super) story: [String; 3],
}

/// The rows that lack a value. A row may lack several.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dirt {
    pub(super) no_departure_time: u64,
    pub(super) no_tail_number: u64,
    /// Of the flights that left.
    pub(super) no_arrival_time: u64,
    /// Of the flights that left.
    pub(super) no_air_time: u64,
    pub(super) unknown_airport: u64,
    /// Arrivals at such an airport, whose time zone is not known either.
    pub(super) arrival_estimated: u64,
}

impl Tally {
    /// Starts with no row counted.
    pub(super) fn new(input: &FlightTables) -> Self {
        Tally {
            rows: input.rows(),
            departed: 0,
            refused: 0,
            cancelled: 0,
            unreadable: input.unreadable.clone(),
            arrived: 0,
            late: 0,
            jobs_done: 0,
            refusal_example: None,
            latencies: Latencies::new(),
            dirt: Dirt::of(&input.flights, &input.airports),
        }
    }

    /// The number of rows with an outcome.
    pub(super) fn accounted_for(&self) -> u64 {
        self.departed + self.refused + self.cancelled + self.unreadable.len() as u64
    }

    /// The number of events that the rows and jobs make.
    pub(super) fn events(&self) -> u64 {
        self.departed + self.arrived + self.cancelled + self.jobs_done
    }
}

impl Dirt {
    fn of(flights: &[Flight], airports: &Airports) -> Self {
        let count = |lacks: &dyn Fn(&Flight) -> bool| flights.iter().filter(|flight| lacks(flight)).count() as u64;
        let arrives = |flight: &Flight, how: fn(&FlightArrival) -> bool| {
            flight.departure.as_ref().is_some_and(|departure| how(&departure.arrival))
        };
        let is_known = |code: &str| airports.get(code).is_some();
        Dirt {
            no_departure_time: count(&|flight| flight.departure.is_none()),
            no_tail_number: count(&|flight| flight.plane.is_none()),
            no_arrival_time: count(&|flight| arrives(flight, |arrival| matches!(arrival, FlightArrival::Unknown))),
            no_air_time: count(&|flight| flight.is_air_time_missing),
            unknown_airport: count(&|flight| !is_known(&flight.origin) || !is_known(&flight.dest)),
            arrival_estimated: count(&|flight| {
                arrives(flight, |arrival| matches!(arrival, FlightArrival::Estimated(_)))
            }),
        }
    }
}
