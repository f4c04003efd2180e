//! `quire top`: what happens now, from two reads of the statistics page of a directory, or of the
//! figures of a server.
//!
//! On a terminal it is a screen that is redrawn. Elsewhere it prints lines.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quire::tools::{self, Page, ShardPath};
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::figures::{DurationBuckets, GroupFigures, QueueFigures, ServerFigures, TopicFigures, per_s};
use super::location::{ServedToolLocation, ToolPlace};
use super::page::GroupForm;
use super::screen::{Activity, ObjectTable, ScreenContents, TimingLine, age, compact};
use super::terminal::Terminal;
use crate::failure::{CommandError, Result};
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::{bytes, counted, grouped, nanos};
use crate::threads;

/// Groups in the text form of a directory.
const GROUPS_SHOWN: usize = 5;

/// The size of the text form of a server.
const TEXT_SIZE: (usize, usize) = (100, 40);

/// Arguments of `quire top`.
#[derive(Debug, Args)]
#[command(after_help = "On a terminal, q or Ctrl-C quits. A directory has rates, latencies and the lag of groups; a \
                        server has queues and topics too.")]
pub(crate) struct Top {
    #[command(flatten)]
    location: ServedToolLocation,
    #[command(flatten)]
    pace: TopPace,
}

/// When to read, and how to print.
#[derive(Debug, Args)]
struct TopPace {
    /// Interval between reads, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    interval_ms: u64,
    /// Stop after this many intervals [default: run until q or Ctrl-C]
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Print one JSON object per line, one for each interval, and for each shard of a directory
    #[arg(long)]
    json: bool,
}

/// What happened in an interval, in every form.
struct IntervalReport {
    json: Vec<String>,
    text: String,
    screen: ScreenContents,
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

/// The activity of a server between two reads: the JSON form.
#[derive(Debug, Serialize)]
struct ServerRates<'r> {
    server: &'r str,
    interval_ms: u64,
    commits_per_s: f64,
    entries_per_s: f64,
    bytes_per_s: f64,
    refusals_per_s: f64,
    syncs_per_s: f64,
    requests_per_s: f64,
    commit_p50_ns: u64,
    commit_p99_ns: u64,
    commit_max_ns: u64,
    sync_p50_ns: u64,
    sync_p99_ns: u64,
    sync_max_ns: u64,
    http_p50_ns: u64,
    http_p99_ns: u64,
    http_max_ns: u64,
    queues: Vec<QueueRates>,
    topics: Vec<TopicRates>,
    /// The groups with the largest lag first.
    groups: Vec<GroupFigures>,
}

/// The activity of a queue.
#[derive(Debug, Serialize)]
struct QueueRates {
    #[serde(flatten)]
    now: QueueFigures,
    finished_per_s: f64,
}

/// The activity of a topic.
#[derive(Debug, Serialize)]
struct TopicRates {
    #[serde(flatten)]
    now: TopicFigures,
    /// Growth; a topic whose messages are deleted does not shrink below zero.
    messages_per_s: f64,
}

impl Top {
    /// Shows rates until `count` intervals have passed, the stop signal comes or `q` is pressed.
    /// Each ends the command without an error.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Top { location, pace } = self;
        match location.place()? {
            ToolPlace::Directory(directory) => {
                let shards = tools::shards(&directory)?;
                let names: Vec<String> = shards.iter().map(|shard| shard.name.clone()).collect();
                let look = move || Ok(shards.iter().map(ShardPath::page).collect::<Result<Vec<_>, quire::Error>>()?);
                let title = directory.display().to_string();
                let report = |before: &Vec<Page>, after: &Vec<Page>, elapsed| {
                    directory_report(&title, &names, before, after, elapsed)
                };
                pace.watch(&title, look, report, out)
            }
            ToolPlace::Server(client) => {
                let title = client.address();
                let report = |before: &_, after: &_, elapsed| server_report(&title, before, after, elapsed);
                pace.watch(&title, move || ServerFigures::read(&client), report, out)
            }
        }
    }
}

