//! Commits over all models.

use quire_grpc::proto::block_ref::Ref;
use quire_grpc::proto::commit_part::{
    AppendPart, DropProjectionPart, EachPart, FetchPart, GraphPart, Kind, ProducePart, SaveProjectionPart, TickPart,
    UpstreamPart,
};
use quire_grpc::proto::event_condition::FailIfEventsMatch;
use quire_grpc::proto::job_report::{Ack, Fail, Heartbeat, Snooze, What};
use quire_grpc::proto::part_reply::Kind as ReplyKind;
use quire_grpc::proto::quire_client::QuireClient;
use quire_grpc::proto::*;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::served::{Served, told};

const STORE: &str = "air/flights";
const QUEUE: &str = "air/delays";
const GRAPH: &str = "air/routes";

async fn commit(client: &mut QuireClient<Channel>, kinds: Vec<Kind>) -> Result<CommitResponse, Status> {
    let parts = kinds.into_iter().map(|kind| CommitPart { kind: Some(kind) }).collect();
    Ok(client.commit(CommitRequest { parts, dry_run: false }).await?.into_inner())
}

fn kinds(response: CommitResponse) -> Vec<ReplyKind> {
    response.replies.into_iter().map(|reply| reply.kind.expect("a known reply")).collect()
}

fn departed(tag: &'static str) -> NewEvent {
    NewEvent { r#type: "Departed".to_owned(), tags: vec![tag.into()], ..NewEvent::default() }
}

/// Appends an event unless there is one with this tag.
fn append_once(tag: &'static str) -> Kind {
    let item = EventQueryItem { tags: vec![tag.into()], ..EventQueryItem::default() };
    let fail = FailIfEventsMatch { query: Some(EventQuery { items: vec![item] }), after: 0 };
    let condition = EventCondition { kind: Some(event_condition::Kind::FailIfEventsMatch(fail)) };
    let append = AppendPart { store: STORE.to_owned(), events: vec![departed(tag)], conditions: vec![condition] };
    Kind::Append(Box::new(append))
}

fn produce(topic: &str, value: &'static str) -> Kind {
    let record = NewRecord { key: Some("EWR".into()), value: Some(value.into()), ..NewRecord::default() };
    Kind::Produce(Box::new(ProducePart { topic: topic.to_owned(), record: Some(record) }))
}

fn enqueue(payload: &'static str) -> Kind {
    Kind::Enqueue(Box::new(NewJob { queue: QUEUE.to_owned(), payload: payload.into(), ..NewJob::default() }))
}

fn fetch() -> Kind {
    Kind::Fetch(Box::new(FetchPart { queues: vec![QUEUE.to_owned()], ..FetchPart::default() }))
}

fn report(job: &FetchedJob, what: What) -> Kind {
    Kind::Report(Box::new(JobReport { job: job.job.clone(), token: job.token.clone(), what: Some(what) }))
}

fn graph(kind: graph_command::Kind) -> Kind {
    let command = Some(GraphCommand { kind: Some(kind) });
    Kind::Graph(Box::new(GraphPart { graph: GRAPH.to_owned(), command }))
}

fn named(name: &str) -> Option<BlockRef> {
    Some(BlockRef { r#ref: Some(Ref::Name(name.to_owned())) })
}

fn put_block(name: &str) -> Kind {
    let put = PutBlock { block: named(name), kind: "airport".to_owned(), ..PutBlock::default() };
    graph(graph_command::Kind::PutBlock(put))
}

fn put_edge(source: &str, target: &str) -> Kind {
    let (source, target, r#type) = (named(source), named(target), "flies_to".to_owned());
    graph(graph_command::Kind::PutEdge(PutEdge { source, r#type, target, ..PutEdge::default() }))
}

fn offset(offset: u64) -> Kind {
    let (group, topic) = ("boards".to_owned(), "departures".to_owned());
    Kind::CommitOffset(Box::new(CommitOffsetRequest { group, topic, offset, ..CommitOffsetRequest::default() }))
}

async fn fetched(client: &mut QuireClient<Channel>) -> FetchedJob {
    match &kinds(commit(client, vec![fetch()]).await.expect("accepted"))[..] {
        [ReplyKind::Fetched(fetched)] => fetched.jobs[0].clone(),
        other => panic!("a fetch returns jobs, not {other:?}"),
    }
}

#[tokio::test]
async fn parts_of_all_models_are_committed_together_or_not_at_all() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let parts = || {
        vec![
            append_once("flight:UA1545"),
            produce("departures", "UA1545 to IAH"),
            enqueue("UA1545 is late"),
            put_block("EWR"),
            put_block("IAH"),
            put_edge("EWR", "IAH"),
            offset(1),
        ]
    };
    let committed = commit(&mut client, parts()).await.expect("accepted");
    assert_eq!(committed.position, 1);
    assert!(committed.time_us > 1_600_000_000_000_000, "{}", committed.time_us);
    let replies = kinds(committed);
    assert_eq!(replies.len(), 7);
    let appended = AppendEventsResponse { first: Some(1), last: Some(1), duplicate: false };
    assert_eq!(replies[0], ReplyKind::Appended(appended));
    assert_eq!(replies[1], ReplyKind::Produced(ProducedRecord { partition: 0, offset: 0 }));
    assert!(matches!(&replies[2], ReplyKind::Enqueued(job) if job.state == "pending" && !job.duplicate));
    let is_put = |reply: &ReplyKind| {
        let ReplyKind::Graph(GraphReply { kind: Some(graph_reply::Kind::BlockPut(put)) }) = reply else { return false };
        put.created && put.version == 1
    };
    assert!(is_put(&replies[3]) && is_put(&replies[4]));
    assert_eq!(replies[6], ReplyKind::OffsetCommitted(CommitOffsetResponse { partition: 0 }));

    let refused = commit(&mut client, parts()).await.expect_err("the flight has departed");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason), (Code::Aborted, "CONDITION_FAILED"));
    assert_eq!((&*facts["part"], &*facts["condition"], &*facts["position"]), ("0", "0", "1"));
    let mut parts = parts();
    parts.rotate_left(1);
    let refused = commit(&mut client, parts).await.expect_err("the flight has departed");
    assert_eq!(told(&refused).2["part"], "6", "the other parts came first");
    let head = served.events().await.head(HeadEventsRequest { store: STORE.to_owned() }).await.expect("a head");
    assert_eq!(head.into_inner().head, 1);
    let refused = commit(&mut client, vec![enqueue("b"), put_edge("EWR", "JFK")]).await.expect_err("no such block");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason, &*facts["part"]), (Code::FailedPrecondition, "MISSING_BLOCK", "1"));
    let job = fetched(&mut client).await;
    assert_eq!(job.payload, "UA1545 is late");
    assert_eq!(
        kinds(commit(&mut client, vec![fetch()]).await.expect("accepted")),
        [ReplyKind::Fetched(FetchJobsResponse::default())]
    );
}

#[tokio::test]
async fn a_worker_reports_in_the_commit_of_its_results() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    commit(&mut client, vec![enqueue("a"), enqueue("b"), enqueue("c")]).await.expect("accepted");
    let (a, b, c) = (fetched(&mut client).await, fetched(&mut client).await, fetched(&mut client).await);
    let ack = || report(&a, What::Ack(Ack { result: "done".into() }));
    let replies = kinds(commit(&mut client, vec![ack(), append_once("job:a")]).await.expect("accepted"));
    assert!(matches!(replies[..], [ReplyKind::Acked(_), ReplyKind::Appended(_)]), "{replies:?}");
    let refused = commit(&mut client, vec![append_once("job:again"), ack()]).await.expect_err("it was acknowledged");
    let (code, reason, facts) = told(&refused);
    assert_eq!((code, &*reason), (Code::FailedPrecondition, "STALE_LEASE"));
    assert_eq!((&*facts["part"], &*facts["job"], &*facts["state"]), ("1", &*a.job, "completed"));

    let heartbeat = Heartbeat { lease_us: Some(60_000_000), ..Heartbeat::default() };
    let fail = Fail { error: "no".to_owned(), retry: Some(job_report::fail::Retry::Never(true)) };
    let parts = vec![
        report(&b, What::Heartbeat(heartbeat)),
        report(&b, What::Snooze(Snooze { until_us: crate::jobs::TIME_US_MAX })),
        report(&c, What::Fail(fail)),
    ];
    let replies = kinds(commit(&mut client, parts).await.expect("accepted"));
    let [ReplyKind::Extended(extended), ReplyKind::Snoozed(snoozed), ReplyKind::Failed(failed)] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert!(extended.deadline_us > b.deadline_us);
    assert_eq!((snoozed.until_us, failed.retry_at_us), (crate::jobs::TIME_US_MAX, None));
}

#[tokio::test]
async fn commands_within_each_are_decided_by_themselves() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let each = |kinds: Vec<Kind>| {
        let parts = kinds.into_iter().map(|kind| CommitPart { kind: Some(kind) }).collect();
        Kind::Each(Box::new(EachPart { parts }))
    };
    let unknown = FetchedJob { job: "9-9".to_owned(), token: "9-9".to_owned(), ..FetchedJob::default() };
    let lost = report(&unknown, What::Ack(Ack::default()));
    let parts = vec![each(vec![enqueue("a"), lost, enqueue("b")]), Kind::Tick(Box::new(TickPart {}))];
    let replies = kinds(commit(&mut client, parts).await.expect("accepted"));
    let [ReplyKind::Each(each_reply), ReplyKind::Ticked(ticked)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((ticked.jobs, ticked.more), (0, false));
    let of: Vec<_> = each_reply.replies.iter().map(|reply| reply.kind.as_ref().expect("a reply")).collect();
    let [ReplyKind::Enqueued(_), ReplyKind::Refused(refused), ReplyKind::Enqueued(_)] = of[..] else {
        panic!("{of:?}");
    };
    assert_eq!((&*refused.reason, &*refused.job), ("UNKNOWN_JOB", "9-9"));

    let nested = kinds(commit(&mut client, vec![each(vec![each(Vec::new())])]).await.expect("accepted"));
    let [ReplyKind::Each(each_reply)] = &nested[..] else { panic!("{nested:?}") };
    let [PartReply { kind: Some(ReplyKind::Refused(refused)) }] = &each_reply.replies[..] else { panic!("{nested:?}") };
    assert_eq!(refused.reason, "NESTED_EACH");
    let other = commit(&mut client, vec![each(vec![produce("t", "v")])]).await.expect_err("not a command of queues");
    assert_eq!(told(&other).1, "INVALID");
}

#[tokio::test]
async fn every_part_has_a_reply() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let text = str::to_owned;
    let upstream = UpstreamPart { store: text(STORE), source: text("topic"), position: 7 };
    let subscription = NamedSubscription { name: text("mailer"), ..NamedSubscription::default() };
    let put = PutSubscriptionRequest { store: text(STORE), subscription: Some(subscription), after: None };
    let retention = SetEventRetentionRequest { store: text(STORE), retention_ms: Some(1 << 40) };
    let save = SaveProjectionPart { store: text(STORE), name: text("p"), position: 1, ..SaveProjectionPart::default() };
    let forget =
        ForgetEventsRequest { store: text(STORE), which: Some(forget_events_request::Which::Tag("flight:UA1".into())) };
    let create = CreateTopicRequest { name: text("departures"), partitions: 2, settings: None };
    let alter = |partitions, settings| AlterTopicRequest {
        topic: text("departures"),
        partitions,
        settings,
        ..AlterTopicRequest::default()
    };
    let compact = TopicSettings { retention_ms: Some(1 << 40), ..TopicSettings::default() };
    let delete = DeleteRecordsRequest { topic: text("departures"), partition: 1, before: None };
    let protect = |protects| ProtectUnreadRequest { group: text("boards"), topic: text("departures"), protects };
    let delete_offset = DeleteOffsetRequest { group: text("boards"), topic: text("departures"), partition: 0 };
    let settings = QueueSettings { paused: Some(false), ..QueueSettings::default() };
    let filter = JobFilter { queue: Some(text(QUEUE)), ..JobFilter::default() };
    let cancel = JobChange { what: Some(job_change::What::Cancel(job_change::Reason::default())) };
    let parts = vec![
        append_once("flight:UA1545"),
        Kind::Upstream(Box::new(upstream)),
        Kind::PutSubscription(Box::new(put)),
        Kind::DropSubscription(Box::new(DropSubscriptionRequest { name: text("mailer") })),
        Kind::SaveProjection(Box::new(save)),
        Kind::DropProjection(Box::new(DropProjectionPart { store: text(STORE), name: text("p") })),
        Kind::RetainEvents(Box::new(retention)),
        Kind::Forget(Box::new(forget)),
        Kind::CreateTopic(Box::new(create)),
        produce("departures", "v"),
        Kind::AlterTopic(Box::new(alter(Some(4), None))),
        Kind::AlterTopic(Box::new(alter(None, Some(compact)))),
        Kind::DeleteRecords(Box::new(delete)),
        offset(1),
        Kind::ProtectUnread(Box::new(protect(true))),
        Kind::ProtectUnread(Box::new(protect(false))),
        Kind::DeleteOffset(Box::new(delete_offset)),
        Kind::DeleteGroup(Box::new(DeleteGroupRequest { group: text("boards"), force: true })),
        Kind::DeleteTopic(Box::new(DeleteTopicRequest { topic: text("departures") })),
        Kind::SetQueue(Box::new(SetQueueRequest { queue: text(QUEUE), settings: Some(settings) })),
        Kind::Bulk(Box::new(BeginBulkRequest { filter: Some(filter), change: Some(cancel) })),
        Kind::Clear(Box::new(ClearQueueRequest { queue: text(QUEUE) })),
        Kind::Destroy(Box::new(DestroyQueueRequest { queue: text(QUEUE) })),
    ];
    let count = parts.len();
    let replies = kinds(commit(&mut client, parts).await.expect("accepted"));
    assert_eq!(replies.len(), count);
    assert!(replies[..8].iter().all(|reply| matches!(reply, ReplyKind::Appended(_))), "{replies:?}");
    let [
        ReplyKind::TopicCreated(created),
        ReplyKind::Produced(_),
        ReplyKind::TopicAltered(grown),
        ReplyKind::TopicAltered(_),
        ReplyKind::RecordsDeleted(deleted),
        ReplyKind::OffsetCommitted(_),
        ReplyKind::UnreadProtected(_),
        ReplyKind::UnreadProtected(_),
        ReplyKind::OffsetDeleted(_),
        ReplyKind::GroupDeleted(_),
        ReplyKind::TopicDeleted(_),
        ReplyKind::QueueSet(_),
        ReplyKind::BulkBegun(_),
        ReplyKind::Cleared(_),
        ReplyKind::Cleared(_),
    ] = &replies[8..]
    else {
        panic!("{replies:?}");
    };
    assert_eq!((created.partitions, grown.partitions, deleted.partition), (2, 4, 1));
}

