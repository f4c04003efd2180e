//! Output of results and of the list of cases: a table for people, one JSON object per line for
//! programs.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::calibration::Calibration;
use super::case::Case;
use super::heading::Heading;
use super::measurement::Measurement;
use quire_cli::text::{amount, grouped, nanos};

/// Prints the list of cases.
pub(super) fn list(out: &mut dyn Write, cases: &[&Case]) -> io::Result<()> {
    for Case { suite, name, durability, payload_bytes, clients, ops, what, .. } in cases {
        let (durability, ops) = (durability.to_string(), grouped(*ops));
        writeln!(
            out,
            "{suite:<6} {name:<24} {durability:<5} {payload_bytes:>4} B {clients:>3} at once {ops:>9} ops: {what}"
        )?;
    }
    Ok(())
}

/// Prints the head of the table.
pub(super) fn heading(out: &mut dyn Write, of: &Heading, place: &Path) -> io::Result<()> {
    let Heading { cpu, cores, system, file_system, version, commit, build, memory_bytes, calibration } = of;
    let memory = memory_bytes >> 30;
    writeln!(out, "{cpu}, {cores} processors, {memory} GiB, {system}; {file_system} at {}", place.display())?;
    writeln!(out, "quire {version}, commit {commit}, {build} build")?;
    let Calibration { work_ns, sync_ns, loopback_ns, handover_ns } = *calibration;
    let (work, sync, loopback, handover) = (nanos(work_ns), nanos(sync_ns), nanos(loopback_ns), nanos(handover_ns));
    writeln!(
        out,
        "without Quire: 10,000 small records hashed, looked up and copied {work}, write and fdatasync {sync}, round trip on loopback {loopback}, between processors {handover}"
    )?;
    if build == "debug" {
        writeln!(out, "a debug build: these numbers say nothing about Quire")?;
    }
    writeln!(
        out,
        "{:<24} {:<5} {:>5} {:>4} {:>9} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "case", "kept", "bytes", "by", "ops", "ops/s", "ns/entry", "p50", "p95", "p99", "p99.9", "max"
    )
}

/// Prints a row of the table.
pub(super) fn row(out: &mut dyn Write, of: &Measurement) -> io::Result<()> {
    write!(
        out,
        "{:<24} {:<5} {:>5} {:>4} {:>9} {:>12} {:>10.1} {:>9} {:>9} {:>9} {:>9} {:>9}",
        of.case,
        of.durability,
        of.payload_bytes,
        of.clients,
        grouped(of.ops),
        grouped(of.ops_per_s as u64),
        of.ns_per_entry,
        nanos(of.p50_ns),
        nanos(of.p95_ns),
        nanos(of.p99_ns),
        nanos(of.p999_ns),
        nanos(of.max_ns),
    )?;
    for (name, value) in &of.also {
        write!(out, "  {name} {}", amount(*value))?;
    }
    writeln!(out)?;
    out.flush()
}

/// Prints a line of JSON: the heading, or a result.
pub(super) fn json_line(out: &mut dyn Write, of: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(of).expect("numbers and names are JSON"))?;
    out.flush()
}