impl TopPace {
    fn watch<L: Send + 'static>(
        &self,
        title: &str,
        look: impl Fn() -> Result<L> + Send + Sync + 'static,
        report: impl Fn(&L, &L, Duration) -> IntervalReport,
        out: &mut dyn Write,
    ) -> Result {
        let runtime = threads::start(1)?;
        let stop = StopSignal::on_signals(&runtime)?;
        let look: Arc<dyn Fn() -> Result<L> + Send + Sync> = Arc::new(look);
        let Some(mut before) = until_stop(&runtime, &stop, &look)?.transpose()? else { return Ok(()) };
        let mut watch = Stopwatch::start();
        let interval = Duration::from_millis(self.interval_ms);
        let is_screen = !self.json && io::stdout().is_terminal();
        let terminal = if is_screen { Some(Terminal::take(&stop)?) } else { None };
        let heading = format!("quire top  {title}  every {interval:?}, q quits");
        let mut contents = report(&before, &before, interval).screen;
        let mut looks = 0;
        loop {
            if let Some(terminal) = &terminal {
                let (width, height) = terminal.size();
                contents.title.clone_from(&heading);
                terminal.draw(&contents.lines(width, height))?;
            }
            let is_asked = || runtime.block_on(async { tokio::time::timeout(interval, stop.asked()).await.is_ok() });
            if self.count.is_some_and(|count| looks == count) || is_asked() {
                return Ok(());
            }
            looks += 1;
            let Some(after) = until_stop(&runtime, &stop, &look)? else { return Ok(()) };
            let after = match after {
                Ok(after) => after,
                // A server that restarts is shown again afterwards.
                Err(CommandError::Message(message)) if is_screen => {
                    contents.notice = Some(format!("no figures now: {message}"));
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let IntervalReport { json, text, screen } = report(&before, &after, watch.lap());
            match (is_screen, self.json) {
                (true, _) => contents = screen,
                (false, true) => json.iter().try_for_each(|line| writeln!(out, "{line}"))?,
                (false, false) => write!(out, "{text}")?,
            }
            out.flush()?;
            before = after;
        }
    }
}

/// Reads on another thread. Returns `None` when the stop signal comes first: a server that does not
/// respond must not keep the user waiting.
fn until_stop<L: Send + 'static>(
    runtime: &Runtime,
    stop: &StopSignal,
    look: &Arc<dyn Fn() -> Result<L> + Send + Sync>,
) -> Result<Option<Result<L>>> {
    let (sender, receiver) = oneshot::channel();
    let look = Arc::clone(look);
    let started = std::thread::Builder::new().spawn(move || drop(sender.send(look())));
    started.map_err(|error| CommandError::at("start a thread", error))?;
    Ok(runtime.block_on(async {
        tokio::select! {
            looked = receiver => Some(looked.expect("the look ended without a panic")),
            () = stop.asked() => None,
        }
    }))
}

/// A rate with one digit after the point while it is small.
fn rate(per_s: f64) -> String {
    match per_s {
        0.0..10.0 if per_s.fract() > 0.0 => format!("{per_s:.1}"),
        _ => compact(per_s as u64),
    }
}

fn activity(name: &'static str, per_s: f64, total: u64) -> Activity {
    Activity { name, rate: rate(per_s), total: compact(total) }
}

fn activity_of_bytes(per_s: f64, total: u64) -> Activity {
    Activity { name: "bytes", rate: bytes(per_s as u64), total: bytes(total) }
}

fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("numbers and names are JSON")
}

