//! The bulk load of the demo: a week of flights out of New York, through all four models, while the
//! servers run.
//!
//! ```text
//! input (flights, airports) ─▶ timeline (events by minute) ─▶ feed: one atomic commit per step
//!                                                              │ late flights
//!                                                              ▼
//!                       report ◀─ contents (read back) ◀── worker: ack + event, one commit
//! ```

mod airports;
mod contents;
mod feed;
mod flight;
mod input;
mod minute;
mod names;
mod report;
mod tally;
mod timeline;
mod worker;

use std::io::Write;

use quire::Database;

use crate::failure::{CommandError, Result};
use crate::progress::ProgressDisplay;
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::grouped;
use contents::DemoContents;
use feed::Feed;
use report::LoadReport;
use tally::Tally;
use timeline::TimelineStep;

pub(super) use input::FlightTables;
pub(super) use names::{DELAYS, DEPARTURES, FLIGHTS, ROUTES};

/// The number of partitions of the topic, so that keys matter.
const PARTITIONS: u32 = 3;
/// An aircraft of the built-in week.
const SOME_PLANE: &str = "N14228";

/// Loads the flights, checks the contents of the database, and writes the report. Returns the tail
/// number of an aircraft to look at.
///
/// # Errors
/// When the database fails, a count is wrong, or `stop` is requested.
pub(super) fn load(
    database: &Database,
    input: &FlightTables,
    stop: &StopSignal,
    out: &mut dyn Write,
) -> Result<String> {
    let mut tally = Tally::new(input);
    let steps = timeline::timeline(&input.flights);
    let count = |is_kind: fn(&TimelineStep) -> bool| grouped(steps.iter().filter(|step| is_kind(step)).count() as u64);
    let departures = count(|step| matches!(step, TimelineStep::Depart(_)));
    let arrivals = count(|step| matches!(step, TimelineStep::Arrive(_)));
    let cancellations = count(|step| matches!(step, TimelineStep::Cancel(_)));
    let (flights, all) = (grouped(input.flights.len() as u64), grouped(steps.len() as u64));
    writeln!(out, "{flights} flights make {all} steps:")?;
    writeln!(out, "{departures} departures, {arrivals} arrivals, {cancellations} cancellations")?;
    out.flush()?;
    let watch = Stopwatch::start();
    play(database, input, steps, &mut tally, stop)?;
    let elapsed = watch.elapsed();
    let contents = DemoContents::read(database)?;
    contents.check(&tally)?;
    LoadReport { tally: &tally, contents: &contents, elapsed, durability: database.durability() }.write(out)?;
    // The aircraft that was refused has the most to show.
    Ok(tally.refusal_example.map_or_else(|| SOME_PLANE.to_owned(), |example| example.plane))
}

/// Feeds the flights, then works on the jobs until none is left.
///
/// # Errors
/// When the database fails, or `stop` is requested before the end.
fn play(
    database: &Database,
    input: &FlightTables,
    steps: Vec<TimelineStep>,
    tally: &mut Tally,
    stop: &StopSignal,
) -> Result {
    database.topic(DEPARTURES).create(PARTITIONS)?;
    let mut progress = ProgressDisplay::new("feeding steps", steps.len() as u64);
    let mut feed = Feed::new(database, input, tally);
    for step in steps {
        if stop.is_asked() {
            return Err(CommandError::Interrupted);
        }
        feed.step(step)?;
        progress.add(1);
    }
    progress.finish();
    let mut progress = ProgressDisplay::new("working jobs", tally.late);
    loop {
        let done = worker::work(database, tally)?;
        progress.add(done);
        match done {
            0 => break,
            _ if stop.is_asked() => return Err(CommandError::Interrupted),
            _ => {}
        }
    }
    progress.finish();
    Ok(())
}
