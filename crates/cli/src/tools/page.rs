//! A shard's statistics in printed form: counts, and a line for each timing.

use std::io::{self, Write};

use quire::tools::{Gauge, Gauges, Histogram, Page};
use serde::Serialize;

use crate::calendar;
use crate::text::{bytes, counted, grouped, nanos, on_one_line};

/// Widest group name that keeps the columns aligned.
const GROUP_COLUMNS_MAX: usize = 48;

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
    /// The groups with the largest lag, largest first. Empty until a process has reported lags.
    groups: Vec<GroupForm>,
    groups_in_all: u64,
    /// The last record that the lags include.
    groups_position: Option<u64>,
    /// The time of the report.
    groups_told_ms: Option<u64>,
}

/// The lag of a consumer group.
#[derive(Debug, Serialize)]
pub(super) struct GroupForm {
    /// The name of the group, or the beginning of a long name.
    group: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    /// The number of unread records, for a group that committed an offset.
    lag: u64,
}

impl GroupForm {
    /// The groups of a statistics page.
    pub(super) fn all_of(page: &Page) -> Vec<Self> {
        let gauge = |gauge: &Gauge| GroupForm { group: gauge.name.clone(), is_cut: gauge.is_cut, lag: gauge.value };
        page.gauges.iter().flat_map(|told| &told.first).map(gauge).collect()
    }

    /// The name for people, on one line.
    pub(super) fn shown(&self) -> String {
        let name = on_one_line(&self.group).into_owned();
        if self.is_cut { name + "…" } else { name }
    }

    pub(super) fn lag(&self) -> u64 {
        self.lag
    }
}

/// The distribution of a timing. Percentiles are upper bounds. Those of a page are exact to a
/// factor of two.
#[derive(Debug, Serialize)]
pub(super) struct Timing {
    pub(super) timed: u64,
    pub(super) mean_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p95_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
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
            groups: GroupForm::all_of(page),
            groups_in_all: page.gauges.as_ref().map_or(0, |told| told.count),
            groups_position: page.gauges.as_ref().map(|told| told.position.get()),
            groups_told_ms: page.gauges.as_ref().map(|told: &Gauges| told.time.as_millis()),
        }
    }

    /// Prints one line of JSON.
    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self).expect("numbers and names are JSON"))?;
        out.flush()
    }

    /// Prints the text form.
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
        write_timings(out, &[("append", &self.append), ("sync", &self.sync), ("checkpoint", &self.checkpoint)])?;
        self.groups(out)
    }

    fn groups(&self, out: &mut dyn Write) -> io::Result<()> {
        let (Some(position), Some(told_ms), false) =
            (self.groups_position, self.groups_told_ms, self.groups.is_empty())
        else {
            return Ok(());
        };
        let time = i64::try_from(told_ms).map_or_else(|_| "-".to_owned(), calendar::rfc3339);
        let names: Vec<_> = self.groups.iter().map(GroupForm::shown).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(16, GROUP_COLUMNS_MAX);
        writeln!(out, "  {:<width$} {:>16}  as of record {}, reported at {time}", "groups", "lag", grouped(position))?;
        for (name, group) in names.iter().zip(&self.groups) {
            writeln!(out, "  {name:<width$} {:>16}", grouped(group.lag))?;
        }
        match self.groups_in_all - self.groups.len() as u64 {
            0 => Ok(()),
            others => writeln!(out, "  and {}", counted(others, "other")),
        }
    }
}

/// Prints a line for each timing, under a heading.
pub(super) fn write_timings(out: &mut dyn Write, timings: &[(&str, &Timing)]) -> io::Result<()> {
    writeln!(
        out,
        "  {:<16} {:>16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "at most", "timed", "mean", "p50", "p95", "p99", "p99.9", "max"
    )?;
    timings.iter().try_for_each(|(name, timing)| timing.line(out, name))
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
