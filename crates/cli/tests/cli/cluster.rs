//! `quire serve` as a node of a cluster, `quire cluster`, and `quire demo --cluster`.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::sql_client::SqlClient;
use quire_grpc::proto::{QueuesRequest, SqlQueryRequest};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::support::{Server, quire, ran, run, run_on};

const LISTEN: [&str; 2] = ["--cluster-listen", "127.0.0.1:0"];

/// A node of a cluster, and its address for other nodes.
fn node(data: &Path, flags: &[&str]) -> (Server, String) {
    let server = Server::spawn(quire().args(["serve", "--data"]).arg(data).args(LISTEN).args(flags));
    let address = address(&server);
    (server, address)
}

/// The address of a node for other nodes.
fn address(server: &Server) -> String {
    let line = server.report.lines().find_map(|line| line.strip_prefix("cluster     node ")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("no node in {}", server.report));
    line.rsplit(' ').next().expect("an address").to_owned()
}

#[test]
fn flags_that_contradict_each_other_or_the_directory_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for (flags, expected) in [
        (&["--cluster-init"][..], "settings of a cluster need --cluster-listen"),
        (&["--node", "1"], "settings of a cluster need --cluster-listen"),
        (&["--cluster-listen", "0.0.0.0:0", "--node", "1", "--cluster-init"], "name the host of this node"),
        (&["--cluster-listen", "127.0.0.1:0", "--cluster-init"], "needs a number: give --node"),
        (&["--cluster-listen", "127.0.0.1:0", "--node", "1"], "make one with --cluster-init, or join one"),
        (
            &["--cluster-listen", "127.0.0.1:0", "--node", "1", "--cluster-init", "--cluster-join", "127.0.0.1:1"],
            "makes a cluster with --cluster-init, or joins one with --cluster-join",
        ),
        (
            &["--cluster-listen", "127.0.0.1:0", "--node", "1", "--cluster-init", "--cluster-heartbeat-ms", "1"],
            "--cluster-heartbeat-ms must be between 5 and 10000, got 1",
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
    assert_eq!(second.text("/readyz"), "ok\n", "the leader answers its clients");
    let (code, topics) = second.ask("GET", "/v1/topics", "");
    assert_eq!((code, &topics), (200, &first.ask("GET", "/v1/topics", "").1), "{topics}");

    let mut joins = quire();
    joins.args(["serve", "--node", "9", "--cluster-join", &address]).args(LISTEN).arg("--data").arg(folder.path());
    ran(joins.args(ports).output().expect("started")).failed_with("is not empty: join a cluster with an empty");
    let mut joins = quire();
    joins.args(["serve", "--node", "2", "--cluster-join", &address]).args(LISTEN).arg("--data").arg(&other);
    ran(joins.args(ports).output().expect("started")).failed_with("node 2 has another data directory than the member");
    assert!(!other.exists(), "a node that is refused creates nothing");

    let mut stream = std::net::TcpStream::connect(&first.http).expect("it listens");
    write!(stream, "GET /v1/jobs/subscribe HTTP/1.0\r\nHost: {}\r\n\r\n", first.http).expect("it reads");
    run(&["cluster", "transfer", "2", "--http", &http(&first)]).succeeded();
    // The events of the next leader would be missing.
    stream.read_to_end(&mut Vec::new()).expect("the stream ends with the office");
    while !status(&second).succeeded().contains("  2  leader") {
        std::thread::yield_now();
    }
    run(&["produce", "orders", "later", "--http", &http(&first)]).succeeded();
    assert_eq!(second.stop_by("TERM").0, Some(0));
    assert_eq!(first.stop_by("TERM").0, Some(0));

    // Without its vote, a node could vote twice in one term.
    std::fs::remove_file(two.join("shard-0000/office")).expect("it has voted");
    let again = [&["serve"][..], &LISTEN, &ports].concat();
    run_on(&two, &again).failed_with("with the vote of node 2 is missing");
}

#[test]
fn a_new_node_takes_the_place_of_a_leader_and_of_a_dead_member() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = |name: &str| folder.path().join(name);
    let http = |server: &Server| format!("http://{}", server.http);
    let replace = |old: &str, new: &str, wait: &str, server: &Server| {
        run(&["cluster", "replace", old, new, "--wait", wait, "--http", &http(server)])
    };
    let (first, address) = node(&data("one"), &["--node", "1", "--cluster-init"]);
    while !run(&["cluster", "status", "--http", &http(&first)]).succeeded().contains("  1  leader") {
        std::thread::yield_now();
    }
    replace("1", "1", "0", &first).failed_with("node 1 can't take its own place");
    replace("7", "2", "0", &first).failed_with("node 7 is not a member of the cluster");
    let refused = replace("1", "2", "0", &first);
    refused.failed_with("node 2 has not joined: start it with `quire serve --node 2 --cluster-join`");
    run(&["produce", "orders", "kept", "--http", &http(&first)]).succeeded();

    let (second, second_address) = node(&data("two"), &["--node", "2", "--cluster-join", &address]);
    let replaced = replace("1", "2", "60", &second).succeeded();
    assert_eq!(replaced, "node 2 takes the place of node 1\n");
    let members = |server: &Server| {
        let status = server.ask("GET", "/v1/cluster", "").1;
        let members = status["members"].as_array().expect("a list").iter();
        (status["leader"].as_u64(), members.map(|member| member["node"].as_u64()).collect::<Vec<_>>())
    };
    assert_eq!(members(&second), (Some(2), vec![Some(2)]));
    drop(first);

    let joined = ["three", "four"].map(|name| {
        let number = if name == "three" { "3" } else { "4" };
        node(&data(name), &["--node", number, "--cluster-join", &second_address]).0
    });
    let [third, fourth] = joined;
    replace("9", "4", "60", &second).failed_with("node 9 is not a member");
    while !run(&["cluster", "status", "--http", &http(&second)]).succeeded().contains("  3  voter") {
        std::thread::yield_now();
    }
    drop(third);
    replace("3", "4", "60", &second).succeeded();
    assert_eq!(members(&second).1, [Some(2), Some(4)]);
    let read = run(&["consume", "orders", "--limit", "1", "--http", &http(&fourth)]).succeeded();
    assert!(read.contains("kept"), "{read}");
}

