//! `quire serve` as a node of a cluster, `quire cluster`, and `quire demo --cluster`.

use std::path::Path;

use crate::support::{Server, quire, ran, run, run_on};

const LISTEN: [&str; 2] = ["--cluster-listen", "127.0.0.1:0"];

/// A node of a cluster, and its address for other nodes.
fn node(data: &Path, flags: &[&str]) -> (Server, String) {
    let server = Server::spawn(quire().args(["serve", "--data"]).arg(data).args(LISTEN).args(flags));
    let line = server.report.lines().find_map(|line| line.strip_prefix("cluster     node ")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("no node in {}", server.report));
    let address = line.rsplit(' ').next().expect("an address").to_owned();
    (server, address)
}

#[test]
fn flags_that_contradict_each_other_or_the_directory_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for (flags, expected) in [
        (&["--cluster-init"][..], "settings of a cluster need cluster_listen"),
        (&["--node", "1"], "settings of a cluster need cluster_listen"),
        (&["--cluster-listen", "0.0.0.0:0", "--node", "1", "--cluster-init"], "name the host of this node"),
        (&["--cluster-listen", "127.0.0.1:0", "--cluster-init"], "needs a number: give --node"),
        (&["--cluster-listen", "127.0.0.1:0", "--node", "1"], "make one with --cluster-init, or join one"),
        (
            &["--cluster-listen", "127.0.0.1:0", "--node", "1", "--cluster-init", "--cluster-join", "127.0.0.1:1"],
            "makes a cluster with cluster_init, or joins one with cluster_join",
        ),
        (
            &["--cluster-listen", "127.0.0.1:0", "--node", "1", "--cluster-init", "--cluster-heartbeat-ms", "1"],
            "cluster_heartbeat_ms must be between 5 and 10000, got 1",
        ),
        (
            &["--cluster-listen", "0.0.0.0:0", "--cluster-advertised", "h", "--node", "1", "--cluster-init"],
            "beyond loopback, nodes need certificates",
        ),
        (
            &["--cluster-listen", "127.0.0.1:0", "--node", "1", "--cluster-init", "--durability", "os"],
            "a node of a cluster has the durability `sync`",
        ),
    ] {
        let ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
        run_on(&data, &[&["serve"][..], &ports, flags].concat()).failed_with(expected);
    }

    drop(node(&data, &["--node", "1", "--cluster-init"]));
    for (flags, expected) in [
        (&[][..], "is node 1 of a cluster: give --cluster-listen"),
        (&["--cluster-listen", "127.0.0.1:0", "--node", "2"], "is node 1 of a cluster, not node 2"),
        (&["--cluster-listen", "127.0.0.1:0", "--cluster-init"], "is node 1 of a cluster already"),
    ] {
        run_on(&data, &[&["serve"][..], flags].concat()).failed_with(expected);
    }
    run_on(&data, &["topics", "list"]).failed_with("is node 1 of a cluster");
    assert_eq!(run_on(&data, &["topics", "list", "--read-only"]).status, Some(0));
}

