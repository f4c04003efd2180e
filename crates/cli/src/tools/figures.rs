//! The figures of a running server, from its metrics.
//!
//! `/metrics` has a bounded size: the first 1,000 objects of each kind by name. [`ServerFigures`]
//! keeps the number of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::failure::{CommandError, Result};
use crate::verbs::{HttpClient, Path};

/// The figures at one moment. Counts are since the server opened the database.
#[derive(Debug, Default)]
pub(super) struct ServerFigures {
    pub(super) commits: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) refusals: u64,
    pub(super) syncs: u64,
    pub(super) checkpoints: u64,
    pub(super) segments: u64,
    pub(super) position: u64,
    /// Requests of all protocols.
    pub(super) requests: u64,
    pub(super) commit: DurationBuckets,
    pub(super) sync: DurationBuckets,
    pub(super) checkpoint: DurationBuckets,
    /// Of HTTP requests.
    pub(super) http: DurationBuckets,
    /// The queues, topics and groups by name.
    pub(super) queues: Vec<QueueFigures>,
    pub(super) topics: Vec<TopicFigures>,
    pub(super) groups: Vec<GroupFigures>,
    /// The number of objects of each kind without figures.
    omitted: BTreeMap<String, u64>,
}

/// A queue.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct QueueFigures {
    pub(super) queue: String,
    pub(super) pending: u64,
    pub(super) active: u64,
    pub(super) retrying: u64,
    pub(super) scheduled: u64,
    pub(super) held: u64,
    /// Completed, cancelled and dead jobs since the server opened the database.
    pub(super) finished: u64,
    /// Time that the oldest pending job has waited.
    pub(super) oldest_pending_ms: Option<u64>,
}

/// A topic.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct TopicFigures {
    pub(super) topic: String,
    pub(super) messages: u64,
}

/// A consumer group.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct GroupFigures {
    pub(super) group: String,
    pub(super) lag: u64,
    /// Members by lease.
    pub(super) members: u64,
}

/// A distribution of durations, in buckets with an upper bound.
#[derive(Debug, Clone, Default)]
pub(super) struct DurationBuckets {
    /// Upper bounds in nanoseconds in rising order, each with the number of durations up to it.
    /// `u64::MAX` stands for no bound.
    up_to: BTreeMap<u64, u64>,
    total_ns: u64,
}

/// A line of the metrics.
struct MetricLine<'t> {
    name: &'t str,
    labels: BTreeMap<&'t str, String>,
    value: f64,
}

