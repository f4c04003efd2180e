//! Workers: outcomes, leases, and restarts of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use quire_client::reply::{EventReply, JobReply, JobWithHistory, PartReply};
use quire_client::request::{
    AppendPart, CommitRequest, ConditionRequest, Enqueue, ItemRequest, NewEventRequest, QueryRequest,
};
use quire_client::{Client, FailureKind, HandlerError, RemoteOutcome, WorkSummary};
use serde_json::{Value, json};

use crate::support::{TestServer, answer, faked, served};

fn enqueue(client: &Client, payload: &str) -> String {
    let done = client.commit(&CommitRequest::of(Enqueue::new("mails", payload).attempts_max(1))).expect("committed");
    match &done.replies[0] {
        PartReply::Enqueued { job, .. } => job.clone(),
        other => panic!("no job: {other:?}"),
    }
}

fn state(client: &Client, job: &str) -> JobReply {
    client.get::<JobWithHistory>(&["jobs", job], &[]).expect("the job").job
}

fn sent(order: &str) -> CommitRequest<'static> {
    CommitRequest::of(AppendPart::new("orders").event(NewEventRequest::new("MailSent", order)))
}

#[test]
fn each_outcome_ends_its_job_and_a_commit_happens_with_the_acknowledgement() {
    served(|client| {
        let payloads = ["ack", "commit", "fail", "never", "snooze", "panic", "refused"];
        let jobs = payloads.map(|payload| enqueue(client, payload));
        let worker = client.worker("mails", "mailer-1").concurrency(3);
        let errors = std::sync::Arc::new(Mutex::new(Vec::new()));
        let (seen, stop, left) = (errors.clone(), worker.stopper(), AtomicUsize::new(payloads.len()));
        let worker = worker.on_error(move |job, error| {
            let payload = job.map(|job| job.payload.text().expect("text").to_owned());
            seen.lock().expect("no panic").push((payload, error.kind(), error.to_string()));
        });
        let summary = worker.run(|job| -> Result<RemoteOutcome, HandlerError> {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            Ok(match job.payload.text()? {
                "ack" => RemoteOutcome::Ack(b"done".to_vec()),
                "commit" => sent("17").into(),
                "fail" => return Err("no such address".into()),
                "never" => RemoteOutcome::FailForGood("bounced".to_owned()),
                "snooze" => RemoteOutcome::Snooze(Duration::from_secs(600)),
                "panic" => panic!("a bug"),
                _ => {
                    let query = QueryRequest::of(ItemRequest::any());
                    let condition = ConditionRequest::fail_if_events_match(query);
                    let event = NewEventRequest::new("Joined", "");
                    // The first append fails the condition of the second one.
                    CommitRequest::of(AppendPart::new("users").event(event))
                        .and(AppendPart::new("users").event(NewEventRequest::new("Joined", "")).condition(condition))
                        .into()
                }
            })
        });
        let summary = summary.expect("it worked");
        assert_eq!(summary, WorkSummary { completed: 2, failed: 4, snoozed: 1, refused: 0 });
        let states = jobs.map(|job| state(client, &job));
        let names = states.each_ref().map(|job| &*job.state);
        assert_eq!(names, ["completed", "completed", "dead", "dead", "scheduled", "dead", "dead"]);
        assert_eq!(states[0].result.as_ref().expect("a result").bytes(), b"done");
        let told = states.each_ref().map(|job| job.last_error.as_deref());
        assert_eq!((told[2], told[3], told[5]), (Some("no such address"), Some("bounced"), Some("panicked: a bug")));
        assert_eq!(client.list::<EventReply<'static>>(&["events", "orders"], &[]).count(), 1);
        let errors: BTreeMap<_, _> =
            errors.lock().expect("no panic").iter().map(|(job, kind, _)| (job.clone(), *kind)).collect();
        let expected =
            [("fail", FailureKind::Handler), ("panic", FailureKind::Handler), ("refused", FailureKind::Problem)];
        assert_eq!(errors, expected.map(|(job, kind)| (Some(job.to_owned()), kind)).into());
    });
}

#[test]
fn a_handler_chooses_when_the_next_attempt_starts() {
    served(|client| {
        client.commit(&CommitRequest::of(Enqueue::new("mails", "later"))).expect("committed");
        let worker = client.worker("mails", "mailer-1");
        let stop = worker.stopper();
        let seen = Mutex::new(None);
        let summary = worker.run(|job| {
            stop.stop();
            *seen.lock().expect("no panic") = Some((job.job.clone(), job.deadline_ms));
            Ok(RemoteOutcome::FailFor("busy".to_owned(), Duration::from_secs(600)))
        });
        assert_eq!(summary.expect("it worked").failed, 1);
        let (job, deadline_ms) = seen.into_inner().expect("no panic").expect("a job");
        let job = state(client, &job);
        assert_eq!((&*job.state, job.last_error.as_deref()), ("retrying", Some("busy")));
        assert!(job.retry_at_ms > Some(deadline_ms), "{job:?}");
    });
}

#[test]
fn a_lease_is_extended_while_the_handler_runs_and_a_lost_one_completes_nothing() {
    served(|client| {
        let (slow, cancelled) = (enqueue(client, "slow"), enqueue(client, "cancelled"));
        let worker = client.worker("mails", "mailer-1").lease(Duration::from_secs(6)).concurrency(2);
        let (stop, left) = (worker.stopper(), AtomicUsize::new(2));
        let summary = worker.run(|job| {
            if job.payload.text()? == "slow" {
                // A job whose lease was lost has no deadline.
                while state(client, &job.job).deadline_ms == Some(job.deadline_ms) {}
            } else {
                let cancel = quire_client::Call::post(&["jobs", &job.job, "change"]);
                client.send(&cancel.json(&serde_json::json!({"cancel": {}}))?)?;
            }
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            Ok(())
        });
        assert_eq!(summary.expect("it worked"), WorkSummary { completed: 1, refused: 1, ..WorkSummary::default() });
        let slow = state(client, &slow);
        assert_eq!((&*slow.state, slow.attempt), ("completed", 1));
        assert_eq!(state(client, &cancelled).state, "cancelled");
    });
}

#[test]
fn a_worker_works_each_job_once_while_the_server_restarts() {
    const JOBS: usize = 60;
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = TestServer::at_any_port(directory.path());
    let client = server.client();
    let enqueue = |from: usize, to: usize| {
        let jobs = (from..to).fold(CommitRequest { parts: Vec::new() }, |commit, number| {
            commit.and(Enqueue::new("mails", number.to_string()))
        });
        client.commit(&jobs).expect("committed");
    };
    let worker = client.worker("mails", "mailer-1").concurrency(4);
    let (stop, left) = (worker.stopper(), AtomicUsize::new(JOBS));
    let (summary, server) = std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            worker.run(|job| {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    stop.stop();
                }
                Ok(sent(job.payload.text()?))
            })
        });
        for from in (0..JOBS).step_by(JOBS / 6) {
            enqueue(from, from + JOBS / 6);
            server = server.restart(directory.path());
        }
        (working.join().expect("a worker"), server)
    });
    assert_eq!(summary.expect("it worked"), WorkSummary { completed: JOBS as u64, ..WorkSummary::default() });
    let events = client.list::<EventReply<'static>>(&["events", "orders"], &[]);
    let mut numbers: Vec<usize> =
        events.map(|event| event.expect("an event").data.text().expect("text").parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..JOBS).collect::<Vec<_>>());
    server.stop();
}

