//! Every part of a commit, with insufficient and right permissions.

use std::collections::BTreeSet;

use quire::Operation::{Alter, AlterConfigs, Create, Delete, Read, Write};
use quire::ResourceKind::{Admin, Graph, Group, Queue, Store, Topic};
use quire::{Operation, Resource};
use quire_grpc::proto::commit_part::{
    AppendPart, DropProjectionPart, EachPart, FetchPart, GraphPart, Kind, ProducePart, SaveProjectionPart, TickPart,
    UpstreamPart,
};
use quire_grpc::proto::job_change::{Reason, Retry, What};
use quire_grpc::proto::job_report::{Ack, Fail, Heartbeat, Snooze};
use quire_grpc::proto::*;

use super::fixture::{
    Fixture, GRAPH, GROUP, OTHER_QUEUE, PROJECTION, QUEUE, STORE, SUBSCRIPTION, TOPIC, every_event, message, named,
};
use super::methods::{bytes, check};
use super::needs::Need;

/// The parts that have kinds of their own: the message and the choice with the kinds.
const CHOICES: [(&str, &str, &str); 4] = [
    ("forget", "ForgetEventsRequest", "which"),
    ("report", "JobReport", "what"),
    ("change", "JobChange", "what"),
    ("graph", "GraphCommand", "kind"),
];

/// The names of the fields of a choice.
fn choice(name: &str, of: &str) -> Vec<String> {
    let message = message(name);
    let index = message.oneof_decl.iter().position(|found| found.name() == of).expect("the choice exists");
    let is_in = |index_of: Option<i32>| index_of.is_some_and(|found| found as usize == index);
    message.field.iter().filter(|field| is_in(field.oneof_index)).map(|field| field.name().to_owned()).collect()
}

/// Every kind of part, by the descriptors: `append`, `graph.put_block`.
fn kinds() -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for part in choice("CommitPart", "kind") {
        match CHOICES.iter().find(|(name, ..)| *name == part) {
            Some((_, name, of)) => kinds.extend(choice(name, of).into_iter().map(|inner| format!("{part}.{inner}"))),
            None => drop(kinds.insert(part)),
        }
    }
    kinds
}

