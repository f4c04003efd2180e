//! A successful commit as JSON: its position and time, and one reply a part, named by its content.

use quire::{AcceptedCommit, Reason, Reply, Timestamp, events, graph, jobs, streams};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::bytes::{ShownBytes, shown};
use crate::error::{Problem, ProblemReply};

/// Builds the response to a commit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommitReply<'a> {
    position: u64,
    time_ms: u64,
    replies: Vec<PartReply<'a>>,
}

impl<'a> CommitReply<'a> {
    pub(crate) fn of(committed: &'a AcceptedCommit) -> Self {
        CommitReply {
            position: committed.at.position.get(),
            time_ms: committed.at.time.as_millis(),
            replies: committed.replies.iter().map(PartReply::of).collect(),
        }
    }
}

/// Builds the response to a part.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartReply<'a> {
    TopicCreated {
        partitions: u32,
    },
    TopicDeleted {},
    TopicAltered {
        partitions: u32,
    },
    RecordsDeleted {
        partition: u32,
        start: u64,
    },
    OffsetDeleted {
        partition: u32,
    },
    GroupDeleted {},
    UnreadProtected {},
    Produced {
        partition: u32,
        offset: u64,
    },
    OffsetCommitted {
        partition: u32,
    },
    Appended {
        first: Option<u64>,
        last: Option<u64>,
        duplicate: bool,
    },
    Enqueued {
        job: String,
        state: &'static str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        duplicate: bool,
    },
    Fetched {
        jobs: Vec<FetchedReply<'a>>,
    },
    Acked {},
    Failed {
        retry_at_ms: Option<u64>,
    },
    Snoozed {
        until_ms: u64,
    },
    Extended {
        deadline_ms: u64,
    },
    Changed {
        state: Option<&'static str>,
    },
    QueueSet {},
    Cleared {
        jobs: u64,
    },
    BulkBegun {
        bulk: String,
    },
    Each(Vec<EachReply<'a>>),
    Ticked {
        jobs: usize,
        more: bool,
    },
    BlockPut {
        id: String,
        version: u64,
        created: bool,
    },
    BlockDeleted {
        id: String,
        version: u64,
    },
    EdgePut {
        created: bool,
    },
    EdgeDeleted {
        existed: bool,
    },
    EdgesDeleted {
        edges: usize,
        more: bool,
    },
    RetentionSet {},
    HistoryTrimmed {
        from: u64,
    },
}

/// A job for its worker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FetchedReply<'a> {
    job: String,
    token: String,
    queue: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    attempt: u16,
    attempts_max: u16,
    priority: u8,
    deadline_ms: u64,
    /// When its timeout ends the attempt, regardless of heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_until_ms: Option<u64>,
    #[serde(flatten)]
    #[schemars(with = "shown::Payload")]
    payload: ShownBytes<'a>,
    #[serde(flatten)]
    #[schemars(with = "shown::Checkpoint")]
    checkpoint: Option<ShownBytes<'a>>,
}

/// The result or the refusal of one command of an `each`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum EachReply<'a> {
    Accepted(PartReply<'a>),
    Refused {
        #[schemars(with = "ProblemReply<'static>")]
        refused: Problem,
    },
}

impl<'a> PartReply<'a> {
    /// The fields of the reply, without the name of its kind.
    pub(crate) fn fields(&self) -> Value {
        match serde_json::to_value(self).expect("a reply has strings for keys") {
            Value::Object(kind) => kind.into_iter().next().map_or(Value::Null, |(_, fields)| fields),
            other => unreachable!("a reply is an object with its kind, not {other}"),
        }
    }

    pub(crate) fn of(reply: &'a Reply) -> Self {
        match reply {
            Reply::Streams(reply) => streams_reply(reply),
            Reply::Events(appended) => events_reply(appended),
            Reply::Jobs(reply) => jobs_reply(reply),
            Reply::Graph(reply) => graph_reply(reply),
        }
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
            PartReply::Enqueued { job: job.to_string(), state: state.name(), duplicate: *duplicate }
        }
        jobs::Reply::Fetched(jobs) => PartReply::Fetched { jobs: jobs.iter().map(fetched).collect() },
        jobs::Reply::Acked => PartReply::Acked {},
        jobs::Reply::Each(answers) => PartReply::Each(answers.iter().map(each).collect()),
        jobs::Reply::Snoozed { until } => PartReply::Snoozed { until_ms: until.as_millis() },
        jobs::Reply::Changed { state } => PartReply::Changed { state: state.map(jobs::JobState::name) },
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
        queue: &job.queue,
        kind: &job.kind,
        group: &job.group,
        attempt: job.attempt,
        attempts_max: job.attempts_max,
        priority: job.priority.get(),
        deadline_ms: job.deadline.as_millis(),
        run_until_ms: job.run_until.map(Timestamp::as_millis),
        payload: ShownBytes::value("payload", &job.payload),
        checkpoint: job.checkpoint.as_deref().map(|checkpoint| ShownBytes::value("checkpoint", checkpoint)),
    }
}

fn each(answer: &Result<jobs::Reply, jobs::Refusal>) -> EachReply<'_> {
    match answer {
        Ok(reply) => EachReply::Accepted(jobs_reply(reply)),
        Err(refused) => EachReply::Refused { refused: Problem::of_reason(&Reason::Jobs(refused.clone())) },
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
