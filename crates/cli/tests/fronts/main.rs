//! The same commit over HTTP, over gRPC, in Rust and by `quire commit`: random commits, of valid
//! and invalid parts, have the same replies and the same refusals. So have their dry runs, which
//! come first, and the lists of the last refusals.
//!
//! Each way has a database of its own with the same clock, and gets the same commits. So ids,
//! tokens and times are equal too. Replies are compared in the form that HTTP has.

mod generator;
mod shown;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

use generator::{Generator, PartForms};
use quire::{Background, Commit, Database, Durability, ManualClock, Outcome, Ticket, Timestamp};
use quire_api::{FactValue, Failure, TimeUnit};
use quire_grpc::proto::quire_client::QuireClient;
use quire_grpc::proto::{CommitPart, CommitRequest, RefusalsRequest, RefusedCommit};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic_types::StatusExt;

/// How many commits each seed makes.
const COMMITS: usize = 400;

/// The result of a commit.
#[derive(Debug, Clone, PartialEq)]
enum CommitResult {
    Committed(Value),
    Refused(ShownRefusal),
}

/// The code, the message and the facts of a refusal. A fact without a value is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ShownRefusal {
    code: String,
    message: String,
    facts: BTreeMap<String, String>,
}

impl ShownRefusal {
    /// The same without the units and the places of fields, which HTTP and gRPC show differently.
    fn compared(mut self) -> Self {
        match &*self.code {
            // HTTP names the line and the column of an invalid field, gRPC the part.
            "invalid" => {
                self.message.clear();
                self.facts.clear();
            }
            "out_of_range" => {
                self.message.clear();
                self.facts.retain(|name, _| name == "part");
            }
            _ => {}
        }
        self.facts.retain(|name, _| !name.starts_with("retry_after"));
        self
    }
}

/// The databases and the connections to three of them.
struct Fronts {
    clock: Arc<ManualClock>,
    embedded: Database,
    http: SocketAddr,
    /// The server that `quire commit` asks.
    command: SocketAddr,
    grpc: QuireClient<Channel>,
    runtime: Runtime,
    _folders: Vec<tempfile::TempDir>,
}

