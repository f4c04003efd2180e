//! Authentication and permissions: every operation of the description, by clients without a
//! credential, with a wrong one, without one of the needed permissions, and with exactly these.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use quire::system::{AccessRule, RulePattern, RuleSubject};
use quire::{Commit, Database, Message, NewApiKey, NewBlock, NewEdge, NewJob, Operation, Resource, ResourceKind};
use quire::{events::NewEvent, jobs::JobId};
use serde_json::Value;

use crate::served::{Answer, Served};

use Operation::{Alter, AlterConfigs, Create, Delete, Describe, Read as Reads, Write as Writes};

const STORE: Resource<'static> = Resource::new(ResourceKind::Store, "s");
const INDEXES: Resource<'static> = Resource::new(ResourceKind::Store, quire::INDEX_STORE);
const QUEUE: Resource<'static> = Resource::new(ResourceKind::Queue, "q");
const EMPTY: Resource<'static> = Resource::new(ResourceKind::Queue, "empty");
const OTHER: Resource<'static> = Resource::new(ResourceKind::Queue, "other");
const MAILER: Resource<'static> = Resource::new(ResourceKind::Queue, "mailer");
const TOPIC: Resource<'static> = Resource::new(ResourceKind::Topic, "t");
const NEW: Resource<'static> = Resource::new(ResourceKind::Topic, "new");
const GROUP: Resource<'static> = Resource::new(ResourceKind::Group, "g");
const GRAPH: Resource<'static> = Resource::new(ResourceKind::Graph, "r");

/// What an operation needs.
pub(crate) enum Needs {
    /// Nothing, not even a session.
    Public,
    /// A session. The answer omits what the client may not see.
    Session,
    /// All of these permissions.
    All(&'static [(Resource<'static>, Operation)]),
}

/// The method and template of an operation, a path of it, a body, and what it needs.
pub(crate) type Row = (&'static str, &'static str, &'static str, &'static str, Needs);

