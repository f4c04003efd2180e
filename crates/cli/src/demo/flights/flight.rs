//! Parses a row of the flights table: names, and times in UTC.
//!
//! A missing value stays missing (`None`, [`FlightArrival::Unknown`]). An invalid row gives a
//! message.

use std::ops::RangeInclusive;

use serde::Deserialize;

use super::airports::Airports;
use super::minute::{DAY, Minute};

/// A row as text. `NA` and the empty text are missing values.
#[derive(Debug, Deserialize)]
pub(super) struct FlightRow<'r> {
    dep_time: &'r str,
    dep_delay: &'r str,
    arr_time: &'r str,
    carrier: &'r str,
    flight: &'r str,
    tailnum: &'r str,
    origin: &'r str,
    dest: &'r str,
    air_time: &'r str,
    distance: &'r str,
    hour: &'r str,
    minute: &'r str,
    time_hour: &'r str,
}

/// One scheduled flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flight {
    /// Carrier and number, like `UA1545`: the same every day.
    pub(super) name: String,
    /// The tail number of the aircraft, when it is known.
    pub(super) plane: Option<String>,
    pub(super) origin: String,
    pub(super) dest: String,
    pub(super) distance_miles: Option<u32>,
    pub(super) scheduled: Minute,
    /// `None` for a flight that never left.
    pub(super) departure: Option<Departure>,
    /// The flight left without a known time in the air: it was diverted, or the value is missing.
    pub(super) is_air_time_missing: bool,
}

/// The departure of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departure {
    pub(super) at: Minute,
    /// Minutes after the schedule; negative for an early flight.
    pub(super) delay_minutes: i64,
    pub(super) arrival: FlightArrival,
}

/// The time of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlightArrival {
    /// At this minute.
    At(Minute),
    /// At about this minute: the departure plus the time in the air. The time zone of the airport
    /// is not known.
    Estimated(Minute),
    /// Missing in the row.
    Unknown,
}

/// The columns that the table must have.
pub(super) const COLUMNS: [&str; 13] = [
    "dep_time",
    "dep_delay",
    "arr_time",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
];

/// Most bytes of a name, which becomes part of a tag or a key.
const NAME_BYTES_MAX: usize = 64;

/// The valid range of a departure's delay, in minutes: a day early to a week late. The largest
/// delay of 2013 is 21 hours.
const DELAYS: RangeInclusive<i64> = -DAY..=7 * DAY;

/// The longest flight, in minutes, and the longest distance, in miles: half way round the Earth.
const AIR_TIMES: RangeInclusive<i64> = 1..=DAY;
const DISTANCES: RangeInclusive<i64> = 1..=12_500;

impl FlightArrival {
    /// The minute, known or estimated.
    pub(super) fn minute(self) -> Option<Minute> {
        match self {
            FlightArrival::At(minute) | FlightArrival::Estimated(minute) => Some(minute),
            FlightArrival::Unknown => None,
        }
    }
}

