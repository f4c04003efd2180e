//! The table of airports. Its time zones convert local times to UTC.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::failure::{CommandError, Result};

/// An airport. Its JSON is the content of its block.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub(super) struct Airport {
    #[serde(rename(deserialize = "faa"))]
    pub(super) code: String,
    pub(super) name: String,
    #[serde(rename(deserialize = "lat"))]
    pub(super) latitude: f64,
    #[serde(rename(deserialize = "lon"))]
    pub(super) longitude: f64,
    /// Hours ahead of UTC in winter.
    #[serde(rename(deserialize = "tz", serialize = "utc_offset_hours"))]
    pub(super) winter_offset_hours: f64,
    /// `A`: has daylight saving time as in the United States.
    #[serde(skip_serializing)]
    dst: String,
}

/// Airports by code.
#[derive(Debug, Default)]
pub(super) struct Airports {
    by_code: HashMap<String, Airport>,
}

impl Airports {
    /// Reads the table.
    ///
    /// # Errors
    /// When a row is invalid. No flight can be timed without the table.
    pub(super) fn read(csv: &[u8]) -> Result<Self> {
        let mut airports = Airports::default();
        for airport in csv::Reader::from_reader(csv).deserialize() {
            let airport: Airport = airport.map_err(|error| CommandError::at("read airports.csv", error))?;
            airports.by_code.insert(airport.code.clone(), airport);
        }
        Ok(airports)
    }

    /// The airport with this code, if it is in the table.
    pub(super) fn get(&self, code: &str) -> Option<&Airport> {
        self.by_code.get(code)
    }
}

impl Airport {
    /// The offset of the airport's clocks from UTC, in minutes.
    pub(super) fn offset_minutes(&self, is_summer_time: bool) -> i64 {
        let summer_hours = if is_summer_time && self.dst == "A" { 1.0 } else { 0.0 };
        ((self.winter_offset_hours + summer_hours) * 60.0) as i64
    }
}