/// What happened in a directory: its shards in the order of `names`.
fn directory_report(
    title: &str,
    names: &[String],
    before: &[Page],
    after: &[Page],
    elapsed: Duration,
) -> IntervalReport {
    let (mut lines, mut text) = (Vec::new(), String::new());
    let mut screen = ScreenContents { interval_ms: elapsed.as_millis() as u64, ..ScreenContents::default() };
    let mut groups = Vec::new();
    let mut groups_in_all = 0;
    let sum = |count: fn(&Page) -> u64| {
        let totals = [before, after].map(|pages| pages.iter().map(count).sum::<u64>());
        (per_s(totals[0], totals[1], elapsed), totals[1])
    };
    let of = |name, count| {
        let (per_s, total) = sum(count);
        activity(name, per_s, total)
    };
    let (bytes_per_s, bytes_in_all) = sum(|page| page.bytes);
    screen.activities = vec![
        of("commits", |page| page.appends),
        of("entries", |page| page.entries),
        activity_of_bytes(bytes_per_s, bytes_in_all),
        of("refusals", |page| page.refusals),
        of("syncs", |page| page.syncs),
        of("errors", |page| page.errors),
    ];
    for ((name, before), after) in names.iter().zip(before).zip(after) {
        let timings = [
            ("append", after.append_ns.since(&before.append_ns)),
            ("sync", after.sync_ns.since(&before.sync_ns)),
            ("checkpoint", after.checkpoint_ns.since(&before.checkpoint_ns)),
        ];
        screen.timings.extend(timings.into_iter().map(|(name, timed)| TimingLine {
            name,
            count: timed.count(),
            mean_ns: timed.mean_ns(),
            at_most_ns: [0.5, 0.95, 0.99, 1.0].map(|quantile| timed.quantile_ns(quantile)),
        }));
        let rates = Rates::between(name, before, after, elapsed);
        lines.push(json(&rates));
        rates.text(&mut text, after).expect(INFALLIBLE);
        groups.extend(rates.groups.iter().map(|group| (group.shown(), vec![compact(group.lag())])));
        groups_in_all += after.gauges.as_ref().map_or(0, |told| told.count);
    }
    screen.title = title.to_owned();
    let notice = "queues and topics: `quire top --http URL` of a server of this database";
    screen.notice = Some(notice.to_owned());
    screen.tables = vec![ObjectTable { kind: "groups", columns: vec![("lag", 12)], rows: groups, all: groups_in_all }];
    IntervalReport { json: lines, text, screen }
}

const INFALLIBLE: &str = "writing to a string can't fail";

/// What happened in a server.
fn server_report(title: &str, before: &ServerFigures, after: &ServerFigures, elapsed: Duration) -> IntervalReport {
    let more = |count: fn(&ServerFigures) -> u64| per_s(count(before), count(after), elapsed);
    let commit = after.commit.since(&before.commit);
    let (sync, http) = (after.sync.since(&before.sync), after.http.since(&before.http));
    let rates = ServerRates {
        server: title,
        interval_ms: elapsed.as_millis() as u64,
        commits_per_s: more(|it| it.commits),
        entries_per_s: more(|it| it.entries),
        bytes_per_s: more(|it| it.bytes),
        refusals_per_s: more(|it| it.refusals),
        syncs_per_s: more(|it| it.syncs),
        requests_per_s: more(|it| it.requests),
        commit_p50_ns: commit.quantile_ns(0.5),
        commit_p99_ns: commit.quantile_ns(0.99),
        commit_max_ns: commit.quantile_ns(1.0),
        sync_p50_ns: sync.quantile_ns(0.5),
        sync_p99_ns: sync.quantile_ns(0.99),
        sync_max_ns: sync.quantile_ns(1.0),
        http_p50_ns: http.quantile_ns(0.5),
        http_p99_ns: http.quantile_ns(0.99),
        http_max_ns: http.quantile_ns(1.0),
        queues: queue_rates(before, after, elapsed),
        topics: topic_rates(before, after, elapsed),
        groups: by_lag(after),
    };
    let screen = ScreenContents {
        title: title.to_owned(),
        notice: None,
        activities: vec![
            activity("commits", rates.commits_per_s, after.commits),
            activity("entries", rates.entries_per_s, after.entries),
            activity_of_bytes(rates.bytes_per_s, after.bytes),
            activity("refusals", rates.refusals_per_s, after.refusals),
            activity("syncs", rates.syncs_per_s, after.syncs),
            activity("requests", rates.requests_per_s, after.requests),
        ],
        interval_ms: rates.interval_ms,
        timings: vec![timing("commit", &commit), timing("sync", &sync), timing("HTTP", &http)],
        tables: vec![
            queue_table(&rates.queues, after),
            topic_table(&rates.topics, after),
            group_table(&rates.groups, after),
        ],
    };
    let lines = screen.lines(TEXT_SIZE.0, TEXT_SIZE.1);
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{}", line.text.trim_end()).expect(INFALLIBLE);
    }
    text.push('\n');
    IntervalReport { json: vec![json(&rates)], text, screen }
}

