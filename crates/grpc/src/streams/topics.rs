//! Reads of topics: the list, and one topic with its partitions.

use quire::streams::TopicSettings;
use quire::{Database, Operation, PartitionStatistics, ReadView, Resource, ResourceKind, TopicStatistics};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tonic::Status;

use crate::app::App;
use crate::aside::aside;
use crate::error::{failed, overloaded};
use crate::proto;
use crate::proto::describe_topic_response::Partition;
use crate::proto::list_topics_response::Topic;
use crate::proto::{DescribeTopicResponse, ListTopicsResponse};

/// The memory of a partition: as read, and in the message.
const PARTITION_BYTES: usize = size_of::<PartitionStatistics>() + size_of::<Partition>();

/// Lists the topics.
pub(super) fn list(app: &App) -> Result<(ListTopicsResponse, ByteClaim), Status> {
    let mut claim = app.caller().claim();
    let topics = app.database().read_published_permitted(|view| {
        let shown = || view.streams.topics().filter(|topic| view.shows(ResourceKind::Topic, topic.name));
        let bytes = shown().map(|topic| size_of::<Topic>() + topic.name.len()).sum();
        claim.grow(bytes)?;
        let topic =
            |topic: quire::streams::TopicInfo<'_>| Topic { topic: topic.name.to_owned(), partitions: topic.partitions };
        Ok(shown().map(topic).collect())
    });
    Ok((ListTopicsResponse { topics: topics.map_err(failed)?.map_err(overloaded)? }, claim))
}

/// Returns the settings of a topic, and the offsets of its partitions.
pub(super) async fn describe(app: &App, topic: String) -> Result<(DescribeTopicResponse, ByteClaim), Status> {
    let (bounded, claim) = (BoundedRequest::begin(app.database()), app.caller().claim());
    let database = bounded.database().clone();
    aside(move || described(&database, &topic, claim)).await
}

fn described(
    database: &Database,
    topic: &str,
    mut claim: ByteClaim,
) -> Result<(DescribeTopicResponse, ByteClaim), Status> {
    let resource = Resource::new(ResourceKind::Topic, topic);
    let look = |view: &ReadView<'_>| view.streams.topic_named(topic).map_or(0, |topic| topic.partitions);
    let count = database.read_published_for(resource, Operation::Describe, look).map_err(failed)?;
    claim.grow(count as usize * PARTITION_BYTES).map_err(overloaded)?;
    let TopicStatistics { settings, protected_for, partitions } = database.topic(topic).statistics().map_err(failed)?;
    let partition = |PartitionStatistics { partition, start, next, unreadable, bytes }| Partition {
        partition,
        start: start.get(),
        next: next.get(),
        unreadable: unreadable.unwrap_or_default(),
        bytes,
    };
    let partitions: Vec<Partition> = partitions.into_iter().map(partition).collect();
    let written = partitions.iter().map(|partition| partition.next).sum();
    let settings = Some(shown(settings, database.batch_bytes_max()));
    Ok((DescribeTopicResponse { settings, protected_for, partitions, written }, claim))
}

/// The settings, in a database whose batches have at most `batch_bytes_most` bytes.
fn shown(settings: TopicSettings, batch_bytes_most: u32) -> proto::TopicSettings {
    proto::TopicSettings {
        retention_ms: settings.retention_ms,
        retention_bytes: settings.retention_bytes,
        batch_bytes_max: Some(settings.batch_bytes_max.min(batch_bytes_most)),
        compression: Some(settings.compression.to_string()),
        cleanup: Some(settings.cleanup.to_string()),
        delete_retention_ms: Some(settings.delete_retention_ms),
        timestamp_after_max_ms: Some(settings.timestamp_after_max_ms),
        timestamp_before_max_ms: Some(settings.timestamp_before_max_ms),
    }
}
