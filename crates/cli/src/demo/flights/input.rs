//! The demo's input: the built-in week of flights, or tables of the user in the same form.

use std::fs;
use std::path::Path;

use super::airports::Airports;
use super::flight::{COLUMNS, Flight, FlightRow};
use crate::failure::{CommandError, Result};

const FLIGHTS: &str = include_str!("../../../../../examples/data/flights/flights-2013-01-01_07.csv");
const AIRPORTS: &str = include_str!("../../../../../examples/data/flights/airports.csv");

/// The tables to load.
#[derive(Debug)]
pub(in crate::demo) struct FlightTables {
    pub(super) flights: Vec<Flight>,
    pub(super) airports: Airports,
    /// Invalid rows: the line, and the problem.
    pub(super) unreadable: Vec<(u64, String)>,
}

impl FlightTables {
    /// Reads the tables in this directory, or the built-in ones.
    ///
    /// # Errors
    /// When a table can't be read. An invalid row is recorded instead.
    pub(in crate::demo) fn read(folder: Option<&Path>) -> Result<Self> {
        let Some(folder) = folder else { return FlightTables::parse(FLIGHTS.as_bytes(), AIRPORTS.as_bytes()) };
        let bytes = |path: &Path| {
            fs::read(path).map_err(|error| CommandError::at(format_args!("read {}", path.display()), error))
        };
        FlightTables::parse(&bytes(&flights_table(folder)?)?, &bytes(&folder.join("airports.csv"))?)
    }

    fn parse(flights: &[u8], airports: &[u8]) -> Result<Self> {
        let airports = Airports::read(airports)?;
        let mut input = FlightTables { flights: Vec::new(), airports, unreadable: Vec::new() };
        // No field of a flight contains a comma or a line end. A quote is an ordinary byte, and
        // can't hide rows.
        let mut reader = csv::ReaderBuilder::new().flexible(true).quoting(false).from_reader(flights);
        let headers = reader.headers().map_err(|error| CommandError::at("read the flights table", error))?.clone();
        let missing: Vec<_> =
            COLUMNS.into_iter().filter(|column| !headers.iter().any(|head| head == *column)).collect();
        if !missing.is_empty() {
            let message = "columns missing in the first line of the flights table";
            return Err(CommandError::new(format!("{message}: {}", missing.join(", "))));
        }
        for record in reader.byte_records() {
            let record = record.map_err(|error| CommandError::at("read the flights table", error))?;
            let line = record.position().map_or(0, csv::Position::line);
            match flight(record, &headers, &input.airports) {
                Ok(flight) => input.flights.push(flight),
                Err(problem) => input.unreadable.push((line, problem)),
            }
        }
        Ok(input)
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        (self.flights.len() + self.unreadable.len()) as u64
    }
}

/// The flight in a row, or the problem.
fn flight(row: csv::ByteRecord, headers: &csv::StringRecord, airports: &Airports) -> Result<Flight, String> {
    let row = csv::StringRecord::from_byte_record(row).map_err(|error| error.to_string())?;
    let row: FlightRow<'_> = row.deserialize(Some(headers)).map_err(|error| error.to_string())?;
    Flight::of(&row, airports)
}

/// Finds the only table of flights in a directory.
fn flights_table(folder: &Path) -> Result<std::path::PathBuf> {
    let failed = |error| CommandError::at(format_args!("list {}", folder.display()), error);
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("flights") && name.ends_with(".csv") {
            tables.push(path);
        }
    }
    match tables.as_slice() {
        [table] => Ok(table.clone()),
        tables => Err(CommandError::new(format!(
            "{} holds {} files called flights*.csv, expected one",
            folder.display(),
            tables.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_built_in_week_is_valid() {
        let input = FlightTables::read(None).expect("the tables are part of the program");
        assert_eq!(input.rows(), 6_099);
        assert_eq!(input.unreadable, []);
    }

    #[test]
    fn a_table_without_a_column_or_a_head_is_an_error() {
        let problem = |table: &str| match FlightTables::parse(table.as_bytes(), AIRPORTS.as_bytes()) {
            Err(CommandError::Message(message)) => message,
            other => panic!("{other:?}"),
        };
        let without = FLIGHTS.replacen("tailnum,", "tail,", 1);
        assert!(problem(&without).ends_with("of the flights table: tailnum"), "{}", problem(&without));
        let headless = FLIGHTS.split_once('\n').expect("a head").1;
        assert!(problem(headless).contains("dep_time, dep_delay"), "{}", problem(headless));
        assert!(problem("").contains("time_hour"), "{}", problem(""));
    }

    #[test]
    fn an_invalid_row_is_recorded_with_its_line() {
        let [head, row] = FLIGHTS.lines().take(2).collect::<Vec<_>>()[..] else { panic!("a row under its head") };
        let quoted = row.replace("N14228", "\"N14228");
        let long = row.replace("N14228", &"N".repeat(300));
        let mut table = format!("{head}\n2013,1,1,600\n{quoted}\n{long}\n{row}\n{row}\n").into_bytes();
        let last = table.len() - row.len() - 1;
        table[last + row.find("IAH").expect("where it goes")] = 0xFF;
        let input = FlightTables::parse(&table, AIRPORTS.as_bytes()).expect("the table is one");
        assert_eq!((input.flights.len(), input.rows()), (2, 5));
        let [cut, long, garbled] = &input.unreadable[..] else { panic!("three rows are noted") };
        assert_eq!((cut.0, long.0, garbled.0), (2, 4, 6));
        assert_eq!(long.1, "tailnum has 300 bytes, and at most 64 can be a name");
        assert!(garbled.1.contains("UTF-8"), "{}", garbled.1);
    }
}
