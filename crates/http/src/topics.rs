//! Topics: the list, one topic with its partitions, and the offsets of a group; creating a topic
//! and producing to it. `records.rs` reads records.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::streams::{Partition, PartitionOffsets, TopicSettings};
use quire::{Database, Operation, PartitionStatistics, ReadView, Resource, ResourceKind, TopicStatistics};
use quire_access::BoundedRequest;
use quire_api::ListPage;

use crate::app::App;
use crate::body::Body;
use crate::commit::commit_part;
use crate::error::Problem;
use crate::given::GivenField;
use crate::idempotency::RequestKey;
use crate::memory::{Claim, ResponseMemory};
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, aside, bounded};
use quire_api::reply::{
    PartitionReply, SettingsReply, TopicGroupReply, TopicOffsetReply, TopicReply, TopicWithPartitions,
};
use quire_api::request::PartRequest;

/// Maximum wait for new records, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// The settings, in a database whose batches have at most `batch_bytes_max` bytes.
fn settings_reply(settings: TopicSettings, batch_bytes_most: u32) -> SettingsReply {
    SettingsReply {
        retention_ms: settings.retention_ms,
        retention_bytes: settings.retention_bytes,
        batch_bytes_max: settings.batch_bytes_max.min(batch_bytes_most),
        compression: settings.compression.to_string(),
        cleanup: settings.cleanup.to_string(),
        delete_retention_ms: settings.delete_retention_ms,
        timestamp_after_max_ms: settings.timestamp_after_max_ms,
        timestamp_before_max_ms: settings.timestamp_before_max_ms,
    }
}

/// `GET /v1/topics`: lists the topics.
pub(crate) async fn topics(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let (mut claim, mut topics) = (app.memory.claim(), Vec::new());
        database.visit_topics(|topic| -> Result<(), Problem> {
            claim.grow(size_of::<TopicReply>() + topic.name.len())?;
            topics.push(TopicReply { topic: topic.name.to_owned(), partitions: topic.partitions });
            Ok(())
        })?;
        JsonResponse::within(claim, &ListPage::whole(topics))
    })
    .await
}

/// `POST /v1/topics`: creates a topic.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    commit_part(&app, key, Vec::new(), body, |_, body| body.parse().map(PartRequest::CreateTopic)).await
}

/// `POST /v1/topics/{topic}/records`: produces a message.
pub(crate) async fn produce(
    State(app): State<Arc<App>>,
    PathNames(topic): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    commit_part(&app, key, vec![topic], body, |names, body| {
        body.parse_with(&[GivenField::Name("topic", &names[0])]).map(PartRequest::Produce)
    })
    .await
}

/// The first topics with the numbers of their partitions: at most `count_max`, with
/// `partitions_max` partitions together.
pub(crate) fn first(
    database: &Database,
    count_max: usize,
    partitions_max: usize,
) -> Result<Vec<(String, u32)>, Problem> {
    let mut partitions = 0;
    let topics = database.read_published_permitted(|view| {
        let shown = view.streams.topics().filter(|topic| view.shows(ResourceKind::Topic, topic.name));
        let first = shown.take(count_max).take_while(|topic| {
            partitions += topic.partitions as usize;
            partitions <= partitions_max
        });
        first.map(|topic| (topic.name.to_owned(), topic.partitions)).collect()
    })?;
    Ok(topics)
}

/// The first and next offsets of each partition of a topic.
pub(crate) fn offsets(database: &Database, topic: &str) -> Result<Vec<PartitionOffsets>, Problem> {
    let resource = Resource::new(ResourceKind::Topic, topic);
    let partitions: Option<Vec<Partition>> = database.read_published_for(resource, Operation::Describe, |view| {
        let found = view.streams.topic_named(topic)?;
        (0..found.partitions).map(|partition| view.streams.partition(found.id, partition).ok()).collect()
    })?;
    let partitions = partitions.ok_or_else(|| unknown_topic(topic))?;
    let history = database.history();
    let offsets = partitions.iter().map(|partition| partition.offsets(&history));
    Ok(offsets.collect::<Result<_, _>>().map_err(quire::Error::from)?)
}

