//! Every method of the descriptors, with no, wrong, insufficient and right credentials.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;
use quire::Operation::{Alter, AlterConfigs, Create, Delete, Describe, Read, Write};
use quire::Resource;
use quire::ResourceKind::{Admin, Graph, Group, Queue, Store, Topic};
use quire_grpc::proto::commit_part::Kind;
use quire_grpc::proto::job_report::{Heartbeat, What};
use quire_grpc::proto::subscribe_jobs_request::Begin;
use quire_grpc::proto::work_request::Subscription;
use quire_grpc::proto::*;
use tonic::{Code, Status};

use super::fixture::{
    Fixture, GRAPH, GROUP, OTHER_QUEUE, QUEUE, STORE, SUBSCRIPTION, TOPIC, every_event, methods, named,
};
use super::needs::{Need, Otherwise};
use crate::served::told;

/// A method, a request that it accepts, and the permissions for the request.
pub(super) struct MethodRow {
    pub(super) method: &'static str,
    pub(super) request: Bytes,
    pub(super) needs: Vec<Need>,
}

/// One row for each method.
pub(super) fn rows(fixture: &Fixture) -> Vec<MethodRow> {
    let row = |method, request: Bytes, needs: &[Need]| MethodRow { method, request, needs: needs.to_vec() };
    let (store, topic, group) = (|| STORE.to_owned(), || TOPIC.to_owned(), || GROUP.to_owned());
    let (queue, graph) = (|| QUEUE.to_owned(), || GRAPH.to_owned());
    let of_store = |operation| Need::of(Store, STORE, operation);
    let of_topic = |operation| Need::of(Topic, TOPIC, operation);
    let of_group = |operation| Need::of(Group, GROUP, operation);
    let of_queue = |operation| Need::of(Queue, QUEUE, operation);
    let of_graph = |operation| Need::of(Graph, GRAPH, operation);
    let of_database = Need::of(Admin, Resource::DATABASE.name, Describe);
    let job = || NewJob { queue: queue(), payload: "order 2".into(), ..NewJob::default() };
    let event = NewEvent { r#type: "Ordered".to_owned(), ..NewEvent::default() };
    let condition = event_condition::FailIfEventsMatch { query: Some(every_event()), after: 2 };
    let condition = EventCondition { kind: Some(event_condition::Kind::FailIfEventsMatch(condition)) };
    let heartbeat = JobReport {
        job: fixture.leased.0.clone(),
        token: fixture.leased.1.clone(),
        what: Some(What::Heartbeat(Heartbeat::default())),
    };
    let hold = || Some(JobChange { what: Some(job_change::What::Hold(job_change::Reason { reason: String::new() })) });
    let change = change_jobs_request::Item { job: fixture.pending.clone(), change: hold() };
    let of_the_queue = || Some(JobFilter { queue: Some(queue()), ..JobFilter::default() });
    let subscription = NamedSubscription {
        name: SUBSCRIPTION.to_owned(),
        query: Some(every_event()),
        attempts_max: Some(3),
        ..NamedSubscription::default()
    };
    let walk = || WalkRequest { graph: graph(), starts: named("a").into_iter().collect(), ..WalkRequest::default() };
    let put = PutBlock { block: named("c"), kind: "order".to_owned(), ..PutBlock::default() };
    let put = GraphCommand { kind: Some(graph_command::Kind::PutBlock(put)) };
    let topic_settings = TopicSettings { retention_ms: Some(3_600_000), ..TopicSettings::default() };
    let paused = QueueSettings { paused: Some(true), ..QueueSettings::default() };
    let work = Subscription { queues: vec![queue()], ..Subscription::default() };
    let upstream = EventUpstream { source: "elsewhere".to_owned(), position: 7 };
    let append = AppendEventsRequest {
        store: store(),
        events: vec![event],
        conditions: vec![condition],
        upstream: Some(upstream),
    };
    let blocks = || named("a").into_iter().collect();
    vec![
        row(
            "Quire/Commit",
            bytes(&CommitRequest {
                parts: vec![CommitPart { kind: Some(Kind::Enqueue(job().into())) }],
                dry_run: false,
            }),
            &[of_queue(Write)],
        ),
        row("Quire/Refusals", bytes(&RefusalsRequest {}), &[of_database, of_store(Read).hiding(STORE)]),
        row("Quire/History", bytes(&HistoryRequest::default()), &[of_database]),
        row("Events/Append", bytes(&append), &[of_store(Write), of_store(Read)]),
        row("Events/Read", bytes(&ReadEventsRequest { store: store(), ..Default::default() }), &[of_store(Read)]),
        row(
            "Events/Subscribe",
            bytes(&SubscribeEventsRequest { store: store(), ..Default::default() }),
            &[of_store(Read)],
        ),
        row("Events/Head", bytes(&HeadEventsRequest { store: store() }), &[of_store(Describe)]),
        row(
            "Events/Upstream",
            bytes(&UpstreamEventsRequest { store: store(), source: "elsewhere".to_owned() }),
            &[of_store(Describe)],
        ),
        row(
            "Events/PutSubscription",
            bytes(&PutSubscriptionRequest { store: store(), subscription: Some(subscription), after: None }),
            &[of_store(Alter), of_store(Read), Need::of(Queue, SUBSCRIPTION, Write)],
        ),
        row(
            "Events/DropSubscription",
            bytes(&DropSubscriptionRequest { name: SUBSCRIPTION.to_owned() }),
            &[of_store(Alter)],
        ),
        row("Events/ListSubscriptions", bytes(&ListSubscriptionsRequest { store: store() }), &[of_store(Describe)]),
        row(
            "Events/Forget",
            bytes(&ForgetEventsRequest {
                store: store(),
                which: Some(forget_events_request::Which::Tag("order:1".into())),
            }),
            &[of_store(Delete)],
        ),
        row(
            "Events/SetRetention",
            bytes(&SetEventRetentionRequest { store: store(), retention_ms: Some(3_600_000) }),
            &[of_store(Alter)],
        ),
        row(
            "Streams/Produce",
            bytes(&ProduceRequest { topic: topic(), records: vec![NewRecord::default()] }),
            &[of_topic(Write)],
        ),
        row("Streams/Fetch", bytes(&FetchRecordsRequest { topic: topic(), ..Default::default() }), &[of_topic(Read)]),
        row(
            "Streams/Consume",
            bytes(&ConsumeRequest { group: group(), topic: topic(), ..Default::default() }),
            &[of_group(Read), of_topic(Read)],
        ),
        row("Streams/ListTopics", bytes(&ListTopicsRequest {}), &[of_topic(Describe).hiding(TOPIC)]),
        row("Streams/DescribeTopic", bytes(&DescribeTopicRequest { topic: topic() }), &[of_topic(Describe)]),
        row(
            "Streams/CreateTopic",
            bytes(&CreateTopicRequest { name: "new-topic".to_owned(), partitions: 1, settings: None }),
            &[Need::of(Topic, "new-topic", Create)],
        ),
        row("Streams/DeleteTopic", bytes(&DeleteTopicRequest { topic: topic() }), &[of_topic(Delete)]),
        row(
            "Streams/AlterTopic",
            bytes(&AlterTopicRequest { topic: topic(), settings: Some(topic_settings), ..Default::default() }),
            &[of_topic(AlterConfigs)],
        ),
        row(
            "Streams/DeleteRecords",
            bytes(&DeleteRecordsRequest { topic: topic(), partition: 0, before: Some(1) }),
            &[of_topic(Delete)],
        ),
        row("Streams/ListGroups", bytes(&ListGroupsRequest {}), &[of_group(Describe).hiding(GROUP)]),
        row(
            "Streams/DescribeGroup",
            bytes(&DescribeGroupRequest { group: group() }),
            &[of_group(Describe), of_topic(Describe).hiding(TOPIC)],
        ),
        row("Streams/DeleteGroup", bytes(&DeleteGroupRequest { group: group(), force: false }), &[of_group(Delete)]),
        row(
            "Streams/CommitOffset",
            bytes(&CommitOffsetRequest { group: group(), topic: topic(), offset: 2, ..Default::default() }),
            &[of_group(Read), of_topic(Read)],
        ),
        row(
            "Streams/DeleteOffset",
            bytes(&DeleteOffsetRequest { group: group(), topic: topic(), partition: 0 }),
            &[of_group(Delete), of_topic(Read)],
        ),
        row(
            "Streams/ResetOffsets",
            bytes(&ResetOffsetsRequest {
                group: group(),
                source: Some(reset_offsets_request::Source::Topic(topic())),
                to: Some(reset_offsets_request::To::Start(true)),
                ..Default::default()
            }),
            &[of_group(Read), of_topic(Read)],
        ),
        row(
            "Streams/ProtectUnread",
            bytes(&ProtectUnreadRequest { group: group(), topic: topic(), protects: true }),
            &[of_group(Read), of_topic(AlterConfigs)],
        ),
        row("Jobs/Enqueue", bytes(&EnqueueJobsRequest { jobs: vec![job()] }), &[of_queue(Write).of_item()]),
        row("Jobs/Fetch", bytes(&FetchJobsRequest { queues: vec![queue()], ..fetch() }), &[of_queue(Read)]),
        row("Jobs/Report", bytes(&ReportJobsRequest { reports: vec![heartbeat] }), &[of_queue(Read).of_item()]),
        row(
            "Jobs/Work",
            bytes(&WorkRequest { subscribe: Some(work), credits: 1, ..Default::default() }),
            &[of_queue(Read)],
        ),
        row("Jobs/Change", bytes(&ChangeJobsRequest { items: vec![change] }), &[of_queue(Alter).of_item()]),
        row(
            "Jobs/Get",
            bytes(&GetJobsRequest { jobs: vec![fixture.pending.clone()], steps: 9 }),
            &[of_queue(Read).hiding(QUEUE)],
        ),
        row(
            "Jobs/Search",
            bytes(&SearchJobsRequest { filter: of_the_queue(), ..Default::default() }),
            &[of_queue(Read).hiding(QUEUE)],
        ),
        row("Jobs/BeginBulk", bytes(&BeginBulkRequest { filter: of_the_queue(), change: hold() }), &[of_queue(Alter)]),
        row("Jobs/Bulks", bytes(&BulksRequest::default()), &[]),
        row("Jobs/Queues", bytes(&QueuesRequest::default()), &[of_queue(Describe).hiding(QUEUE)]),
        row("Jobs/SetQueue", bytes(&SetQueueRequest { queue: queue(), settings: Some(paused) }), &[of_queue(Alter)]),
        row("Jobs/ClearQueue", bytes(&ClearQueueRequest { queue: queue() }), &[of_queue(Delete)]),
        row(
            "Jobs/DestroyQueue",
            bytes(&DestroyQueueRequest { queue: OTHER_QUEUE.to_owned() }),
            &[Need::of(Queue, OTHER_QUEUE, Delete)],
        ),
        row(
            "Jobs/Subscribe",
            bytes(&SubscribeJobsRequest { begin: Some(Begin::Start(true)), ..Default::default() }),
            &[of_queue(Read).hiding(QUEUE)],
        ),
        row("Graph/Commit", bytes(&CommitGraphRequest { graph: graph(), commands: vec![put] }), &[of_graph(Write)]),
        row("Graph/Describe", bytes(&DescribeGraphRequest { graph: graph() }), &[of_graph(Describe)]),
        row(
            "Graph/GetBlocks",
            bytes(&GetBlocksRequest { graph: graph(), blocks: blocks(), at: None }),
            &[of_graph(Read)],
        ),
        row("Graph/Exists", bytes(&ExistsRequest { graph: graph(), blocks: blocks(), at: None }), &[of_graph(Read)]),
        row(
            "Graph/GetVersions",
            bytes(&GetVersionsRequest { graph: graph(), block: named("a"), ..Default::default() }),
            &[of_graph(Read)],
        ),
        row("Graph/ListBlocks", bytes(&ListBlocksRequest { graph: graph(), ..Default::default() }), &[of_graph(Read)]),
        row(
            "Graph/GetEdge",
            bytes(&GetEdgeRequest {
                graph: graph(),
                source: named("a"),
                r#type: "follows".to_owned(),
                target: named("b"),
                at: None,
            }),
            &[of_graph(Read)],
        ),
        row(
            "Graph/Degree",
            bytes(&DegreeRequest { graph: graph(), block: named("a"), ..Default::default() }),
            &[of_graph(Read)],
        ),
        row(
            "Graph/Neighbours",
            bytes(&NeighboursRequest { graph: graph(), block: named("a"), ..Default::default() }),
            &[of_graph(Read)],
        ),
        row("Graph/Walk", bytes(&walk()), &[of_graph(Read)]),
        row(
            "Graph/Paths",
            bytes(&PathsRequest { walk: Some(walk()), target: named("b"), all: false }),
            &[of_graph(Read)],
        ),
        row("Graph/Order", bytes(&walk()), &[of_graph(Read)]),
        row("Graph/Components", bytes(&walk()), &[of_graph(Read)]),
        row("Graph/Missing", bytes(&MissingRequest { graph: graph() }), &[of_graph(Read)]),
        row(
            "Sql/Query",
            bytes(&SqlQueryRequest { sql: SQL_OF_ALL_MODELS.to_owned(), ..SqlQueryRequest::default() }),
            &[
                of_store(Read).hiding(STORE),
                of_topic(Read).hiding(TOPIC),
                of_queue(Read).hiding(QUEUE),
                of_graph(Read).hiding(GRAPH),
                of_group(Describe).hiding(GROUP),
            ],
        ),
        row("Graph/Changes", bytes(&GraphChangesRequest { graph: graph(), after: None }), &[of_graph(Read)]),
    ]
}

/// A statement that shows the name of an object of each model.
const SQL_OF_ALL_MODELS: &str = "SELECT store FROM events UNION ALL SELECT topic FROM records \
    UNION ALL SELECT queue FROM jobs UNION ALL SELECT graph FROM blocks UNION ALL SELECT name FROM groups";

fn fetch() -> FetchJobsRequest {
    FetchJobsRequest { count: 1, ..FetchJobsRequest::default() }
}

pub(super) fn bytes(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Checks that the call is refused for missing or wrong credentials, and returns the whole answer.
#[track_caller]
fn unauthenticated(name: &str, answer: Result<Bytes, Status>) -> (String, Bytes) {
    let status = answer.expect_err(name);
    assert_eq!((told(&status).0, &*told(&status).1), (Code::Unauthenticated, "UNAUTHENTICATED"), "{name}");
    (status.message().to_owned(), Bytes::copy_from_slice(status.details()))
}

pub(super) fn has(response: &[u8], text: &str) -> bool {
    response.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Calls a method with no, wrong, insufficient and right credentials.
pub(super) async fn check(fixture: &Fixture, name: &str, method: (&str, bool), request: &Bytes, needs: &[Need]) {
    let call = async |authorization: &[&str]| fixture.call(method, request.clone(), authorization).await;
    let seen = fixture.owner.published();
    unauthenticated(name, call(&[]).await);
    let right = format!("Bearer {}", fixture.root);
    let last = if right.ends_with('0') { "1" } else { "0" };
    let damaged = [&right[..right.len() - 1], last].concat();
    let unknown = "Bearer qk_0123456789_0123456789abcdefghijABCDEFGHIJ01000000";
    let wrong = unauthenticated(name, call(&[&damaged]).await);
    for authorization in [&[unknown][..], &["Basic cm9vdDpyb290"], &["Bearer"], &[""], &[&right, &right]] {
        assert_eq!(unauthenticated(name, call(authorization).await), wrong, "{name} with {authorization:?}");
    }
    assert_eq!(fixture.owner.published(), seen, "{name} without a session has changed something");

    for need in needs {
        let key = fixture.key(&need.all_but());
        let seen = fixture.owner.published();
        let answer = call(&[&key]).await;
        match (need.otherwise, answer) {
            (Otherwise::Refused, Err(status)) => {
                let (code, reason, _) = told(&status);
                assert_eq!((code, &*reason), (Code::PermissionDenied, "NOT_PERMITTED"), "{name} without {need:?}");
            }
            (Otherwise::Hidden(text), Ok(response)) => {
                assert!(!has(&response, text), "{name} without {need:?} shows {text}");
            }
            (Otherwise::ItemRefused, Ok(response)) => {
                assert!(has(&response, "NOT_PERMITTED"), "{name} without {need:?}: {response:?}");
            }
            (_, answer) => panic!("{name} without {need:?}: {answer:?}"),
        }
        assert_eq!(fixture.owner.published(), seen, "{name} without {need:?} has changed something");
    }

    let rules: Vec<_> = needs.iter().map(Need::allowing).collect();
    let response = call(&[&fixture.key(&rules)]).await.unwrap_or_else(|status| panic!("{name}: {status:?}"));
    assert!(!has(&response, "NOT_PERMITTED"), "{name} with its permissions: {response:?}");
    for need in needs {
        if let Otherwise::Hidden(text) = need.otherwise {
            assert!(has(&response, text), "{name} with its permissions lacks {text}");
        }
    }
}

#[tokio::test]
async fn every_method_needs_a_session_and_its_permissions() {
    let methods = methods();
    let named = rows(&Fixture::new().await).into_iter().map(|row| format!("/quire.v1.{}", row.method));
    let known: BTreeSet<String> = named.collect();
    let all: BTreeSet<String> = methods.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(known, all, "each method has a row");
    for (index, (path, _)) in methods.iter().enumerate() {
        let fixture = Fixture::new().await;
        let of_path = |row: &MethodRow| format!("/quire.v1.{}", row.method) == *path;
        let row = rows(&fixture).into_iter().find(of_path).expect("it has a row");
        check(&fixture, row.method, (path, methods[index].1), &row.request, &row.needs).await;
    }
}