fn timing(name: &'static str, timed: &DurationBuckets) -> TimingLine {
    TimingLine {
        name,
        count: timed.count(),
        mean_ns: timed.mean_ns(),
        at_most_ns: [0.5, 0.95, 0.99, 1.0].map(|quantile| timed.quantile_ns(quantile)),
    }
}

/// The queues, those whose oldest job has waited longest first.
fn queue_rates(before: &ServerFigures, after: &ServerFigures, elapsed: Duration) -> Vec<QueueRates> {
    let mut queues: Vec<_> = after
        .queues
        .iter()
        .map(|now| {
            let at = before.queues.binary_search_by(|earlier| earlier.queue.cmp(&now.queue));
            let finished = at.map_or(now.finished, |at| before.queues[at].finished);
            QueueRates { finished_per_s: per_s(finished, now.finished, elapsed), now: now.clone() }
        })
        .collect();
    queues.sort_by_key(|queue| Reverse((queue.now.oldest_pending_ms, queue.now.pending + queue.now.retrying)));
    queues
}

/// The topics, those that grow fastest first.
fn topic_rates(before: &ServerFigures, after: &ServerFigures, elapsed: Duration) -> Vec<TopicRates> {
    let mut topics: Vec<_> = after
        .topics
        .iter()
        .map(|now| {
            let at = before.topics.binary_search_by(|earlier| earlier.topic.cmp(&now.topic));
            let messages = at.map_or(now.messages, |at| before.topics[at].messages.min(now.messages));
            TopicRates { messages_per_s: per_s(messages, now.messages, elapsed), now: now.clone() }
        })
        .collect();
    topics.sort_by(|one, other| {
        let by_rate = other.messages_per_s.total_cmp(&one.messages_per_s);
        by_rate.then(other.now.messages.cmp(&one.now.messages))
    });
    topics
}

/// The groups, those with the largest lag first.
fn by_lag(figures: &ServerFigures) -> Vec<GroupFigures> {
    let mut groups = figures.groups.clone();
    groups.sort_by_key(|group| Reverse(group.lag));
    groups
}

fn queue_table(queues: &[QueueRates], figures: &ServerFigures) -> ObjectTable {
    let row = |QueueRates { now, finished_per_s }: &QueueRates| {
        let counts = [now.pending, now.active, now.retrying, now.scheduled, now.held].map(compact);
        let oldest = now.oldest_pending_ms.map_or_else(|| "-".to_owned(), age);
        (now.queue.clone(), [&counts[..], &[rate(*finished_per_s), oldest]].concat())
    };
    ObjectTable {
        kind: "queues",
        columns: vec![
            ("pending", 9),
            ("active", 8),
            ("retrying", 9),
            ("scheduled", 10),
            ("held", 8),
            ("done/s", 8),
            ("oldest", 8),
        ],
        rows: queues.iter().map(row).collect(),
        all: queues.len() as u64 + figures.omitted("queue"),
    }
}

fn topic_table(topics: &[TopicRates], figures: &ServerFigures) -> ObjectTable {
    let row = |TopicRates { now, messages_per_s }: &TopicRates| {
        (now.topic.clone(), vec![compact(now.messages), rate(*messages_per_s)])
    };
    ObjectTable {
        kind: "topics",
        columns: vec![("messages", 12), ("new/s", 10)],
        rows: topics.iter().map(row).collect(),
        all: topics.len() as u64 + figures.omitted("topic"),
    }
}

fn group_table(groups: &[GroupFigures], figures: &ServerFigures) -> ObjectTable {
    let row = |group: &GroupFigures| (group.group.clone(), vec![compact(group.lag), compact(group.members)]);
    ObjectTable {
        kind: "groups",
        columns: vec![("lag", 12), ("members", 10)],
        rows: groups.iter().map(row).collect(),
        all: groups.len() as u64 + figures.omitted("group"),
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

    fn text(&self, out: &mut String, after: &Page) -> std::fmt::Result {
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