impl Flight {
    /// Parses a row.
    ///
    /// # Errors
    /// A message that names the column.
    pub(super) fn of(row: &FlightRow<'_>, airports: &Airports) -> Result<Self, String> {
        let odd = |column: &str, text: &str| format!("{column} is {text:?}");
        let names = [row.carrier, row.flight, row.tailnum, row.origin, row.dest];
        for (column, name) in ["carrier", "flight", "tailnum", "origin", "dest"].into_iter().zip(names) {
            if name.len() > NAME_BYTES_MAX {
                return Err(format!("{column} has {} bytes, and at most {NAME_BYTES_MAX} can be a name", name.len()));
            }
        }
        let carrier = known(row.carrier).ok_or_else(|| odd("carrier", row.carrier))?;
        let number = known(row.flight).ok_or_else(|| odd("flight", row.flight))?;
        let origin = known(row.origin).ok_or_else(|| odd("origin", row.origin))?;
        let dest = known(row.dest).ok_or_else(|| odd("dest", row.dest))?;
        let minute = within("minute", row.minute, 0..=59)?;
        let hour = within("hour", row.hour, 0..=24)?;
        let air_time = known(row.air_time).map(|text| within("air_time", text, AIR_TIMES)).transpose()?;
        let distance = known(row.distance).map(|text| within("distance", text, DISTANCES)).transpose()?;
        let hour_utc = Minute::parse(row.time_hour).ok_or_else(|| odd("time_hour", row.time_hour))?;
        let scheduled = hour_utc.plus(minute);
        let departure = match known(row.dep_time) {
            None => None,
            Some(dep_time) => {
                minute_of_day(dep_time).ok_or_else(|| odd("dep_time", dep_time))?;
                let delay_minutes = within("dep_delay", row.dep_delay, DELAYS)?;
                let at = scheduled.plus(delay_minutes);
                // The schedule has the hour in local time and in UTC. The difference is the
                // origin's offset on that day.
                let offset = wrapped_to_half_a_day(hour * 60 - hour_utc.of_day());
                let is_summer_time = airports.get(origin).is_some_and(|origin| offset != origin.offset_minutes(false));
                let dest_offset = airports.get(dest).map(|dest| dest.offset_minutes(is_summer_time));
                Some(Departure { at, delay_minutes, arrival: arrival(row.arr_time, air_time, at, dest_offset)? })
            }
        };
        Ok(Flight {
            name: format!("{carrier}{number}"),
            plane: known(row.tailnum).map(str::to_owned),
            origin: origin.to_owned(),
            dest: dest.to_owned(),
            distance_miles: distance.and_then(|miles| u32::try_from(miles).ok()),
            scheduled,
            is_air_time_missing: departure.is_some() && air_time.is_none(),
            departure,
        })
    }
}

/// The arrival of a flight that left at `departed`, at an airport with clocks `offset` minutes
/// ahead of UTC.
fn arrival(
    arr_time: &str,
    air_time: Option<i64>,
    departed: Minute,
    dest_offset: Option<i64>,
) -> Result<FlightArrival, String> {
    let Some(local) = known(arr_time) else { return Ok(FlightArrival::Unknown) };
    let local = minute_of_day(local).ok_or_else(|| format!("arr_time is {local:?}"))?;
    if let Some(offset) = dest_offset {
        // The first time after the departure at which the clocks there show this. No flight takes a
        // day.
        let departed_local = departed.plus(offset).of_day();
        return Ok(FlightArrival::At(departed.plus((local - departed_local).rem_euclid(DAY))));
    }
    Ok(air_time.map_or(FlightArrival::Unknown, |minutes| FlightArrival::Estimated(departed.plus(minutes))))
}

/// The value of a field, if it has one.
fn known(field: &str) -> Option<&str> {
    (!matches!(field, "" | "NA")).then_some(field)
}

/// The number in a column, if it is in the valid range.
fn within(column: &str, text: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    let number: i64 = text.parse().map_err(|_| format!("{column} is {text:?}"))?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(format!("{column} is {number}, and can be {} to {}", range.start(), range.end()))
}

/// Parses `517` as 5:17 and `2400` as midnight.
fn minute_of_day(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let (hours, minutes) = (number / 100, number % 100);
    ((0..=24).contains(&hours) && (0..60).contains(&minutes)).then_some(hours * 60 + minutes)
}

