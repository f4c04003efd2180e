//! Subscriptions: their items, also when the server restarts.

use quire_client::reply::{ChangeKind, ChangeReply, EventReply, JobEventReply};
use quire_client::request::{AppendPart, CommitRequest, Enqueue, NewEventRequest, PutBlockPart};
use quire_client::{Client, Code, FailureKind};

use crate::support::{TestServer, faked, served};

/// The commits of the test with restarts.
const COMMITS: usize = 300;

/// The restarts of the server, among the commits.
const RESTARTS: usize = 5;

/// Appends an event, puts a block and enqueues a job, all with this number.
fn commit(number: usize) -> CommitRequest<'static> {
    let event = NewEventRequest::new("Counted", number.to_string());
    CommitRequest::of(AppendPart::new("counter").event(event))
        .and(PutBlockPart::new("graph", format!("b{number}"), "number").content(number.to_string()))
        .and(Enqueue::new("numbers", number.to_string()))
}

fn number_of_event(event: &EventReply<'static>) -> usize {
    event.data.text().expect("text").parse().expect("a number")
}

#[test]
fn subscriptions_of_each_kind_lose_and_repeat_nothing_when_the_server_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = TestServer::at_any_port(directory.path());
    let client = server.client();
    client.commit(&commit(0)).expect("committed");
    let expected: Vec<usize> = (0..COMMITS).collect();
    std::thread::scope(|scope| {
        let events = scope.spawn(|| {
            let events = client.subscribe::<EventReply<'static>>(&["events", "counter"], &[]);
            let events = events.take(COMMITS).map(|event| number_of_event(&event.expect("an event")));
            events.collect::<Vec<_>>()
        });
        let changes = scope.spawn(|| {
            let changes = client.subscribe::<ChangeReply>(&["graphs", "graph"], &[]);
            let number = |change: ChangeReply| match change.what {
                ChangeKind::BlockPut(block) => block.content.text().expect("text").parse().expect("a number"),
                other => panic!("no block: {other:?}"),
            };
            changes.take(COMMITS).map(|change| number(change.expect("a change"))).collect::<Vec<usize>>()
        });
        let jobs = scope.spawn(|| {
            let query = [("after", "start"), ("event", "enqueued")];
            let jobs = client.subscribe::<JobEventReply>(&["jobs"], &query);
            let number = |job: JobEventReply| {
                let payload = job.data.expect("a payload");
                payload.text().expect("text").parse().expect("a number")
            };
            jobs.take(COMMITS).map(|job| number(job.expect("an event of a job"))).collect::<Vec<usize>>()
        });
        for number in 1..COMMITS {
            if number % (COMMITS / (RESTARTS + 1)) == 0 {
                server = server.restart(directory.path());
            }
            client.commit(&commit(number)).expect("committed");
        }
        assert_eq!(events.join().expect("a subscriber"), expected);
        assert_eq!(changes.join().expect("a subscriber"), expected);
        assert_eq!(jobs.join().expect("a subscriber"), expected);
        server.stop();
    });
}

#[test]
fn a_subscription_to_new_events_of_jobs_keeps_its_start_when_the_server_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = TestServer::at_any_port(directory.path());
    let client = server.client();
    client.commit(&CommitRequest::of(Enqueue::new("numbers", "old"))).expect("committed");
    // Nothing is new: the subscription only reads where the new events begin.
    let mut new = client.subscribe::<JobEventReply>(&["jobs"], &[]).until_caught_up();
    assert!(new.next().is_none());
    let cursor = new.cursor().expect("the cursor of the end").to_owned();
    let server = server.restart(directory.path());
    client.commit(&CommitRequest::of(Enqueue::new("numbers", "new"))).expect("committed");
    let job = client.subscribe::<JobEventReply>(&["jobs"], &[]).after(cursor).next();
    let job = job.expect("an item").expect("an event of a job");
    assert_eq!(job.data.expect("a payload").text().expect("text"), "new");
    server.stop();
}

