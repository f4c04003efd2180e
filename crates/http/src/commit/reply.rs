//! A successful commit as JSON: its position and time, and one reply a part, named by its content.

use quire::{AcceptedCommit, DraftedEntry, Reason, Reply, Timestamp, events, graph, jobs, streams, tools};
use quire_api::reply::{CommitReply, DraftedEntryReply, DryRunReply, EachReply, FetchedReply, PartReply};
use serde_json::Value;

use crate::bytes::value;
use crate::error::Problem;

/// Builds the response to a commit.
pub(crate) fn commit_reply(committed: &AcceptedCommit) -> CommitReply<'_> {
    CommitReply {
        position: committed.at.position.get(),
        time_ms: committed.at.time.as_millis(),
        replies: committed.replies.iter().map(part_reply).collect(),
    }
}

/// Builds the response to a dry run that was accepted.
pub(crate) fn dry_run_reply<'a>(answer: &'a AcceptedCommit, entries: &[DraftedEntry]) -> DryRunReply<'a> {
    DryRunReply {
        dry_run: true,
        position: answer.at.position.get(),
        time_ms: answer.at.time.as_millis(),
        replies: answer.replies.iter().map(part_reply).collect(),
        entries: entries.iter().map(drafted).collect(),
    }
}

fn drafted(entry: &DraftedEntry) -> DraftedEntryReply {
    DraftedEntryReply {
        model: tools::model_name(entry.kind.model).into(),
        kind: tools::kind_name(entry.kind).replace(' ', "_").into(),
        bytes: entry.bytes as u64,
    }
}

/// The fields of the response to a part, without the name of its kind.
pub(crate) fn part_fields(reply: &Reply) -> Value {
    match serde_json::to_value(part_reply(reply)).expect("a reply has strings for keys") {
        Value::Object(kind) => kind.into_iter().next().map_or(Value::Null, |(_, fields)| fields),
        other => unreachable!("a reply is an object with its kind, not {other}"),
    }
}

/// Builds the response to a part.
fn part_reply(reply: &Reply) -> PartReply<'_> {
    match reply {
        Reply::Streams(reply) => streams_reply(reply),
        Reply::Events(appended) => events_reply(appended),
        Reply::Jobs(reply) => jobs_reply(reply),
        Reply::Graph(reply) => graph_reply(reply),
        Reply::System(_) => unreachable!("no part in JSON is a change of access"),
    }
}

fn streams_reply<'a>(reply: &streams::Reply) -> PartReply<'a> {
    match reply {
        streams::Reply::TopicCreated(created) => PartReply::TopicCreated { partitions: created.partitions },
        streams::Reply::Produced(produced) => {
            PartReply::Produced { partition: produced.partition, offset: produced.base_offset.get() }
        }
        streams::Reply::OffsetCommitted(committed) => PartReply::OffsetCommitted { partition: committed.partition },
        streams::Reply::TopicDeleted(_) => PartReply::TopicDeleted {},
        streams::Reply::TopicAltered(altered) => PartReply::TopicAltered { partitions: altered.partitions },
        streams::Reply::RecordsDeleted(deleted) => {
            PartReply::RecordsDeleted { partition: deleted.partition, start: deleted.start.get() }
        }
        streams::Reply::OffsetDeleted(deleted) => PartReply::OffsetDeleted { partition: deleted.partition },
        streams::Reply::GroupDeleted(_) => PartReply::GroupDeleted {},
        streams::Reply::UnreadProtected(_) => PartReply::UnreadProtected {},
        streams::Reply::ProducerInitialized(_)
        | streams::Reply::MemberJoined(_)
        | streams::Reply::MemberRenewed(_)
        | streams::Reply::MemberLeft(_)
        | streams::Reply::GenerationBegun(_)
        | streams::Reply::MemberReplaced(_) => {
            unreachable!("no part has the reply {reply:?}")
        }
    }
}

fn events_reply<'a>(appended: &events::AppendResult) -> PartReply<'a> {
    PartReply::Appended {
        first: appended.first.map(events::EventPosition::get),
        last: appended.last.map(events::EventPosition::get),
        duplicate: appended.duplicate,
    }
}

fn jobs_reply(reply: &jobs::Reply) -> PartReply<'_> {
    match reply {
        jobs::Reply::Enqueued { job, state, duplicate } => {
            PartReply::Enqueued { job: job.to_string(), state: state.name().into(), duplicate: *duplicate }
        }
        jobs::Reply::Fetched(jobs) => PartReply::Fetched { jobs: jobs.iter().map(fetched).collect() },
        jobs::Reply::Acked => PartReply::Acked {},
        jobs::Reply::Each(answers) => PartReply::Each(answers.iter().map(each).collect()),
        jobs::Reply::Snoozed { until } => PartReply::Snoozed { until_ms: until.as_millis() },
        jobs::Reply::Changed { state } => PartReply::Changed { state: state.map(|state| state.name().into()) },
        jobs::Reply::QueueSet => PartReply::QueueSet {},
        jobs::Reply::Cleared { jobs } => PartReply::Cleared { jobs: *jobs },
        jobs::Reply::BulkBegun { bulk } => PartReply::BulkBegun { bulk: bulk.to_string() },
        jobs::Reply::Failed { retry_at } => PartReply::Failed { retry_at_ms: retry_at.map(Timestamp::as_millis) },
        jobs::Reply::Extended { deadline } => PartReply::Extended { deadline_ms: deadline.as_millis() },
        jobs::Reply::Ticked { jobs, more } => PartReply::Ticked { jobs: *jobs, more: *more },
    }
}

/// A job for its worker.
pub(crate) fn fetched(job: &jobs::FetchedJob) -> FetchedReply<'_> {
    FetchedReply {
        job: job.job.to_string(),
        token: job.token.to_string(),
        queue: (&*job.queue).into(),
        kind: (&*job.kind).into(),
        group: (&*job.group).into(),
        attempt: job.attempt,
        attempts_max: job.attempts_max,
        priority: job.priority.get(),
        deadline_ms: job.deadline.as_millis(),
        run_until_ms: job.run_until.map(Timestamp::as_millis),
        payload: value(&*job.payload),
        checkpoint: job.checkpoint.as_deref().map(value),
    }
}

fn each(answer: &Result<jobs::Reply, jobs::Refusal>) -> EachReply<'_> {
    match answer {
        Ok(reply) => EachReply::Accepted(jobs_reply(reply)),
        Err(refused) => {
            EachReply::Refused { refused: Problem::of_reason(&Reason::Jobs(refused.clone())).within_response() }
        }
    }
}

fn graph_reply<'a>(reply: &graph::Reply) -> PartReply<'a> {
    match reply {
        graph::Reply::BlockPut { block, version, created } => {
            PartReply::BlockPut { id: block.to_string(), version: version.get(), created: *created }
        }
        graph::Reply::BlockDeleted { block, version } => {
            PartReply::BlockDeleted { id: block.to_string(), version: version.get() }
        }
        graph::Reply::EdgePut { created } => PartReply::EdgePut { created: *created },
        graph::Reply::EdgeDeleted { existed } => PartReply::EdgeDeleted { existed: *existed },
        graph::Reply::EdgesDeleted { count, is_more } => PartReply::EdgesDeleted { edges: *count, more: *is_more },
        graph::Reply::RetentionSet => PartReply::RetentionSet {},
        graph::Reply::HistoryTrimmed { from } => PartReply::HistoryTrimmed { from: from.get() },
    }
}
