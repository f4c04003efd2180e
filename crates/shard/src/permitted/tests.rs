//! Every command, by clients that lack exactly one permission, and by one that has exactly those
//! that the command touches.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use quire_log::{Clock, SystemClock};
use quire_model::{Place, Position, Sequence, Timestamp};

use super::*;
use crate::commands::Replies;
use crate::events::{Append, Condition, EventPosition, MoveSubscription, NewEvent, PutSubscription, Query, QueryItem};
use crate::graph::{DeleteBlock, DeleteEdge, DeleteEdges, PutBlock, PutEdge, Retention, SetRetention, TrimHistory};
use crate::idempotency::{Fingerprint, IdempotencyKey};
use crate::jobs::{Change, Clash, Filter, JobId, JobSpec, LeaseToken, Order, QueueChange, Retry, Unique, UniqueScope};
use crate::shard::Shard;
use crate::streams::wire::BatchBuilder;
use crate::streams::{Committer, Despite, Generation, MemberId, StaticMember, TopicChanges, TopicRef, TopicSettings};
use crate::{events, graph, jobs, streams, testing};

use Operation::{Alter, AlterConfigs, Create, Delete, Describe, IdempotentWrite, Read, Write};
use ResourceKind::{Admin, Cluster, Graph, Group, Queue, Store, Topic};

/// The resource, with `*` for every one of its kind, and the operation.
type Permission = (ResourceKind, &'static str, Operation);

/// Exactly these permissions, without a denial.
#[derive(Debug, Default)]
struct Given(BTreeSet<(ResourceKind, String, Operation)>);

impl Permissions for Given {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.0.contains(&(resource.kind, resource.name.to_owned(), operation))
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.0.contains(&(kind, "*".to_owned(), operation))
    }

    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.0.iter().any(|(of, _, granted)| *of == kind && *granted == operation)
    }
}

fn given(permissions: impl IntoIterator<Item = Permission>) -> Guard {
    let owned = permissions.into_iter().map(|(kind, name, operation)| (kind, name.to_owned(), operation));
    Guard::new(Arc::new(Given(owned.collect())))
}

fn open(directory: &Path) -> Shard {
    testing::open(directory, 50, Arc::new(SystemClock) as Arc<dyn Clock>)
}

/// Commits, and returns the refusal.
fn commit(shard: &Shard, permitted: PermittedCommands<'_, '_, '_>) -> (Result<(), Reason>, Replies) {
    let mut replies = Replies::default();
    let decided = shard.commit(shard.log().clock().now(), &permitted, &mut replies).expect("decided");
    (decided.verdict.map(|_| ()).map_err(|refused| refused.reason), replies)
}

fn of_jobs<'p, 'c>(jobs: &'p [jobs::Command<'c>]) -> Commands<'p, 'c> {
    Commands { jobs, ..Commands::default() }
}

/// A shard with a job in the queue `work`, a job in the queue `other` that has the unique key `key`
/// everywhere, the topic `topic`, and the subscription `mails` of the store `orders`.
fn with_objects(shard: &Shard) -> [JobId; 2] {
    let unique = Unique { scope: UniqueScope::Everywhere, ..Unique::new(b"key") };
    let jobs = [
        jobs::Command::Enqueue { queue: "work", job: JobSpec::new(b"") },
        jobs::Command::Enqueue { queue: "other", job: JobSpec { unique: Some(unique), ..JobSpec::new(b"") } },
    ];
    let streams = [streams::Command::CreateTopic { name: "topic", partitions: 1, settings: TopicSettings::default() }];
    let events = [events::Command::PutSubscription(subscription())];
    let commands = Commands { jobs: &jobs, streams: &streams, events: &events, ..Commands::default() };
    let (committed, replies) = commit(shard, PermittedCommands::by_owner(commands));
    committed.expect("accepted");
    let id = |reply: &jobs::Reply| match reply {
        jobs::Reply::Enqueued { job, .. } => *job,
        other => panic!("{other:?}"),
    };
    [id(&replies.jobs[0]), id(&replies.jobs[1])]
}

fn subscription() -> PutSubscription<'static> {
    let query = Query::from(QueryItem::new());
    PutSubscription { store: "orders", name: "mails", query, after: None, attempts: events::Attempts::default() }
}