impl Fronts {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)));
        let mut folders = Vec::new();
        let mut open = || {
            let folder = tempfile::tempdir().expect("a directory");
            let builder = Database::builder(folder.path()).durability(Durability::Os).id(7);
            folders.push(folder);
            builder.clock(clock.clone()).background(Background::Caller).open().expect("opened")
        };
        let (embedded, http, command, grpc) = (open(), open(), open(), open());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
        let (http, command, grpc) = runtime.block_on(async {
            let any = || "127.0.0.1:0".parse().expect("an address");
            let http = quire_http::Server::bind(http, any()).await.expect("a port");
            let command = quire_http::Server::bind(command, any()).await.expect("a port");
            let grpc = quire_grpc::Server::bind(grpc, any()).await.expect("a port");
            let (of_http, of_grpc) = (http.address().tcp().expect("TCP"), grpc.address().tcp().expect("TCP"));
            let of_command = command.address().tcp().expect("TCP");
            tokio::spawn(http.run(std::future::pending()));
            tokio::spawn(command.run(std::future::pending()));
            tokio::spawn(grpc.run(std::future::pending()));
            let endpoint = Channel::from_shared(format!("http://{of_grpc}")).expect("an address");
            (of_http, of_command, QuireClient::new(endpoint.connect().await.expect("it listens")))
        });
        Fronts { clock, embedded, http, command, grpc, runtime, _folders: folders }
    }

    /// Sends a commit, or its dry run, on each way.
    fn answers(&mut self, key: Option<&str>, parts: &[PartForms], is_dry_run: bool) -> Answers {
        Answers {
            http: self.over_http(key, parts, is_dry_run),
            grpc: self.over_grpc(key, parts, is_dry_run),
            command: self.by_command(key, parts, is_dry_run),
            rust: self.in_rust(key, parts, is_dry_run),
        }
    }

    fn over_http(&self, key: Option<&str>, parts: &[PartForms], is_dry_run: bool) -> CommitResult {
        let parts: Vec<&Value> = parts.iter().map(|part| &part.json).collect();
        let body = json!({ "parts": parts }).to_string();
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /v1/commit?dry_run={is_dry_run} HTTP/1.1\r\nHost: {}\r\n{key}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.http,
            body.len()
        );
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        stream.write_all((head + &body).as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        if head.starts_with("HTTP/1.1 200") {
            return CommitResult::Committed(shown::of_http(body));
        }
        CommitResult::Refused(refusal_of_http(body))
    }

    /// Commits by the command line. A refusal is its message.
    fn by_command(&self, key: Option<&str>, parts: &[PartForms], is_dry_run: bool) -> Result<CommitResult, String> {
        let parts: Vec<&Value> = parts.iter().map(|part| &part.json).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quire"));
        command.args(["commit", "--json", "--http", &self.command.to_string()]);
        if let Some(key) = key {
            command.args(["--key", key]);
        }
        if is_dry_run {
            command.arg("--dry-run");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().expect("the command can be started");
        let body = json!({ "parts": parts }).to_string();
        running.stdin.take().expect("it is piped").write_all(body.as_bytes()).expect("the command reads");
        let ended = running.wait_with_output().expect("the command ends");
        if ended.status.success() {
            let reply = serde_json::from_slice(&ended.stdout).expect("the reply in JSON");
            return Ok(CommitResult::Committed(shown::of_http(reply)));
        }
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let message = String::from_utf8(ended.stderr).expect("text");
        Err(message.trim_end().strip_prefix("quire: ").expect("one message").to_owned())
    }

    fn over_grpc(&mut self, key: Option<&str>, parts: &[PartForms], dry_run: bool) -> CommitResult {
        let parts = parts.iter().map(|part| CommitPart { kind: Some(part.message.clone()) }).collect();
        let mut request = tonic::Request::new(CommitRequest { parts, dry_run });
        if let Some(key) = key {
            request.metadata_mut().insert("idempotency-key", key.parse().expect("a key"));
        }
        match self.runtime.block_on(self.grpc.commit(request)) {
            Ok(response) => CommitResult::Committed(shown::of_grpc(response.into_inner())),
            Err(status) => {
                let info = status.get_details_error_info().unwrap_or_else(|| panic!("{status:?} has no reason"));
                let (code, message) = (info.reason.to_lowercase(), status.message().to_owned());
                CommitResult::Refused(ShownRefusal { code, message, facts: info.metadata.into_iter().collect() })
            }
        }
    }

    /// Commits in Rust; `None` when a part has no form there.
    fn in_rust(&self, key: Option<&str>, parts: &[PartForms], is_dry_run: bool) -> Option<CommitResult> {
        let parts = parts.iter().map(|part| part.part.clone()).collect::<Option<Vec<_>>>()?;
        let mut commit = parts.into_iter().fold(Commit::new(), Commit::part);
        if let Some(key) = key {
            commit = commit.idempotency_key(key);
        }
        let decided = match is_dry_run {
            true => self.embedded.dry_run(&commit).and_then(Ticket::wait).map(|tried| (tried.outcome, tried.entries)),
            false => self.embedded.commit(&commit).map(|outcome| (outcome, Vec::new())),
        };
        Some(match decided {
            Ok((Outcome::Committed(answer), entries)) if is_dry_run => {
                CommitResult::Committed(shown::dry_run_of_rust(&answer, &entries))
            }
            Ok((Outcome::Committed(committed), _)) => CommitResult::Committed(shown::of_rust(&committed)),
            Ok((Outcome::Refused(refused), _)) => {
                CommitResult::Refused(refusal(Failure::of_commit(&refused, TimeUnit::Millis, "part")))
            }
            Err(error) => CommitResult::Refused(refusal(Failure::of_error(&error))),
        })
    }
}

