//! `quire top`: current rates, from two reads of the statistics page.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quire::tools::{self, Page, ShardPath};
use serde::Serialize;

use super::page::GroupForm;
use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::{bytes, counted, grouped, nanos};
use crate::threads;

/// Moves the cursor to the upper left corner and clears the screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[J";

/// Groups in the text form.
const GROUPS_SHOWN: usize = 5;

/// Arguments of `quire top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Directory of the database; may be in use
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Interval between reads, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    interval_ms: u64,
    /// Stop after this many intervals [default: run until Ctrl-C]
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Print one JSON object per line, one for each shard and interval
    #[arg(long)]
    json: bool,
}

/// The activity between two reads: the JSON form.
#[derive(Debug, Serialize)]
struct Rates<'r> {
    shard: &'r str,
    interval_ms: u64,
    commits_per_s: f64,
    entries_per_s: f64,
    bytes_per_s: f64,
    refusals_per_s: f64,
    syncs_per_s: f64,
    rolls: u64,
    checkpoints: u64,
    errors: u64,
    append_p50_ns: u64,
    append_p99_ns: u64,
    append_max_ns: u64,
    sync_p50_ns: u64,
    sync_p99_ns: u64,
    sync_max_ns: u64,
    /// The groups with the largest lag at the last report.
    groups: Vec<GroupForm>,
}

impl Top {
    /// Prints rates until `count` intervals have passed or the stop signal comes. Both end the
    /// command without an error.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let shards = tools::shards(&self.data)?;
        let look = || shards.iter().map(ShardPath::page).collect::<Result<Vec<_>, quire::Error>>();
        let runtime = threads::start(1)?;
        let stop = StopSignal::on_signals(&runtime)?;
        let mut before = look()?;
        let mut watch = Stopwatch::start();
        let mut looks = 0;
        while self.count.is_none_or(|count| looks < count) {
            let interval = Duration::from_millis(self.interval_ms);
            let asked = runtime.block_on(async { tokio::time::timeout(interval, stop.asked()).await.is_ok() });
            if asked {
                return Ok(());
            }
            let after = look()?;
            let elapsed = watch.lap();
            if !self.json && io::stdout().is_terminal() {
                write!(out, "{CLEAR}").map_err(CommandError::from)?;
            }
            for ((shard, before), after) in shards.iter().zip(&before).zip(&after) {
                let rates = Rates::between(&shard.name, before, after, elapsed);
                match self.json {
                    true => writeln!(out, "{}", serde_json::to_string(&rates).expect("numbers and names are JSON"))?,
                    false => rates.text(out, after)?,
                }
            }
            out.flush()?;
            before = after;
            looks += 1;
        }
        Ok(())
    }
}

impl<'r> Rates<'r> {
    fn between(shard: &'r str, before: &Page, after: &Page, elapsed: Duration) -> Self {
        // A page that restarted between the reads counts from zero.
        let more = |count: fn(&Page) -> u64| count(after).saturating_sub(count(before));
        let per_s = |count| (more(count) as f64 / elapsed.as_secs_f64() * 10.0).round() / 10.0;
        let (append, sync) = (after.append_ns.since(&before.append_ns), after.sync_ns.since(&before.sync_ns));
        Rates {
            shard,
            interval_ms: elapsed.as_millis() as u64,
            commits_per_s: per_s(|page| page.appends),
            entries_per_s: per_s(|page| page.entries),
            bytes_per_s: per_s(|page| page.bytes),
            refusals_per_s: per_s(|page| page.refusals),
            syncs_per_s: per_s(|page| page.syncs),
            rolls: more(|page| page.rolls),
            checkpoints: more(|page| page.checkpoints),
            errors: more(|page| page.errors),
            append_p50_ns: append.quantile_ns(0.5),
            append_p99_ns: append.quantile_ns(0.99),
            append_max_ns: append.quantile_ns(1.0),
            sync_p50_ns: sync.quantile_ns(0.5),
            sync_p99_ns: sync.quantile_ns(0.99),
            sync_max_ns: sync.quantile_ns(1.0),
            groups: GroupForm::all_of(after),
        }
    }

    fn text(&self, out: &mut dyn Write, after: &Page) -> io::Result<()> {
        let rate = |per_s: f64| grouped(per_s as u64);
        writeln!(
            out,
            "{:<10} {:>12} {:>14} {:>12} {:>12} {:>12}",
            self.shard, "commits/s", "entries/s", "bytes/s", "refusals/s", "syncs/s"
        )?;
        writeln!(
            out,
            "{:<10} {:>12} {:>14} {:>12} {:>12} {:>12}",
            "now",
            rate(self.commits_per_s),
            rate(self.entries_per_s),
            bytes(self.bytes_per_s as u64),
            rate(self.refusals_per_s),
            rate(self.syncs_per_s)
        )?;
        writeln!(
            out,
            "{:<10} {:>12} {:>14} {:>12} {:>12} {:>12}",
            "in all",
            grouped(after.appends),
            grouped(after.entries),
            bytes(after.bytes),
            grouped(after.refusals),
            grouped(after.syncs)
        )?;
        writeln!(
            out,
            "append     p50 {}, p99 {}, max {}; sync p50 {}, p99 {}, max {}; {} segments and {} checkpoints now, {} errors in all",
            nanos(self.append_p50_ns),
            nanos(self.append_p99_ns),
            nanos(self.append_max_ns),
            nanos(self.sync_p50_ns),
            nanos(self.sync_p99_ns),
            nanos(self.sync_max_ns),
            self.rolls,
            self.checkpoints,
            grouped(after.errors)
        )?;
        let shown = |group: &GroupForm| format!("{} {}", group.shown(), grouped(group.lag()));
        let shown: Vec<_> = self.groups.iter().take(GROUPS_SHOWN).map(shown).collect();
        match &after.gauges {
            Some(told) if told.count > 0 => {
                writeln!(out, "lag        {}; {} in total", shown.join(", "), counted(told.count, "group"))
            }
            _ => Ok(()),
        }
    }
}