/// Refuses each commit that lacks one of the permissions, and takes the one that has them all past
/// the guard.
#[track_caller]
fn check(shard: &Shard, commands: Commands<'_, '_>, needed: &[Permission]) {
    let before = shard.log().published();
    for lacking in needed {
        let guard = given(needed.iter().filter(|permission| *permission != lacking).copied());
        let (refused, _) = commit(shard, guard.permit(commands));
        let is_refusal = match refused.as_ref().expect_err("a permission is missing") {
            Reason::NotPermitted(refused) => refused.refusal.operation == lacking.2,
            // The answer about a hidden object.
            Reason::Jobs(jobs::Refusal::UnknownJob { .. }) => lacking.0 == Queue,
            Reason::Events(events::Refusal::UnknownSubscription) => lacking.0 == Store,
            Reason::Streams(streams::Refusal::UnknownTopicId { .. }) => lacking.0 == Topic,
            _ => false,
        };
        assert!(is_refusal, "without {lacking:?}: {refused:?}");
        assert_eq!(shard.log().published(), before, "a refusal writes nothing");
    }
    let guard = given(needed.iter().copied());
    let state = shard.read(None, |view| guard.permit(commands).check_by(&guard, view.all_models(), view.history));
    assert!(state.expect("read").1.is_ok(), "with {needed:?}");
}

#[test]
fn each_command_of_streams_needs_its_permissions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    with_objects(&shard);
    let mut builder = BatchBuilder::default();
    builder.add(None, Some(b"value"), &[], 1_000).expect("one message");
    let batch = builder.finish_without_checksum().expect("a message was added");
    let (topic, group, settings) = (TopicRef::Name("topic"), "group", TopicSettings::default());
    let by_id =
        TopicRef::Id(shard.read(None, |view| view.streams.topic_named("topic").expect("there").id).expect("read").1);
    let (member, generation) = (MemberId::new(1), Generation::new(1));
    let instance = StaticMember { instance: "instance", member: "member" };
    let commit_offset = |topic| streams::Command::CommitOffset {
        group,
        topic,
        partition: 0,
        offset: Sequence::new(0),
        leader_epoch: None,
        metadata: "",
        by: Committer::Anyone,
    };
    let produce =
        |topic, create_partitions| streams::Command::Produce { topic, partition: 0, batch, create_partitions };
    let read_both = [(Group, "group", Read), (Topic, "topic", Read)];
    let table: Vec<(streams::Command<'_>, Vec<Permission>)> = vec![
        (streams::Command::CreateTopic { name: "new", partitions: 1, settings }, vec![(Topic, "new", Create)]),
        (
            streams::Command::CreateTopic { name: "new", partitions: 1, settings },
            vec![(Cluster, "kafka-cluster", Create)],
        ),
        (streams::Command::DeleteTopic { topic }, vec![(Topic, "topic", Delete)]),
        (streams::Command::DeleteTopic { topic: by_id }, vec![(Topic, "topic", Delete)]),
        (
            streams::Command::AlterTopic { topic, changes: TopicChanges::default() },
            vec![(Topic, "topic", AlterConfigs)],
        ),
        (streams::Command::KeepSettings { topic, changes: &[] }, vec![(Topic, "topic", AlterConfigs)]),
        (streams::Command::AddPartitions { topic, partitions: 2 }, vec![(Topic, "topic", Alter)]),
        (
            streams::Command::DeleteRecords { keep_unread: false, topic, partition: 0, before: None },
            vec![(Topic, "topic", Delete)],
        ),
        (streams::Command::InitProducer, vec![(Cluster, "kafka-cluster", IdempotentWrite)]),
        (produce(topic, Some(1)), vec![(Topic, "topic", Write)]),
        (produce(by_id, None), vec![(Topic, "topic", Write)]),
        (produce(TopicRef::Name("new"), None), vec![(Topic, "new", Write)]),
        (produce(TopicRef::Name("new"), Some(1)), vec![(Topic, "new", Write), (Topic, "new", Create)]),
        (
            streams::Command::ProduceByKey { topic, key: b"key", batch, create_partitions: None },
            vec![(Topic, "topic", Write)],
        ),
        (commit_offset(topic), read_both.to_vec()),
        (commit_offset(TopicRef::Outside(0)), vec![(Group, "group", Read), (Store, "orders", Read)]),
        (
            streams::Command::ProtectUnread { group, topic, protects: true },
            vec![(Group, "group", Read), (Topic, "topic", AlterConfigs)],
        ),
        (streams::Command::JoinGroup { group, topic, name: "", lease_ms: 1_000 }, read_both.to_vec()),
        (streams::Command::RenewMember { group, topic, member }, read_both.to_vec()),
        (streams::Command::LeaveGroup { group, topic, member }, vec![(Group, "group", Read)]),
        (
            streams::Command::DeleteOffset { group, topic, partition: 0 },
            vec![(Group, "group", Delete), (Topic, "topic", Read)],
        ),
        (
            streams::Command::BeginGeneration { group, generation, protocol_type: "", protocol: "", members: &[] },
            vec![(Group, "group", Read)],
        ),
        (streams::Command::ReplaceMember { group, generation, member: instance }, vec![(Group, "group", Read)]),
        (streams::Command::DeleteGroup { group, despite: Despite::Nobody }, vec![(Group, "group", Delete)]),
    ];
    for (command, needed) in &table {
        check(&shard, Commands { streams: std::slice::from_ref(command), ..Commands::default() }, needed);
    }
    let any_topic = given([(Topic, "topic", Write)]);
    let init = Commands { streams: &[streams::Command::InitProducer], ..Commands::default() };
    commit(&shard, any_topic.permit(init)).0.expect("a client that may write to a topic");
}