/// The refusal in a problem of HTTP.
fn refusal_of_http(problem: Value) -> ShownRefusal {
    let Value::Object(mut fields) = problem else { panic!("{problem}") };
    let mut text = |name: &str| fields.remove(name).and_then(|value| value.as_str().map(str::to_owned));
    let (code, message) = (text("code").expect("a code"), text("detail").expect("a message"));
    for other in ["type", "title", "status", "request_id"] {
        fields.remove(other);
    }
    let shown = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let facts = fields.into_iter().filter_map(|(name, value)| Some((name, shown(value)?)));
    ShownRefusal { code, message, facts: facts.collect() }
}

/// A refused commit in a list: its number, its time in milliseconds, the resources of the refused
/// part, and the refusal.
type ListedRefusal = (u64, u64, Vec<(String, Option<String>)>, ShownRefusal);

/// The refusals in a page of HTTP.
fn listed_of_http(page: &Value) -> Vec<ListedRefusal> {
    let one = |refused: &Value| -> ListedRefusal {
        let number = |name: &str| refused[name].as_u64().expect("a number");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let resource = |resource: &Value| (text(&resource["kind"]).expect("a kind"), text(&resource["name"]));
        let resources = refused["resources"].as_array().expect("a list").iter().map(resource).collect();
        (number("number"), number("time_ms"), resources, refusal_of_http(refused["problem"].clone()).compared())
    };
    page["data"].as_array().expect("a list").iter().map(one).collect()
}

impl Fronts {
    fn refusals_over_http(&self) -> Vec<ListedRefusal> {
        let head = format!("GET /v1/refusals HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http);
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        listed_of_http(&serde_json::from_str(body).expect("a page"))
    }

    fn refusals_by_command(&self) -> Vec<ListedRefusal> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quire"));
        let ended = command.args(["refusals", "--json", "--http", &self.command.to_string()]).output();
        let ended = ended.expect("the command can be started");
        assert!(ended.status.success(), "{ended:?}");
        let lines = String::from_utf8(ended.stdout).expect("text");
        let refusals: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        listed_of_http(&json!({ "data": refusals }))
    }

    fn refusals_over_grpc(&mut self) -> Vec<ListedRefusal> {
        let response = self.runtime.block_on(self.grpc.refusals(RefusalsRequest {})).expect("listed").into_inner();
        let one = |refused: RefusedCommit| {
            let resources = refused.resources.into_iter().map(|resource| (resource.kind, resource.name)).collect();
            let (code, message) = (refused.reason.to_lowercase(), refused.message);
            let shown = ShownRefusal { code, message, facts: refused.facts.into_iter().collect() };
            (refused.number, refused.time_us / 1_000, resources, shown.compared())
        };
        response.refusals.into_iter().map(one).collect()
    }

    fn refusals_in_rust(&self) -> Vec<ListedRefusal> {
        let one = |refused: quire::RefusedCommit| {
            let resources = refused.resources.into_iter().map(|found| (found.kind.name().to_owned(), found.name));
            let shown = refusal(Failure::of_commit(&refused.refusal, TimeUnit::Millis, "part"));
            (refused.number, refused.time.as_millis(), resources.collect(), shown.compared())
        };
        self.embedded.recent_refusals().expect("listed").into_iter().map(one).collect()
    }
}

/// The answers to a commit, or to its dry run.
struct Answers {
    http: CommitResult,
    grpc: CommitResult,
    command: Result<CommitResult, String>,
    rust: Option<CommitResult>,
}

impl Answers {
    /// Checks that they are the same.
    #[track_caller]
    fn check(&self, place: &str) {
        match (&self.http, &self.grpc) {
            (CommitResult::Refused(http), CommitResult::Refused(grpc)) => {
                assert_eq!(http.clone().compared(), grpc.clone().compared(), "{place}");
            }
            (http, grpc) => assert_eq!(http, grpc, "{place}"),
        }
        match (&self.http, &self.command) {
            (CommitResult::Refused(http), Err(message)) => assert_eq!(&http.message, message, "{place}"),
            (http, command) => assert_eq!(command.as_ref(), Ok(http), "{place}"),
        }
        match &self.rust {
            Some(rust) => assert_eq!(&self.http, rust, "{place}"),
            None => assert!(matches!(self.http, CommitResult::Refused(_)), "an invalid part is refused: {place}"),
        }
    }
}