/// Starts two nodes, of which the first leads.
fn leader_and_follower(folder: &Path) -> (Server, Server) {
    let (leader, address) = node(&folder.join("one"), &["--node", "1", "--cluster-init"]);
    let (follower, _) = node(&folder.join("two"), &["--node", "2", "--cluster-join", &address]);
    while follower.ask("GET", "/healthz", "").1["status"] != "following" {
        std::thread::yield_now();
    }
    (leader, follower)
}

#[test]
fn a_follower_forwards_requests_with_the_rights_of_their_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, follower) = leader_and_follower(folder.path());
    let part = r#"{"parts":[{"enqueue":{"queue":"mails","payload":1}}]}"#;
    let key = "Idempotency-Key: one\r\n";
    let (code, first) = follower.ask_with("POST", "/v1/commit", part, key);
    assert_eq!(code, 200, "{first}");
    assert_eq!(leader.ask_with("POST", "/v1/commit", part, key), (200, first), "the key counts once, by any node");
    let (code, problem) = follower.ask("GET", "/v1/queues/none", "");
    assert_eq!((code, &problem["code"]), (404, &"not_found".into()), "{problem}");
    let (code, answer) = follower.ask("POST", "/v1/sql", r#"{"sql":"SELECT name FROM queues"}"#);
    assert_eq!((code, &answer["rows"][0][0]), (200, &"mails".into()), "{answer}");

    let init = run(&["access", "init", "root", "--http", &format!("http://{}", follower.http)]).succeeded();
    let root =
        init.split_whitespace().find(|word| word.starts_with("qk_")).unwrap_or_else(|| panic!("a key in {init}"));
    let bearer = format!("Authorization: Bearer {root}\r\n");
    assert_eq!(follower.ask("GET", "/v1/queues", "").0, 401);
    assert_eq!(follower.ask_with("GET", "/v1/queues", "", "Authorization: Bearer qk_wrong\r\n").0, 401);
    assert_eq!(follower.ask_with("GET", "/v1/queues", "", &bearer).0, 200);
    let user = r#"{"user":"ada","roles":["reader"]}"#;
    let (code, answer) = follower.ask_with("POST", "/v1/access/users", user, &bearer);
    assert_eq!(code, 200, "{answer}");
    // The follower may not have the record of a new key yet. The leader knows the key.
    for _ in 0..20 {
        let (code, key) = leader.ask_with("POST", "/v1/access/keys", r#"{"user":"ada","lifetime_ms":600000}"#, &bearer);
        assert_eq!(code, 200, "{key}");
        let of_ada = format!("Authorization: Bearer {}\r\n", key["key"].as_str().expect("a key"));
        let (code, caller) = follower.ask_with("GET", "/v1/access/self", "", &of_ada);
        assert_eq!((code, &caller["principal"]), (200, &"ada".into()), "{caller}");
    }

    // The cookie is known to the follower alone. The leader gets the principal that it stands for.
    let signed_in =
        follower.raw("POST", "/ui/session", &format!(r#"{{"key":"{root}"}}"#), "Sec-Fetch-Site: same-origin\r\n");
    let cookie = signed_in.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair");
    let of_page = format!("Cookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n");
    let (code, caller) = follower.ask_with("GET", "/v1/access/self", "", &of_page);
    assert_eq!((code, &caller["principal"]), (200, &"root".into()), "{caller}");
    // A leader that is gone without a word leaves its connections open.
    let mut stream = std::net::TcpStream::connect(&follower.http).expect("it listens");
    let host = &follower.http;
    write!(stream, "GET /v1/jobs/subscribe HTTP/1.0\r\nHost: {host}\r\n{bearer}\r\n").expect("it reads");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("caught_up") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the stream goes on");
        seen.push(byte[0]);
    }
    leader.signal("STOP");
    // It ends with an error of the connection, or without one.
    let _ = stream.read_to_end(&mut seen);
    leader.signal("CONT");
    while follower.ask_with("GET", "/v1/queues", "", &bearer).0 != 200 {
        std::thread::yield_now();
    }
    let foreign = format!("Cookie: {cookie}\r\nSec-Fetch-Site: cross-site\r\n");
    assert_eq!(follower.ask_with("GET", "/v1/access/self", "", &foreign).0, 403);
    assert_eq!(follower.stop_by("TERM").0, Some(0));
    assert_eq!(leader.stop_by("TERM").0, Some(0));
}

/// Reads the queues of a server over gRPC, by a call and by SQL: the number of queues, that of
/// rows, and the position of the call.
fn queues_over_grpc(server: &Server, read: &str, key: &str) -> Result<(usize, usize, u64), Code> {
    fn with<M>(message: M, read: &str, key: &str) -> Request<M> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("quire-read", read.parse().expect("metadata"));
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().expect("metadata"));
        request
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let answered = runtime.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{}", server.grpc)).expect("an address");
        let channel = endpoint.connect().await.expect("it listens");
        let queues = JobsClient::new(channel.clone()).queues(with(QueuesRequest::default(), read, key)).await?;
        let position = queues.metadata().get("quire-position").expect("a position").to_str().expect("text");
        let position = position.parse().expect("a number");
        let statement = SqlQueryRequest { sql: "SELECT name FROM queues".to_owned(), ..SqlQueryRequest::default() };
        let mut pages = SqlClient::new(channel).query(with(statement, read, key)).await?.into_inner();
        let mut rows = 0;
        while let Some(page) = pages.message().await? {
            rows += page.rows.len();
        }
        Ok::<_, Status>((queues.into_inner().queues.len(), rows, position))
    });
    answered.map_err(|status| status.code())
}

