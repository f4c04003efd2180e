//! The calls that a corpus begins with: each method that there is, in the order in which they find
//! something to answer.

use prost::Message;
use quire_grpc::proto::block_ref::Ref;
use quire_grpc::proto::event_condition::{FailIfEventsMatch, Kind as ConditionKind, LastIs};
use quire_grpc::proto::graph_command::Kind;
use quire_grpc::proto::job_report::{Ack, Fail, Heartbeat, Snooze, What};
use quire_grpc::proto::*;

use super::{CONSUME, FETCH, FETCH_RECORDS, WORK};

/// Their names and bytes.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let mut calls = events();
    calls.extend(jobs());
    calls.extend(graph());
    calls.extend(streams());
    calls.extend(commits());
    calls.extend(statements());
    calls.extend(server_reads());
    let name = |(index, (path, body)): (usize, (&str, Vec<u8>))| {
        let method = path.rsplit('/').next().expect("the method").to_lowercase();
        (format!("{:02}-{method}", index + 1), [path.as_bytes(), b"\n", &body].concat())
    };
    calls.into_iter().enumerate().map(name).collect()
}

type Call = (&'static str, Vec<u8>);

fn text(text: &str) -> String {
    text.to_owned()
}

fn events() -> Vec<Call> {
    let item = EventQueryItem { types: vec![text("Made")], tags: vec!["a:1".into()], only_last_event: false };
    let query = Some(EventQuery { items: vec![item] });
    let none = FailIfEventsMatch { query: query.clone(), after: 1 << 40 };
    let never = EventQueryItem { types: vec![text("Never")], ..EventQueryItem::default() };
    let last = LastIs { query: Some(EventQuery { items: vec![never] }), position: 0 };
    let conditions =
        [ConditionKind::FailIfEventsMatch(FailIfEventsMatch { after: 0, ..none }), ConditionKind::LastIs(last)];
    let event = NewEvent {
        r#type: text("Made"),
        tags: vec!["a:1".into(), "b:2".into()],
        data: r#"{"x":1}"#.into(),
        metadata: "m".into(),
        ..NewEvent::default()
    };
    let store = || text("s");
    let append = AppendEventsRequest { store: store(), events: vec![event.clone(); 2], ..Default::default() };
    // No match is in a store that is not there yet.
    let conditions = conditions.map(|kind| EventCondition { kind: Some(kind) }).to_vec();
    let id = vec![7; 16].into();
    let upstream = Some(EventUpstream { source: text("topic"), position: 1 << 50 });
    let once =
        AppendEventsRequest { store: text("t"), events: vec![NewEvent { id, ..event }], upstream, ..append.clone() };
    let checked = AppendEventsRequest { store: text("fresh"), events: Vec::new(), conditions, upstream: None };
    let read = ReadEventsRequest {
        store: store(),
        query: query.clone(),
        after: 1,
        up_to: Some(9),
        backwards: true,
        limit: Some(2),
    };
    let subscription = NamedSubscription {
        name: text("mailer"),
        query: query.clone(),
        attempts_max: Some(3),
        backoff_us: Some(1),
        backoff_max_us: Some(9),
        group_by: text("a:"),
        position: 0,
        paused: None,
    };
    let put = PutSubscriptionRequest { store: store(), subscription: Some(subscription), after: Some(0) };
    let forget = |which| ForgetEventsRequest { store: store(), which: Some(which) }.encode_to_vec();
    vec![
        ("/quire.v1.Events/Append", append.encode_to_vec()),
        ("/quire.v1.Events/Append", once.encode_to_vec()),
        ("/quire.v1.Events/Append", checked.encode_to_vec()),
        ("/quire.v1.Events/Read", read.encode_to_vec()),
        ("/quire.v1.Events/Subscribe", SubscribeEventsRequest { store: store(), query, after: 0 }.encode_to_vec()),
        ("/quire.v1.Events/Head", HeadEventsRequest { store: store() }.encode_to_vec()),
        (
            "/quire.v1.Events/Upstream",
            UpstreamEventsRequest { store: text("t"), source: text("topic") }.encode_to_vec(),
        ),
        ("/quire.v1.Events/PutSubscription", put.encode_to_vec()),
        ("/quire.v1.Events/ListSubscriptions", ListSubscriptionsRequest { store: store() }.encode_to_vec()),
        ("/quire.v1.Events/Forget", forget(forget_events_request::Which::Tag("b:2".into()))),
        ("/quire.v1.Events/Forget", forget(forget_events_request::Which::UpTo(1))),
        (
            "/quire.v1.Events/SetRetention",
            SetEventRetentionRequest { store: store(), retention_ms: Some(1 << 40) }.encode_to_vec(),
        ),
        ("/quire.v1.Events/DropSubscription", DropSubscriptionRequest { name: text("mailer") }.encode_to_vec()),
    ]
}

fn jobs() -> Vec<Call> {
    let waits = backoff::Waits { waits_us: vec![1, 2, 3] };
    let unique = UniqueKey { key: "k".into(), hold: Some(unique_key::Hold::ForUs(9)), ..UniqueKey::default() };
    let plain = NewJob { queue: text("q"), payload: "p".into(), ..NewJob::default() };
    let full = NewJob {
        kind: text("mail"),
        priority: Some(3),
        run_at_us: Some(5),
        expires_at_us: Some(1 << 60),
        timeout_us: Some(1 << 20),
        attempts_max: Some(4),
        backoff: Some(Backoff { kind: Some(backoff::Kind::List(waits)) }),
        jitter_percent: 10,
        group: text("g"),
        unique: Some(unique),
        tags: vec![text("x"), text("y")],
        ..plain.clone()
    };
    let queues = || vec![text("q")];
    let fetch = FetchJobsRequest { queues: queues(), weights: vec![1], count: 2, ..FetchJobsRequest::default() };
    let whats = [
        What::Ack(Ack { result: "r".into() }),
        What::Fail(Fail { error: text("e"), retry: None }),
        What::Snooze(Snooze { until_us: 1 << 60 }),
        What::Heartbeat(Heartbeat { lease_us: Some(1), progress: Some("1".into()), checkpoint: Some("2".into()) }),
    ];
    let reports = whats.map(|what| JobReport { job: text("14-0"), token: text("15-0"), what: Some(what) }).to_vec();
    let subscription = work_request::Subscription { queues: queues(), ..work_request::Subscription::default() };
    let first = WorkRequest { subscribe: Some(subscription), credits: 2, ..WorkRequest::default() };
    let next = WorkRequest { reports: reports.clone(), enqueue: vec![plain.clone()], ..WorkRequest::default() };
    let frames = [first, next].map(|frame| {
        let frame = frame.encode_to_vec();
        [&u16::try_from(frame.len()).expect("it is short").to_be_bytes()[..], &frame].concat()
    });
    let filter = Some(JobFilter { queue: Some(text("q")), states: vec![text("pending")], ..JobFilter::default() });
    let cancel = job_change::What::Cancel(job_change::Reason { reason: text("why") });
    let change = Some(JobChange { what: Some(cancel) });
    let item = change_jobs_request::Item { job: text("14-0"), change: change.clone() };
    let bucket = start_rate::TokenBucket { count: 5, per_us: 1_000_000, burst: 5 };
    let rate = Some(StartRate { kind: Some(start_rate::Kind::TokenBucket(bucket)) });
    let settings = Some(QueueSettings { jobs_max: Some(100), active_max: Some(9), rate, ..QueueSettings::default() });
    let subscribe = SubscribeJobsRequest {
        queues: queues(),
        begin: Some(subscribe_jobs_request::Begin::Start(true)),
        ..SubscribeJobsRequest::default()
    };
    vec![
        ("/quire.v1.Jobs/Enqueue", EnqueueJobsRequest { jobs: vec![plain, full] }.encode_to_vec()),
        (FETCH, fetch.encode_to_vec()),
        ("/quire.v1.Jobs/Report", ReportJobsRequest { reports }.encode_to_vec()),
        (WORK, frames.concat()),
        ("/quire.v1.Jobs/Change", ChangeJobsRequest { items: vec![item] }.encode_to_vec()),
        ("/quire.v1.Jobs/Get", GetJobsRequest { jobs: vec![text("14-0")], steps: 9 }.encode_to_vec()),
        (
            "/quire.v1.Jobs/Search",
            SearchJobsRequest { filter: filter.clone(), after: text(""), limit: 5 }.encode_to_vec(),
        ),
        ("/quire.v1.Jobs/BeginBulk", BeginBulkRequest { filter, change }.encode_to_vec()),
        ("/quire.v1.Jobs/Bulks", BulksRequest { bulk: text("") }.encode_to_vec()),
        ("/quire.v1.Jobs/Queues", QueuesRequest { queues: queues() }.encode_to_vec()),
        ("/quire.v1.Jobs/SetQueue", SetQueueRequest { queue: text("q"), settings }.encode_to_vec()),
        ("/quire.v1.Jobs/Subscribe", subscribe.encode_to_vec()),
        ("/quire.v1.Jobs/ClearQueue", ClearQueueRequest { queue: text("q") }.encode_to_vec()),
        ("/quire.v1.Jobs/DestroyQueue", DestroyQueueRequest { queue: text("q") }.encode_to_vec()),
    ]
}

fn graph() -> Vec<Call> {
    let named = |name: &str| Some(BlockRef { r#ref: Some(Ref::Name(text(name))) });
    let graph = || text("code/main");
    let block = |name: &str| PutBlock {
        block: named(name),
        kind: text("function"),
        source: text("file://a.rs#L1"),
        tags: vec![text("hot")],
        metadata: r#"{"line":1}"#.into(),
        content: "fn".into(),
        expect_version: None,
    };
    let by_id = PutBlock { block: Some(BlockRef { r#ref: Some(Ref::Id(vec![9; 16].into())) }), ..block("") };
    let edge = |source: &str, target: &str| PutEdge {
        source: named(source),
        r#type: text("calls"),
        target: named(target),
        properties: "7".into(),
        allow_missing: true,
    };
    let kinds = vec![
        Kind::PutBlock(block("a")),
        Kind::PutBlock(block("b")),
        Kind::PutBlock(by_id),
        Kind::PutEdge(edge("a", "b")),
        Kind::PutEdge(edge("b", "a")),
        Kind::PutEdge(edge("b", "gone")),
        Kind::SetRetention(SetGraphRetention { history_ms: Some(1 << 40), versions: 9 }),
    ];
    let deleted = DeleteEdge { source: named("b"), r#type: text("calls"), target: named("gone") };
    let deletions = vec![Kind::DeleteEdge(deleted), Kind::DeleteEdges(DeleteEdges { block: named("b"), count_max: 9 })];
    let commit = |kinds: Vec<Kind>| {
        let commands = kinds.into_iter().map(|kind| GraphCommand { kind: Some(kind) }).collect();
        CommitGraphRequest { graph: graph(), commands }.encode_to_vec()
    };
    let filter = Some(GraphBlockFilter {
        kinds: vec![text("function")],
        tags: vec![text("hot")],
        metadata: vec![MetadataField { field: text("line"), value: text("1") }],
    });
    let blocks = vec![named("a").expect("named"), named("nobody").expect("named")];
    let walk = WalkRequest {
        graph: graph(),
        starts: blocks[..1].to_vec(),
        filter: filter.clone(),
        depth_max: Some(3),
        visited_max: Some(9),
        results_max: Some(9),
        with_edges: true,
        with_blocks: true,
        ..WalkRequest::default()
    };
    // Orders, components and paths need a walk whose filter applies to the blocks it continues
    // through, and return ids.
    let through = WalkRequest { only_through_matches: true, with_edges: false, with_blocks: false, ..walk.clone() };
    let paths = PathsRequest { walk: Some(through.clone()), target: named("b"), all: true };
    let versions = GetVersionsRequest { graph: graph(), block: named("a"), before: None, limit: Some(3) };
    let get_edge =
        GetEdgeRequest { graph: graph(), source: named("a"), r#type: text("calls"), target: named("b"), at: None };
    let list = ListBlocksRequest {
        graph: graph(),
        filter,
        source_prefix: text("file:"),
        limit: Some(3),
        ..ListBlocksRequest::default()
    };
    let neighbours = NeighboursRequest {
        graph: graph(),
        block: named("a"),
        types: vec![text("calls")],
        limit: Some(3),
        direction: GraphDirection::Both.into(),
        ..NeighboursRequest::default()
    };
    let changes = GraphChangesRequest { graph: graph(), after: Some(GraphPlace { position: 1, index: 0 }) };
    let get = GetBlocksRequest { graph: graph(), blocks: blocks.clone(), at: None };
    vec![
        ("/quire.v1.Graph/Commit", commit(kinds)),
        ("/quire.v1.Graph/Describe", DescribeGraphRequest { graph: graph() }.encode_to_vec()),
        ("/quire.v1.Graph/GetBlocks", get.encode_to_vec()),
        ("/quire.v1.Graph/Exists", ExistsRequest { graph: graph(), blocks, at: None }.encode_to_vec()),
        ("/quire.v1.Graph/GetVersions", versions.encode_to_vec()),
        ("/quire.v1.Graph/ListBlocks", list.encode_to_vec()),
        ("/quire.v1.Graph/GetEdge", get_edge.encode_to_vec()),
        ("/quire.v1.Graph/Neighbours", neighbours.encode_to_vec()),
        ("/quire.v1.Graph/Walk", walk.encode_to_vec()),
        ("/quire.v1.Graph/Paths", paths.encode_to_vec()),
        ("/quire.v1.Graph/Order", through.encode_to_vec()),
        ("/quire.v1.Graph/Components", through.encode_to_vec()),
        ("/quire.v1.Graph/Missing", MissingRequest { graph: graph() }.encode_to_vec()),
        ("/quire.v1.Graph/Changes", changes.encode_to_vec()),
        ("/quire.v1.Graph/Commit", commit(deletions)),
    ]
}

// Calls that are answered however often they are repeated: damaged copies of others repeat them.
fn streams() -> Vec<Call> {
    let (topic, group) = (|| text("flights"), || text("boards"));
    let header = RecordHeader { key: "h".into(), value: Some("v".into()) };
    let record = NewRecord {
        key: Some("k".into()),
        value: Some("v".into()),
        headers: vec![header],
        partition: Some(0),
        timestamp_ms: None,
    };
    let settings = Some(TopicSettings {
        retention_ms: Some(1 << 40),
        retention_bytes: Some(1 << 40),
        batch_bytes_max: Some(1 << 20),
        compression: Some(text("zstd")),
        cleanup: Some(text("compact,delete")),
        delete_retention_ms: Some(9),
        timestamp_after_max_ms: Some(1 << 40),
        timestamp_before_max_ms: Some(1 << 40),
    });
    let reset_settings = vec![text("cleanup"), text("retention_ms")];
    let alter = AlterTopicRequest { topic: topic(), settings, ..AlterTopicRequest::default() };
    let reset = AlterTopicRequest { topic: topic(), reset_settings, ..AlterTopicRequest::default() };
    let fetch = FetchRecordsRequest {
        topic: topic(),
        partition: 0,
        from: Some(fetch_records_request::From::TimestampMs(1)),
        limit: 2,
        bytes_max: 9,
        wait_us: 0,
    };
    let consume = ConsumeRequest {
        group: group(),
        topic: topic(),
        member_name: text("m"),
        lease_ms: 100,
        handling_max_ms: 50,
        limit: 1,
        from_end: false,
    };
    let commit = CommitOffsetRequest {
        group: group(),
        topic: topic(),
        partition: 0,
        offset: 1,
        leader_epoch: Some(1),
        metadata: text("note"),
        owner: None,
    };
    let to_start = ResetOffsetsRequest {
        group: group(),
        source: Some(reset_offsets_request::Source::Topic(topic())),
        partitions: vec![0],
        to: Some(reset_offsets_request::To::TimestampMs(1)),
    };
    let protect = ProtectUnreadRequest { group: group(), topic: topic(), protects: true };
    let delete_offset = DeleteOffsetRequest { group: group(), topic: topic(), partition: 0 };
    let delete_records = DeleteRecordsRequest { topic: topic(), partition: 0, before: None };
    vec![
        ("/quire.v1.Streams/Produce", ProduceRequest { topic: topic(), records: vec![record; 2] }.encode_to_vec()),
        (FETCH_RECORDS, fetch.encode_to_vec()),
        (CONSUME, consume.encode_to_vec()),
        ("/quire.v1.Streams/AlterTopic", alter.encode_to_vec()),
        ("/quire.v1.Streams/AlterTopic", reset.encode_to_vec()),
        ("/quire.v1.Streams/ListTopics", ListTopicsRequest {}.encode_to_vec()),
        ("/quire.v1.Streams/DescribeTopic", DescribeTopicRequest { topic: topic() }.encode_to_vec()),
        ("/quire.v1.Streams/CommitOffset", commit.encode_to_vec()),
        ("/quire.v1.Streams/ResetOffsets", to_start.encode_to_vec()),
        ("/quire.v1.Streams/ProtectUnread", protect.encode_to_vec()),
        ("/quire.v1.Streams/ListGroups", ListGroupsRequest {}.encode_to_vec()),
        ("/quire.v1.Streams/DescribeGroup", DescribeGroupRequest { group: group() }.encode_to_vec()),
        ("/quire.v1.Streams/DeleteOffset", delete_offset.encode_to_vec()),
        ("/quire.v1.Streams/DeleteRecords", delete_records.encode_to_vec()),
    ]
}

fn commits() -> Vec<Call> {
    use commit_part::{
        AppendPart, DropProjectionPart, EachPart, FetchPart, GraphPart, Kind, ProducePart, SaveProjectionPart, TickPart,
    };
    let event = NewEvent { r#type: text("Made"), tags: vec!["c:3".into()], ..NewEvent::default() };
    let append = AppendPart { store: text("c"), events: vec![event], conditions: Vec::new() };
    let save =
        SaveProjectionPart { store: text("c"), name: text("p"), version: 1, base: 0, position: 1, state: "s".into() };
    let drop = DropProjectionPart { store: text("c"), name: text("p") };
    let record = NewRecord { key: Some("k".into()), value: Some("v".into()), ..NewRecord::default() };
    let produce = ProducePart { topic: text("ct"), record: Some(record) };
    let job = NewJob { queue: text("cq"), payload: "p".into(), tags: vec![text("x")], ..NewJob::default() };
    let fetch = FetchPart {
        queues: vec![text("cq")],
        weights: vec![1],
        count: Some(2),
        lease_us: Some(1_000_000),
        worker: text("w"),
    };
    let lost = JobReport { job: text("1-0"), token: text("1-0"), what: Some(What::Ack(Ack::default())) };
    let settings = Some(QueueSettings { paused: Some(false), ..QueueSettings::default() });
    let set = SetQueueRequest { queue: text("cq"), settings };
    let filter = Some(JobFilter { queue: Some(text("cq")), tags: vec![text("x")], ..JobFilter::default() });
    let change = Some(JobChange { what: Some(job_change::What::Hold(job_change::Reason::default())) });
    let named = Some(BlockRef { r#ref: Some(Ref::Name(text("a"))) });
    let block = PutBlock { block: named, kind: text("function"), tags: vec![text("hot")], ..PutBlock::default() };
    let graph = GraphPart {
        graph: text("c"),
        command: Some(GraphCommand { kind: Some(graph_command::Kind::PutBlock(block)) }),
    };
    let parts = |kinds: Vec<Kind>| kinds.into_iter().map(|kind| CommitPart { kind: Some(kind) }).collect();
    let each = EachPart { parts: parts(vec![Kind::Enqueue(Box::new(job.clone())), Kind::Report(Box::new(lost))]) };
    let all = vec![
        Kind::Append(Box::new(append)),
        Kind::SaveProjection(Box::new(save)),
        Kind::DropProjection(Box::new(drop)),
        Kind::Produce(Box::new(produce)),
        Kind::Enqueue(Box::new(job)),
        Kind::SetQueue(Box::new(set)),
        Kind::Fetch(Box::new(fetch)),
        Kind::Each(Box::new(each)),
        Kind::Bulk(Box::new(BeginBulkRequest { filter, change })),
        Kind::Tick(Box::new(TickPart {})),
        Kind::Graph(Box::new(graph)),
    ];
    vec![("/quire.v1.Quire/Commit", CommitRequest { parts: parts(all), dry_run: false }.encode_to_vec())]
}

fn statements() -> Vec<Call> {
    use sql_value::Kind;
    let value = |kind| SqlValue { kind: Some(kind) };
    let params =
        vec![SqlValue::default(), value(Kind::Integer(1)), value(Kind::Real(0.5)), value(Kind::Text(text("s")))];
    let sql = text("SELECT position, type, ?1, ?2, ?3, :b FROM events WHERE store = ?4");
    let named = [(text("b"), value(Kind::Blob("b".into())))].into();
    let query = SqlQueryRequest { sql, params, named, as_of: None };
    let states = SqlQueryRequest { sql: text("SELECT name, pending FROM queues"), ..SqlQueryRequest::default() };
    vec![("/quire.v1.Sql/Query", query.encode_to_vec()), ("/quire.v1.Sql/Query", states.encode_to_vec())]
}

fn server_reads() -> Vec<Call> {
    let job = NewJob { queue: text("cq"), payload: "p".into(), ..NewJob::default() };
    let parts = vec![CommitPart { kind: Some(commit_part::Kind::Enqueue(Box::new(job))) }];
    vec![
        ("/quire.v1.Quire/Commit", CommitRequest { parts, dry_run: true }.encode_to_vec()),
        ("/quire.v1.Quire/Refusals", RefusalsRequest {}.encode_to_vec()),
        ("/quire.v1.Quire/History", HistoryRequest { after_us: 1 }.encode_to_vec()),
    ]
}