#[test]
fn each_command_of_events_needs_its_permissions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    with_objects(&shard);
    let (store, name) = ("orders", "mails");
    let append = |events: &[NewEvent<'static>], conditions: &[Condition<'static>]| {
        events::Command::Append(Append { store, events: events.to_vec(), conditions: conditions.to_vec() })
    };
    let (event, condition) = (NewEvent::new("Placed"), Condition::fail_if_matches(QueryItem::new()));
    let (alter, write, read) = ((Store, "orders", Alter), (Store, "orders", Write), (Store, "orders", Read));
    let zero = EventPosition::ZERO;
    let save = events::SaveProjection { store, name: "sum", version: 1, base: zero, position: zero, state: b"" };
    let table = vec![
        (append(std::slice::from_ref(&event), &[]), vec![write]),
        (append(&[], std::slice::from_ref(&condition)), vec![read]),
        (append(&[event], &[condition]), vec![write, read]),
        (events::Command::Upstream(events::Upstream { store, source: "s", position: 1 }), vec![write]),
        (events::Command::Trim { store, up_to: zero }, vec![(Store, "orders", Delete)]),
        (events::Command::Forget { store, tag: b"tag" }, vec![(Store, "orders", Delete)]),
        (events::Command::SetRetention { store, retention_ms: None }, vec![alter]),
        (events::Command::PutSubscription(subscription()), vec![alter, read, (Queue, "mails", Write)]),
        (
            events::Command::MoveSubscription(MoveSubscription { name, from: zero, to: zero }),
            vec![read, (Queue, "mails", Write)],
        ),
        (events::Command::DropSubscription { name }, vec![alter]),
        (events::Command::SaveProjection(save), vec![alter]),
        (events::Command::DropProjection { store, name: "sum" }, vec![alter]),
    ];
    for (command, needed) in &table {
        check(&shard, Commands { events: std::slice::from_ref(command), ..Commands::default() }, needed);
    }
}