#[test]
fn a_follower_answers_local_reads_by_itself_with_the_rights_of_their_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, follower) = leader_and_follower(folder.path());
    let part = r#"{"parts":[{"enqueue":{"queue":"mails","payload":1}}]}"#;
    let (code, done) = leader.ask("POST", "/v1/commit", part);
    assert_eq!(code, 200, "{done}");
    let position = done["position"].as_u64().expect("a position");
    let (code, queue) = follower.ask_with("GET", "/v1/queues/mails", "", &format!("Quire-Read: at={position}\r\n"));
    assert_eq!((code, &queue["pending"]), (200, &1.into()), "{queue}");
    let init = run(&["access", "init", "root", "--http", &format!("http://{}", leader.http)]).succeeded();
    let root = init.split_whitespace().find(|word| word.starts_with("qk_")).expect("a key");
    let bearer = format!("Authorization: Bearer {root}\r\n");
    let (code, answer) = leader.ask_with("POST", "/v1/access/users", r#"{"user":"ada"}"#, &bearer);
    assert_eq!(code, 200, "{answer}");
    let (code, key) = leader.ask_with("POST", "/v1/access/keys", r#"{"user":"ada","lifetime_ms":600000}"#, &bearer);
    assert_eq!(code, 200, "{key}");
    let of_ada = format!("Authorization: Bearer {}\r\n", key["key"].as_str().expect("a key"));
    let position = leader.ask_with("GET", "/v1/stats", "", &bearer).1["position"].as_u64().expect("a position");
    let at = format!("Quire-Read: at={position}\r\n");
    let whole = follower.raw("GET", "/v1/queues/mails", "", &format!("{at}{bearer}"));
    assert!(whole.starts_with("HTTP/1.0 200 ") && whole.contains("quire-position: "), "{whole}");

    // The leader does not answer. The follower knows keys and rules by itself.
    leader.signal("STOP");
    let local =
        |client: &str| follower.ask_with("GET", "/v1/queues/mails", "", &format!("Quire-Read: local\r\n{client}"));
    let (code, queue) = local(&bearer);
    assert_eq!((code, &queue["pending"]), (200, &1.into()), "{queue}");
    assert_eq!((local("").0, local("Authorization: Bearer qk_wrong\r\n").0, local(&of_ada).0), (401, 401, 403));
    let (queues, rows, seen) = queues_over_grpc(&follower, &format!("at={position}"), root).expect("read");
    assert_eq!((queues, rows, seen >= position), (1, 1, true), "over gRPC");
    let ada = key["key"].as_str().expect("a key");
    assert_eq!(queues_over_grpc(&follower, "local", ada).map(|(queues, rows, _)| (queues, rows)), Ok((0, 0)));
    assert_eq!(queues_over_grpc(&follower, "local", "qk_wrong"), Err(Code::Unauthenticated));
    let lists = follower.ask_with("GET", "/v1/queues", "", &format!("Quire-Read: local\r\n{of_ada}"));
    assert_eq!((lists.0, &lists.1["data"]), (200, &serde_json::json!([])), "a list omits what ada may not see");
    while follower.ask_with("GET", "/v1/queues/mails", "", &bearer).0 != 503 {
        std::thread::yield_now();
    }
    assert_eq!((local(&bearer).0, local(&of_ada).0), (200, 403), "without a leader");
    leader.signal("CONT");
    while follower.ask_with("GET", "/v1/queues/mails", "", &bearer).0 != 200 {
        std::thread::yield_now();
    }
    assert_eq!(follower.stop_by("TERM").0, Some(0));
    assert_eq!(leader.stop_by("TERM").0, Some(0));
}

#[test]
fn a_restored_backup_of_a_cluster_makes_another_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (leader, follower) = leader_and_follower(folder.path());
    let http = |server: &Server| format!("http://{}", server.http);
    run(&["produce", "orders", "before", "--http", &http(&follower)]).succeeded();
    run(&["backup", "--http", &http(&leader), &path("backup")]).succeeded();
    run(&["restore", &path("backup"), &path("copy")]).succeeded();

    let ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let copy = folder.path().join("copy");
    let used = [&["serve", "--node", "2", "--cluster-init"][..], &LISTEN, &ports].concat();
    run_on(&copy, &used).failed_with("give --node a number that no node has had, such as 3");
    // The nodes of the old cluster run. They and the new one have the same database id.
    let (first, address) = node(&copy, &["--node", "3", "--cluster-init"]);
    let members = |server: &Server| -> Vec<u64> {
        let (_, status) = server.ask("GET", "/v1/cluster", "");
        let members = status["members"].as_array().cloned().unwrap_or_default();
        members.iter().filter_map(|member| member["node"].as_u64()).collect()
    };
    while first.ask("GET", "/healthz", "").1["status"] != "ok" || members(&first) != [3] {
        std::thread::yield_now();
    }
    let (joined, _) = node(&folder.path().join("joined"), &["--node", "4", "--cluster-join", &address]);
    while members(&first) != [3, 4] || members(&joined) != [3, 4] {
        std::thread::yield_now();
    }
    run(&["produce", "orders", "new", "--http", &http(&joined)]).succeeded();
    let count = |server: &Server| {
        server.ask("POST", "/v1/sql", r#"{"sql":"SELECT count(*) FROM records"}"#).1["rows"][0][0].clone()
    };
    assert_eq!((count(&joined), count(&leader)), (2.into(), 1.into()), "each cluster has its own records from then on");
    assert_eq!(members(&leader), [1, 2]);
    assert_eq!(leader.ask("GET", "/healthz", "").1["status"], "ok", "the old cluster knows nothing of the new one");

    // A node of the old cluster that is sent to the new one is refused.
    assert_eq!(follower.stop_by("TERM").0, Some(0));
    let mut moved = quire();
    moved.args(["serve", "--node", "2", "--cluster-join", &address]).args(LISTEN).args(ports);
    let moved = ran(moved.arg("--data").arg(folder.path().join("two")).output().expect("started"));
    moved.failed_with("belong to different clusters with copies of one database");
    for server in [joined, first, leader] {
        server.stop_by("TERM");
    }
}

#[test]
fn a_leader_whose_segment_has_a_flipped_byte_hands_its_office_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = |name: &str| folder.path().join(name);
    let flags = ["--segment-bytes", "1048576", "--scrub-bytes-per-second", "1000000000"];
    let begin = |name: &str, own: &[&str]| node(&data(name), &[&flags[..], own].concat());
    let (first, address) = begin("one", &["--node", "1", "--cluster-init"]);
    let (second, _) = begin("two", &["--node", "2", "--cluster-join", &address]);
    let (third, _) = begin("three", &["--node", "3", "--cluster-join", &address]);
    let status = |server: &Server| server.ask("GET", "/v1/cluster", "").1;
    while run(&["cluster", "status", "--http", &format!("http://{}", first.http)])
        .succeeded()
        .matches("  voter ")
        .count()
        < 2
    {
        std::thread::yield_now();
    }
    let part = format!(r#"{{"parts":[{{"produce":{{"topic":"notes","value_text":"{}"}}}}]}}"#, "n".repeat(100 << 10));
    let sealed = data("one").join("shard-0000/00000000000000000001.idx");
    for _ in 0..24 {
        assert_eq!(first.ask("POST", "/v1/commit", &part).0, 200);
    }
    while !sealed.exists() {
        std::thread::yield_now();
    }
    assert_eq!(first.text("/readyz"), "ok\n");
    let segment = std::fs::OpenOptions::new().read(true).write(true).open(sealed.with_extension("log"));
    let segment = segment.expect("a segment");
    let mut byte = [0];
    segment.read_exact_at(&mut byte, 500_000).expect("read");
    segment.write_all_at(&[byte[0] ^ 4], 500_000).expect("written");

    while [&second, &third].iter().all(|server| status(server)["role"] != "leader") {
        std::thread::yield_now();
    }
    assert_eq!(first.ask("GET", "/healthz", "").1["status"], "damaged");
    while !first.raw("GET", "/readyz", "", "").contains("ok; damaged places: 1;") {
        std::thread::yield_now();
    }
    assert!(first.text("/metrics").contains("\nquire_cluster_held_back 1\n"));
    let shown = run(&["cluster", "status", "--http", &format!("http://{}", first.http)]).succeeded();
    assert!(shown.contains("its log has damage: it does not lead while another voter can"), "{shown}");
    // The others have the record, and its clients read it through the leader.
    let read = run(&["consume", "notes", "--limit", "24", "--http", &format!("http://{}", first.http)]).succeeded();
    assert_eq!(read.lines().filter(|line| line.contains("nnnn")).count(), 24);
    [first, second, third].into_iter().for_each(|server| _ = server.stop_by("TERM"));
}

#[test]
fn a_survivor_becomes_a_cluster_alone_and_old_members_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = |name: &str| folder.path().join(name);
    let http = |server: &Server| format!("http://{}", server.http);
    let members = |server: &Server| {
        let status = server.ask("GET", "/v1/cluster", "").1;
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let numbers: Vec<_> = members.iter().filter_map(|member| member["node"].as_u64()).collect();
        (status["leader"].as_u64(), numbers)
    };
    let (first, first_address) = node(&data("one"), &["--node", "1", "--cluster-init"]);
    let (second, second_address) = node(&data("two"), &["--node", "2", "--cluster-join", &first_address]);
    let (third, third_address) = node(&data("three"), &["--node", "3", "--cluster-join", &first_address]);
    while run(&["cluster", "status", "--http", &http(&first)]).succeeded().matches("  voter ").count() < 2 {
        std::thread::yield_now();
    }
    let part = r#"{"parts":[{"produce":{"topic":"orders","value_text":"kept"}}]}"#;
    let (code, done) = first.ask("POST", "/v1/commit", part);
    assert_eq!(code, 200, "{done}");
    let at = format!("Quire-Read: at={}\r\n", done["position"]);
    assert_eq!(second.ask_with("GET", "/v1/topics", "", &at).0, 200);
    let recover = |accepted: &[&str]| run_on(&data("two"), &[&["cluster", "recover"][..], accepted].concat());
    recover(&["--accept-loss-of", "1,3"]).failed_with("is in use");
    // A majority dies.
    drop(first);
    while second.ask("GET", "/v1/cluster", "").1["leader"].is_null() {
        std::thread::yield_now();
    }
    drop(third);
    assert_eq!(second.stop_by("TERM").0, Some(0));

    let planned = recover(&[]);
    assert!(planned.stdout.contains("other member: node 3, voter, 127.0.0.1:"), "{planned:?}");
    planned.failed_with("--accept-loss-of 1,3");
    recover(&["--accept-loss-of", "3"]).failed_with("must name all other members, 1,3, got 3");
    run_on(&data("none"), &["cluster", "recover"]).failed_with("is no node of a cluster");
    let recovered = recover(&["--accept-loss-of", "1,3"]).succeeded();
    assert!(recovered.contains("node 2 is a cluster alone") && recovered.contains("such as 4"), "{recovered}");
    recover(&["--accept-loss-of", "1,3"]).failed_with("knows no other member");

    let mut again = quire();
    again.args(["serve", "--cluster-listen", &second_address, "--data"]).arg(data("two"));
    let second = Server::spawn(&mut again);
    while members(&second) != (Some(2), vec![2]) {
        std::thread::yield_now();
    }
    let read = run(&["consume", "orders", "--limit", "1", "--http", &http(&second)]).succeeded();
    assert!(read.contains("kept"), "{read}");

    // A member that comes back is refused, and finds no leader.
    let log = folder.path().join("log");
    let mut returned = quire();
    returned.args(["serve", "--cluster-listen", &third_address, "--data"]).arg(data("three"));
    let returned = Server::logging(&mut returned, &log);
    while !std::fs::read_to_string(&log).expect("a log").contains("belong to different clusters with copies") {
        std::thread::yield_now();
    }
    assert!(members(&returned).0 != Some(2));
    drop(returned);
    let ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let mut wiped = quire();
    wiped.args(["serve", "--node", "3", "--cluster-join", &second_address]).args(LISTEN).args(ports);
    let wiped = ran(wiped.arg("--data").arg(data("wiped")).output().expect("started"));
    wiped.failed_with("node 3 was removed from the cluster; join with a number that no node has had");
    let (fourth, _) = node(&data("four"), &["--node", "4", "--cluster-join", &second_address]);
    while members(&fourth) != (Some(2), vec![2, 4]) {
        std::thread::yield_now();
    }
    run(&["produce", "orders", "new", "--http", &http(&fourth)]).succeeded();
    assert_eq!(fourth.stop_by("TERM").0, Some(0));
    drop(second);
}

