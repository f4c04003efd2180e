//! The metrics of a real server against their page, the dashboard and the alert rules.

use std::collections::{BTreeMap, BTreeSet};

use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::{ClearQueueRequest, QueuesRequest};
use serde_json::{Value, json};

use crate::support::Server;
use crate::tls::Authority;

const PAGE: &str = include_str!("../../../../docs/metrics.md");
const ALERTS: &str = include_str!("../../../../deploy/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana.json");

/// A scrape: each family with its type, and each sample with its labels.
#[derive(Debug)]
struct Scrape {
    families: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    #[track_caller]
    fn of(server: &Server) -> Self {
        let mut scrape = Scrape { families: BTreeMap::new(), samples: BTreeMap::new() };
        for line in server.text("/metrics").lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["#", "TYPE", name, kind] => _ = scrape.families.insert(name.to_owned(), kind.to_owned()),
                ["#", ..] => {}
                _ => {
                    let (sample, value) = line.rsplit_once(' ').expect("a sample and its value");
                    let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
                    assert!(scrape.samples.insert(sample.to_owned(), value).is_none(), "{sample} is given twice");
                }
            }
        }
        scrape
    }

    /// The value of a sample.
    #[track_caller]
    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("{sample} of {:#?}", self.samples))
    }
}

/// A server with something of everything that has a metric.
fn busy(folder: &std::path::Path) -> Server {
    let authority = Authority::new();
    let mut command = authority.serve_on(folder, "sync");
    let node = ["--node", "1", "--cluster-listen", "127.0.0.1:0", "--cluster-init"];
    let command = command.args(["--kafka", "tls://127.0.0.1:0"]).args(node);
    let server = Server::spawn_at("plain://127.0.0.1:0", command);
    // The leader becomes a member by its first record.
    while server.ask("GET", "/healthz", "").1["status"] != "ok"
        || server.ask("GET", "/v1/cluster", "").1["members"].as_array().is_none_or(Vec::is_empty)
    {
        std::thread::yield_now();
    }
    let parts = json!([
        {"append": {"store": "s", "events": [{"type": "T"}]}},
        {"produce": {"topic": "t", "value": 1}},
        {"enqueue": {"queue": "waiting"}},
        {"enqueue": {"queue": "worked"}},
        {"put_block": {"graph": "g", "block": "b", "kind": "k"}},
    ]);
    let write = |path: &str, body: Value| {
        let (status, answer) = server.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    write("/v1/commit", json!({ "parts": parts }));
    let parts = json!([
        {"commit_offset": {"group": "c", "topic": "t", "partition": 0, "offset": 0}},
        {"put_subscription": {"store": "s", "name": "mailer", "after": 1}},
    ]);
    write("/v1/commit", json!({ "parts": parts }));
    let fetched = write("/v1/queues/worked/fetch", json!({}));
    let job = &fetched["jobs"][0];
    write(&format!("/v1/jobs/{}/ack", job["job"].as_str().expect("an id")), json!({"token": job["token"]}));
    // ApiVersions, version 0, number 1, no name.
    server.ask_kafka(b"\0\x12\0\0\0\0\0\x01\xff\xff");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    runtime.block_on(async {
        let mut jobs = JobsClient::connect(format!("http://{}", server.grpc)).await.expect("it listens");
        jobs.queues(QueuesRequest::default()).await.expect("an answer");
        let unknown = ClearQueueRequest { queue: "unknown".to_owned() };
        jobs.clear_queue(unknown).await.expect_err("there is no such queue");
    });
    server
}

#[test]
fn every_metric_is_on_the_page_and_every_metric_of_the_page_exists() {
    let folder = tempfile::tempdir().expect("a folder");
    let scrape = Scrape::of(&busy(folder.path()));
    let listed: BTreeSet<&str> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|name| name.starts_with("quire_") || name.starts_with("process_"))
        .collect();
    let exposed: BTreeSet<&str> = scrape.families.keys().map(String::as_str).collect();
    assert_eq!(listed, exposed, "the page lists on the left what the server has on the right");
}

