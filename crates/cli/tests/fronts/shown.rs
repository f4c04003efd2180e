//! Replies in the form that HTTP has. The payloads of fetched jobs are left out: HTTP shows them by
//! their content.

use quire::{AcceptedCommit, Reply, graph, jobs, streams, tools};
use quire_grpc::proto::part_reply::Kind;
use quire_grpc::proto::{CommitResponse, DraftedEntry, FetchedJob, GraphReply, PartReply, graph_reply};
use serde_json::{Value, json};

/// The reply of HTTP.
pub(crate) fn of_http(mut reply: Value) -> Value {
    let replies = reply["replies"].as_array_mut().expect("replies");
    replies.iter_mut().for_each(only_compared);
    reply
}

/// Leaves out payloads, and the facts of refusals in an `each`, which gRPC has only in part.
fn only_compared(reply: &mut Value) {
    if let Some(jobs) = reply.pointer_mut("/fetched/jobs").and_then(Value::as_array_mut) {
        for job in jobs {
            let of = |name: &str| job[name].clone();
            *job = json!({"job": of("job"), "token": of("token"), "queue": of("queue"), "attempt": of("attempt"), "deadline_ms": of("deadline_ms")});
        }
    }
    if let Some(enqueued) = reply.get_mut("enqueued").and_then(Value::as_object_mut) {
        enqueued.entry("duplicate").or_insert(Value::Bool(false));
    }
    if let Some(refused) = reply.get("refused") {
        *reply = json!({"refused": refused["code"]});
    }
    if let Some(each) = reply.get_mut("each").and_then(Value::as_array_mut) {
        each.iter_mut().for_each(only_compared);
    }
}

/// The reply of gRPC.
pub(crate) fn of_grpc(response: CommitResponse) -> Value {
    let replies: Vec<Value> = response.replies.into_iter().map(part_of_grpc).collect();
    let mut shown = json!({"position": response.position, "time_ms": response.time_us / 1_000, "replies": replies});
    if response.dry_run {
        let entry = |entry: &DraftedEntry| json!({"model": entry.model, "kind": entry.kind, "bytes": entry.bytes});
        shown["dry_run"] = true.into();
        shown["entries"] = response.entries.iter().map(entry).collect();
    }
    shown
}