/// The operations, those that remove things last. `{job}` and `{token}` are those of a job of the
/// queue `q` that a worker holds.
pub(crate) fn rows() -> Vec<Row> {
    use Needs::{All, Public, Session};
    const LISTS: &[(Resource<'static>, Operation)] = &[(Resource::ACCESS, Describe)];
    const CHANGES: &[(Resource<'static>, Operation)] = &[(Resource::ACCESS, Alter)];
    const LEASE: &str = r#"{"token":"{token}"}"#;
    const PARTS: &str = r#"{"parts":[{"append":{"store":"s","events":[{"type":"A"}]}},{"enqueue":{"queue":"q"}},
        {"produce":{"topic":"t","value":1}},{"put_block":{"graph":"r","block":"c","kind":"k"}}]}"#;
    vec![
        ("get", "/livez", "/livez", "", Public),
        ("get", "/readyz", "/readyz", "", Public),
        ("get", "/healthz", "/healthz", "", Public),
        ("get", "/openapi.json", "/openapi.json", "", Session),
        ("get", "/errors/{code}", "/errors/not_permitted", "", Public),
        ("get", "/v1/events", "/v1/events", "", Session),
        ("get", "/v1/topics", "/v1/topics", "", Session),
        ("get", "/v1/groups", "/v1/groups", "", Session),
        ("get", "/v1/queues", "/v1/queues", "", Session),
        ("get", "/v1/graphs", "/v1/graphs", "", Session),
        ("get", "/v1/jobs", "/v1/jobs", "", Session),
        ("get", "/v1/jobs/subscribe", "/v1/jobs/subscribe?after=start", "", Session),
        ("get", "/v1/commits", "/v1/commits", "", Session),
        ("get", "/v1/commits/{position}", "/v1/commits/1", "", Session),
        ("get", "/v1/stats", "/v1/stats", "", All(&[(Resource::DATABASE, Describe)])),
        ("get", "/v1/refusals", "/v1/refusals", "", All(&[(Resource::DATABASE, Describe)])),
        ("get", "/v1/history", "/v1/history", "", All(&[(Resource::DATABASE, Describe)])),
        ("get", "/metrics", "/metrics", "", All(&[(Resource::DATABASE, Describe)])),
        ("post", "/v1/sql", "/v1/sql", r#"{"sql":"SELECT * FROM events"}"#, Session),
        ("get", "/v1/indexes", "/v1/indexes", "", Session),
        (
            "post",
            "/v1/indexes",
            "/v1/indexes",
            r#"{"store":"s","name":"more","text":["$.note"]}"#,
            All(&[(STORE, Reads), (INDEXES, Reads), (INDEXES, Writes)]),
        ),
        (
            "delete",
            "/v1/indexes/{index}",
            "/v1/indexes/notes",
            "",
            All(&[(STORE, Reads), (INDEXES, Reads), (INDEXES, Writes)]),
        ),
        ("get", "/v1/backup", "/v1/backup", "", All(&[(Resource::BACKUP, Reads)])),
        ("get", "/v1/cluster", "/v1/cluster", "", All(&[(Resource::DATABASE, Describe)])),
        ("post", "/v1/cluster/remove", "/v1/cluster/remove?node=3", "", All(&[(Resource::DATABASE, Alter)])),
        ("post", "/v1/cluster/transfer", "/v1/cluster/transfer", "", All(&[(Resource::DATABASE, Alter)])),
        ("post", "/v1/compact", "/v1/compact", "", All(&[(Resource::DATABASE, Alter)])),
        (
            "post",
            "/v1/commit",
            "/v1/commit",
            PARTS,
            All(&[(STORE, Writes), (QUEUE, Writes), (TOPIC, Writes), (GRAPH, Writes)]),
        ),
        (
            "post",
            "/v1/commit",
            "/v1/commit?dry_run=true",
            PARTS,
            All(&[(STORE, Writes), (QUEUE, Writes), (TOPIC, Writes), (GRAPH, Writes)]),
        ),
        ("get", "/v1/events/{store}", "/v1/events/s", "", All(&[(STORE, Reads)])),
        ("get", "/v1/events/{store}/head", "/v1/events/s/head", "", All(&[(STORE, Describe)])),
        ("get", "/v1/events/{store}/stats", "/v1/events/s/stats", "", All(&[(STORE, Describe)])),
        ("get", "/v1/events/{store}/sources", "/v1/events/s/sources", "", All(&[(STORE, Describe)])),
        ("get", "/v1/events/{store}/subscribe", "/v1/events/s/subscribe", "", All(&[(STORE, Reads)])),
        ("post", "/v1/events/{store}/read", "/v1/events/s/read", "{}", All(&[(STORE, Reads)])),
        (
            "post",
            "/v1/events/{store}/project",
            "/v1/events/s/project",
            r#"{"projections":{"n":{"query":{"items":[{"types":["A"]}]},"fold":"count"}}}"#,
            All(&[(STORE, Reads)]),
        ),
        (
            "post",
            "/v1/events/{store}/append",
            "/v1/events/s/append",
            r#"{"events":[{"type":"A"}],"conditions":[{"fail_if_events_match":{"items":[{"types":["None"]}]}}]}"#,
            All(&[(STORE, Writes), (STORE, Reads)]),
        ),
        (
            "post",
            "/v1/events/{store}/subscriptions/{name}",
            "/v1/events/s/subscriptions/mailer",
            r#"{"query":{"items":[{"types":["A"]}]}}"#,
            All(&[(STORE, Alter), (STORE, Reads), (MAILER, Writes)]),
        ),
        ("get", "/v1/events/{store}/subscriptions", "/v1/events/s/subscriptions", "", All(&[(STORE, Describe)])),
        (
            "get",
            "/v1/events/{store}/subscriptions/{name}",
            "/v1/events/s/subscriptions/mailer",
            "",
            All(&[(STORE, Describe), (MAILER, Describe)]),
        ),
        (
            "post",
            "/v1/events/{store}/subscriptions/{name}/fetch",
            "/v1/events/s/subscriptions/mailer/fetch",
            "{}",
            All(&[(STORE, Reads), (MAILER, Reads)]),
        ),
        (
            "post",
            "/v1/events/{store}/projections/{name}",
            "/v1/events/s/projections/other",
            r#"{"position":1,"state":1}"#,
            All(&[(STORE, Alter)]),
        ),
        ("get", "/v1/events/{store}/projections", "/v1/events/s/projections", "", All(&[(STORE, Describe)])),
        ("get", "/v1/events/{store}/projections/{name}", "/v1/events/s/projections/p", "", All(&[(STORE, Reads)])),
        ("delete", "/v1/events/{store}/projections/{name}", "/v1/events/s/projections/p", "", All(&[(STORE, Alter)])),
        (
            "delete",
            "/v1/events/{store}/subscriptions/{name}",
            "/v1/events/s/subscriptions/mailer",
            "",
            All(&[(STORE, Alter)]),
        ),
        ("post", "/v1/topics", "/v1/topics", r#"{"name":"new","partitions":1}"#, All(&[(NEW, Create)])),
        ("get", "/v1/topics/{topic}", "/v1/topics/t", "", All(&[(TOPIC, Describe)])),
        ("post", "/v1/topics/{topic}/records", "/v1/topics/t/records", r#"{"value":1}"#, All(&[(TOPIC, Writes)])),
        (
            "get",
            "/v1/topics/{topic}/partitions/{partition}/records",
            "/v1/topics/t/partitions/0/records",
            "",
            All(&[(TOPIC, Reads)]),
        ),
        (
            "get",
            "/v1/topics/{topic}/groups/{group}",
            "/v1/topics/t/groups/g",
            "",
            All(&[(TOPIC, Describe), (GROUP, Describe)]),
        ),
        ("get", "/v1/groups/{group}", "/v1/groups/g", "", All(&[(GROUP, Describe)])),
        (
            "post",
            "/v1/groups/{group}/stores/{store}",
            "/v1/groups/g/stores/s",
            r#"{"offset":1}"#,
            All(&[(GROUP, Reads), (STORE, Reads)]),
        ),
        (
            "post",
            "/v1/groups/{group}/queues/{queue}",
            "/v1/groups/g/queues/q",
            r#"{"to":"end"}"#,
            All(&[(GROUP, Reads), (QUEUE, Reads)]),
        ),
        ("get", "/v1/queues/{queue}", "/v1/queues/q", "", All(&[(QUEUE, Describe)])),
        ("get", "/v1/queues/{queue}/jobs", "/v1/queues/q/jobs", "", All(&[(QUEUE, Reads)])),
        ("post", "/v1/queues/{queue}/jobs", "/v1/queues/q/jobs", r#"{"payload":1}"#, All(&[(QUEUE, Writes)])),
        (
            "post",
            "/v1/queues/{queue}/settings",
            "/v1/queues/q/settings",
            r#"{"active_max":1000}"#,
            All(&[(QUEUE, Alter)]),
        ),
        ("post", "/v1/queues/{queue}/fetch", "/v1/queues/empty/fetch", "{}", All(&[(EMPTY, Reads)])),
        ("post", "/v1/fetch", "/v1/fetch", r#"{"queues":["empty","other"]}"#, All(&[(EMPTY, Reads), (OTHER, Reads)])),
        ("get", "/v1/jobs/{job}", "/v1/jobs/{job}", "", All(&[(QUEUE, Reads)])),
        ("post", "/v1/jobs/{job}/change", "/v1/jobs/{job}/change", r#"{"priority":1}"#, All(&[(QUEUE, Alter)])),
        ("post", "/v1/jobs/{job}/heartbeat", "/v1/jobs/{job}/heartbeat", LEASE, All(&[(QUEUE, Reads)])),
        ("post", "/v1/jobs/{job}/ack", "/v1/jobs/{job}/ack", LEASE, All(&[(QUEUE, Reads)])),
        (
            "post",
            "/v1/jobs/{job}/fail",
            "/v1/jobs/{job}/fail",
            r#"{"token":"{token}","error":"no"}"#,
            All(&[(QUEUE, Reads)]),
        ),
        (
            "post",
            "/v1/jobs/{job}/snooze",
            "/v1/jobs/{job}/snooze",
            r#"{"token":"{token}","delay_ms":1}"#,
            All(&[(QUEUE, Reads)]),
        ),
        ("get", "/v1/bulks", "/v1/bulks", "", Session),
        ("post", "/v1/bulks", "/v1/bulks", r#"{"filter":{"queue":"q"},"change":{"retry":{}}}"#, All(&[(QUEUE, Alter)])),
        ("get", "/v1/bulks/{bulk}", "/v1/bulks/1-0", "", Session),
        ("get", "/v1/graphs/{graph}", "/v1/graphs/r", "", All(&[(GRAPH, Describe)])),
        ("get", "/v1/graphs/{graph}/blocks", "/v1/graphs/r/blocks", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/blocks/{block}", "/v1/graphs/r/blocks/a", "", All(&[(GRAPH, Reads)])),
        (
            "post",
            "/v1/graphs/{graph}/blocks/{block}",
            "/v1/graphs/r/blocks/d",
            r#"{"kind":"k"}"#,
            All(&[(GRAPH, Writes)]),
        ),
        (
            "get",
            "/v1/graphs/{graph}/blocks/{block}/versions",
            "/v1/graphs/r/blocks/a/versions",
            "",
            All(&[(GRAPH, Reads)]),
        ),
        (
            "get",
            "/v1/graphs/{graph}/blocks/{block}/neighbours",
            "/v1/graphs/r/blocks/a/neighbours",
            "",
            All(&[(GRAPH, Reads)]),
        ),
        ("get", "/v1/graphs/{graph}/blocks/{block}/degree", "/v1/graphs/r/blocks/a/degree", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/edges", "/v1/graphs/r/edges?source=a&type=to&target=b", "", All(&[(GRAPH, Reads)])),
        ("post", "/v1/graphs/{graph}/get", "/v1/graphs/r/get", r#"{"blocks":["a"]}"#, All(&[(GRAPH, Reads)])),
        ("post", "/v1/graphs/{graph}/exists", "/v1/graphs/r/exists", r#"{"blocks":["a"]}"#, All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/walk", "/v1/graphs/r/walk?start=a", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/paths", "/v1/graphs/r/paths?from=a&to=b", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/order", "/v1/graphs/r/order?start=a", "", All(&[(GRAPH, Reads)])),
        ("post", "/v1/graphs/{graph}/order", "/v1/graphs/r/order", r#"{"whole":true}"#, All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/components", "/v1/graphs/r/components?start=a", "", All(&[(GRAPH, Reads)])),
        (
            "post",
            "/v1/graphs/{graph}/components",
            "/v1/graphs/r/components",
            r#"{"whole":true}"#,
            All(&[(GRAPH, Reads)]),
        ),
        ("get", "/v1/graphs/{graph}/missing", "/v1/graphs/r/missing", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/changes", "/v1/graphs/r/changes", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/subscribe", "/v1/graphs/r/subscribe", "", All(&[(GRAPH, Reads)])),
        ("get", "/v1/graphs/{graph}/export", "/v1/graphs/r/export", "", All(&[(GRAPH, Reads)])),
        (
            "post",
            "/v1/graphs/{graph}/import",
            "/v1/graphs/r/import",
            r#"{"block":{"name":"e","kind":"k"}}"#,
            All(&[(GRAPH, Writes)]),
        ),
        ("get", "/v1/access/self", "/v1/access/self", "", Session),
        ("post", "/v1/access/init", "/v1/access/init", r#"{"user":"second"}"#, Session),
        ("get", "/v1/access/users", "/v1/access/users", "", All(LISTS)),
        ("post", "/v1/access/users", "/v1/access/users", r#"{"user":"ann"}"#, All(CHANGES)),
        ("post", "/v1/access/users/{user}", "/v1/access/users/ann", r#"{"enabled":false}"#, All(CHANGES)),
        (
            "post",
            "/v1/access/users/{user}/password",
            "/v1/access/users/ann/password",
            r#"{"password":"correct horse"}"#,
            All(CHANGES),
        ),
        ("delete", "/v1/access/users/{user}/password", "/v1/access/users/ann/password", "", All(CHANGES)),
        (
            "post",
            "/v1/access/check",
            "/v1/access/check",
            r#"{"principal":"ann","operation":"read","kind":"topic","name":"t"}"#,
            All(LISTS),
        ),
        ("get", "/v1/access/keys", "/v1/access/keys", "", All(LISTS)),
        ("post", "/v1/access/keys", "/v1/access/keys", r#"{"user":"ann","lifetime_ms":9}"#, All(CHANGES)),
        ("post", "/v1/access/keys/{key}", "/v1/access/keys/0123456789", r#"{"enabled":false}"#, All(CHANGES)),
        ("delete", "/v1/access/keys/{key}", "/v1/access/keys/0123456789", "", All(CHANGES)),
        ("get", "/v1/access/roles", "/v1/access/roles", "", All(LISTS)),
        ("post", "/v1/access/roles/{role}", "/v1/access/roles/clerk", r#"{"rules":[]}"#, All(CHANGES)),
        ("delete", "/v1/access/roles/{role}", "/v1/access/roles/clerk", "", All(CHANGES)),
        ("get", "/v1/access/rules", "/v1/access/rules", "", All(LISTS)),
        (
            "post",
            "/v1/access/rules",
            "/v1/access/rules",
            r#"{"subject":"principal ann","rule":"allow read on topic t"}"#,
            All(CHANGES),
        ),
        (
            "delete",
            "/v1/access/rules",
            "/v1/access/rules?subject=principal%20ann&rule=allow%20read%20on%20topic%20t",
            "",
            All(CHANGES),
        ),
        ("delete", "/v1/access/users/{user}", "/v1/access/users/ann", "", All(CHANGES)),
        ("post", "/v1/queues/{queue}/clear", "/v1/queues/other/clear", "", All(&[(OTHER, Delete)])),
        ("delete", "/v1/queues/{queue}", "/v1/queues/other", "", All(&[(OTHER, Delete)])),
    ]
}

/// Sends a request by hand, and reads the head of the answer, or all of it when it ends.
pub(crate) fn ask(server: &Served, method: &str, path: &str, body: &str, authorization: &str) -> Answer {
    let mut headers = "Connection: close\r\n".to_owned();
    if !authorization.is_empty() {
        write!(headers, "Authorization: {authorization}\r\n").expect("written");
    }
    let head = server.head(&method.to_ascii_uppercase(), path, body.len(), &headers);
    let head = if path.ends_with("/import") { head.replace("application/json", "application/x-ndjson") } else { head };
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("sent");
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("read");
        answer.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, rest)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "{method} {path}: no answer: {text}");
            continue;
        };
        // A stream of events has no end.
        if count == 0 || head.to_ascii_lowercase().contains("text/event-stream") {
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
            return Answer { status, head: head.to_ascii_lowercase(), text: rest.to_owned() };
        }
    }
}

fn database(server: &Served) -> &Database {
    server.database.as_ref().expect("it is open")
}

/// A server with one thing of each kind, and access control enabled.
fn filled() -> Served {
    let server = Served::new();
    let commit = Commit::new()
        .append("s", [NewEvent::new("A")])
        .produce("t", Message::new("m"))
        .enqueue("q", NewJob::new("j"))
        .enqueue("other", NewJob::new("j"))
        .put_block("r", NewBlock::new("a", "k"))
        .put_block("r", NewBlock::new("b", "k"))
        .put_edge("r", NewEdge::new("a", "to", "b"));
    let database = database(&server);
    database.commit(&commit).expect("decided").committed().expect("accepted");
    database.group("g").commit_position("s", quire::events::EventPosition::new(1)).expect("committed");
    let subscription = r#"{"query":{"items":[{"types":["A"]}]}}"#;
    server.write("/v1/events/s/subscriptions/mailer", subscription);
    server.write("/v1/events/s/projections/p", r#"{"position":1,"state":1}"#);
    server.write("/v1/indexes", r#"{"store":"s","name":"notes","text":["$.note"]}"#);
    self::database(&server).access().init("root").expect("initialised");
    server
}

/// Creates a user with these rules, and returns its `Authorization`.
pub(crate) fn user(server: &Served, name: &str, rules: impl IntoIterator<Item = AccessRule>) -> String {
    let access = database(server).access();
    access.create_user(name, &[]).expect("created");
    let subject = RuleSubject::Principal(name.to_owned());
    for rule in rules {
        access.add_rule(&subject, &rule).expect("added");
    }
    let lifetime = Some(Duration::from_secs(3600));
    let key = access.create_key(name, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    format!("Bearer {}", key.reveal())
}

fn pattern(resource: Resource<'_>) -> RulePattern {
    RulePattern::Literal(resource.name.to_owned())
}

fn allowing(needs: &[(Resource<'static>, Operation)]) -> Vec<AccessRule> {
    needs.iter().map(|(resource, operation)| AccessRule::allow(*operation, resource.kind, pattern(*resource))).collect()
}

/// Everything, except one operation on one resource.
fn all_but((resource, operation): (Resource<'static>, Operation)) -> Vec<AccessRule> {
    let all = ResourceKind::ALL.map(|kind| AccessRule::allow(Operation::All, kind, RulePattern::Any));
    let denied = AccessRule::deny(operation, resource.kind, pattern(resource));
    all.into_iter().chain([denied]).collect()
}

/// A job of the queue `q` that a worker holds: its id and its token.
fn held(server: &Served) -> (JobId, String) {
    let queue = database(server).queue("q");
    queue.enqueue(NewJob::new("held")).expect("enqueued");
    let job = queue.fetch("w", 1).expect("fetched").remove(0);
    (job.job, job.token.to_string())
}

#[test]
fn every_described_operation_has_a_row() {
    let described: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).expect("JSON");
    let paths = described["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().expect("methods").keys().map(move |method| (method.clone(), path.clone()))
    });
    let rows: BTreeSet<_> = rows().into_iter().map(|(method, path, ..)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(operations.collect::<BTreeSet<_>>(), rows);
}

#[test]
fn no_operation_answers_without_a_valid_credential() {
    let server = filled();
    let revoked = user(&server, "revoked", []);
    database(&server).access().drop_user("revoked").expect("dropped");
    let before = database(&server).published();
    for (method, _, path, body, needs) in rows() {
        let body = body.replace("{token}", "1-0");
        let path = path.replace("{job}", "1-0");
        for authorization in ["", "Bearer qk_none", "Basic cm9vdDpyb290", &revoked] {
            let answer = ask(&server, method, &path, &body, authorization);
            if let Needs::Public = needs {
                assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
                continue;
            }
            assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{answer:?}");
            assert_eq!(answer.json()["code"], "unauthenticated");
        }
    }
    assert_eq!(database(&server).published(), before, "a refused request changed something");
}

/// What an operation answers to a client without one of its permissions.
fn problem_without(server: &Served, row: &Row, need: (Resource<'static>, Operation), name: &str) -> Option<String> {
    let (method, _, path, body, _) = row;
    let client = user(server, name, all_but(need));
    let (job, token) = held(server);
    let (path, body) = (path.replace("{job}", &job.to_string()), body.replace("{token}", &token));
    let before = database(server).published();
    let answer = ask(server, method, &path, &body, &client);
    if database(server).published() != before {
        return Some(format!("{method} {path} changed something: {answer:?}"));
    }
    // The queue of a job is not named, and a client that may not see it sees no job.
    let is_hidden_job = answer.status == 404 && path.contains(&job.to_string());
    // A subscription has the name of its queue.
    let is_hidden_index = answer.status == 404 && *method == "delete" && path.starts_with("/v1/indexes/");
    let is_hidden = is_hidden_job || is_hidden_index || answer.status == 404 && need == (MAILER, Describe);
    let is_empty_page =
        *method == "get" && path.ends_with("/q/jobs") && answer.json()["data"] == Value::Array(Vec::new());
    if is_hidden || is_empty_page {
        return None;
    }
    let is_refused = answer.status == 403 && {
        let problem = answer.json();
        (&problem["code"], &problem["kind"], &problem["name"], &problem["operation"])
            == (&"not_permitted".into(), &need.0.kind.name().into(), &need.0.name.into(), &need.1.name().into())
    };
    (!is_refused).then(|| format!("{method} {path} without {need:?}: {answer:?}"))
}

#[test]
fn an_operation_without_one_of_its_permissions_is_refused_and_changes_nothing() {
    let server = filled();
    let mut problems = Vec::new();
    for (number, row) in rows().iter().enumerate() {
        let Needs::All(needs) = &row.4 else { continue };
        for (lacking, need) in needs.iter().enumerate() {
            problems.extend(problem_without(&server, row, *need, &format!("lacks-{number}-{lacking}")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_operation_with_exactly_its_permissions_is_answered() {
    let server = filled();
    let mut problems = Vec::new();
    for (number, (method, _, path, body, needs)) in rows().into_iter().enumerate() {
        let rules = match needs {
            Needs::Public | Needs::Session => Vec::new(),
            Needs::All(needs) => allowing(needs),
        };
        let client = user(&server, &format!("only-{number}"), rules);
        let (job, token) = held(&server);
        let (path, body) = (path.replace("{job}", &job.to_string()), body.replace("{token}", &token));
        let answer = ask(&server, method, &path, &body, &client);
        // A client without permissions sees no commit, and this server is no node of a cluster.
        let is_missing = ["/v1/bulks/1-0", "/v1/commits/1"].contains(&&*path) || path.starts_with("/v1/cluster");
        let is_unknown = is_missing && answer.status == 404;
        let is_decided = answer.status == 409 && (path == "/v1/access/init" || path == "/v1/access/keys/0123456789");
        if answer.status != 200 && !is_unknown && !is_decided {
            problems.push(format!("{method} {path}: {answer:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn lists_show_only_what_the_client_may_see() {
    let server = filled();
    let nobody = user(&server, "nobody", []);
    let admin = user(&server, "everybody", all_but((EMPTY, AlterConfigs)));
    let lists = ["/v1/events", "/v1/topics", "/v1/groups", "/v1/queues", "/v1/graphs", "/v1/jobs"];
    for path in lists {
        let shown =
            |client: &str| ask(&server, "get", path, "", client).json()["data"].as_array().expect("a list").len();
        assert_eq!(shown(&nobody), 0, "{path}");
        assert!(shown(&admin) > 0, "{path}");
    }
}

#[test]
fn health_without_a_session_is_the_status_only_and_failures_need_a_right() {
    let server = filled();
    assert_eq!(ask(&server, "get", "/healthz", "", "").json(), serde_json::json!({"status": "ok"}));
    let anybody = user(&server, "anybody", []);
    let shown = ask(&server, "get", "/healthz", "", &anybody).json();
    assert!(shown["version"].is_string() && shown["failing"].is_null() && shown["damaged"].is_null(), "{shown}");
    let monitor = user(&server, "monitor", allowing(&[(Resource::DATABASE, Describe)]));
    let whole = ask(&server, "get", "/healthz", "", &monitor).json();
    assert_eq!((&whole["status"], &whole["failing"]), (&"ok".into(), &serde_json::json!([])));
    assert!(whole["version"].is_string() && whole["durability"].is_string(), "{whole}");
}

#[test]
fn subscriptions_of_hidden_queues_are_not_listed() {
    let server = filled();
    let lists = |client: &str| {
        let answer = ask(&server, "get", "/v1/events/s/subscriptions", "", client);
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer.text.contains("mailer"), ask(&server, "get", "/v1/events/s/subscriptions/mailer", "", client).status)
    };
    let store_only = user(&server, "store-only", allowing(&[(STORE, Describe)]));
    assert_eq!(lists(&store_only), (false, 404));
    let both = user(&server, "both", allowing(&[(STORE, Describe), (MAILER, Describe)]));
    assert_eq!(lists(&both), (true, 200));
}

#[test]
fn a_job_whose_event_the_worker_may_not_read_is_delivered_without_it() {
    let server = filled();
    let database = database(&server);
    database.events("secrets").append([NewEvent::new("Secret")]).expect("appended");
    let named = quire::EventRef { store: "secrets".to_owned(), position: quire::events::EventPosition::new(1) };
    database.queue("mailer").enqueue(NewJob::new(named.to_string())).expect("enqueued");
    let client = user(&server, "worker", allowing(&[(STORE, Reads), (MAILER, Reads)]));
    let answer = ask(&server, "post", "/v1/events/s/subscriptions/mailer/fetch", r#"{"count":9}"#, &client);
    assert_eq!(answer.status, 200, "{answer:?}");
    let events = answer.json()["events"].as_array().expect("a list").clone();
    let types: Vec<_> = events.iter().map(|delivered| delivered["event"]["type"].as_str()).collect();
    assert!(types.contains(&None) && !answer.text.contains("Secret"), "{answer:?}");
}

#[test]
fn metrics_omit_the_series_of_what_the_client_may_not_describe() {
    let server = filled();
    let monitor = |name: &str, denied: &[Resource<'static>]| {
        let all = ResourceKind::ALL.map(|kind| AccessRule::allow(Describe, kind, RulePattern::Any));
        let denied = denied.iter().map(|resource| AccessRule::deny(Describe, resource.kind, pattern(*resource)));
        let client = user(&server, name, all.into_iter().chain(denied));
        ask(&server, "get", "/metrics", "", &client).text
    };
    let labels = ["topic=\"t\"", "group=\"g\"", "store=\"s\"", "queue=\"q\"", "graph=\"r\"", "subscription=\"mailer\""];
    let whole = monitor("sees-all", &[]);
    let rest = monitor("sees-none", &[TOPIC, GROUP, STORE, QUEUE, GRAPH, MAILER]);
    for label in labels {
        assert!(whole.contains(label) && !rest.contains(label), "{label}");
    }
    assert!(rest.contains("queue=\"other\"") && rest.contains("quire_commits_total"), "{rest}");
}

#[test]
fn refused_clients_are_counted_by_reason() {
    let server = filled();
    let monitor = user(&server, "monitor", allowing(&[(Resource::DATABASE, Describe)]));
    for authorization in ["", "Bearer qk_none", "Basic cm9vdDpyb290"] {
        assert_eq!(ask(&server, "get", "/v1/queues", "", authorization).status, 401);
    }
    let metrics = ask(&server, "get", "/metrics", "", &monitor).text;
    let count = |reason: &str| {
        let start = format!("quire_authentication_refused_total{{front_end=\"http\",reason=\"{reason}\"}} ");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&*start)?.parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("no {start} in {metrics}"))
    };
    assert_eq!((count("missing"), count("failed")), (1, 2));
}

#[test]
fn logins_and_denials_are_in_the_audit_store_once_the_server_has_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    database.queue("q").enqueue(NewJob::new("job")).expect("enqueued");
    let root = database.access().init("root").expect("initialised");
    let runtime = tokio::runtime::Runtime::new().expect("tokio");
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = runtime.block_on(quire_http::Server::bind(database.clone(), any)).expect("a port");
    let address = server.address().tcp().expect("TCP");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async { drop(stopped.await) }));
    database.access().create_user("ann", &[]).expect("created");
    let lifetime = Some(Duration::from_secs(60));
    let ann = database.access().create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    let send = |authorization: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let head = format!("GET /v1/queues/q HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{authorization}\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!(send(""), "401");
    assert_eq!(send("Authorization: Bearer qk_wrong\r\n"), "401");
    assert_eq!(send(&format!("Authorization: Bearer {}\r\n", root.reveal())), "200");
    assert_eq!(send(&format!("Authorization: Bearer {}\r\n", ann.reveal())), "403");
    drop(stop);
    runtime.block_on(running).expect("no panic").expect("it ends well");
    let read = database.events(quire::AUDIT_STORE).read(&quire::events::Query::all(), Default::default());
    let of = |name: &str| {
        let events = read.as_ref().expect("readable").events.iter().filter(|event| *event.event_type == *name);
        events.map(|event| String::from_utf8(event.data.to_vec()).expect("text")).collect::<Vec<_>>()
    };
    // A request without a credential is refused, and nobody tried to log in.
    assert_eq!((of("LoggedIn").len(), of("LoginRefused").len()), (2, 1));
    let denied = format!(
        r#"{{"principal":"ann","key":"{}","address":"127.0.0.1","protocol":"http","operation":"describe","thing":"queue q","outcome":"denied","count":1}}"#,
        ann.id()
    );
    assert_eq!(of("AccessDenied"), [denied]);
}

#[test]
fn an_import_without_its_permission_is_refused_before_its_file_arrives() {
    let server = filled();
    let client = user(&server, "no-writer", allowing(&[(GRAPH, Reads)]));
    let headers = format!("Connection: close\r\nAuthorization: {client}\r\n");
    let head = server.head("POST", "/v1/graphs/r/import", 1 << 20, &headers);
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    // The file never arrives.
    stream.write_all(head.replace("application/json", "application/x-ndjson").as_bytes()).expect("sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 403");
}

#[test]
fn a_long_poll_ends_when_its_session_ends() {
    let server = filled();
    let access = database(&server).access();
    access.create_user("reader", &["reader", "worker"]).expect("created");
    let lifetime = Some(Duration::from_secs(3600));
    for (method, path, body) in [
        ("POST", "/v1/queues/empty/fetch", r#"{"wait_ms":60000}"#),
        ("POST", "/v1/fetch", r#"{"queues":["empty","nothing"],"wait_ms":60000}"#),
        ("GET", "/v1/topics/t/partitions/0/records?offset=1&wait_ms=60000", ""),
        ("GET", "/v1/topics/t?written=1&wait_ms=60000", ""),
    ] {
        let key = access.create_key("reader", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        let headers = format!("Connection: close\r\nAuthorization: Bearer {}\r\n", key.reveal());
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        let request = server.head(method, path, body.len(), &headers) + body;
        stream.write_all(request.as_bytes()).expect("sent");
        access.drop_key(key.id()).expect("dropped");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the poll ends");
        assert!(rest.starts_with(b"HTTP/1.1 "), "{path}");
    }
}

#[test]
fn a_backup_ends_when_its_client_may_no_longer_read_it() {
    let server = filled();
    let access = database(&server).access();
    // More than the buffers between the server and a client that does not read.
    let large = NewEvent::new("Large").data(vec![7; 512 << 10]);
    for _ in 0..64 {
        database(&server).events("s").append([large.clone()]).expect("appended");
    }
    database(&server).sync().expect("synced");
    let subject = RuleSubject::Principal("backup".to_owned());
    let rule = AccessRule::allow(Reads, ResourceKind::Admin, pattern(Resource::BACKUP));
    let client = user(&server, "backup", [rule.clone()]);
    for takes_rule in [true, false] {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        let head = server.head("GET", "/v1/backup", 0, &format!("Connection: close\r\nAuthorization: {client}\r\n"));
        stream.write_all(head.as_bytes()).expect("sent");
        let mut first = [0; 15];
        stream.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        if takes_rule {
            access.remove_rule(&subject, &rule).expect("removed");
        } else {
            access.drop_user("backup").expect("dropped");
        }
        let mut rest = Vec::new();
        // The connection ends in the middle of the archive.
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_err() || !rest.ends_with(b"0\r\n\r\n"), "the backup was completed");
        access.add_rule(&subject, &rule).expect("added");
    }
}

#[test]
fn a_stream_ends_when_its_key_is_dropped() {
    let server = filled();
    let access = database(&server).access();
    access.create_user("reader", &["reader"]).expect("created");
    let lifetime = Some(Duration::from_secs(3600));
    let key = access.create_key("reader", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    for path in ["/v1/events/s/subscribe", "/v1/graphs/r/subscribe", "/v1/jobs/subscribe"] {
        let key = access.create_key("reader", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        let headers = format!("Connection: close\r\nAuthorization: Bearer {}\r\n", key.reveal());
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.write_all(server.head("GET", path, 0, &headers).as_bytes()).expect("sent");
        let mut first = [0; 15];
        stream.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK", "{path}");
        access.drop_key(key.id()).expect("dropped");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the stream ends");
        // The last piece of a complete response.
        assert!(rest.ends_with(b"0\r\n\r\n"), "{path}");
    }
    let server_key = format!("Bearer {}", key.reveal());
    assert_eq!(ask(&server, "get", "/v1/events/s", "", &server_key).status, 200);
}
