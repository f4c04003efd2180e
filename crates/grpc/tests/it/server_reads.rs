//! Dry runs, the last refusals, and the figures of the last hour.

use quire::Commit;
use quire_api::reply::HistorySample;
use quire_grpc::proto::commit_part::Kind;
use quire_grpc::proto::*;
use tonic::{Code, Request};

use crate::served::{Served, told};

/// A commit whose second part fails its condition from the second time on.
fn register() -> CommitRequest {
    let item = EventQueryItem { tags: vec!["username:ada".into()], ..EventQueryItem::default() };
    let fail = event_condition::FailIfEventsMatch { query: Some(EventQuery { items: vec![item] }), after: 0 };
    let event = NewEvent {
        r#type: "Registered".to_owned(),
        tags: vec!["username:ada".into()],
        data: "a secret".into(),
        ..NewEvent::default()
    };
    let append = commit_part::AppendPart {
        store: "accounts".to_owned(),
        events: vec![event],
        conditions: vec![EventCondition { kind: Some(event_condition::Kind::FailIfEventsMatch(fail)) }],
    };
    let job = NewJob { queue: "mails".to_owned(), payload: "a secret".into(), ..NewJob::default() };
    let kinds = [Kind::Enqueue(Box::new(job)), Kind::Append(Box::new(append))];
    CommitRequest { parts: kinds.map(|kind| CommitPart { kind: Some(kind) }).to_vec(), dry_run: false }
}

#[tokio::test]
async fn a_dry_run_gets_the_answer_of_the_commit_and_commits_nothing() {
    let (served, owner) = Served::with_owner().await;
    let mut client = served.commits().await;
    let dry_run = || CommitRequest { dry_run: true, ..register() };
    let tried = client.commit(dry_run()).await.expect("nothing refuses it").into_inner();
    assert!(tried.dry_run && owner.queue("mails").stats().expect("read").is_none());
    let kinds: Vec<_> = tried.entries.iter().map(|entry| (&*entry.model, &*entry.kind)).collect();
    assert!(kinds.contains(&("events", "event_appended")), "{kinds:?}");
    assert!(tried.entries.iter().all(|entry| entry.bytes > 0), "{tried:?}");

    let done = client.commit(register()).await.expect("committed").into_inner();
    assert_eq!((tried.position, &tried.replies), (done.position, &done.replies));
    assert!(!done.dry_run && done.entries.is_empty());

    let of_dry_run = client.commit(dry_run()).await.expect_err("the name is taken");
    let of_commit = client.commit(register()).await.expect_err("the name is taken");
    assert_eq!(told(&of_dry_run), told(&of_commit));
    assert_eq!((told(&of_commit).1.as_str(), &*told(&of_commit).2["part"]), ("CONDITION_FAILED", "1"));
    assert_eq!(owner.published().get(), done.position);
}

#[tokio::test]
async fn a_dry_run_of_a_copy_is_answered_as_a_replay_and_stores_no_key() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let keyed = |dry_run| {
        let mut request = Request::new(CommitRequest { dry_run, ..register() });
        request.metadata_mut().insert("idempotency-key", "order 17".parse().expect("a key"));
        request
    };
    let first = client.commit(keyed(true)).await.expect("nothing refuses it");
    assert!(first.metadata().get("idempotent-replay").is_none());
    let committed = client.commit(keyed(false)).await.expect("the dry run stored no key");
    assert!(committed.metadata().get("idempotent-replay").is_none());
    let copy = client.commit(keyed(true)).await.expect("the first answer");
    assert_eq!(copy.metadata().get("idempotent-replay").expect("a replay"), "true");
    let copy = copy.into_inner();
    assert_eq!((copy.position, copy.entries.len()), (committed.into_inner().position, 0));
}

#[tokio::test]
async fn the_last_refused_commits_are_listed_with_the_errors_of_their_clients() {
    let (served, owner) = Served::with_owner().await;
    let mut client = served.commits().await;
    client.commit(register()).await.expect("committed");
    let refused = client.commit(register()).await.expect_err("the name is taken");
    client.commit(CommitRequest { dry_run: true, ..register() }).await.expect_err("a dry run");
    let _ = owner.commit(&Commit::new().enqueue("no queue", quire::NewJob::new(""))).expect("decided");
    let refusals = client.refusals(RefusalsRequest {}).await.expect("listed").into_inner().refusals;
    let [newest, first] = &refusals[..] else { panic!("{refusals:?}") };
    assert_eq!((newest.number, first.number), (2, 1));
    assert_eq!(newest.reason, "INVALID_NAME");
    let (_, reason, facts) = told(&refused);
    assert_eq!((&first.reason, &first.facts), (&reason, &facts), "what the client got");
    assert_eq!(first.message, refused.message());
    assert_eq!(first.resources, [TouchedResource { kind: "store".to_owned(), name: Some("accounts".to_owned()) }]);
    assert!(newest.time_us >= first.time_us && first.time_us > 0);
    assert!(!format!("{refusals:?}").contains("secret"));
}

#[tokio::test]
async fn the_samples_of_the_last_hour_are_those_of_the_other_front_ends() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let none = client.history(HistoryRequest::default()).await.expect("read").into_inner();
    assert_eq!((none.interval_us, none.samples.len()), (10_000_000, 0));
    for number in 1..=3 {
        served.history.add(HistorySample { time_ms: number * 10_000, commits: number, ..HistorySample::default() });
    }
    let mut after = async |after_us| {
        let samples = client.history(HistoryRequest { after_us }).await.expect("read").into_inner().samples;
        samples.iter().map(|sample| (sample.time_us, sample.commits)).collect::<Vec<_>>()
    };
    assert_eq!(after(0).await, [(10_000_000, 1), (20_000_000, 2), (30_000_000, 3)]);
    assert_eq!(after(20_000_000).await, [(30_000_000, 3)]);
    assert_eq!(after(19_999_999).await.len(), 2);
}

#[tokio::test]
async fn a_dry_run_of_an_invalid_part_is_refused_like_the_commit() {
    let served = Served::new().await;
    let parts = vec![CommitPart { kind: None }];
    let refused = served.commits().await.commit(CommitRequest { parts, dry_run: true }).await.expect_err("invalid");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason, &*facts["part"]), (Code::InvalidArgument, "INVALID", "0"));
}