impl ServerFigures {
    /// Reads the figures of a server.
    ///
    /// # Errors
    /// When it can't be reached, or does not respond like a Quire server.
    pub(super) fn read(client: &HttpClient) -> Result<Self> {
        let text = client.get_bytes(&Path::root("/metrics"))?;
        let text = String::from_utf8_lossy(&text);
        ServerFigures::parse(&text).ok_or_else(|| match client.get(&Path::new(&["cluster"])) {
            Ok(status) if status["role"] != "leader" => {
                let members = status["members"].as_array();
                let mut leader = members.into_iter().flatten().filter(|member| member["node"] == status["leader"]);
                let leader = leader.next().and_then(|member| member["http"].as_str()).unwrap_or("the leader");
                CommandError::new(format!("this node of the cluster follows, and counts nothing; ask {leader}"))
            }
            _ => CommandError::new("the server's metrics are not those of Quire"),
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut figures = ServerFigures::default();
        let (mut queues, mut topics, mut groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut is_quire = false;
        for sample in text.lines().filter(|line| !line.starts_with('#')).map(MetricLine::parse) {
            let MetricLine { name, mut labels, value } = sample?;
            let count = value as u64;
            let mut label = |name: &str| labels.remove(name).unwrap_or_default();
            match name {
                "quire_info" => is_quire = true,
                "quire_commits_total" => figures.commits = count,
                "quire_log_entries_total" => figures.entries = count,
                "quire_log_bytes_total" => figures.bytes = count,
                "quire_refusals_total" => figures.refusals = count,
                "quire_syncs_total" => figures.syncs = count,
                "quire_checkpoints_total" => figures.checkpoints = count,
                "quire_log_segments" => figures.segments = count,
                "quire_log_position" => figures.position = count,
                "quire_http_requests_total" | "quire_grpc_requests_total" | "quire_kafka_requests_total" => {
                    figures.requests += count;
                }
                "quire_topic_messages" => {
                    topics.insert(label("topic"), count);
                }
                "quire_group_lag" => groups.entry(label("group")).or_insert((0, 0)).0 = count,
                "quire_group_members" => groups.entry(label("group")).or_insert((0, 0)).1 = count,
                "quire_queue_jobs" => {
                    let queue: &mut QueueFigures = queues.entry(label("queue")).or_default();
                    match label("state").as_str() {
                        "pending" => queue.pending = count,
                        "active" => queue.active = count,
                        "retrying" => queue.retrying = count,
                        "scheduled" => queue.scheduled = count,
                        "held" => queue.held = count,
                        _ => {}
                    }
                }
                "quire_jobs_finished_total" => queues.entry(label("queue")).or_default().finished += count,
                "quire_queue_oldest_pending_seconds" => {
                    queues.entry(label("queue")).or_default().oldest_pending_ms = Some((value * 1e3) as u64);
                }
                "quire_metrics_omitted" => {
                    figures.omitted.insert(label("object"), count);
                }
                _ => figures.add_duration(name, &label("le"), value),
            }
        }
        figures.queues = queues.into_iter().map(|(queue, figures)| QueueFigures { queue, ..figures }).collect();
        figures.topics = topics.into_iter().map(|(topic, messages)| TopicFigures { topic, messages }).collect();
        let group = |(group, (lag, members))| GroupFigures { group, lag, members };
        figures.groups = groups.into_iter().map(group).collect();
        is_quire.then_some(figures)
    }

    /// Adds a sample of a histogram. HTTP requests are added up over their routes.
    fn add_duration(&mut self, name: &str, bound: &str, value: f64) {
        let histograms = [
            ("quire_commit_duration_seconds", &mut self.commit),
            ("quire_sync_duration_seconds", &mut self.sync),
            ("quire_checkpoint_duration_seconds", &mut self.checkpoint),
            ("quire_http_request_duration_seconds", &mut self.http),
        ];
        for (histogram, buckets) in histograms {
            match name.strip_prefix(histogram) {
                Some("_bucket") => {
                    let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
                    *buckets.up_to.entry(bound.map_or(u64::MAX, nanos_of)).or_default() += value as u64;
                }
                Some("_sum") => buckets.total_ns = buckets.total_ns.saturating_add(nanos_of(value)),
                _ => {}
            }
        }
    }

    /// The number of objects of a kind (`queue`, `topic`, `group`) that have no figures.
    pub(super) fn omitted(&self, object: &str) -> u64 {
        self.omitted.get(object).copied().unwrap_or_default()
    }
}

fn nanos_of(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl<'t> MetricLine<'t> {
    /// Parses `name{label="value",…} value`. `None` when the line has another form.
    fn parse(line: &'t str) -> Option<Self> {
        let name_end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(name_end);
        let mut labels = BTreeMap::new();
        if let Some(within) = rest.strip_prefix('{') {
            rest = within;
            while !rest.starts_with('}') {
                let (label, after) = rest.split_once("=\"")?;
                let (value, after) = quoted(after)?;
                labels.insert(label.trim_start_matches(','), value);
                rest = after;
            }
            rest = &rest[1..];
        }
        Some(MetricLine { name, labels, value: rest.trim().parse().ok()? })
    }
}

/// The value of a label up to its closing quote, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                escaped => escaped,
            }),
            other => value.push(other),
        }
    }
    None
}

impl DurationBuckets {
    /// The number of durations.
    pub(super) fn count(&self) -> u64 {
        self.up_to.last_key_value().map_or(0, |(_, count)| *count)
    }

    /// The durations since an earlier read. After a restart of the server, all of them.
    pub(super) fn since(&self, before: &DurationBuckets) -> DurationBuckets {
        if self.count() < before.count() {
            return self.clone();
        }
        let earlier = |bound: &u64| before.up_to.get(bound).copied().unwrap_or_default();
        let up_to = self.up_to.iter().map(|(bound, count)| (*bound, count.saturating_sub(earlier(bound))));
        DurationBuckets { up_to: up_to.collect(), total_ns: self.total_ns.saturating_sub(before.total_ns) }
    }