fn wrapped_to_half_a_day(minutes: i64) -> i64 {
    (minutes + DAY / 2).rem_euclid(DAY) - DAY / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIRPORTS: &str = "faa,name,lat,lon,alt,tz,dst,tzone\n\
        EWR,Newark,40.7,-74.2,18,-5,A,America/New_York\n\
        LAX,Los Angeles,33.9,-118.4,126,-8,A,America/Los_Angeles\n\
        PHX,Phoenix,33.4,-112.0,1135,-7,N,America/Phoenix\n";

    /// `fields`: dep_time, dep_delay, arr_time, tailnum, dest, air_time, hour, minute, time_hour.
    #[track_caller]
    fn check(fields: &str, expect: &str) {
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [dep_time, dep_delay, arr_time, tailnum, dest, air_time, hour, minute, time_hour] = fields[..] else {
            panic!("nine fields");
        };
        let (carrier, flight, origin, distance) = ("UA", "1", "EWR", "2454");
        let row = FlightRow {
            dep_time,
            dep_delay,
            arr_time,
            carrier,
            flight,
            tailnum,
            origin,
            dest,
            air_time,
            distance,
            hour,
            minute,
            time_hour,
        };
        let found = match Flight::of(&row, &Airports::read(AIRPORTS.as_bytes()).expect("airports")) {
            Err(problem) => problem,
            Ok(flight) => match flight.departure {
                None => format!("scheduled {}", flight.scheduled),
                Some(departure) => {
                    format!("{} to {:?}", departure.at, departure.arrival.minute().map(|at| at.to_string()))
                }
            },
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn a_flight_is_timed_in_utc() {
        check("517 2 830 N1 LAX 300 5 15 2013-01-01T10:00:00Z", r#"2013-01-01T10:17Z to Some("2013-01-01T16:30Z")"#);
    }

    #[test]
    fn an_arrival_after_midnight_is_on_the_next_day() {
        check("2230 0 145 N1 LAX 300 22 30 2013-01-02T03:00:00Z", r#"2013-01-02T03:30Z to Some("2013-01-02T09:45Z")"#);
        check("1959 -1 2400 N1 LAX 300 20 0 2013-01-02T01:00:00Z", r#"2013-01-02T00:59Z to Some("2013-01-02T08:00Z")"#);
    }

    #[test]
    fn summer_time_counts_where_it_is_kept() {
        check("800 0 1100 N1 LAX 300 8 0 2013-07-01T12:00:00Z", r#"2013-07-01T12:00Z to Some("2013-07-01T18:00Z")"#);
        check("800 0 1100 N1 PHX 300 8 0 2013-07-01T12:00:00Z", r#"2013-07-01T12:00Z to Some("2013-07-01T18:00Z")"#);
    }

    #[test]
    fn an_arrival_where_the_time_zone_is_not_known_is_estimated_by_the_time_in_the_air() {
        check("800 0 1300 N1 SJU 200 8 0 2013-01-01T13:00:00Z", r#"2013-01-01T13:00Z to Some("2013-01-01T16:20Z")"#);
        check("800 0 1300 N1 SJU NA 8 0 2013-01-01T13:00:00Z", "2013-01-01T13:00Z to None");
    }

    #[test]
    fn unknown_values_stay_unknown_and_invalid_ones_are_errors() {
        check("NA NA NA NA LAX NA 8 0 2013-01-01T13:00:00Z", "scheduled 2013-01-01T13:00Z");
        check("800 0 NA N1 LAX NA 8 0 2013-01-01T13:00:00Z", "2013-01-01T13:00Z to None");
        check("800 NA 1100 N1 LAX 300 8 0 2013-01-01T13:00:00Z", r#"dep_delay is "NA""#);
        check("800 0 1171 N1 LAX 300 8 0 2013-01-01T13:00:00Z", r#"arr_time is "1171""#);
        check("800 0 1100 N1 LAX 300 8 0 soon", r#"time_hour is "soon""#);
        check("970 0 1100 N1 LAX 300 8 0 2013-01-01T13:00:00Z", r#"dep_time is "970""#);
        check("800 0 1100 N1 LAX 300 8 75 2013-01-01T13:00:00Z", "minute is 75, and can be 0 to 59");
        check("800 0 1100 N1 LAX 300 -8 0 2013-01-01T13:00:00Z", "hour is -8, and can be 0 to 24");
        check("800 99999 1100 N1 LAX 300 8 0 2013-01-01T13:00:00Z", "dep_delay is 99999, and can be -1440 to 10080");
        check("800 0 1100 N1 LAX -300 8 0 2013-01-01T13:00:00Z", "air_time is -300, and can be 1 to 1440");
    }
}