#[test]
fn each_command_of_jobs_needs_its_permissions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let [job, unique_everywhere] = with_objects(&shard);
    let token = LeaseToken::new(Place::new(Position::new(1), 0));
    let (read, alter, write) = ((Queue, "work", Read), (Queue, "work", Alter), (Queue, "work", Write));
    let change = |change| jobs::Command::Change { job, change };
    let unique = |clash| Unique { scope: UniqueScope::Everywhere, clash, ..Unique::new(b"key") };
    let keyed = |clash| jobs::Command::Enqueue {
        queue: "work",
        job: JobSpec { unique: Some(unique(clash)), ..JobSpec::new(b"") },
    };
    // The reply tells of a job in any queue.
    let everywhere = (Queue, "*", Describe);
    let in_queue = Filter { queue: Some("work"), ..Filter::default() };
    let cancel = Change::Cancel { reason: "" };
    let table = vec![
        (jobs::Command::Enqueue { queue: "work", job: JobSpec::new(b"") }, vec![write]),
        (keyed(Clash::Keep), vec![write, everywhere]),
        (keyed(Clash::Replace), vec![write, everywhere, (Queue, "other", Write)]),
        (keyed(Clash::Extend), vec![write, everywhere, (Queue, "other", Write)]),
        (
            jobs::Command::Fetch {
                queues: &["work", "other"],
                order: Order::Strict,
                count: 1,
                lease_micros: 1,
                worker: "",
            },
            vec![read, (Queue, "other", Read)],
        ),
        (jobs::Command::Ack { job, token, result: b"" }, vec![read]),
        (jobs::Command::Fail { job, token, error: "", retry: Retry::Never }, vec![read]),
        (jobs::Command::Snooze { job, token, until: Timestamp::ZERO }, vec![read]),
        (jobs::Command::Heartbeat { job, token, lease_micros: None, progress: None, checkpoint: None }, vec![read]),
        (change(cancel), vec![alter]),
        (change(Change::Hold { reason: "" }), vec![alter]),
        (change(Change::Release), vec![alter]),
        (change(Change::Reschedule { run_at: Timestamp::ZERO }), vec![alter]),
        (change(Change::Retry { payload: None }), vec![alter]),
        (
            jobs::Command::Change { job: unique_everywhere, change: Change::Retry { payload: None } },
            vec![(Queue, "other", Alter), everywhere],
        ),
        (change(Change::Delete), vec![(Queue, "work", Delete)]),
        (change(Change::Move { queue: "new" }), vec![alter, (Queue, "new", Write)]),
        (change(Change::Priority(jobs::Priority::default())), vec![alter]),
        (change(Change::AttemptsMax(9)), vec![alter]),
        (change(Change::Payload(b"")), vec![alter]),
        (jobs::Command::SetQueue { queue: "work", change: QueueChange::Draining(true) }, vec![alter]),
        (jobs::Command::Clear { queue: "work" }, vec![(Queue, "work", Delete)]),
        (jobs::Command::Destroy { queue: "work" }, vec![(Queue, "work", Delete)]),
        (jobs::Command::Bulk { filter: in_queue, change: cancel }, vec![alter]),
        (jobs::Command::Bulk { filter: Filter::default(), change: cancel }, vec![(Queue, "*", Alter)]),
        (jobs::Command::Tick, vec![(Admin, "database", Alter)]),
    ];
    for (command, needed) in &table {
        check(&shard, of_jobs(std::slice::from_ref(command)), needed);
    }
}

#[test]
fn each_command_of_graphs_needs_its_permissions() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let graph = "air";
    let (write, delete) = ((Graph, "air", Write), (Graph, "air", Delete));
    let edge = DeleteEdge { graph, source: "a".into(), edge_type: "to", target: "b".into() };
    let edges = DeleteEdges { graph, block: "a".into(), count_max: 1 };
    let table = vec![
        (graph::Command::PutBlock(PutBlock::new(graph, "a", "airport")), write),
        (graph::Command::PutEdge(PutEdge::new(graph, "a", "to", "b")), write),
        (graph::Command::DeleteBlock(DeleteBlock { graph, block: "a".into() }), delete),
        (graph::Command::DeleteEdge(edge), delete),
        (graph::Command::DeleteEdges(edges), delete),
        (graph::Command::SetRetention(SetRetention { graph, retention: Retention::ALL }), (Graph, "air", Alter)),
        (graph::Command::TrimHistory(TrimHistory { graph, from: Position::ZERO }), delete),
    ];
    for (command, needed) in &table {
        check(&shard, Commands { graph: std::slice::from_ref(command), ..Commands::default() }, &[*needed]);
    }
}

#[test]
fn a_moved_job_belongs_to_its_new_queue() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let [job, _] = with_objects(&shard);
    let of_work = given([(Queue, "work", Alter), (Queue, "work", Describe)]);
    let hold = [jobs::Command::Change { job, change: Change::Hold { reason: "" } }];
    let moved = [jobs::Command::Change { job, change: Change::Move { queue: "elsewhere" } }];
    commit(&shard, of_work.permit(of_jobs(&hold))).0.expect("permitted");
    commit(&shard, PermittedCommands::by_owner(of_jobs(&moved))).0.expect("moved");
    let release = [jobs::Command::Change { job, change: Change::Release }];
    let hidden = commit(&shard, of_work.permit(of_jobs(&release))).0;
    assert_eq!(hidden, Err(Reason::Jobs(jobs::Refusal::UnknownJob { job })));
    let shown = given([(Queue, "elsewhere", Describe)]);
    let refused = commit(&shard, shown.permit(of_jobs(&release))).0.expect_err("not permitted");
    assert_eq!(refused.to_string(), "not permitted: alter on queue \"elsewhere\"");
}

