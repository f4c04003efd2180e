//! The messages of gRPC have the fields of the types of HTTP, except those that a table here lists.
//!
//! The types are those of the crate `api`. They are compared by their description,
//! `docs/openapi.json`, which a test of `quire-http` compares with the types.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A message and its schema on each line, with the fields of the message alone (`+`) and those of
/// the schema alone (`-`). A variant of a schema is behind a slash. Names are without the suffixes
/// of units and of the forms of values, such as `_ms` and `_base64`.
const PAIRS: &str = "
# Both have the same fields.
CommitPart.AppendPart AppendPart
NewEvent NewEventRequest
EventQueryItem ItemRequest
CommitPart.UpstreamPart UpstreamPart
SetEventRetentionRequest RetainEvents
DropSubscriptionRequest DropSubscription
CommitPart.SaveProjectionPart SaveProjectionPart
CommitPart.DropProjectionPart DropProjection
CreateTopicRequest CreateTopic
DeleteTopicRequest DeleteTopic
DeleteRecordsRequest DeleteRecords
DeleteOffsetRequest DeleteOffset
DeleteGroupRequest DeleteGroup
ProtectUnreadRequest ProtectUnread
CommitPart.FetchPart Fetch
ClearQueueRequest WholeQueue
BeginBulkRequest BulkRequest
CommitPart.TickPart Tick
Event EventReply
RecordHeader HeaderRequest
TopicSettings SettingsRequest
QueueSettings SettingsChange
StartRate RateRequest
ChangeJobsRequest.Item ChangeJob
JobChange.Reason ReasonRequest
JobFilter FilterRequest
Record RecordReply
DescribeTopicResponse.Partition PartitionReply
DescribeGroupResponse.Member MemberReply
DescribeGroupResponse.Offset OffsetReply
ListGroupsResponse.Group GroupReply
ListTopicsResponse.Topic TopicReply
BulksResponse.Bulk BulkReply
WalkedEdge WalkedEdgeReply
GraphChange ChangeReply
MissingResponse.MissingBlock MissingBlock
EventQuery QueryRequest
CommitResponse DryRunReply
DraftedEntry DraftedEntryReply
TouchedResource TouchedResourceReply
HistoryResponse HistoryReply
HistorySample HistorySample
DegreeResponse Degree
SqlQueryRequest SqlRequest
OrderResponse OrderReply
ComponentsResponse ComponentsReply
DestroyQueueRequest WholeQueue
AppendEventsResponse PartReply/appended
ProducedRecord PartReply/produced
CreateTopicResponse PartReply/topic_created
DeleteTopicResponse PartReply/topic_deleted
AlterTopicResponse PartReply/topic_altered
DeleteRecordsResponse PartReply/records_deleted
CommitOffsetResponse PartReply/offset_committed
DeleteOffsetResponse PartReply/offset_deleted
DeleteGroupResponse PartReply/group_deleted
ProtectUnreadResponse PartReply/unread_protected
PartReply.EnqueuedJob PartReply/enqueued
FetchJobsResponse PartReply/fetched
PartReply.AckedJob PartReply/acked
PartReply.FailedJob PartReply/failed
PartReply.SnoozedJob PartReply/snoozed
PartReply.ExtendedJob PartReply/extended
PartReply.ChangedJob PartReply/changed
SetQueueResponse PartReply/queue_set
ClearQueueResponse PartReply/cleared
BeginBulkResponse PartReply/bulk_begun
PartReply.TickedJobs PartReply/ticked
GraphReply.BlockPut PartReply/block_put
GraphReply.BlockDeleted PartReply/block_deleted
GraphReply.EdgePut PartReply/edge_put
GraphReply.EdgeDeleted PartReply/edge_deleted
GraphReply.EdgesDeleted PartReply/edges_deleted
GraphReply.RetentionSet PartReply/retention_set
GraphReply.HistoryTrimmed PartReply/history_trimmed
# The graph is a field of the part, or of its call.
PutBlock PutBlockPart -graph
PutEdge PutEdgePart -graph
DeleteBlock DeleteBlockPart -graph
DeleteEdge DeleteEdgePart -graph
DeleteEdges DeleteEdgesPart -graph
SetGraphRetention RetainGraph -graph
TrimGraphHistory TrimGraph -graph
# The job and its token are fields of the report.
JobReport.Ack Ack -job -token
JobReport.Fail Fail +never -job -retry -retry_delay -token
JobReport.Heartbeat Heartbeat -job -token
JobReport.Snooze Snooze -delay -job -token
JobReport Ack +ack +fail +heartbeat +snooze -result
# A message in a message is fields over HTTP.
EventCondition ConditionRequest -after
PutSubscriptionRequest PutSubscriptionPart +subscription -attempts_max -backoff -backoff_max -group_by -name -query
CommitPart.ProducePart Produce +record -headers -key -partition -timestamp -value
NewJob Enqueue -backoff_base -backoff_list -backoff_max -delay -expires_in
SetQueueRequest SetQueue +settings -set
NewRecord Produce -topic
UniqueKey UniqueRequest +everywhere +for +until_started -hold -scope
JobStep StepReply +event -position -what
JobEvent JobEventReply +data +step -attempt -error -event -payload -progress -reason -result -state -time -until -worker
EventCondition.FailIfEventsMatch ConditionRequest +query -fail_if_events_match -last_is
EventCondition.LastIs LastIs +query -items
# One side has a field that the other leaves out, or names differently.
AlterTopicRequest AlterTopic +reset_settings
CommitRequest CommitRequest +dry_run
CommitResponse CommitReply +dry_run +entries
RefusedCommit RefusedCommitReply +facts +message +reason -problem
CommitOffsetRequest CommitOffset +owner
FetchedJob FetchedReply +event
Job JobReply +steps +until -deadline -retry_at
Block BlockReply +position
NamedSubscription SubscriptionRequest +name +paused +position -after
JobChange ChangeRequest +move_to +run_at -move -reschedule
JobChange.Retry RetryRequest +payload
DescribeTopicResponse TopicWithPartitions -topic
DescribeGroupResponse GroupWithOffsets -group
QueuesResponse.Queue QueueReply +jobs
Visit VisitReply +block +incoming -end -name
NeighboursResponse.Neighbour NeighbourReply +incoming -end -name
GetVersionsResponse.BlockChange VersionReply +position +time -deleted
SkippedRecord SkippedRecord -reason
FetchJobsRequest FetchRequest +queues +weights +with_events
DescribeGraphResponse OneGraph +retention -graph -history -memory_mapped_bytes -versions
GetEdgeResponse EdgeReply -source -target -type
PathsResponse PathsReply +more +visits -paths
WalkResponse WalkReply +count +edge_count
ForgetEventsRequest ForgetTag +up_to
ForgetEventsRequest TrimEvents +tag
";

