//! How results and the list of cases are printed: a table for people, one JSON object a line for programs.

use std::io::{self, Write};
use std::path::Path;

use super::cases::{Case, Operation, PAYLOAD_BYTES};
use super::measurement::Measurement;
use crate::text::{grouped, nanos};

/// The cases there are.
pub(super) fn list(out: &mut dyn Write, cases: &[&Case]) -> io::Result<()> {
    for case in cases {
        let what = match case.operation {
            Operation::Append { messages: 1 } => "produce one message and wait until it is kept".to_owned(),
            Operation::Append { messages } => {
                format!("produce a batch of {} messages and wait until it is kept", grouped(messages as u64))
            }
            Operation::ReadBack { messages } => {
                format!("fetch the next batch of {} messages, copied out", grouped(messages as u64))
            }
        };
        let (suite, name, durability) = (case.suite, case.name, case.durability.to_string());
        writeln!(out, "{suite:<5} {name:<20} {durability:<5} {:>8} ops: {what}", grouped(case.ops))?;
    }
    Ok(())
}

/// The head of the table.
pub(super) fn heading(out: &mut dyn Write, place: &Path) -> io::Result<()> {
    writeln!(out, "{PAYLOAD_BYTES}-byte payloads, one thread, in {}", place.display())?;
    writeln!(
        out,
        "{:<20} {:<5} {:>9} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "case", "kept", "ops", "ops/s", "ns/entry", "p50", "p95", "p99", "p99.9", "max"
    )
}

/// A line of the table.
pub(super) fn row(out: &mut dyn Write, of: &Measurement) -> io::Result<()> {
    writeln!(
        out,
        "{:<20} {:<5} {:>9} {:>12} {:>10.1} {:>9} {:>9} {:>9} {:>9} {:>9}",
        of.case,
        of.durability,
        grouped(of.ops),
        grouped(of.ops_per_s as u64),
        of.ns_per_entry,
        nanos(of.p50_ns),
        nanos(of.p95_ns),
        nanos(of.p99_ns),
        nanos(of.p999_ns),
        nanos(of.max_ns),
    )?;
    out.flush()
}

/// A line of JSON.
pub(super) fn json_line(out: &mut dyn Write, of: &Measurement) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(of).expect("numbers and names are JSON"))?;
    out.flush()
}
