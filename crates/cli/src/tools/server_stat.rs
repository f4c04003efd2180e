//! The figures of a server in printed form. Facts that a statistics page has too have the same
//! names.

use std::io::{self, Write};

use serde::Serialize;

use super::figures::{DurationBuckets, GroupFigures, QueueFigures, ServerFigures, TopicFigures};
use super::page::{Timing, write_timings};
use super::screen::age;
use crate::failure::Result;
use crate::text::{bytes, counted, grouped, on_one_line};
use crate::verbs::HttpClient;

/// The JSON form.
#[derive(Debug, Serialize)]
pub(super) struct ServerStatForm {
    server: String,
    /// The position of the last published record.
    position: u64,
    appends: u64,
    entries: u64,
    bytes: u64,
    refusals: u64,
    syncs: u64,
    checkpoints: u64,
    segments: u64,
    requests: u64,
    /// From before the decision of a commit until it was published.
    commit: Timing,
    sync: Timing,
    checkpoint: Timing,
    http: Timing,
    queues: Vec<QueueFigures>,
    queues_in_all: u64,
    topics: Vec<TopicFigures>,
    topics_in_all: u64,
    /// The groups with the largest lag first.
    groups: Vec<GroupFigures>,
    groups_in_all: u64,
}

impl From<&DurationBuckets> for Timing {
    fn from(buckets: &DurationBuckets) -> Self {
        Timing {
            timed: buckets.count(),
            mean_ns: buckets.mean_ns(),
            p50_ns: buckets.quantile_ns(0.5),
            p95_ns: buckets.quantile_ns(0.95),
            p99_ns: buckets.quantile_ns(0.99),
            p999_ns: buckets.quantile_ns(0.999),
            max_ns: buckets.quantile_ns(1.0),
        }
    }
}

impl ServerStatForm {
    /// Reads the figures of a server.
    ///
    /// # Errors
    /// When it can't be reached.
    pub(super) fn read(client: &HttpClient) -> Result<Self> {
        let figures = ServerFigures::read(client)?;
        let in_all = |kind: &str, shown: usize| shown as u64 + figures.omitted(kind);
        let (queues_in_all, topics_in_all) =
            (in_all("queue", figures.queues.len()), in_all("topic", figures.topics.len()));
        let groups_in_all = in_all("group", figures.groups.len());
        let mut groups = figures.groups;
        groups.sort_by_key(|group| std::cmp::Reverse(group.lag));
        Ok(ServerStatForm {
            server: client.address(),
            position: figures.position,
            appends: figures.commits,
            entries: figures.entries,
            bytes: figures.bytes,
            refusals: figures.refusals,
            syncs: figures.syncs,
            checkpoints: figures.checkpoints,
            segments: figures.segments,
            requests: figures.requests,
            commit: Timing::from(&figures.commit),
            sync: Timing::from(&figures.sync),
            checkpoint: Timing::from(&figures.checkpoint),
            http: Timing::from(&figures.http),
            queues: figures.queues,
            queues_in_all,
            topics: figures.topics,
            topics_in_all,
            groups,
            groups_in_all,
        })
    }

    /// Prints one line of JSON.
    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self).expect("numbers and names are JSON"))
    }

    /// Prints the text form.
    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}, counted since the server opened the database", self.server)?;
        let counts = [
            ("position", grouped(self.position)),
            ("commits", grouped(self.appends)),
            ("entries", grouped(self.entries)),
            ("bytes", bytes(self.bytes)),
            ("refusals", grouped(self.refusals)),
            ("segments", grouped(self.segments)),
            ("syncs", grouped(self.syncs)),
            ("checkpoints", grouped(self.checkpoints)),
            ("requests", grouped(self.requests)),
        ];
        for (name, value) in counts {
            writeln!(out, "  {name:<16} {value:>16}")?;
        }
        let timings =
            [("commit", &self.commit), ("sync", &self.sync), ("checkpoint", &self.checkpoint), ("HTTP", &self.http)];
        write_timings(out, &timings)?;
        let queue = |it: &QueueFigures| {
            let oldest = it.oldest_pending_ms.map_or_else(|| "-".to_owned(), age);
            let counts = [it.pending, it.active, it.retrying, it.scheduled, it.held].map(grouped);
            (it.queue.clone(), [&counts[..], &[oldest]].concat())
        };
        let columns = ["pending", "active", "retrying", "scheduled", "held", "oldest"];
        write_table(out, "queue", &columns, self.queues.iter().map(queue), self.queues_in_all)?;
        let topic = |it: &TopicFigures| (it.topic.clone(), vec![grouped(it.messages)]);
        write_table(out, "topic", &["messages"], self.topics.iter().map(topic), self.topics_in_all)?;
        let group = |it: &GroupFigures| (it.group.clone(), vec![grouped(it.lag), grouped(it.members)]);
        write_table(out, "group", &["lag", "members"], self.groups.iter().map(group), self.groups_in_all)
    }
}

/// Writes a table of objects, if there are any.
fn write_table(
    out: &mut dyn Write,
    kind: &str,
    columns: &[&str],
    rows: impl ExactSizeIterator<Item = (String, Vec<String>)>,
    in_all: u64,
) -> io::Result<()> {
    if in_all == 0 {
        return Ok(());
    }
    let omitted = in_all - rows.len() as u64;
    write!(out, "  {:<32}", format!("{kind}s"))?;
    columns.iter().try_for_each(|column| write!(out, " {column:>12}"))?;
    writeln!(out)?;
    for (name, cells) in rows {
        write!(out, "  {:<32}", on_one_line(&name))?;
        cells.iter().try_for_each(|cell| write!(out, " {cell:>12}"))?;
        writeln!(out)?;
    }
    match omitted {
        0 => Ok(()),
        omitted => writeln!(out, "  and {} without figures", counted(omitted, &format!("other {kind}"))),
    }
}