#[tokio::test]
async fn an_invalid_part_is_named_by_its_index() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let two = QueueSettings { paused: Some(true), draining: Some(true), ..QueueSettings::default() };
    let header = RecordHeader { key: vec![0xff].into(), value: None };
    let record = NewRecord { headers: vec![header], ..NewRecord::default() };
    let unknown = FetchedJob { job: "no id".to_owned(), token: "1-0".to_owned(), ..FetchedJob::default() };
    let reset = AlterTopicRequest {
        topic: "t".to_owned(),
        reset_settings: vec!["colour".to_owned()],
        ..AlterTopicRequest::default()
    };
    let invalid = [
        None,
        Some(Kind::SetQueue(Box::new(SetQueueRequest { queue: QUEUE.to_owned(), settings: Some(two) }))),
        Some(Kind::Produce(Box::new(ProducePart { topic: "t".to_owned(), record: Some(record) }))),
        Some(Kind::Produce(Box::default())),
        Some(Kind::Graph(Box::default())),
        Some(Kind::Forget(Box::default())),
        Some(Kind::PutSubscription(Box::default())),
        Some(Kind::AlterTopic(Box::new(reset))),
        Some(report(&unknown, What::Ack(Ack::default()))),
    ];
    for kind in invalid {
        let parts = vec![CommitPart { kind: Some(enqueue("a")) }, CommitPart { kind: kind.clone() }];
        let refused = client.commit(CommitRequest { parts, dry_run: false }).await.expect_err("invalid");
        let (code, reason, facts) = told(&refused);
        assert_eq!((code, &*reason, &*facts["part"]), (Code::InvalidArgument, "INVALID", "1"), "{kind:?}");
    }
    let queues = served.jobs().await.queues(QueuesRequest::default()).await.expect("a list").into_inner().queues;
    assert!(queues.is_empty(), "no part of the refused commits was applied");
}

#[tokio::test]
async fn a_large_commit_is_durable_after_a_restart() {
    let served = Served::new().await;
    let mut client = served.commits().await;
    let record = NewRecord { value: Some(vec![7; 1 << 20].into()), ..NewRecord::default() };
    let large = Kind::Produce(Box::new(ProducePart { topic: "t".to_owned(), record: Some(record) }));
    let replies = kinds(commit(&mut client, vec![large.clone(), large, enqueue("a")]).await.expect("accepted"));
    assert_eq!(replies[1], ReplyKind::Produced(ProducedRecord { partition: 0, offset: 1 }));
    drop(client);
    let served = served.again().await;
    assert_eq!(fetched(&mut served.commits().await).await.payload, "a");
}