/// An outcome whose conversion panics.
struct Unconvertible;

impl From<Unconvertible> for RemoteOutcome {
    fn from(_: Unconvertible) -> Self {
        panic!("no outcome")
    }
}

#[test]
fn a_panic_in_the_conversion_of_an_outcome_fails_its_job_and_the_worker_continues() {
    served(|client| {
        let jobs = ["first", "second"].map(|payload| enqueue(client, payload));
        let worker = client.worker("mails", "mailer-1");
        let (stop, left) = (worker.stopper(), AtomicUsize::new(jobs.len()));
        let summary = worker.run(|_| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            Ok(Unconvertible)
        });
        assert_eq!(summary.expect("it worked"), WorkSummary { failed: 2, ..WorkSummary::default() });
        for job in jobs {
            assert_eq!(state(client, &job).last_error.as_deref(), Some("panicked: no outcome"));
        }
    });
}

#[test]
fn a_panic_of_the_function_for_errors_fails_the_job_and_ends_the_worker() {
    served(|client| {
        let job = enqueue(client, "fail");
        let worker = client.worker("mails", "mailer-1").concurrency(3).on_error(|_, _| panic!("no report"));
        let error = worker.run(|_| Err::<(), _>("no such address".into())).expect_err("a panic");
        assert_eq!((error.kind(), &*error.to_string()), (FailureKind::Handler, "on_error panicked: no report"));
        let job = state(client, &job);
        assert_eq!((&*job.state, job.last_error.as_deref()), ("dead", Some("no such address")));
    });
}