/// `GET /v1/topics/{topic}`: the settings of a topic, and the offsets of its partitions. With
/// `wait_ms` it waits until more than `written` records were written.
pub(crate) async fn topic(
    State(app): State<Arc<App>>,
    PathNames(topic): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let known: Option<u64> = params.one("written")?;
    let wait_ms = within("wait_ms", params.one("wait_ms")?.unwrap_or(0), 0..=WAIT_MS_MAX)?;
    params.end()?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
    // One budget for all reads of the wait.
    let request = BoundedRequest::begin(&app.database());
    let mut last = None;
    loop {
        // Taken before the read, so that records published meanwhile end the wait.
        let seen = app.database().published();
        let (database, name, memory) = (request.database().clone(), topic.clone(), app.memory.clone());
        let (described, claim) = match (aside(move || describe(&database, name, &memory)).await, last.take()) {
            (Ok(described), _) => described,
            // The request has used up its steps. The topic is shown as it was.
            (Err(problem), Some(described)) if problem.is_too_costly() => {
                return shown(described).await;
            }
            (Err(problem), _) => return Err(problem),
        };
        if wait_ms == 0 || known.is_some_and(|known| described.written > known) {
            return shown((described, claim)).await;
        }
        tokio::select! {
            arrived = app.database().publication_after(seen) => arrived?,
            () = tokio::time::sleep_until(deadline) => return shown((described, claim)).await,
            () = app.closing() => return shown((described, claim)).await,
        }
        last = Some((described, claim));
    }
}

/// The response that shows a topic.
async fn shown((described, claim): (TopicWithPartitions, Claim)) -> Result<JsonResponse, Problem> {
    aside(move || JsonResponse::within(claim, &described)).await
}

/// The memory of a partition while a topic is described.
const PARTITION_BYTES: usize = size_of::<PartitionReply>() + size_of::<PartitionStatistics>();

/// Reads a topic, and claims the memory of its partitions before.
fn describe(
    database: &Database,
    topic: String,
    memory: &ResponseMemory,
) -> Result<(TopicWithPartitions, Claim), Problem> {
    let resource = Resource::new(ResourceKind::Topic, &topic);
    let look = |view: &ReadView<'_>| view.streams.topic_named(&topic).map(|topic| topic.partitions);
    let partitions = database.read_published_for(resource, Operation::Describe, look)?;
    let mut claim = memory.claim();
    claim.grow(partitions.unwrap_or(0) as usize * PARTITION_BYTES)?;
    let TopicStatistics { settings, protected_for, partitions } = database.topic(&topic).statistics()?;
    let partitions: Vec<PartitionReply> = partitions
        .into_iter()
        .map(|PartitionStatistics { partition, start, next, unreadable, bytes }| PartitionReply {
            partition,
            start: start.get(),
            next: next.get(),
            unreadable,
            bytes,
        })
        .collect();
    let written = partitions.iter().map(|partition| partition.next).sum();
    let settings = settings_reply(settings, database.batch_bytes_max());
    Ok((TopicWithPartitions { topic, settings, protected_for, partitions, written }, claim))
}

/// `GET /v1/topics/{topic}/groups/{group}`: the committed offsets of a consumer group.
pub(crate) async fn group(
    State(app): State<Arc<App>>,
    PathNames((topic, group)): PathNames<(String, String)>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let database = app.database();
    database.check_permission(Resource::new(ResourceKind::Group, &group), Operation::Describe)?;
    let resource = Resource::new(ResourceKind::Topic, &topic);
    let offsets = database.read_for(resource, Operation::Describe, |view| {
        let found = view.streams.topic_named(&topic)?;
        let of_topic = view.streams.committed_by(&group).filter(|(id, ..)| *id == found.id);
        let offset = of_topic.filter_map(|(_, partition, committed)| {
            Some(TopicOffsetReply {
                partition,
                offset: committed.offset?.get(),
                metadata: committed.metadata.to_owned(),
                time_ms: committed.time.as_millis(),
            })
        });
        Some(offset.collect::<Vec<_>>())
    })?;
    let offsets = offsets.await?.ok_or_else(|| unknown_topic(&topic))?;
    JsonResponse::of(&app.memory, &TopicGroupReply { topic, group, offsets })
}

pub(crate) fn unknown_topic(topic: &str) -> Problem {
    Problem::not_found(format!("unknown topic {topic:?}"))
}
