//! Workers: outcomes, leases, and restarts of the server.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quire_client::reply::{EventReply, JobReply, JobWithHistory, PartReply};
use quire_client::request::{
    AppendPart, CommitRequest, ConditionRequest, Enqueue, ItemRequest, NewEventRequest, QueryRequest,
};
use quire_client::{Client, FailureKind, HandlerError, RemoteOutcome, WorkSummary};

use crate::support::{TestServer, served};

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
        let worker = client.worker("mails", "mailer-1").lease(Duration::from_secs(3)).concurrency(2);
        let (stop, left) = (worker.stopper(), AtomicUsize::new(2));
        let summary = worker.run(|job| {
            if job.payload.text()? == "slow" {
                while state(client, &job.job).deadline_ms <= Some(job.deadline_ms) {}
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
