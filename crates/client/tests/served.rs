//! The client against a server, and against a server that fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use quire::Database;
use quire_client::reply::{EventReply, JobWithHistory, PartReply};
use quire_client::request::{
    AppendPart, CommitRequest, ConditionRequest, Enqueue, ItemRequest, NewEventRequest, Produce, PutBlockPart,
    QueryRequest,
};
use quire_client::{Client, Code, FailureKind};

/// Runs `check` with a client of a server.
fn served(check: impl FnOnce(&Client)) {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::builder(directory.path()).create(true).open().expect("a database");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(quire_http::Server::bind(database, any_port.into())).expect("it listens");
    let address = server.address().tcp().expect("it is bound to TCP");
    runtime.spawn(server.run(std::future::pending()));
    check(&Client::builder(format!("http://{address}/")).build().expect("a client"));
}

#[test]
fn a_request_that_can_not_be_sent_is_invalid_and_is_not_repeated() {
    // Nobody listens there: a repeated request would end as one without an answer.
    let client = Client::builder("http://127.0.0.1:1").timeout(Duration::from_secs(2)).build().expect("a client");
    let commit = CommitRequest::of(Produce::new("orders", "17"));
    let error = client.commit_with_key(&commit, "a\nb").expect_err("no header");
    assert_eq!(error.kind(), FailureKind::Invalid, "{error}");
    let error = client.commit_with_key(&commit, "a").expect_err("nobody listens");
    assert_eq!(error.kind(), FailureKind::Unanswered, "{error}");
}

#[test]
fn a_commit_of_each_model_has_its_replies_and_reads_have_the_exact_bytes() {
    served(|client| {
        let event = NewEventRequest::new("Placed", r#"{"total": 1.10}"#).tag("order:1").tag([0xff, 1]);
        let commit = CommitRequest::of(AppendPart::new("orders").event(event))
            .and(Enqueue::new("mails", [0, 0xff]).kind("welcome").tag("order:1"))
            .and(PutBlockPart::new("shop", "ada", "customer").content("\"x"));
        let done = client.commit(&commit).expect("committed");
        let [PartReply::Appended { first: Some(1), .. }, PartReply::Enqueued { job, .. }, PartReply::BlockPut { .. }] =
            &*done.replies
        else {
            panic!("{done:?}")
        };
        let found: JobWithHistory = client.get(&["jobs", job], &[]).expect("the job");
        assert_eq!((found.job.payload.bytes(), &*found.job.kind), (&[0, 0xff][..], "welcome"));
        let events = client.list::<EventReply<'static>>(&["events", "orders"], &[]);
        let events: Vec<_> = events.map(|event| event.expect("an event")).collect();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data.bytes(), br#"{"total": 1.10}"#);
        assert!(events[0].tags.iter().any(|tag| *tag.0 == [0xff, 1]));
    });
}

#[test]
fn a_list_continues_over_pages() {
    served(|client| {
        let events = (0..5)
            .fold(AppendPart::new("s"), |part, number| part.event(NewEventRequest::new("Counted", number.to_string())));
        client.commit(&CommitRequest::of(events)).expect("committed");
        let events = client.list::<EventReply<'static>>(&["events", "s"], &[("limit", "2")]);
        let positions: Vec<u64> = events.map(|event| event.expect("an event").position).collect();
        assert_eq!(positions, [1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_refusal_has_its_code_and_facts_and_a_key_gets_the_first_answer() {
    served(|client| {
        let query = QueryRequest::of(ItemRequest::any().tag("user:ada"));
        let append = AppendPart::new("users")
            .event(NewEventRequest::new("Joined", "").tag("user:ada"))
            .condition(ConditionRequest::fail_if_events_match(query));
        let commit = CommitRequest::of(append);
        let first = client.commit_with_key(&commit, "join ada").expect("committed");
        let again = client.commit_with_key(&commit, "join ada").expect("the first answer");
        assert_eq!(again.position, first.position);
        let refused = client.commit(&commit).expect_err("ada has joined");
        assert_eq!((refused.kind(), refused.code()), (FailureKind::Problem, Some(Code::ConditionFailed)));
        assert_eq!((refused.status(), refused.facts()["position"].as_u64()), (409, Some(1)));
        assert!(refused.request_id().is_some());
    });
}

/// Reads a request and returns its idempotency key.
fn key_of(stream: &mut impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line == "\r\n" {
                break;
            }
            continue;
        };
        match &*name.to_ascii_lowercase() {
            "idempotency-key" => key = value.to_owned(),
            "content-length" => length = value.parse().expect("a length"),
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("the body");
    key
}

#[test]
fn a_lost_answer_and_an_overload_are_retried_with_the_same_key() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        let answers = [
            "",
            "HTTP/1.1 503 Unavailable\r\nretry-after: 0\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 429 Many\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 39\r\n\r\n{\"position\":7,\"time_ms\":1,\"replies\":[]}",
        ];
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let key = key_of(&mut stream);
            stream.write_all(answer.as_bytes()).expect("the client reads");
            key
        })
    });
    let client = Client::builder(format!("http://{address}")).retry_pause(Duration::from_millis(1));
    let client = client.timeout(Duration::from_secs(60)).build().expect("a client");
    let done = client.commit(&CommitRequest::of(Produce::new("t", "v"))).expect("the fourth attempt succeeds");
    assert_eq!(done.position, 7);
    let keys = server.join().expect("the server ends");
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_url_that_is_not_http_is_refused() {
    assert_eq!(Client::builder("127.0.0.1:7070").build().expect_err("no scheme").kind(), FailureKind::Invalid);
}
