//! A shard's statistics as they are printed: the counts, and a line for each thing that is timed.

use std::io::{self, Write};

use quire::tools::{Histogram, Page};
use serde::Serialize;

use crate::calendar;
use crate::text::{bytes, grouped, nanos};

/// The JSON form.
#[derive(Debug, Serialize)]
pub(super) struct PageForm<'p> {
    shard: &'p str,
    since_ms: u64,
    appends: u64,
    entries: u64,
    bytes: u64,
    rolls: u64,
    refusals: u64,
    errors: u64,
    syncs: u64,
    checkpoints: u64,
    checkpoint_position: u64,
    append: Timing,
    sync: Timing,
    checkpoint: Timing,
}

/// How long something took: percentiles are right to a factor of two.
#[derive(Debug, Serialize)]
struct Timing {
    timed: u64,
    mean_ns: u64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

impl Timing {
    fn of(histogram: &Histogram) -> Self {
        Timing {
            timed: histogram.count(),
            mean_ns: histogram.mean_ns(),
            p50_ns: histogram.quantile_ns(0.5),
            p95_ns: histogram.quantile_ns(0.95),
            p99_ns: histogram.quantile_ns(0.99),
            p999_ns: histogram.quantile_ns(0.999),
            max_ns: histogram.quantile_ns(1.0),
        }
    }
}

impl<'p> PageForm<'p> {
    pub(super) fn of(shard: &'p str, page: &Page) -> Self {
        PageForm {
            shard,
            since_ms: page.since.as_micros() / 1000,
            appends: page.appends,
            entries: page.entries,
            bytes: page.bytes,
            rolls: page.rolls,
            refusals: page.refusals,
            errors: page.errors,
            syncs: page.syncs,
            checkpoints: page.checkpoints,
            checkpoint_position: page.checkpoint_position.get(),
            append: Timing::of(&page.append_ns),
            sync: Timing::of(&page.sync_ns),
            checkpoint: Timing::of(&page.checkpoint_ns),
        }
    }

    /// Prints it as one line of JSON.
    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self).expect("numbers and names are JSON"))?;
        out.flush()
    }

    /// Prints it for people.
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let since = i64::try_from(self.since_ms).map_or_else(|_| "-".to_owned(), calendar::rfc3339);
        writeln!(out, "{}, counted since {since}", self.shard)?;
        let counts = [
            ("commits", grouped(self.appends)),
            ("entries", grouped(self.entries)),
            ("bytes", bytes(self.bytes)),
            ("refusals", grouped(self.refusals)),
            ("segments begun", grouped(self.rolls)),
            ("syncs", grouped(self.syncs)),
            ("checkpoints", grouped(self.checkpoints)),
            ("errors", grouped(self.errors)),
        ];
        for (name, value) in counts {
            writeln!(out, "  {name:<16} {value:>16}")?;
        }
        writeln!(
            out,
            "  {:<16} {:>16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "at most", "timed", "mean", "p50", "p95", "p99", "p99.9", "max"
        )?;
        for (name, timing) in [("append", &self.append), ("sync", &self.sync), ("checkpoint", &self.checkpoint)] {
            timing.line(out, name)?;
        }
        Ok(())
    }
}

impl Timing {
    fn line(&self, out: &mut dyn Write, name: &str) -> io::Result<()> {
        let Timing { timed, mean_ns, p50_ns, p95_ns, p99_ns, p999_ns, max_ns } = *self;
        write!(out, "  {name:<16} {:>16}", grouped(timed))?;
        for ns in [mean_ns, p50_ns, p95_ns, p99_ns, p999_ns, max_ns] {
            write!(out, " {:>9}", if timed == 0 { "-".to_owned() } else { nanos(ns) })?;
        }
        writeln!(out)
    }
}