#[test]
fn a_subscription_ends_with_the_past_or_with_the_error_of_a_wrong_request() {
    served(|client| {
        for number in 0..5 {
            client.commit(&commit(number)).expect("committed");
        }
        let feed = |query: &[(&str, &str)]| client.subscribe::<EventReply<'static>>(&["events", "counter"], query);
        let mut events = feed(&[]).after(2).until_caught_up();
        let numbers: Vec<_> = events.by_ref().map(|event| number_of_event(&event.expect("an event"))).collect();
        assert_eq!((numbers, events.cursor()), (vec![2, 3, 4], Some("5")));
        let mut wrong = feed(&[("after", "x")]);
        let error = wrong.next().expect("an item").expect_err("no position");
        assert_eq!((error.kind(), error.code()), (FailureKind::Problem, Some(Code::Invalid)));
        assert!(wrong.next().is_none());
    });
}

#[test]
fn a_subscription_without_a_server_ends_after_the_timeout_of_its_client() {
    let client = Client::builder("http://127.0.0.1:1").timeout(std::time::Duration::ZERO).build().expect("a client");
    let mut events = client.subscribe::<EventReply<'static>>(&["events", "counter"], &[]);
    let error = events.next().expect("an item").expect_err("no server");
    assert_eq!(error.kind(), FailureKind::Unanswered);
    assert!(events.next().is_none());
}

#[test]
fn a_subscription_ends_from_another_thread() {
    served(|client| {
        client.commit(&commit(0)).expect("committed");
        let mut events = client.subscribe::<EventReply<'static>>(&["events", "counter"], &[]);
        let stop = events.stopper();
        let first = events.next().expect("an item").expect("an event");
        std::thread::scope(|scope| {
            let rest = scope.spawn(move || events.count());
            stop.stop();
            // A subscription that reads already takes this event, and then ends.
            client.commit(&commit(1)).expect("committed");
            assert!(rest.join().expect("no panic") <= 1);
        });
        assert_eq!(number_of_event(&first), 0);
    });
}

/// The start of an answer that streams.
const STREAM: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";

#[test]
fn a_subscription_that_is_cut_off_resumes_after_its_last_whole_item() {
    let (arrived, requests) = std::sync::mpsc::channel();
    let address = faked(move |request| {
        let last = request.headers.get("last-event-id").cloned();
        let number = last.as_deref().map_or(0, |last| last.parse::<u64>().expect("a number")) + 1;
        arrived.send(last).expect("the test reads");
        let item = |number: u64| format!("event: event\nid: {number}\ndata: {number}\n\n");
        Some(format!("{STREAM}{}: alive\n\nevent: event\nid: {}\nda", item(number), number + 1))
    });
    let client = Client::builder(address).retry_pause(std::time::Duration::ZERO).build().expect("a client");
    let items = client.subscribe::<u64>(&["events", "counter"], &[]).take(3);
    assert_eq!(items.map(|item| item.expect("an item")).collect::<Vec<_>>(), [1, 2, 3]);
    let requests: Vec<_> = requests.iter().take(3).collect();
    assert_eq!(requests, [None, Some("1".to_owned()), Some("2".to_owned())]);
}

#[test]
fn a_server_that_only_sends_errors_does_not_end_an_outage() {
    let problem = r#"{"type":"x","title":"x","status":503,"code":"overloaded","detail":"later","retry_after_ms":0}"#;
    let address = faked(move |_| Some(format!("{STREAM}event: error\ndata: {problem}\n\n")));
    let client = Client::builder(address).timeout(std::time::Duration::from_millis(200)).build().expect("a client");
    let mut events = client.subscribe::<EventReply<'static>>(&["events", "counter"], &[]);
    let error = events.next().expect("an item").expect_err("no event");
    assert_eq!((error.status(), error.code()), (503, Some(Code::Overloaded)));
    assert!(events.next().is_none());
}

#[test]
fn a_message_beyond_the_bound_of_the_client_ends_a_subscription() {
    let address = faked(move |_| Some(format!("{STREAM}data: {}", "x".repeat(100_000))));
    let client = Client::builder(address).answer_bytes_max(10_000).build().expect("a client");
    let mut events = client.subscribe::<EventReply<'static>>(&["events", "counter"], &[]);
    let error = events.next().expect("an item").expect_err("no event");
    assert_eq!(error.kind(), FailureKind::Foreign);
    assert!(error.to_string().contains("longer than 10000 bytes"), "{error}");
    assert!(events.next().is_none());
}