/// The names of metrics in a text, without the suffixes of histograms.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character: char| !is_part(character));
    let names = words.filter(|word| word.starts_with("quire_") || word.starts_with("process_"));
    let family = |name: &str| {
        let suffix = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
        suffix.unwrap_or(name).to_owned()
    };
    names.map(family).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_alerts_exists() {
    let folder = tempfile::tempdir().expect("a folder");
    let scrape = Scrape::of(&busy(folder.path()));
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let targets =
        dashboard["panels"].as_array().expect("panels").iter().filter_map(|panel| panel["targets"].as_array());
    let expressions: Vec<&str> = targets.flatten().filter_map(|target| target["expr"].as_str()).collect();
    assert!(expressions.len() > 30, "{expressions:?}");
    let rules: Vec<&str> = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(rules.len(), ALERTS.matches("- alert: ").count());
    for expression in expressions.into_iter().chain(rules) {
        for name in metrics_in(expression) {
            assert!(scrape.families.contains_key(&name), "{name} of {expression} does not exist");
        }
        let is_bucket = expression.contains("_bucket");
        assert_eq!(is_bucket, expression.contains("histogram_quantile"), "{expression}");
    }
}

#[test]
fn the_metrics_count_what_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = busy(folder.path());
    let scrape = Scrape::of(&server);
    assert_eq!(scrape.value("quire_queue_jobs{queue=\"waiting\",state=\"pending\"}"), 1.0);
    assert_eq!(scrape.value("quire_jobs_finished_total{queue=\"worked\",outcome=\"completed\"}"), 1.0);
    assert!(scrape.samples.keys().all(|sample| !sample.contains("state=\"completed\"")), "finished jobs are no gauge");
    assert!(scrape.value("quire_queue_oldest_pending_seconds{queue=\"waiting\"}") > 0.0);
    assert!(!scrape.samples.contains_key("quire_queue_oldest_pending_seconds{queue=\"worked\"}"));
    for duty in ["sync", "prepare", "seal", "checkpoint", "tick", "compact", "retain", "deliver", "gauge"] {
        assert_eq!(scrape.value(&format!("quire_failing{{duty=\"{duty}\"}}")), 0.0);
    }
    assert_eq!(scrape.value("quire_http_requests_total{route=\"/v1/commit\",status=\"200\"}"), 2.0);
    assert_eq!(scrape.value("quire_http_request_duration_seconds_count{route=\"/v1/commit\"}"), 2.0);
    assert_eq!(scrape.value("quire_http_request_duration_seconds_bucket{route=\"/v1/commit\",le=\"+Inf\"}"), 2.0);
    assert_eq!(scrape.value("quire_kafka_requests_total{api=\"ApiVersions\"}"), 1.0);
    assert_eq!(scrape.value("quire_grpc_requests_total{method=\"quire.v1.Jobs/Queues\",code=\"0\"}"), 1.0);
    assert_eq!(scrape.value("quire_grpc_requests_total{method=\"quire.v1.Jobs/ClearQueue\",code=\"5\"}"), 1.0);
    assert!(scrape.value("quire_commit_duration_seconds_count") >= 1.0);
    assert!(scrape.value("quire_sync_duration_seconds_count") >= 1.0);
    // The first request and its response of 10 bytes and more.
    assert!(scrape.value("quire_received_bytes_total{front_end=\"kafka\"}") >= 14.0);
    for front_end in ["http", "grpc", "kafka"] {
        assert!(scrape.value(&format!("quire_sent_bytes_total{{front_end=\"{front_end}\"}}")) > 10.0);
        assert!(scrape.value(&format!("quire_connections_accepted_total{{front_end=\"{front_end}\"}}")) >= 1.0);
    }
    assert_eq!(scrape.value("quire_connections{front_end=\"http\"}"), 1.0, "the scrape itself");
    assert!(scrape.value("quire_disk_free_bytes") > 1e6 && scrape.value("quire_clock_ahead_seconds") < 1.0);
    assert!(scrape.value("process_resident_memory_bytes") > 1e6 && scrape.value("process_open_fds") > 10.0);
}

#[test]
fn a_client_adds_no_names_to_the_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    for number in 0..50 {
        server.ask("GET", &format!("/v1/nothing/{number}"), "");
    }
    let scrape = Scrape::of(&server);
    let of_http = scrape.samples.keys().filter(|sample| sample.starts_with("quire_http_requests_total{"));
    assert_eq!(of_http.collect::<Vec<_>>(), ["quire_http_requests_total{route=\"unknown\",status=\"404\"}"]);
    assert_eq!(scrape.value("quire_http_requests_total{route=\"unknown\",status=\"404\"}"), 50.0);
}
