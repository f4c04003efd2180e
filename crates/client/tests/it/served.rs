//! Calls to a server, and to a server that fails.

use std::error::Error as _;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use quire_client::reply::{EventReply, JobWithHistory, PartReply};
use quire_client::request::{
    AppendPart, CommitRequest, ConditionRequest, Enqueue, ItemRequest, NewEventRequest, Produce, PutBlockPart,
    QueryRequest,
};
use quire_client::{Call, Client, Code, FailureKind};
use serde_json::{Value, json};

use crate::support::{faked, headers_of, served};

#[test]
fn a_request_that_can_not_be_sent_is_invalid_and_is_not_repeated() {
    // No server listens there: a repeated request would end as one without an answer.
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
        let (again, is_replay) = client.commit_or_replay(&commit, "join ada").expect("the first answer");
        assert_eq!((again.position, is_replay), (first.position, true));
        let other = CommitRequest::of(Produce::new("orders", "17"));
        assert!(!client.commit_or_replay(&other, "order 17").expect("committed").1);
        let refused = client.commit(&commit).expect_err("ada has joined");
        assert_eq!((refused.kind(), refused.code()), (FailureKind::Problem, Some(Code::ConditionFailed)));
        assert_eq!((refused.status(), refused.facts()["position"].as_u64()), (409, Some(1)));
        assert!(refused.request_id().is_some());
    });
}

#[test]
fn a_lost_answer_and_an_overload_are_retried_with_the_same_keys() {
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
            let headers = headers_of(&mut stream);
            stream.write_all(answer.as_bytes()).expect("the client reads");
            headers
        })
    });
    let client = Client::builder(format!("http://{address}")).retry_pause(Duration::from_millis(1));
    let client = client.api_key("quire_secret").timeout(Duration::from_secs(60)).build().expect("a client");
    let done = client.commit(&CommitRequest::of(Produce::new("t", "v"))).expect("the fourth attempt succeeds");
    assert_eq!(done.position, 7);
    let requests = server.join().expect("the server ends");
    let keys = requests.each_ref().map(|headers| &*headers["idempotency-key"]);
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(requests.iter().all(|headers| headers["authorization"] == "Bearer quire_secret"), "{requests:?}");
}

#[test]
fn a_patient_stream_waits_for_its_turn_beyond_the_silence_that_other_requests_allow() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let client = Client::builder(address).silence(Duration::from_millis(1)).build().expect("a client");
    let (arrived, backup_arrived) = mpsc::channel();
    let (may_answer, answers) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let (mut backup, _) = listener.accept().expect("a connection");
        headers_of(&mut backup);
        arrived.send(()).expect("the test waits");
        answers.recv().expect("the test goes on");
        backup.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\narchive").expect("the client reads");
    });
    let call = Call::get(&["backup"]);
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| {
            let archive = client.stream(&call.clone().patiently()).expect("an answer");
            std::io::read_to_string(archive).expect("bytes")
        });
        backup_arrived.recv().expect("the server runs");
        // No server answers this request: it ends after the silence, which has passed for the
        // backup, too.
        assert_eq!(client.send_once(&call).expect_err("silence").kind(), FailureKind::Unanswered);
        may_answer.send(()).expect("the server waits");
        assert_eq!(backup.join().expect("no panic"), "archive");
    });
    server.join().expect("the server ends");
}

#[test]
fn a_long_answer_is_an_error_where_it_is_kept_in_memory_and_whole_where_it_is_streamed() {
    let export = Call::get(&["graphs", "shop", "export"]);
    served(|client| {
        let blocks = (0..100).fold(CommitRequest { parts: Vec::new() }, |commit, number| {
            commit.and(PutBlockPart::new("shop", format!("b{number}"), "item").content("x".repeat(1_000)))
        });
        client.commit(&blocks).expect("committed");
        let small = Client::builder(client.address()).answer_bytes_max(50_000).build().expect("a client");
        for answer in [small.send_once(&export), small.send(&export)] {
            let error = answer.expect_err("more than the client keeps");
            assert_eq!(error.kind(), FailureKind::TooLong);
            assert!(error.to_string().contains("longer than 50000 bytes"), "{error}");
        }
        let whole = client.send_once(&export).expect("it fits");
        let mut streamed = Vec::new();
        let bytes = small.download(&export, &mut streamed).expect("no limit");
        assert_eq!((bytes, &streamed), (whole.len() as u64, &whole));
        let error = small.download(&export, &mut &mut [0; 10][..]).expect_err("no space");
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!((error.kind(), source.map(std::io::Error::kind)), (FailureKind::Output, Some(ErrorKind::WriteZero)));
    });
    for head in ["content-length: 9", "transfer-encoding: chunked"] {
        let cut = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nabcd\r\n");
        let cut = cut.replace("9\r\n\r\n4\r\nabcd\r\n", "9\r\n\r\nabcd");
        let address = faked(move |_| Some(cut.clone()));
        let client = Client::builder(address).build().expect("a client");
        assert_eq!(client.send_once(&export).expect_err("cut").kind(), FailureKind::Unanswered, "{head}");
        let mut part = Vec::new();
        assert_eq!(client.download(&export, &mut part).expect_err("cut").kind(), FailureKind::Unanswered, "{head}");
        assert_eq!(part, b"abcd");
    }
}

#[test]
fn missing_credentials_and_permissions_are_refusals() {
    served(|client| {
        let init = Call::post(&["access", "init"]).json(&json!({"user": "root"})).expect("JSON");
        let key = |answer: Vec<u8>| -> String {
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            answer["key"].as_str().expect("a key").to_owned()
        };
        let root = key(client.send(&init).expect("the first administrator"));
        let root = Client::builder(client.address()).api_key(root).build().expect("a client");
        let post = |path: &[&str], body: Value| root.send(&Call::post(path).json(&body).expect("JSON")).expect("done");
        post(&["access", "users"], json!({"user": "ann", "roles": ["reader"]}));
        let ann = key(post(&["access", "keys"], json!({"user": "ann", "lifetime_ms": 3_600_000})));
        let ann = Client::builder(client.address()).api_key(ann).build().expect("a client");
        let commit = CommitRequest::of(Produce::new("orders", "17"));
        for (client, status, code) in [(client, 401, Code::Unauthenticated), (&ann, 403, Code::NotPermitted)] {
            let error = client.commit(&commit).expect_err("refused");
            assert_eq!((error.kind(), error.status(), error.code()), (FailureKind::Problem, status, Some(code)));
            assert!(error.is_refusal(), "{error:?}");
        }
    });
}

#[test]
fn a_url_that_is_not_http_is_refused() {
    assert_eq!(Client::builder("127.0.0.1:7070").build().expect_err("no scheme").kind(), FailureKind::Invalid);
}
