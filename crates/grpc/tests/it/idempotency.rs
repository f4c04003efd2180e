//! Calls that are sent again with the metadata `idempotency-key`.

use quire_grpc::proto::*;
use tonic::{Code, Request, Response};

use crate::served::{Served, told};

fn keyed<M>(key: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("idempotency-key", key.parse().expect("a key"));
    request
}

fn is_replay<M>(response: &Response<M>) -> bool {
    response.metadata().get("idempotent-replay").is_some_and(|value| value == "true")
}

/// Sends a request twice with the key. The copy gets the first answer.
macro_rules! twice {
    ($client:expr, $method:ident, $request:expr) => {{
        let (request, key) = ($request, stringify!($method));
        let first = $client.$method(keyed(key, request.clone())).await.expect("accepted");
        let again = $client.$method(keyed(key, request)).await.expect("answered again");
        assert_eq!((is_replay(&first), is_replay(&again)), (false, true), "{key}");
        assert_eq!(first.get_ref(), again.get_ref(), "{key}");
        first.into_inner()
    }};
}

fn enqueue(payload: &str) -> CommitRequest {
    let job = NewJob { queue: "q".to_owned(), payload: payload.to_owned().into(), ..NewJob::default() };
    let event = NewEvent { r#type: "Made".to_owned(), ..NewEvent::default() };
    let append = commit_part::AppendPart { store: "s".to_owned(), events: vec![event], ..Default::default() };
    let kinds = [commit_part::Kind::Enqueue(Box::new(job)), commit_part::Kind::Append(Box::new(append))];
    CommitRequest { parts: kinds.map(|kind| CommitPart { kind: Some(kind) }).to_vec(), dry_run: false }
}

#[tokio::test]
async fn a_copy_of_a_commit_gets_the_first_answer_also_after_a_restart() {
    let served = Served::new().await;
    let first = served.commits().await.commit(keyed("order 17", enqueue("a"))).await.expect("accepted");
    assert!(!is_replay(&first));
    let served = served.again().await;
    let mut commits = served.commits().await;
    let again = commits.commit(keyed("order 17", enqueue("a"))).await.expect("answered again");
    assert!(is_replay(&again));
    assert_eq!(again.get_ref(), first.get_ref());
    let queues = served.jobs().await.queues(QueuesRequest::default()).await.expect("listed").into_inner().queues;
    assert_eq!(queues[0].jobs["pending"], 1, "the copy enqueues nothing");

    let (code, reason, facts) = told(&commits.commit(keyed("order 17", enqueue("b"))).await.expect_err("reused"));
    assert_eq!((code, &*reason), (Code::FailedPrecondition, "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(facts["position"], first.get_ref().position.to_string());
    let invalid = commits.commit(keyed(&"k".repeat(256), enqueue("a"))).await.expect_err("too long");
    assert_eq!(told(&invalid).1, "INVALID_IDEMPOTENCY_KEY");
    let mut several = keyed("a", enqueue("a"));
    several.metadata_mut().append("idempotency-key", "b".parse().expect("a key"));
    assert_eq!(told(&commits.commit(several).await.expect_err("several")).0, Code::InvalidArgument);
}

#[tokio::test]
async fn each_method_that_takes_a_key_answers_a_copy() {
    let served = Served::new().await;
    let (topic, group) = (|| "t".to_owned(), || "g".to_owned());
    let mut streams = served.streams().await;
    twice!(streams, create_topic, CreateTopicRequest { name: topic(), partitions: 1, settings: None });
    let records = vec![NewRecord { value: Some("a".into()), ..NewRecord::default() }; 2];
    let produced = twice!(streams, produce, ProduceRequest { topic: topic(), records });
    assert_eq!(produced.records[1].offset, 1);
    let alter = AlterTopicRequest { topic: topic(), partitions: Some(3), ..AlterTopicRequest::default() };
    twice!(streams, alter_topic, alter);
    let commit = CommitOffsetRequest { group: group(), topic: topic(), offset: 1, ..CommitOffsetRequest::default() };
    twice!(streams, commit_offset, commit);
    twice!(streams, protect_unread, ProtectUnreadRequest { group: group(), topic: topic(), protects: true });
    twice!(streams, delete_records, DeleteRecordsRequest { topic: topic(), partition: 0, before: Some(1) });
    twice!(streams, delete_offset, DeleteOffsetRequest { group: group(), topic: topic(), partition: 0 });
    twice!(streams, delete_group, DeleteGroupRequest { group: group(), force: true });
    twice!(streams, delete_topic, DeleteTopicRequest { topic: topic() });

    let event = NewEvent { r#type: "Made".to_owned(), ..NewEvent::default() };
    let append = AppendEventsRequest { store: "s".to_owned(), events: vec![event], ..AppendEventsRequest::default() };
    assert_eq!(twice!(served.events().await, append, append).first, Some(1));

    let job = NewJob { queue: "q".to_owned(), ..NewJob::default() };
    let mut jobs = served.jobs().await;
    twice!(jobs, enqueue, EnqueueJobsRequest { jobs: vec![job] });
    let fetch = FetchJobsRequest { queues: vec!["q".to_owned()], count: 1, ..FetchJobsRequest::default() };
    let fetched = jobs.fetch(fetch).await.expect("leased").into_inner().jobs;
    let what = Some(job_report::What::Ack(job_report::Ack::default()));
    let report = JobReport { job: fetched[0].job.clone(), token: fetched[0].token.clone(), what };
    let reported = twice!(jobs, report, ReportJobsRequest { reports: vec![report] });
    assert_eq!(reported.results[0].refused, None);

    let block = Some(BlockRef { r#ref: Some(block_ref::Ref::Name("b".to_owned())) });
    let put = PutBlock { block, kind: "function".to_owned(), ..PutBlock::default() };
    let command = GraphCommand { kind: Some(graph_command::Kind::PutBlock(put)) };
    let commit = CommitGraphRequest { graph: "m".to_owned(), commands: vec![command] };
    twice!(served.graph().await, commit, commit);
}

#[tokio::test]
async fn a_method_that_writes_without_a_key_refuses_it_and_a_read_ignores_it() {
    let served = Served::new().await;
    let mut jobs = served.jobs().await;
    let clear = ClearQueueRequest { queue: "q".to_owned() };
    let refused = jobs.clear_queue(keyed("k", clear)).await.expect_err("it takes no key");
    assert_eq!(told(&refused).1, "INVALID_IDEMPOTENCY_KEY");
    jobs.queues(keyed("k", QueuesRequest::default())).await.expect("a read");
}