#[test]
fn commands_follow_the_leader_and_a_replaced_node_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
    let http = |server: &Server| format!("http://{}", server.http);
    let alone = Server::start(&one);
    run(&["produce", "orders", "before", "--http", &http(&alone)]).succeeded();
    assert_eq!(alone.stop_by("TERM").0, Some(0));
    let ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let (first, address) = node(&one, &["--node", "1", "--cluster-init"]);
    let status = |server: &Server| run(&["cluster", "status", "--http", &http(server)]);
    while !status(&first).succeeded().contains("  1  leader") {
        std::thread::yield_now();
    }
    let (second, _) = node(&two, &["--node", "2", "--cluster-join", &address]);
    while !status(&second).succeeded().contains("  2  voter") {
        std::thread::yield_now();
    }
    // The second node follows, and the command sends the message to the first one.
    run(&["produce", "orders", "after", "--http", &http(&second)]).succeeded();
    let read = run(&["consume", "orders", "--limit", "2", "--http", &http(&second)]).succeeded();
    assert!(read.contains("before") && read.contains("after"), "{read}");
    // Metadata of all topics, version 1: clients learn the topics and the leader from any node.
    let answer = second.ask_kafka(b"\0\x03\0\x01\0\0\0\x07\xff\xff\xff\xff\xff\xff");
    assert!(answer.windows(6).any(|bytes| bytes == b"orders"), "{answer:?}");
    let (code, health) = second.ask("GET", "/healthz", "");
    assert_eq!((code, &health["status"]), (200, &"following".into()), "{health}");
    let (code, problem) = second.ask("GET", "/v1/topics", "");
    let leader = (&problem["code"], &problem["leader"], &problem["leader_http"]);
    assert_eq!((code, leader), (503, (&"not_leader".into(), &1.into(), &first.http.clone().into())), "{problem}");

    let mut joins = quire();
    joins.args(["serve", "--node", "9", "--cluster-join", &address]).args(LISTEN).arg("--data").arg(folder.path());
    ran(joins.args(ports).output().expect("started")).failed_with("is not empty: join a cluster with an empty");
    let mut joins = quire();
    joins.args(["serve", "--node", "2", "--cluster-join", &address]).args(LISTEN).arg("--data").arg(&other);
    ran(joins.args(ports).output().expect("started")).failed_with("node 2 has another data directory than the member");
    assert!(!other.exists(), "a node that is refused creates nothing");

    run(&["cluster", "transfer", "2", "--http", &http(&first)]).succeeded();
    while !status(&second).succeeded().contains("  2  leader") {
        std::thread::yield_now();
    }
    run(&["produce", "orders", "later", "--http", &http(&first)]).succeeded();
    assert_eq!(second.stop_by("TERM").0, Some(0));
    assert_eq!(first.stop_by("TERM").0, Some(0));
}

#[test]
fn the_demo_of_a_cluster_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = run_on(&folder.path().join("data"), &["demo", "--cluster"]).succeeded();
    assert!(told.contains("kill -9 of node 1") && told.contains("each is there once"), "{told}");
}

#[test]
fn a_node_that_was_away_for_long_gets_the_files_of_the_leader_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two, three] = ["one", "two", "three"].map(|name| folder.path().join(name));
    let small = ["--segment-bytes", "1048576"];
    let begin = |data: &Path, flags: &[&str]| node(data, &[&small[..], flags].concat());
    let (first, address) = begin(&one, &["--node", "1", "--cluster-init"]);
    let (_second, _) = begin(&two, &["--node", "2", "--cluster-join", &address]);
    let (third, _) = begin(&three, &["--node", "3", "--cluster-join", &address]);
    let voters = || {
        let (_, status) = first.ask("GET", "/v1/cluster", "");
        let members = status["members"].as_array().cloned().unwrap_or_default();
        members.iter().filter(|member| member["role"] == "voter").count()
    };
    while voters() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(third.stop_by("TERM").0, Some(0));
    let text = "n".repeat(600 << 10);
    let commit = |part: &str| {
        let (code, answer) = first.ask("POST", "/v1/commit", &format!(r#"{{"parts": [{part}]}}"#));
        assert_eq!(code, 200, "{answer}");
    };
    for _ in 0..16 {
        commit(&format!(r#"{{"produce": {{"topic": "notes", "value_text": "{text}"}}}}"#));
    }
    commit(r#"{"delete_records": {"topic": "notes", "partition": 0}}"#);
    // Before the second checkpoint, the first one still needs the records.
    while first.ask("POST", "/v1/compact", "{}").1["segments"] == 0 {
        commit(r#"{"produce": {"topic": "notes", "value_text": "more"}}"#);
    }

    let (third, _) = begin(&three, &[]);
    let position = |status: &serde_json::Value| status["appended"].as_u64();
    loop {
        let (_, status) = first.ask("GET", "/v1/cluster", "");
        let member =
            status["members"].as_array().and_then(|all| all.iter().find(|member| member["node"] == 3).cloned());
        let member = member.expect("it is a member");
        if member["connected"] == true && member["acknowledged"].as_u64() >= position(&status) {
            break;
        }
        std::thread::yield_now();
    }
    let (code, log) = third.stop_by("TERM");
    assert_eq!(code, Some(0));
    let (_, after) = log.split_once("receiving its files").unwrap_or_else(|| panic!("{log}"));
    assert!(after.contains("serving until Ctrl-C"), "{log}");
}