fn part_of_grpc(reply: PartReply) -> Value {
    match reply.kind.expect("a known reply") {
        Kind::Appended(it) => json!({"appended": {"first": it.first, "last": it.last, "duplicate": it.duplicate}}),
        Kind::Produced(it) => json!({"produced": {"partition": it.partition, "offset": it.offset}}),
        Kind::TopicCreated(it) => json!({"topic_created": {"partitions": it.partitions}}),
        Kind::TopicDeleted(_) => json!({"topic_deleted": {}}),
        Kind::TopicAltered(it) => json!({"topic_altered": {"partitions": it.partitions}}),
        Kind::RecordsDeleted(it) => json!({"records_deleted": {"partition": it.partition, "start": it.start}}),
        Kind::OffsetCommitted(it) => json!({"offset_committed": {"partition": it.partition}}),
        Kind::OffsetDeleted(it) => json!({"offset_deleted": {"partition": it.partition}}),
        Kind::GroupDeleted(_) => json!({"group_deleted": {}}),
        Kind::UnreadProtected(_) => json!({"unread_protected": {}}),
        Kind::Enqueued(it) => json!({"enqueued": {"job": it.job, "state": it.state, "duplicate": it.duplicate}}),
        Kind::Fetched(it) => {
            let job = |job: FetchedJob| json!({"job": job.job, "token": job.token, "queue": job.queue, "attempt": job.attempt, "deadline_ms": job.deadline_us / 1_000});
            json!({"fetched": {"jobs": it.jobs.into_iter().map(job).collect::<Vec<_>>()}})
        }
        Kind::Acked(_) => json!({"acked": {}}),
        Kind::Failed(it) => json!({"failed": {"retry_at_ms": it.retry_at_us.map(|us| us / 1_000)}}),
        Kind::Snoozed(it) => json!({"snoozed": {"until_ms": it.until_us / 1_000}}),
        Kind::Extended(it) => json!({"extended": {"deadline_ms": it.deadline_us / 1_000}}),
        Kind::Changed(it) => json!({"changed": {"state": Some(it.state).filter(|state| !state.is_empty())}}),
        Kind::QueueSet(_) => json!({"queue_set": {}}),
        Kind::Cleared(it) => json!({"cleared": {"jobs": it.jobs}}),
        Kind::BulkBegun(it) => json!({"bulk_begun": {"bulk": it.bulk}}),
        Kind::Each(it) => json!({"each": it.replies.into_iter().map(part_of_grpc).collect::<Vec<_>>()}),
        Kind::Ticked(it) => json!({"ticked": {"jobs": it.jobs, "more": it.more}}),
        Kind::Graph(it) => graph_of_grpc(&it),
        Kind::Refused(it) => json!({"refused": it.reason.to_lowercase()}),
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn graph_of_grpc(reply: &GraphReply) -> Value {
    match reply.kind.as_ref().expect("a known reply") {
        graph_reply::Kind::BlockPut(it) => {
            json!({"block_put": {"id": hex(&it.id), "version": it.version, "created": it.created}})
        }
        graph_reply::Kind::BlockDeleted(it) => json!({"block_deleted": {"id": hex(&it.id), "version": it.version}}),
        graph_reply::Kind::EdgePut(it) => json!({"edge_put": {"created": it.created}}),
        graph_reply::Kind::EdgeDeleted(it) => json!({"edge_deleted": {"existed": it.existed}}),
        graph_reply::Kind::EdgesDeleted(it) => json!({"edges_deleted": {"edges": it.edges, "more": it.more}}),
        graph_reply::Kind::RetentionSet(_) => json!({"retention_set": {}}),
        graph_reply::Kind::HistoryTrimmed(it) => json!({"history_trimmed": {"from": it.from}}),
    }
}

/// The reply in Rust.
pub(crate) fn of_rust(committed: &AcceptedCommit) -> Value {
    let replies: Vec<Value> = committed.replies.iter().map(part_of_rust).collect();
    json!({"position": committed.at.position.get(), "time_ms": committed.at.time.as_millis(), "replies": replies})
}

/// The answer to a dry run in Rust.
pub(crate) fn dry_run_of_rust(answer: &AcceptedCommit, entries: &[quire::DraftedEntry]) -> Value {
    let mut shown = of_rust(answer);
    let entry = |entry: &quire::DraftedEntry| {
        let kind = tools::kind_name(entry.kind).replace(' ', "_");
        json!({"model": tools::model_name(entry.kind.model), "kind": kind, "bytes": entry.bytes})
    };
    shown["dry_run"] = true.into();
    shown["entries"] = entries.iter().map(entry).collect();
    shown
}

fn part_of_rust(reply: &Reply) -> Value {
    match reply {
        Reply::Events(it) => json!({"appended": {
            "first": it.first.map(|position| position.get()),
            "last": it.last.map(|position| position.get()),
            "duplicate": it.duplicate,
        }}),
        Reply::Streams(reply) => topic_of_rust(reply),
        Reply::Jobs(reply) => job_of_rust(reply),
        Reply::Graph(reply) => graph_of_rust(reply),
        Reply::System(reply) => panic!("no front end sends a change of access as a part: {reply:?}"),
    }
}

fn topic_of_rust(reply: &streams::Reply) -> Value {
    use streams::Reply;
    match reply {
        Reply::Produced(it) => json!({"produced": {"partition": it.partition, "offset": it.base_offset.get()}}),
        Reply::TopicCreated(it) => json!({"topic_created": {"partitions": it.partitions}}),
        Reply::TopicDeleted(_) => json!({"topic_deleted": {}}),
        Reply::TopicAltered(it) => json!({"topic_altered": {"partitions": it.partitions}}),
        Reply::RecordsDeleted(it) => json!({"records_deleted": {"partition": it.partition, "start": it.start.get()}}),
        Reply::OffsetCommitted(it) => json!({"offset_committed": {"partition": it.partition}}),
        Reply::OffsetDeleted(it) => json!({"offset_deleted": {"partition": it.partition}}),
        Reply::GroupDeleted(_) => json!({"group_deleted": {}}),
        Reply::UnreadProtected(_) => json!({"unread_protected": {}}),
        other => panic!("no part has the reply {other:?}"),
    }
}

fn job_of_rust(reply: &jobs::Reply) -> Value {
    use jobs::Reply;
    match reply {
        Reply::Enqueued { job, state, duplicate } => {
            json!({"enqueued": {"job": job.to_string(), "state": state.name(), "duplicate": duplicate}})
        }
        Reply::Fetched(jobs) => {
            let job = |job: &jobs::FetchedJob| json!({"job": job.job.to_string(), "token": job.token.to_string(), "queue": &*job.queue, "attempt": job.attempt, "deadline_ms": job.deadline.as_millis()});
            json!({"fetched": {"jobs": jobs.iter().map(job).collect::<Vec<_>>()}})
        }
        Reply::Acked => json!({"acked": {}}),
        Reply::Failed { retry_at } => json!({"failed": {"retry_at_ms": retry_at.map(|time| time.as_millis())}}),
        Reply::Snoozed { until } => json!({"snoozed": {"until_ms": until.as_millis()}}),
        Reply::Extended { deadline } => json!({"extended": {"deadline_ms": deadline.as_millis()}}),
        Reply::Changed { state } => json!({"changed": {"state": state.map(|state| state.name())}}),
        Reply::QueueSet => json!({"queue_set": {}}),
        Reply::Cleared { jobs } => json!({"cleared": {"jobs": jobs}}),
        Reply::BulkBegun { bulk } => json!({"bulk_begun": {"bulk": bulk.to_string()}}),
        Reply::Each(answers) => {
            let answer = |answer: &Result<Reply, jobs::Refusal>| match answer {
                Ok(reply) => job_of_rust(reply),
                Err(refusal) => json!({"refused": quire_api::of_jobs(refusal).code.name()}),
            };
            json!({"each": answers.iter().map(answer).collect::<Vec<_>>()})
        }
        Reply::Ticked { jobs, more } => json!({"ticked": {"jobs": jobs, "more": more}}),
    }
}

fn graph_of_rust(reply: &graph::Reply) -> Value {
    use graph::Reply;
    match reply {
        Reply::BlockPut { block, version, created } => {
            json!({"block_put": {"id": block.to_string(), "version": version.get(), "created": created}})
        }
        Reply::BlockDeleted { block, version } => {
            json!({"block_deleted": {"id": block.to_string(), "version": version.get()}})
        }
        Reply::EdgePut { created } => json!({"edge_put": {"created": created}}),
        Reply::EdgeDeleted { existed } => json!({"edge_deleted": {"existed": existed}}),
        Reply::EdgesDeleted { count, is_more } => json!({"edges_deleted": {"edges": count, "more": is_more}}),
        Reply::RetentionSet => json!({"retention_set": {}}),
        Reply::HistoryTrimmed { from } => json!({"history_trimmed": {"from": from.get()}}),
    }
}
