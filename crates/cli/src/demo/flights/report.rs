//! The report at the end of the demo. `cargo xtask test` reads the lines that start with `kafka`,
//! `http`, `events`, `messages` and `jobs`.

use std::io::Write;
use std::time::Duration;

use super::contents::DemoContents;
use super::tally::Tally;
use crate::failure::Result;
use crate::text::{grouped, nanos};

/// Invalid rows that are listed one by one.
const UNREADABLE_SHOWN: usize = 5;

/// The facts of the report.
#[derive(Debug)]
pub(super) struct LoadReport<'r> {
    pub(super) tally: &'r Tally,
    pub(super) contents: &'r DemoContents,
    /// From the first commit to the last.
    pub(super) elapsed: Duration,
    pub(super) durability: quire::Durability,
}

impl LoadReport<'_> {
    /// Writes the report.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result {
        self.write_rows(out)?;
        self.write_made(out)?;
        self.write_speed(out)
    }

    fn write_rows(&self, out: &mut dyn Write) -> Result {
        let Tally { rows, departed, refused, cancelled, unreadable, dirt, .. } = self.tally;
        let mut line = |name: &str, count: u64, note: &str| writeln!(out, "{name:<12}{:>7}  {note}", grouped(count));
        line("rows", *rows, "of the flights table, each counted in one of the next four lines")?;
        line(
            "  departed",
            *departed,
            "one commit each: event, message, route, and a job when 30 minutes late or more",
        )?;
        line("  refused", *refused, "the aircraft was still in the air, by its last event")?;
        line("  cancelled", *cancelled, "no departure time: event `Cancelled`, no message")?;
        line("  unreadable", unreadable.len() as u64, "invalid rows")?;
        for (number, problem) in unreadable.iter().take(UNREADABLE_SHOWN) {
            writeln!(out, "    line {number}: {problem}")?;
        }
        if let Some(more @ 1..) = unreadable.len().checked_sub(UNREADABLE_SHOWN) {
            writeln!(out, "    and {} more", grouped(more as u64))?;
        }
        writeln!(out, "dirty rows")?;
        let mut line = |name: &str, count: u64, note: &str| writeln!(out, "{name:<12}{:>7}  {note}", grouped(count));
        line("  dep_time", dirt.no_departure_time, "missing: counted as cancelled")?;
        line("  tailnum", dirt.no_tail_number, "missing: event without tag `plane:`, without condition")?;
        line("  arr_time", dirt.no_arrival_time, "missing after a departure: no event `Arrived`")?;
        line("  air_time", dirt.no_air_time, "missing after a departure: diverted or not recorded")?;
        line("  airport", dirt.unknown_airport, "not in the table of airports: marked in its block")?;
        line("    of these", dirt.arrival_estimated, "arrivals estimated from the time in the air: no time zone")?;
        if let Some(example) = &self.tally.refusal_example {
            writeln!(out, "a refused commit:")?;
            for sentence in &example.story {
                writeln!(out, "  {sentence}")?;
            }
        }
        Ok(())
    }

    fn write_made(&self, out: &mut dyn Write) -> Result {
        let DemoContents { messages, airports, routes, .. } = self.contents;
        let mut line = |name: &str, count: u64, note: &str| writeln!(out, "{name:<12}{:>7}  {note}", grouped(count));
        line("events", self.contents.events(), &format!("in air/flights: {}", self.contents.sum_of_types()))?;
        line("messages", *messages, "in departures, keyed by origin")?;
        line(
            "jobs",
            self.contents.notified(),
            "of air/delays done, each in one commit with an event `PassengersNotified`",
        )?;
        line("routes", *routes, "edges in air/routes")?;
        Ok(line("airports", *airports, "blocks in air/routes")?)
    }

    fn write_speed(&self, out: &mut dyn Write) -> Result {
        let latencies = &self.tally.latencies;
        let commits = latencies.count();
        let per_second = commits as f64 / self.elapsed.as_secs_f64().max(1e-9);
        writeln!(
            out,
            "{:<12}{:>7}  in {:.1} s, one after another: one for each event above",
            "commits",
            grouped(commits),
            self.elapsed.as_secs_f64()
        )?;
        writeln!(out, "{:<12}{:>7}  commits a second", "speed", grouped(per_second as u64))?;
        writeln!(
            out,
            "{:<12}{:>7}  p50, p99 {}: from the call to the answer",
            "latency",
            nanos(latencies.quantile_ns(0.5)),
            nanos(latencies.quantile_ns(0.99)),
        )?;
        let promise = match self.durability {
            quire::Durability::Os => "answered commits survive the death of every process, not the loss of power",
            quire::Durability::Sync => "answered commits survive the loss of power",
        };
        Ok(writeln!(out, "{:<12}{:>7}  {promise}", "durability", self.durability.to_string())?)
    }
}