/// The result without what only a dry run has, and its number of entries.
fn as_of_commit(tried: &CommitResult) -> (CommitResult, usize) {
    let CommitResult::Committed(reply) = tried else { return (tried.clone(), 0) };
    let mut reply = reply.clone();
    let fields = reply.as_object_mut().expect("an object");
    assert_eq!(fields.remove("dry_run"), Some(true.into()));
    let entries = fields.remove("entries").expect("entries").as_array().expect("a list").len();
    (CommitResult::Committed(reply), entries)
}

fn refusal(Failure { code, message, facts }: Failure) -> ShownRefusal {
    let facts = facts.into_iter().filter(|fact| fact.value != FactValue::Absent);
    let facts = facts.map(|fact| (fact.name.to_owned(), fact.value.to_string())).collect();
    ShownRefusal { code: code.name().to_owned(), message, facts }
}

#[test]
fn a_commit_has_the_same_answer_over_http_over_grpc_in_rust_and_by_the_command_line() {
    let (mut committed, mut drafted, mut refused) = (0, 0, BTreeMap::<String, u32>::new());
    for seed in 1..=4 {
        let mut fronts = Fronts::new();
        let mut generator = Generator::new(seed);
        let mut last: Option<(String, Vec<PartForms>)> = None;
        for number in 0..COMMITS {
            let mut parts = generator.commit();
            let key = (number % 4 == 0).then(|| format!("commit {number}"));
            // The key of the last commit that had one, with the parts of this commit, or the same
            // ones.
            let (key, is_other) = match &last {
                Some((key, _)) if number % 8 == 1 => (Some(key.clone()), true),
                Some((key, copied)) if number % 8 == 2 => {
                    parts.clone_from(copied);
                    (Some(key.clone()), false)
                }
                _ => (key, false),
            };
            let place = format!("seed {seed}, commit {number}: {parts:#?}");
            let tried = fronts.answers(key.as_deref(), &parts, true);
            tried.check(&format!("dry run of {place}"));
            let done = fronts.answers(key.as_deref(), &parts, false);
            done.check(&place);
            let (tried, entries) = as_of_commit(&tried.http);
            assert_eq!(tried, done.http, "a dry run has the answer of the commit: {place}");
            drafted += entries;
            if let Some(key) = key.filter(|_| !is_other) {
                last = Some((key, parts.clone()));
            }
            match &done.http {
                CommitResult::Refused(http) => *refused.entry(http.code.clone()).or_default() += 1,
                CommitResult::Committed(reply) => {
                    committed += 1;
                    generator.learn(reply);
                }
            }
            fronts.clock.set(Timestamp::from_micros(fronts.embedded.now().as_micros() + 1_000_000));
        }
        let over_http = fronts.refusals_over_http();
        assert!(over_http.len() > 20, "{over_http:#?}");
        assert_eq!(over_http, fronts.refusals_over_grpc(), "seed {seed}");
        assert_eq!(over_http, fronts.refusals_by_command(), "seed {seed}");
        assert_eq!(over_http, fronts.refusals_in_rust(), "seed {seed}");
    }
    println!("{committed} committed, {refused:?} refused");
    assert!(committed > 300 && drafted > committed, "{committed} committed, {drafted} entries of dry runs");
    for code in [
        "condition_failed",
        "upstream_behind",
        "projection_moved",
        "topic_exists",
        "unknown_topic",
        "unknown_partition",
        "stale_lease",
        "unknown_job",
        "duplicate",
        "wrong_state",
        "version_mismatch",
        "missing_block",
        "not_json",
        "invalid_name",
        "invalid",
        "out_of_range",
        "invalid_weights",
        "idempotency_key_reused",
    ] {
        assert!(refused.contains_key(code), "no commit was refused with {code}: {refused:?}");
    }
}