    pub(super) fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count()).unwrap_or_default()
    }

    /// The bound of the bucket with this quantile: the duration is at most as long. A duration
    /// beyond the last bound counts as that bound.
    pub(super) fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let last = self.up_to.keys().rev().find(|bound| **bound < u64::MAX).copied().unwrap_or_default();
        let found = self.up_to.iter().find(|(_, count)| **count >= rank);
        found.map_or(0, |(bound, _)| (*bound).min(last))
    }
}

/// The difference of two counts per second, to a tenth. A count that restarted counts from zero.
pub(super) fn per_s(before: u64, after: u64, elapsed: Duration) -> f64 {
    let more = after.checked_sub(before).unwrap_or(after);
    (more as f64 / elapsed.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP quire_info Always 1.\n# TYPE quire_info gauge\n\
        quire_info{version=\"0.1.0\",durability=\"sync\"} 1\nquire_commits_total 12\n\
        quire_http_requests_total{route=\"/v1/commit\",status=\"200\"} 3\n\
        quire_http_requests_total{route=\"/metrics\",status=\"200\"} 4\nquire_kafka_requests_total{api=\"Fetch\"} 5\n\
        quire_topic_messages{topic=\"a\\\"b\\\\c\\nd,e}\"} 7\n\
        quire_queue_jobs{queue=\"q\",state=\"pending\"} 2\nquire_queue_jobs{queue=\"q\",state=\"held\"} 1\n\
        quire_jobs_finished_total{queue=\"q\",outcome=\"dead\"} 1\nquire_jobs_finished_total{queue=\"q\",outcome=\"completed\"} 8\n\
        quire_queue_oldest_pending_seconds{queue=\"q\"} 1.5\nquire_group_lag{group=\"g\"} 9\n\
        quire_group_members{group=\"g\"} 1\nquire_metrics_omitted{object=\"queue\"} 6\n\
        quire_sync_duration_seconds_bucket{le=\"0.001\"} 1\nquire_sync_duration_seconds_bucket{le=\"0.002\"} 9\n\
        quire_sync_duration_seconds_bucket{le=\"+Inf\"} 10\nquire_sync_duration_seconds_sum 0.02\n\
        quire_sync_duration_seconds_count 10\n";

    #[test]
    fn figures_are_read_from_the_metrics() {
        let figures = ServerFigures::parse(METRICS).expect("the metrics of a server");
        assert_eq!((figures.commits, figures.requests, figures.omitted("queue")), (12, 12, 6));
        assert_eq!((&*figures.topics[0].topic, figures.topics[0].messages), ("a\"b\\c\nd,e}", 7));
        let queue = &figures.queues[0];
        assert_eq!((queue.pending, queue.held, queue.finished, queue.oldest_pending_ms), (2, 1, 9, Some(1_500)));
        assert_eq!((figures.groups[0].lag, figures.groups[0].members), (9, 1));
        let sync = &figures.sync;
        assert_eq!((sync.count(), sync.mean_ns()), (10, 2_000_000));
        assert_eq!([0.1, 0.5, 0.9, 1.0].map(|it| sync.quantile_ns(it)), [1_000_000, 2_000_000, 2_000_000, 2_000_000]);
        assert_eq!((sync.since(sync).count(), sync.since(sync).quantile_ns(0.5)), (0, 0));
        let later =
            METRICS.replace("le=\"0.002\"} 9", "le=\"0.002\"} 10").replace("le=\"+Inf\"} 10", "le=\"+Inf\"} 11");
        let later = ServerFigures::parse(&later).expect("the metrics of a server").sync.since(sync);
        assert_eq!((later.count(), later.quantile_ns(0.5)), (1, 2_000_000));
    }

    #[test]
    fn other_text_is_not_the_metrics_of_a_server() {
        for text in ["", "up 1\n", "quire_info{version=\"1\n", "quire_info 1\n<html>\n"] {
            assert!(ServerFigures::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_count_that_restarted_counts_from_zero() {
        let second = Duration::from_secs(1);
        assert_eq!([(5, 9), (9, 5), (5, 5)].map(|(before, after)| per_s(before, after, second)), [4.0, 5.0, 0.0]);
    }
}