#[test]
fn a_guessed_job_of_another_queue_has_the_answer_of_a_job_that_does_not_exist() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let [_, other] = with_objects(&shard);
    let missing = JobId::new(Place::new(Position::new(900), 0));
    let guard = given([(Queue, "work", Read), (Queue, "work", Alter), (Queue, "work", Describe)]);
    let token = LeaseToken::new(other.place());
    for job in [other, missing] {
        let ack = jobs::Command::Ack { job, token, result: b"" };
        let cancel = jobs::Command::Change { job, change: Change::Cancel { reason: "" } };
        let unknown = jobs::Refusal::UnknownJob { job };
        assert_eq!(commit(&shard, guard.permit(of_jobs(&[ack]))).0, Err(Reason::Jobs(unknown.clone())));
        assert_eq!(commit(&shard, guard.permit(of_jobs(&[cancel]))).0, Err(Reason::Jobs(unknown.clone())));
        let each = [ack, cancel];
        let (committed, replies) = commit(&shard, guard.permit(of_jobs(&[jobs::Command::Each(&each)])));
        committed.expect("each command has its own answer");
        let answers = vec![Err(unknown.clone()), Err(unknown)];
        assert_eq!(replies.jobs, [jobs::Reply::Each(answers)]);
    }
}

#[test]
fn each_command_of_an_each_is_permitted_by_itself() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    with_objects(&shard);
    let guard = given([(Queue, "work", Write)]);
    let enqueue = |queue| jobs::Command::Enqueue { queue, job: JobSpec::new(b"") };
    let each = [enqueue("work"), enqueue("other"), enqueue("work")];
    let (committed, replies) = commit(&shard, guard.permit(of_jobs(&[jobs::Command::Each(&each)])));
    committed.expect("each command has its own answer");
    let [jobs::Reply::Each(answers)] = &replies.jobs[..] else { panic!("{replies:?}") };
    let refusal = PermissionRefusal::new(Resource::new(Queue, "other"), Write);
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1], Err(jobs::Refusal::NotPermitted(refusal)));
}

#[test]
fn the_answer_to_an_idempotency_key_needs_the_permissions_of_the_commit() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let jobs = [jobs::Command::Enqueue { queue: "work", job: JobSpec::new(b"") }];
    let commands = of_jobs(&jobs);
    let key = IdempotencyKey { principal: "", key: "order-17", fingerprint: commands.fingerprint() };
    let keyed = Commands { idempotency_key: Some(key), ..commands };
    commit(&shard, PermittedCommands::by_owner(keyed)).0.expect("accepted");
    let refused = commit(&shard, given([]).permit(keyed)).0;
    assert!(matches!(refused, Err(Reason::NotPermitted(_))), "{refused:?}");
    let wrong = IdempotencyKey { fingerprint: Fingerprint(0), ..key };
    let refused = commit(&shard, given([]).permit(Commands { idempotency_key: Some(wrong), ..commands })).0;
    assert!(matches!(refused, Err(Reason::NotPermitted(_))), "{refused:?}");
}

#[test]
fn a_refused_commit_names_its_first_part_that_is_not_permitted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let shard = open(directory.path());
    let enqueue = |queue| jobs::Command::Enqueue { queue, job: JobSpec::new(b"") };
    let jobs = [enqueue("work"), enqueue("a"), enqueue("b")];
    let guard = given([(Queue, "work", Write)]);
    let permitted = guard.permit(of_jobs(&jobs));
    let decided = shard.commit(shard.log().clock().now(), &permitted, &mut Replies::default()).expect("decided");
    let refused = decided.verdict.expect_err("not permitted");
    assert_eq!(refused.to_string(), "part 1 of the commit is refused: not permitted: write on queue \"a\"");
    assert_eq!(shard.log().published(), Position::ZERO);
}

/// May do everything except what a rule denies.
#[derive(Debug)]
struct DeniedOnly(Permission);

impl Permissions for DeniedOnly {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        !self.denies(resource, operation)
    }

    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool {
        (resource.kind, resource.name, operation) == self.0
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        (kind, operation) != (self.0.0, self.0.2)
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }
}

#[test]
fn a_denial_wins_over_what_another_permission_implies() {
    let cases = [
        (Resource::new(Topic, "secrets"), Create, Resource::new(Topic, "orders")),
        (Resource::CLUSTER, IdempotentWrite, Resource::new(Topic, "orders")),
    ];
    for (denied, operation, other) in cases {
        let guard = Guard::new(Arc::new(DeniedOnly((denied.kind, denied.name, operation))));
        assert!(!guard.permits(denied, operation), "{operation} on {denied}");
        assert!(guard.permits(other, operation) && guard.permits(Resource::CLUSTER, Create));
    }
    // Without the denial, the other permission suffices.
    assert!(given([(Cluster, "kafka-cluster", Create)]).permits(Resource::new(Topic, "secrets"), Create));
    assert!(given([(Topic, "orders", Write)]).permits(Resource::CLUSTER, IdempotentWrite));
}