/// The messages of commits without a schema of their own: they hold other ones, or stand for fields
/// that HTTP has in another form.
const CONTAINERS: [&str; 15] = [
    "Backoff",
    "Backoff.Growing",
    "Backoff.Waits",
    "BlockRef",
    "CommitPart",
    "CommitPart.EachPart",
    "CommitPart.GraphPart",
    "GraphCommand",
    "GraphReply",
    "JobRefusal",
    "OffsetOwner",
    "PartReply",
    "PartReply.EachReply",
    "StartRate.SlidingWindow",
    "StartRate.TokenBucket",
];

/// The fields of gRPC in milliseconds, as Kafka has them: times of records, settings of topics, and
/// what is kept for how long. The leases of consumers are in milliseconds, too.
const MILLISECONDS: [&str; 12] = [
    "ConsumeRequest.handling_max_ms",
    "ConsumeRequest.lease_ms",
    "FetchRecordsRequest.timestamp_ms",
    "NewRecord.timestamp_ms",
    "Record.timestamp_ms",
    "ResetOffsetsRequest.timestamp_ms",
    "SetEventRetentionRequest.retention_ms",
    "SetGraphRetention.history_ms",
    "TopicSettings.delete_retention_ms",
    "TopicSettings.retention_ms",
    "TopicSettings.timestamp_after_max_ms",
    "TopicSettings.timestamp_before_max_ms",
];

/// A message of `proto/`.
#[derive(Debug)]
struct ProtoMessage {
    fields: BTreeSet<String>,
    /// The types of its fields that are messages.
    types: BTreeSet<String>,
}

/// The messages of the package by their names in it.
fn messages() -> BTreeMap<String, ProtoMessage> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let listed = fs::read_dir(root.join("quire/v1")).expect("the folder of the package");
    let files: Vec<PathBuf> = listed.map(|file| file.expect("a file").path()).collect();
    let mut compiler = protox::Compiler::new([&root]).expect("a folder");
    compiler.open_files(&files).expect("valid proto files");
    let mut messages = BTreeMap::new();
    for file in compiler.file_descriptor_set().file {
        let mut open: Vec<_> = file.message_type.iter().map(|found| (found.name().to_owned(), found)).collect();
        while let Some((name, found)) = open.pop() {
            open.extend(found.nested_type.iter().map(|nested| (format!("{name}.{}", nested.name()), nested)));
            let type_of = |name: &str| name.strip_prefix(".quire.v1.").map(str::to_owned);
            let message = ProtoMessage {
                fields: found.field.iter().map(|field| field.name().to_owned()).collect(),
                types: found.field.iter().filter_map(|field| type_of(field.type_name())).collect(),
            };
            messages.insert(name, message);
        }
    }
    messages
}