/// A part that is accepted, and the permissions for it.
type PartRow = (&'static str, Kind, Vec<Need>);

fn rows(fixture: &Fixture) -> Vec<PartRow> {
    [of_events(), of_streams(), of_jobs(fixture), of_graphs()].into_iter().flatten().collect()
}

fn of_events() -> Vec<PartRow> {
    let store = || STORE.to_owned();
    let of = |operation| Need::of(Store, STORE, operation);
    let condition = event_condition::LastIs { query: Some(every_event()), position: 2 };
    let append = AppendPart {
        store: store(),
        events: vec![NewEvent { r#type: "Ordered".to_owned(), ..NewEvent::default() }],
        conditions: vec![EventCondition { kind: Some(event_condition::Kind::LastIs(condition)) }],
    };
    let subscription = NamedSubscription {
        name: SUBSCRIPTION.to_owned(),
        query: Some(every_event()),
        attempts_max: Some(3),
        ..NamedSubscription::default()
    };
    let forget = |which| Kind::Forget(ForgetEventsRequest { store: store(), which: Some(which) }.into());
    let upstream = UpstreamPart { store: store(), source: "elsewhere".to_owned(), position: 7 };
    let put = PutSubscriptionRequest { store: store(), subscription: Some(subscription), after: None };
    let retain = SetEventRetentionRequest { store: store(), retention_ms: Some(3_600_000) };
    let save = SaveProjectionPart {
        store: store(),
        name: "another".to_owned(),
        version: 1,
        position: 2,
        ..SaveProjectionPart::default()
    };
    let drop_projection = DropProjectionPart { store: store(), name: PROJECTION.to_owned() };
    vec![
        ("append", Kind::Append(append.into()), vec![of(Write), of(Read)]),
        ("upstream", Kind::Upstream(upstream.into()), vec![of(Write)]),
        ("forget.tag", forget(forget_events_request::Which::Tag("order:1".into())), vec![of(Delete)]),
        ("forget.up_to", forget(forget_events_request::Which::UpTo(1)), vec![of(Delete)]),
        ("retain_events", Kind::RetainEvents(retain.into()), vec![of(Alter)]),
        (
            "put_subscription",
            Kind::PutSubscription(put.into()),
            vec![of(Alter), of(Read), Need::of(Queue, SUBSCRIPTION, Write)],
        ),
        (
            "drop_subscription",
            Kind::DropSubscription(DropSubscriptionRequest { name: SUBSCRIPTION.to_owned() }.into()),
            vec![of(Alter)],
        ),
        ("save_projection", Kind::SaveProjection(save.into()), vec![of(Alter)]),
        ("drop_projection", Kind::DropProjection(drop_projection.into()), vec![of(Alter)]),
    ]
}

fn of_streams() -> Vec<PartRow> {
    let (topic, group) = (|| TOPIC.to_owned(), || GROUP.to_owned());
    let of = |operation| Need::of(Topic, TOPIC, operation);
    let of_group = |operation| Need::of(Group, GROUP, operation);
    let settings = TopicSettings { retention_ms: Some(3_600_000), ..TopicSettings::default() };
    let settings = AlterTopicRequest { topic: topic(), settings: Some(settings), ..AlterTopicRequest::default() };
    let partitions = AlterTopicRequest { topic: topic(), partitions: Some(2), ..AlterTopicRequest::default() };
    let create = CreateTopicRequest { name: "new-topic".to_owned(), partitions: 1, settings: None };
    let produce = ProducePart { topic: topic(), record: Some(NewRecord::default()) };
    let records = DeleteRecordsRequest { topic: topic(), partition: 0, before: Some(1) };
    let commit = CommitOffsetRequest { group: group(), topic: topic(), offset: 2, ..CommitOffsetRequest::default() };
    let delete = DeleteOffsetRequest { group: group(), topic: topic(), partition: 0 };
    let protect = ProtectUnreadRequest { group: group(), topic: topic(), protects: true };
    vec![
        ("produce", Kind::Produce(produce.into()), vec![of(Write)]),
        ("create_topic", Kind::CreateTopic(create.into()), vec![Need::of(Topic, "new-topic", Create)]),
        ("delete_topic", Kind::DeleteTopic(DeleteTopicRequest { topic: topic() }.into()), vec![of(Delete)]),
        ("alter_topic", Kind::AlterTopic(settings.into()), vec![of(AlterConfigs)]),
        ("alter_topic", Kind::AlterTopic(partitions.into()), vec![of(Alter)]),
        ("delete_records", Kind::DeleteRecords(records.into()), vec![of(Delete)]),
        ("commit_offset", Kind::CommitOffset(commit.into()), vec![of_group(Read), of(Read)]),
        ("delete_offset", Kind::DeleteOffset(delete.into()), vec![of_group(Delete), of(Read)]),
        (
            "delete_group",
            Kind::DeleteGroup(DeleteGroupRequest { group: group(), force: false }.into()),
            vec![of_group(Delete)],
        ),
        ("protect_unread", Kind::ProtectUnread(protect.into()), vec![of_group(Read), of(AlterConfigs)]),
    ]
}

fn of_jobs(fixture: &Fixture) -> Vec<PartRow> {
    let of = |operation| Need::of(Queue, QUEUE, operation);
    let job = || NewJob { queue: QUEUE.to_owned(), payload: "order 2".into(), ..NewJob::default() };
    let enqueue = || Kind::Enqueue(job().into());
    let report = |what| {
        let (job, token) = fixture.leased.clone();
        Kind::Report(JobReport { job, token, what: Some(what) }.into())
    };
    let change = |job: &str, what| {
        let change = Some(JobChange { what: Some(what) });
        Kind::Change(change_jobs_request::Item { job: job.to_owned(), change }.into())
    };
    let (pending, reason) = (&*fixture.pending, || Reason { reason: "a test".to_owned() });
    let paused = QueueSettings { paused: Some(true), ..QueueSettings::default() };
    let bulk = BeginBulkRequest {
        filter: Some(JobFilter { queue: Some(QUEUE.to_owned()), ..JobFilter::default() }),
        change: Some(JobChange { what: Some(What::Cancel(reason())) }),
    };
    let fetch = FetchPart { queues: vec![QUEUE.to_owned(), OTHER_QUEUE.to_owned()], ..FetchPart::default() };
    let of_report = || vec![of(Read)];
    let of_change = || vec![of(Alter)];
    let moved = vec![of(Alter), Need::of(Queue, OTHER_QUEUE, Write)];
    vec![
        ("enqueue", enqueue(), vec![of(Write)]),
        ("fetch", Kind::Fetch(fetch.into()), vec![of(Read), Need::of(Queue, OTHER_QUEUE, Read)]),
        ("report.ack", report(job_report::What::Ack(Ack::default())), of_report()),
        ("report.fail", report(job_report::What::Fail(Fail::default())), of_report()),
        ("report.snooze", report(job_report::What::Snooze(Snooze { until_us: 0 })), of_report()),
        ("report.heartbeat", report(job_report::What::Heartbeat(Heartbeat::default())), of_report()),
        ("change.cancel", change(pending, What::Cancel(reason())), of_change()),
        ("change.hold", change(pending, What::Hold(reason())), of_change()),
        ("change.release", change(&fixture.on_hold, What::Release(true)), of_change()),
        ("change.run_at_us", change(pending, What::RunAtUs(crate::jobs::TIME_US_MAX)), of_change()),
        ("change.retry", change(&fixture.dead, What::Retry(Retry { payload: None })), of_change()),
        ("change.delete", change(&fixture.cancelled, What::Delete(true)), vec![of(Delete)]),
        ("change.move_to", change(pending, What::MoveTo(OTHER_QUEUE.to_owned())), moved),
        ("change.priority", change(pending, What::Priority(1)), of_change()),
        ("change.attempts_max", change(pending, What::AttemptsMax(9)), of_change()),
        ("change.payload", change(pending, What::Payload("order 3".into())), of_change()),
        (
            "set_queue",
            Kind::SetQueue(SetQueueRequest { queue: QUEUE.to_owned(), settings: Some(paused) }.into()),
            vec![of(Alter)],
        ),
        ("clear", Kind::Clear(ClearQueueRequest { queue: QUEUE.to_owned() }.into()), vec![of(Delete)]),
        ("destroy", Kind::Destroy(DestroyQueueRequest { queue: QUEUE.to_owned() }.into()), vec![of(Delete)]),
        ("bulk", Kind::Bulk(bulk.into()), vec![of(Alter)]),
        (
            "each",
            Kind::Each(EachPart { parts: vec![CommitPart { kind: Some(enqueue()) }] }.into()),
            vec![of(Write).of_item()],
        ),
        ("tick", Kind::Tick(TickPart {}.into()), vec![Need::of(Admin, Resource::DATABASE.name, Alter)]),
    ]
}

fn of_graphs() -> Vec<PartRow> {
    use graph_command::Kind as Command;
    let part = |name, command, operation: Operation| -> PartRow {
        let command = Some(GraphCommand { kind: Some(command) });
        let part = GraphPart { graph: GRAPH.to_owned(), command };
        (name, Kind::Graph(part.into()), vec![Need::of(Graph, GRAPH, operation)])
    };
    let put = PutBlock { block: named("c"), kind: "order".to_owned(), ..PutBlock::default() };
    let edge = PutEdge { source: named("b"), r#type: "follows".to_owned(), target: named("a"), ..PutEdge::default() };
    let unedge = DeleteEdge { source: named("a"), r#type: "follows".to_owned(), target: named("b") };
    let retention = SetGraphRetention { history_ms: Some(3_600_000), versions: 2 };
    vec![
        part("graph.put_block", Command::PutBlock(put), Write),
        part("graph.delete_block", Command::DeleteBlock(DeleteBlock { block: named("b") }), Delete),
        part("graph.put_edge", Command::PutEdge(edge), Write),
        part("graph.delete_edge", Command::DeleteEdge(unedge), Delete),
        part("graph.set_retention", Command::SetRetention(retention), Alter),
        part("graph.trim_history", Command::TrimHistory(TrimGraphHistory { from: 1 }), Delete),
        part("graph.delete_edges", Command::DeleteEdges(DeleteEdges { block: named("a"), count_max: 9 }), Delete),
    ]
}

#[tokio::test]
async fn every_part_needs_its_permissions_and_a_refused_one_changes_nothing() {
    let fixture = Fixture::new().await;
    let table = rows(&fixture);
    let known: BTreeSet<String> = table.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(known, kinds(), "each kind of part has a row");
    for index in 0..table.len() {
        let fixture = Fixture::new().await;
        let (name, kind, needs) = rows(&fixture).swap_remove(index);
        let request = bytes(&CommitRequest { parts: vec![CommitPart { kind: Some(kind) }], dry_run: false });
        check(&fixture, name, ("/quire.v1.Quire/Commit", false), &request, &needs).await;
    }
}

#[tokio::test]
async fn a_dry_run_needs_the_permissions_of_its_parts() {
    let fixture = Fixture::new().await;
    let job = NewJob { queue: QUEUE.to_owned(), ..NewJob::default() };
    let parts = vec![CommitPart { kind: Some(Kind::Enqueue(job.into())) }];
    let request = bytes(&CommitRequest { parts, dry_run: true });
    let needs = [Need::of(Queue, QUEUE, Write)];
    check(&fixture, "a dry run", ("/quire.v1.Quire/Commit", false), &request, &needs).await;
}

#[tokio::test]
async fn a_part_without_permission_refuses_the_parts_before_it() {
    let fixture = Fixture::new().await;
    let [first, last] = [OTHER_QUEUE, QUEUE].map(|queue| NewJob { queue: queue.to_owned(), ..NewJob::default() });
    let parts = [first, last].map(|job| CommitPart { kind: Some(Kind::Enqueue(job.into())) });
    let key = fixture.key(&Need::of(Queue, QUEUE, Write).all_but());
    let seen = fixture.owner.published();
    let request = bytes(&CommitRequest { parts: parts.into(), dry_run: false });
    let refused = fixture.call(("/quire.v1.Quire/Commit", false), request, &[&key]).await.expect_err("refused");
    let facts = crate::served::told(&refused).2;
    assert_eq!(facts.get("part").map(String::as_str), Some("1"), "{facts:?}");
    assert_eq!(fixture.owner.published(), seen);
}