#[test]
fn a_missing_permission_of_the_handler_fails_the_job_and_one_of_the_worker_ends_it() {
    served(|client| {
        let send = |client: &Client, path: &[&str], body: Value| -> Value {
            let call = quire_client::Call::post(path).json(&body).expect("JSON");
            serde_json::from_slice(&client.send(&call).expect("done")).expect("JSON")
        };
        let of_key = |made: &Value| {
            Client::builder(client.address()).api_key(made["key"].as_str().expect("a key")).build().expect("a client")
        };
        let job = enqueue(client, "commit");
        let root = of_key(&send(client, &["access", "init"], json!({"user": "root"})));
        send(&root, &["access", "users"], json!({"user": "mailer", "roles": ["worker"]}));
        let mailer = of_key(&send(&root, &["access", "keys"], json!({"user": "mailer", "lifetime_ms": 3_600_000})));
        let worker = mailer.worker("mails", "mailer-1");
        let stop = worker.stopper();
        let summary = worker.run(|_| {
            stop.stop();
            Ok(sent("17"))
        });
        assert_eq!(summary.expect("it worked"), WorkSummary { failed: 1, ..WorkSummary::default() });
        let job = state(&root, &job);
        assert_eq!(job.state, "dead");
        assert!(job.last_error.as_deref().is_some_and(|error| error.contains("orders")), "{:?}", job.last_error);
        let error = client.worker("mails", "mailer-2").run(|_| Ok(())).expect_err("no key");
        assert_eq!((error.status(), error.is_refusal()), (401, true));
    });
}

#[test]
fn a_fetch_is_repeated_with_its_key_and_its_count_until_it_has_an_answer() {
    let (arrived, requests) = mpsc::channel();
    let mut left = 3;
    let address = faked(move |request| {
        let fields: Value = serde_json::from_slice(&request.body).expect("JSON");
        arrived.send((request.headers["idempotency-key"].clone(), fields["count"].clone())).expect("the test reads");
        left -= 1;
        // The first answers are lost.
        Some(if left > 0 { String::new() } else { answer(&json!({"jobs": []})) })
    });
    let client = Client::builder(address).without_retries().build().expect("a client");
    let worker = client.worker("mails", "mailer-1").concurrency(2);
    let stop = worker.stopper();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| worker.run(|_| Ok(())));
        let fetches: Vec<_> = requests.iter().take(4).collect();
        stop.stop();
        assert!(fetches[1..3].iter().all(|fetch| *fetch == fetches[0]), "{fetches:?}");
        assert_ne!(fetches[3].0, fetches[0].0);
        worker.join().expect("no panic").expect("it worked");
    });
}

#[test]
fn a_heartbeat_without_an_answer_is_followed_by_another_one_before_the_lease_ends() {
    let (arrived, beats) = mpsc::channel();
    let mut fetches = 0;
    let address = faked(move |request| {
        if request.target.starts_with("POST /v1/queues/mails/fetch") {
            fetches += 1;
            let job = json!({
                "job": "1-0", "queue": "mails", "kind": "", "payload": "", "attempt": 1, "attempts_max": 1,
                "priority": 128, "token": "1-1", "deadline_ms": 1_000,
            });
            return Some(answer(&json!({"jobs": if fetches == 1 { vec![job] } else { vec![] }})));
        }
        let commit: Value = serde_json::from_slice(&request.body).expect("JSON");
        if commit["parts"][0].get("each").is_some() {
            arrived.send(()).expect("the handler waits");
            return None;
        }
        Some(answer(&json!({"position": 2, "time_ms": 1, "replies": [{"acked": {}}]})))
    });
    // A heartbeat with the limit of other calls would not end.
    let client = Client::builder(address).timeout(Duration::from_secs(3_600)).build().expect("a client");
    let worker = client.worker("mails", "mailer-1").lease(Duration::from_secs(1));
    let (stop, beats) = (worker.stopper(), Mutex::new(beats));
    let summary = worker.run(|_| {
        let beats = beats.lock().expect("one thread");
        (0..2).for_each(|_| beats.recv().expect("a heartbeat"));
        stop.stop();
        Ok(())
    });
    assert_eq!(summary.expect("it worked"), WorkSummary { completed: 1, ..WorkSummary::default() });
}
