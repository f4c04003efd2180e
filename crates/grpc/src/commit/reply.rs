//! Converts the replies to the parts of a commit into messages.

use quire::jobs::{self, JobState};
use quire::{DraftedEntry, Reply, streams, tools};

use crate::error::refused_item;
use crate::graph::message;
use crate::jobs::reply::job;
use crate::proto::part_reply::{
    AckedJob, ChangedJob, EachReply, EnqueuedJob, ExtendedJob, FailedJob, Kind, SnoozedJob, TickedJobs,
};
use crate::proto::{
    AlterTopicResponse, AppendEventsResponse, BeginBulkResponse, ClearQueueResponse, CommitOffsetResponse,
    CreateTopicResponse, DeleteGroupResponse, DeleteOffsetResponse, DeleteRecordsResponse, DeleteTopicResponse,
    DraftedEntry as DraftedEntryMessage, FetchJobsResponse, PartReply, ProducedRecord, ProtectUnreadResponse,
    SetQueueResponse,
};

/// Converts an entry that a dry run would append.
pub(super) fn drafted(entry: &DraftedEntry) -> DraftedEntryMessage {
    DraftedEntryMessage {
        model: tools::model_name(entry.kind.model),
        kind: tools::kind_name(entry.kind).replace(' ', "_"),
        bytes: entry.bytes as u64,
    }
}

/// Converts the reply to a part.
pub(super) fn reply(reply: Reply) -> PartReply {
    let kind = match reply {
        Reply::Events(appended) => Kind::Appended(AppendEventsResponse {
            first: appended.first.map(|position| position.get()),
            last: appended.last.map(|position| position.get()),
            duplicate: appended.duplicate,
        }),
        Reply::Streams(reply) => of_streams(&reply),
        Reply::Jobs(reply) => of_jobs(reply),
        Reply::Graph(reply) => Kind::Graph(message::reply(&reply)),
        Reply::System(_) => unreachable!("no message is a change of access"),
    };
    PartReply { kind: Some(kind) }
}

fn of_streams(reply: &streams::Reply) -> Kind {
    match reply {
        streams::Reply::Produced(produced) => {
            Kind::Produced(ProducedRecord { partition: produced.partition, offset: produced.base_offset.get() })
        }
        streams::Reply::TopicCreated(created) => {
            Kind::TopicCreated(CreateTopicResponse { partitions: created.partitions })
        }
        streams::Reply::TopicDeleted(_) => Kind::TopicDeleted(DeleteTopicResponse {}),
        streams::Reply::TopicAltered(altered) => {
            Kind::TopicAltered(AlterTopicResponse { partitions: altered.partitions })
        }
        streams::Reply::RecordsDeleted(deleted) => {
            Kind::RecordsDeleted(DeleteRecordsResponse { partition: deleted.partition, start: deleted.start.get() })
        }
        streams::Reply::OffsetCommitted(committed) => {
            Kind::OffsetCommitted(CommitOffsetResponse { partition: committed.partition })
        }
        streams::Reply::OffsetDeleted(deleted) => {
            Kind::OffsetDeleted(DeleteOffsetResponse { partition: deleted.partition })
        }
        streams::Reply::GroupDeleted(_) => Kind::GroupDeleted(DeleteGroupResponse {}),
        streams::Reply::UnreadProtected(_) => Kind::UnreadProtected(ProtectUnreadResponse {}),
        streams::Reply::ProducerInitialized(_)
        | streams::Reply::MemberJoined(_)
        | streams::Reply::MemberRenewed(_)
        | streams::Reply::MemberLeft(_)
        | streams::Reply::GenerationBegun(_)
        | streams::Reply::MemberReplaced(_) => unreachable!("no part has the reply {reply:?}"),
    }
}

fn of_jobs(reply: jobs::Reply) -> Kind {
    match reply {
        jobs::Reply::Enqueued { job, state, duplicate } => {
            Kind::Enqueued(EnqueuedJob { job: job.to_string(), state: state.name().to_owned(), duplicate })
        }
        jobs::Reply::Fetched(jobs) => {
            Kind::Fetched(FetchJobsResponse { jobs: jobs.into_iter().map(|fetched| job(fetched, None)).collect() })
        }
        jobs::Reply::Acked => Kind::Acked(AckedJob {}),
        jobs::Reply::Failed { retry_at } => {
            Kind::Failed(FailedJob { retry_at_us: retry_at.map(|time| time.as_micros()) })
        }
        jobs::Reply::Snoozed { until } => Kind::Snoozed(SnoozedJob { until_us: until.as_micros() }),
        jobs::Reply::Extended { deadline } => Kind::Extended(ExtendedJob { deadline_us: deadline.as_micros() }),
        jobs::Reply::Changed { state } => {
            Kind::Changed(ChangedJob { state: state.map(JobState::name).unwrap_or_default().to_owned() })
        }
        jobs::Reply::QueueSet => Kind::QueueSet(SetQueueResponse {}),
        jobs::Reply::Cleared { jobs } => Kind::Cleared(ClearQueueResponse { jobs }),
        jobs::Reply::BulkBegun { bulk } => Kind::BulkBegun(BeginBulkResponse { bulk: bulk.to_string() }),
        jobs::Reply::Each(answers) => {
            let each = |answer| match answer {
                Ok(reply) => of_jobs(reply),
                Err(refusal) => Kind::Refused(refused_item(&refusal)),
            };
            let replies = answers.into_iter().map(|answer| PartReply { kind: Some(each(answer)) });
            Kind::Each(EachReply { replies: replies.collect() })
        }
        jobs::Reply::Ticked { jobs, more } => Kind::Ticked(TickedJobs { jobs: jobs as u64, more }),
    }
}