/// The schemas of the description by their names.
fn schemas() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let mut description: Value = serde_json::from_slice(&fs::read(path).expect("the description")).expect("JSON");
    description["components"]["schemas"].take()
}

/// Adds the fields of a schema, also of those that it refers to.
fn add_fields(schema: &Value, schemas: &Value, fields: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/components/schemas/")) {
        add_fields(&schemas[name], schemas, fields);
    }
    fields.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    for list in ["allOf", "oneOf", "anyOf"] {
        schema[list].as_array().into_iter().flatten().for_each(|schema| add_fields(schema, schemas, fields));
    }
}

/// The schema of this name, or the variant of a schema.
fn schema<'s>(name: &str, schemas: &'s Value) -> Option<&'s Value> {
    match name.split_once('/') {
        None => schemas.get(name),
        Some((name, variant)) => {
            let mut variants = schemas[name]["oneOf"].as_array()?.iter();
            variants.find_map(|schema| schema["properties"].get(variant))
        }
    }
}

/// A name of a field without its unit and the form of its value.
fn plain(name: &str) -> &str {
    let suffixes = ["_text", "_base64", "_ms", "_us"];
    suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The pairs: the message, the schema, and the differences.
fn pairs() -> impl Iterator<Item = (&'static str, &'static str, BTreeSet<&'static str>)> {
    let lines = PAIRS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split(' ');
        let mut name = || words.next().expect("a message and a schema");
        (name(), name(), words.collect())
    })
}

#[test]
fn each_message_has_the_fields_of_its_type_of_http() {
    let (messages, schemas) = (messages(), schemas());
    let mut problems = Vec::new();
    for (message, type_name, known) in pairs() {
        let (Some(found), Some(schema)) = (messages.get(message), schema(type_name, &schemas)) else {
            problems.push(format!("{message} or {type_name} does not exist"));
            continue;
        };
        let mut of_type = BTreeSet::new();
        add_fields(schema, &schemas, &mut of_type);
        let of_message: BTreeSet<&str> = found.fields.iter().map(|name| plain(name)).collect();
        let of_type: BTreeSet<&str> = of_type.iter().map(|name| plain(name)).collect();
        let alone = of_message.difference(&of_type).map(|name| format!("+{name}"));
        let differences: BTreeSet<String> =
            alone.chain(of_type.difference(&of_message).map(|name| format!("-{name}"))).collect();
        if !differences.iter().map(String::as_str).eq(known.iter().copied()) {
            problems.push(format!("{message} and {type_name} differ by {differences:?}, and not by {known:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_message_of_a_commit_is_compared() {
    let messages = messages();
    let (mut open, mut reached) = (vec!["CommitPart", "PartReply"], BTreeSet::new());
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(messages[name].types.iter().map(String::as_str).filter(|name| messages.contains_key(*name)));
        }
    }
    let compared: BTreeSet<&str> = pairs().map(|(message, ..)| message).collect();
    // The entries of a map are messages that no `.proto` file names.
    let others: Vec<&str> = reached.difference(&compared).copied().filter(|name| !name.ends_with("Entry")).collect();
    assert_eq!(others, CONTAINERS);
}

#[test]
fn grpc_counts_microseconds_except_in_listed_fields_and_http_milliseconds() {
    let messages = messages();
    let fields =
        messages.iter().flat_map(|(name, found)| found.fields.iter().map(move |field| format!("{name}.{field}")));
    let millis: Vec<String> = fields.filter(|field| field.ends_with("_ms")).collect();
    assert_eq!(millis, MILLISECONDS);
    let schemas = schemas();
    let mut names = BTreeSet::new();
    schemas.as_object().expect("schemas").values().for_each(|schema| add_fields(schema, &schemas, &mut names));
    let micros: Vec<&String> = names.iter().filter(|name| name.ends_with("_us")).collect();
    assert!(micros.is_empty() && names.iter().any(|name| name.ends_with("_ms")), "{micros:?}");
}