/// A request of the Kafka protocol, in a version without tagged fields.
fn kafka(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let header = [&api.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7, 0xff, 0xff]].concat();
    [&header[..], body].concat()
}

#[test]
fn a_follower_names_the_leader_to_kafka_clients_and_forwards_requests_for_any_broker() {
    let folder = tempfile::tempdir().expect("a folder");
    let (leader, follower) = leader_and_follower(folder.path());
    // CreateTopics: t with 1 partition on 2 brokers, no assignments and settings, 5 s, not only a
    // test.
    let create = kafka(19, 2, b"\0\0\0\x01\0\x01t\0\0\0\x01\0\x02\0\0\0\0\0\0\0\0\0\0\x13\x88\0");
    let created = b"\0\0\0\x07\0\0\0\0\0\0\0\x01\0\x01t\0\0\xff\xff";
    assert_eq!(follower.ask_kafka(&create), created);
    assert_eq!(leader.ask("GET", "/v1/topics/t", "").0, 200);
    // InitProducerId without a transactional id. Its id is from the leader.
    let produces = kafka(22, 0, b"\xff\xff\0\0\x13\x88");
    let (one, two) = (follower.ask_kafka(&produces), leader.ask_kafka(&produces));
    assert_eq!((&one[8..10], &two[8..10]), (&[0, 0][..], &[0, 0][..]));
    assert_ne!(one[10..18], two[10..18], "each producer has its own id");
    // Fetch of partition 0 of t: the client is to ask for the leader.
    let fetch = kafka(
        1,
        4,
        b"\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0",
    );
    let code_of_fetch = |server: &Server| server.ask_kafka(&fetch)[23..25].to_vec();
    assert_eq!((code_of_fetch(&follower), code_of_fetch(&leader)), (vec![0, 6], vec![0, 0]));
    // Heartbeat of member m of group g: the client is to ask for the coordinator.
    let heartbeat = kafka(12, 0, b"\0\x01g\0\0\0\x01\0\x01m");
    assert_eq!(follower.ask_kafka(&heartbeat), b"\0\0\0\x07\0\x10");
    // ListGroups: clients ask every broker, and only the leader coordinates groups.
    assert_eq!(follower.ask_kafka(&kafka(16, 0, b"")), b"\0\0\0\x07\0\0\0\0\0\0");
    assert_eq!(follower.stop_by("TERM").0, Some(0));
    assert_eq!(leader.stop_by("TERM").0, Some(0));
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
