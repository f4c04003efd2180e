//! Tenants: a client with the rights of one space sees nothing of another one, by any operation.
//!
//! Each operation is sent twice: with names of the other space, and with names that no object has.
//! Both answers are equal. What names no object omits all that is of the other space.

use std::io::{Read, Write};
use std::net::TcpStream;

use quire::events::NewEvent;
use quire::jobs::{Change, Command, Filter, JobId, Reply, Retry, Unique, UniqueScope};
use quire::system::{AccessRule, RulePattern};
use quire::{Commit, Database, Message, NewBlock, NewEdge, NewJob, Operation, Part, Resource, ResourceKind};

use crate::access::{ask, rows, user};
use crate::served::{Answer, Served};

const OWN: &str = "acme";

/// The other space. No answer to a client of [`OWN`] contains the word.
const RIVAL: &str = "zebra";

/// A space without objects, as long as [`RIVAL`].
const NOBODY: &str = "zilch";

/// The objects of a space that are named by ids.
struct SpaceIds {
    job: String,
    token: String,
    bulk: String,
    key: String,
    position: String,
}

fn database(server: &Served) -> &Database {
    server.database.as_ref().expect("it is open")
}

/// Fills a space with an object of each kind. Every name and content has the name of the space.
fn fill(server: &Served, space: &str) -> SpaceIds {
    let database = database(server);
    let of = |name: &str| format!("{space}/{name}");
    let (store, queue, graph) = (of("s"), of("q"), of("r"));
    let topic = format!("{space}.t");
    let commit = Commit::new()
        .append(&*store, [NewEvent::new(format!("{space}Event")).tag(of("tag")).data(space.to_owned())])
        .produce(&*topic, Message::new(space.to_owned()))
        .enqueue(&*queue, NewJob::new(space.to_owned()).kind(space))
        .put_block(&*graph, NewBlock::new("a", space))
        .put_block(&*graph, NewBlock::new("b", space))
        .put_edge(&*graph, NewEdge::new("a", space, "b"));
    let position = database.commit(&commit).expect("decided").committed().expect("accepted").at.position.to_string();
    let group = database.group(&format!("{space}.g"));
    group.commit_position(&store, quire::events::EventPosition::new(1)).expect("committed");
    server.write(&format!("/v1/events/{space}%2Fs/subscriptions/{space}%2Fmailer"), r#"{"query":{"items":[{}]}}"#);
    server.write(&format!("/v1/events/{space}%2Fs/projections/p"), r#"{"position":1,"state":1}"#);
    let held = database.queue(&queue).fetch(space, 1).expect("fetched").remove(0);
    let filter = Filter { queue: Some(&queue), ..Filter::default() };
    let bulk = Command::Bulk { filter, change: Change::Hold { reason: space } };
    let begun = database.commit(&Commit::new().part(Part::Jobs(bulk))).expect("decided").committed().expect("accepted");
    let bulk = match &begun.replies[..] {
        [quire::Reply::Jobs(Reply::BulkBegun { bulk })] => bulk.to_string(),
        other => panic!("{other:?}"),
    };
    SpaceIds { job: held.job.to_string(), token: held.token.to_string(), bulk, key: String::new(), position }
}

/// The target and the body of an operation on the objects of a space.
fn request(template: &str, target: &str, body: &str, space: &str, ids: &SpaceIds) -> (String, String) {
    let query = target.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
    let names = [
        ("{store}", format!("{space}%2Fs")),
        ("{queue}", format!("{space}%2Fq")),
        ("{graph}", format!("{space}%2Fr")),
        ("{topic}", format!("{space}.t")),
        ("{group}", format!("{space}.g")),
        ("{name}", format!("{space}%2Fmailer")),
        ("{user}", format!("{space}-user")),
        ("{role}", format!("{space}-role")),
        ("{block}", "a".to_owned()),
        ("{partition}", "0".to_owned()),
        ("{code}", "not_found".to_owned()),
        ("{job}", ids.job.clone()),
        ("{bulk}", ids.bulk.clone()),
        ("{key}", ids.key.clone()),
        ("{position}", ids.position.clone()),
    ];
    let target = names.iter().fold(template.to_owned(), |target, (name, value)| target.replace(name, value)) + &query;
    let mut body = body.replace("{token}", &ids.token);
    for (field, name, of) in [
        ("store", "s", "/s"),
        ("queue", "q", "/q"),
        ("queue", "other", "/q"),
        ("topic", "t", ".t"),
        ("graph", "r", "/r"),
        ("name", "new", ".new"),
    ] {
        body = body.replace(&format!("\"{field}\":\"{name}\""), &format!("\"{field}\":\"{space}{of}\""));
    }
    (target, body.replace(r#"["empty","other"]"#, &format!(r#"["{space}/q"]"#)))
}

/// A server with two spaces, and the authorization of a client that has every right of [`OWN`].
fn served() -> (Served, SpaceIds, String) {
    let server = Served::new();
    let mut rival = fill(&server, RIVAL);
    database(&server).access().init("root").expect("enabled");
    let of_rival = user(&server, &format!("{RIVAL}-user"), [everything_in(RIVAL)]);
    rival.key = of_rival["Bearer qk_".len()..].split('_').next().expect("an id").to_owned();
    let own = user(&server, &format!("{OWN}-user"), [everything_in(OWN)]);
    // Every answer has the id that its request gives it.
    (server, rival, format!("{own}\r\nX-Request-Id: tenants"))
}

fn everything_in(space: &str) -> AccessRule {
    AccessRule::allow(Operation::All, ResourceKind::Space, RulePattern::Literal(space.to_owned()))
}

/// What a client can tell answers apart by. The time of an answer differs anyway.
fn visible(answer: &Answer) -> (u16, &str) {
    (answer.status, &answer.text)
}

#[test]
fn no_operation_distinguishes_an_object_of_another_tenant_from_a_missing_one() {
    let (server, rival, own) = served();
    // A job, a bulk change and a commit that were never there.
    let nobody = SpaceIds {
        job: "99999999-0".to_owned(),
        token: rival.token.clone(),
        bulk: "99999999-0".to_owned(),
        key: "zzzzzzzzzz".to_owned(),
        position: "99999999".to_owned(),
    };
    let mut problems = Vec::new();
    for (method, template, target, body, _) in rows() {
        let send = |space: &str, ids: &SpaceIds| {
            let (target, body) = request(template, target, body, space, ids);
            let mut answer = ask(&server, method, &target, &body, &own);
            let ids = [("{job}", &ids.job), ("{bulk}", &ids.bulk), ("{key}", &ids.key), ("{position}", &ids.position)];
            for (field, id) in ids.into_iter().filter(|(field, _)| template.contains(field)) {
                answer.text = answer.text.replace(id.as_str(), field);
            }
            answer.text = answer.text.replace(space, "SPACE");
            answer
        };
        let (of_rival, of_nobody) = (send(RIVAL, &rival), send(NOBODY, &nobody));
        let is_named = template.contains('{') && template != "/errors/{code}";
        if is_named && visible(&of_rival) != visible(&of_nobody) {
            problems.push(format!("{method} {template}: {of_rival:?}\nis not as\n{of_nobody:?}"));
        }
        // The jobs of a queue are a list that is empty without the right to read it.
        if is_named && of_rival.status < 400 && template != "/v1/queues/{queue}/jobs" {
            problems.push(format!("{method} {template} is answered: {of_rival:?}"));
        }
        if of_rival.text.contains(RIVAL) || of_rival.head.contains(RIVAL) {
            problems.push(format!("{method} {template} shows the other space: {of_rival:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn lists_statistics_and_statements_have_the_objects_of_the_own_tenant_only() {
    let (server, _, own) = served();
    let served = fill_own(&server);
    let describe = AccessRule::allow(Operation::Describe, ResourceKind::Admin, RulePattern::Literal("database".into()));
    let monitor = user(&server, "monitor", [everything_in(OWN), describe]);
    for path in [
        "/v1/events",
        "/v1/topics",
        "/v1/groups",
        "/v1/queues",
        "/v1/graphs",
        "/v1/jobs",
        "/v1/bulks",
        "/v1/commits",
        "/metrics",
        "/v1/stats",
        "/healthz",
    ] {
        let client = if matches!(path, "/metrics" | "/v1/stats" | "/healthz") { &monitor } else { &own };
        let answer = ask(&server, "get", path, "", client);
        assert!(answer.status == 200 && !answer.text.contains(RIVAL), "{path}: {answer:?}");
        // Statistics have sums, and a health check no objects.
        if !matches!(path, "/v1/stats" | "/healthz" | "/v1/bulks") {
            assert!(answer.text.contains(OWN), "{path}: {answer:?}");
        }
    }
    assert!(ask(&server, "get", "/v1/bulks", "", &own).text.contains(&served.bulk));
    for table in quire_sql::tables() {
        let statement = format!(r#"{{"sql":"SELECT * FROM {}"}}"#, table.name);
        for client in [&own, &monitor] {
            let answer = ask(&server, "post", "/v1/sql", &statement, client);
            assert!(!answer.text.contains(RIVAL), "{}: {answer:?}", table.name);
        }
    }
    let events = until(&server, "/v1/jobs/subscribe?after=start", &own, &format!("{OWN}/q"));
    assert!(!events.contains(RIVAL), "{events}");
}

/// Fills the own space. The server has access control enabled, so its owner does it.
fn fill_own(server: &Served) -> SpaceIds {
    let database = database(server);
    let (store, queue, graph) = (format!("{OWN}/s"), format!("{OWN}/q"), format!("{OWN}/r"));
    let topic = format!("{OWN}.t");
    let commit = Commit::new()
        .append(&*store, [NewEvent::new("Own")])
        .produce(&*topic, Message::new("own"))
        .enqueue(&*queue, NewJob::new("own"))
        .put_block(&*graph, NewBlock::new("a", "k"));
    let position = database.commit(&commit).expect("decided").committed().expect("accepted").at.position.to_string();
    let group = database.group(&format!("{OWN}.g"));
    group.commit_position(&store, quire::events::EventPosition::new(1)).expect("committed");
    let filter = Filter { queue: Some(&queue), ..Filter::default() };
    let bulk = Command::Bulk { filter, change: Change::Release };
    let begun = database.commit(&Commit::new().part(Part::Jobs(bulk))).expect("decided").committed().expect("accepted");
    let bulk = match &begun.replies[..] {
        [quire::Reply::Jobs(Reply::BulkBegun { bulk })] => bulk.to_string(),
        other => panic!("{other:?}"),
    };
    SpaceIds { job: String::new(), token: String::new(), bulk, key: String::new(), position }
}

/// Reads a stream of events until it contains this text.
fn until(server: &Served, path: &str, authorization: &str, text: &str) -> String {
    let head = server.head("GET", path, 0, &format!("Authorization: {authorization}\r\n"));
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("read");
        answer.extend_from_slice(&piece[..count]);
        let shown = String::from_utf8_lossy(&answer);
        if shown.contains(text) {
            return shown.into_owned();
        }
        assert!(count > 0, "the stream ended: {shown}");
    }
}

#[test]
fn a_key_that_is_unique_everywhere_reveals_nothing_of_another_tenant() {
    let (server, _, own) = served();
    let unique = Unique { scope: UniqueScope::Everywhere, ..Unique::new(b"taken") };
    let held = database(&server).queue(&format!("{RIVAL}/q")).enqueue(NewJob::new("job").unique(unique));
    let held: JobId = held.expect("enqueued");
    for clash in ["keep", "reject", "replace", "extend"] {
        let enqueue = |key: &str| {
            let body = format!(r#"{{"unique":{{"key":"{key}","scope":"everywhere","clash":"{clash}"}}}}"#);
            ask(&server, "post", &format!("/v1/queues/{OWN}%2Fq/jobs"), &body, &own)
        };
        let (taken, free) = (enqueue("taken"), enqueue("free"));
        assert_eq!(visible(&taken), visible(&free), "{clash}");
        assert!(taken.status == 403 && !taken.text.contains(&held.to_string()), "{taken:?}");
    }
    let all = Resource::new(ResourceKind::Queue, "*");
    let every = AccessRule::allow(Operation::Describe, all.kind, RulePattern::Any);
    let other = user(&server, "other", [everything_in(OWN), every]);
    let body = r#"{"unique":{"key":"taken","scope":"everywhere","clash":"keep"}}"#;
    let kept = ask(&server, "post", &format!("/v1/queues/{OWN}%2Fq/jobs"), body, &other);
    assert!(kept.status == 200 && kept.text.contains(&held.to_string()), "{kept:?}");
}

#[test]
fn a_retry_of_a_job_whose_key_is_unique_everywhere_reveals_nothing_of_another_tenant() {
    let (server, _, own) = served();
    let of = |space: &str| database(&server).queue(&format!("{space}/q"));
    let keyed =
        |key: &'static [u8]| NewJob::new("job").unique(Unique { scope: UniqueScope::Everywhere, ..Unique::new(key) });
    // A dead job has its key no longer.
    let dead = |key| {
        let job = of(OWN).enqueue(keyed(key)).expect("enqueued");
        let held = of(OWN).fetch("worker", 1).expect("fetched").remove(0);
        of(OWN).fail(held.job, held.token, "broken", Retry::Never).expect("failed");
        job
    };
    let (taken, free) = (dead(b"taken"), dead(b"free"));
    let rival = of(RIVAL).enqueue(keyed(b"taken")).expect("enqueued").to_string();
    let retry = |job: JobId, client: &str| {
        let mut answer = ask(&server, "post", &format!("/v1/jobs/{job}/change"), r#"{"retry":{}}"#, client);
        answer.text = answer.text.replace(&job.to_string(), "JOB");
        answer
    };
    let refused = retry(taken, &own);
    assert_eq!(visible(&refused), visible(&retry(free, &own)));
    assert!(refused.status == 403 && !refused.text.contains(&rival), "{refused:?}");
    let every = AccessRule::allow(Operation::Describe, ResourceKind::Queue, RulePattern::Any);
    let other = user(&server, "other", [everything_in(OWN), every]);
    let shown = retry(taken, &other);
    assert!(shown.status == 409 && shown.text.contains(&rival), "{shown:?}");
    assert_eq!(retry(free, &other).status, 200);
}
