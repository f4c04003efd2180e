//! Consumer groups: the list, one group with its members and its lag, and resets of its offsets.

use std::sync::Arc;

use quire::events::EventPosition;
use quire::streams::{Command, Committer, TopicRef};
use quire::{Commit, Database, NextEvent, Operation, Part, ReadView, Resource, ResourceKind, Sequence, Source};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::records::{offset_at_time, start_of};
use crate::app::App;
use crate::aside::aside;
use crate::error::{CallFailure, ItemFault, failed, invalid, not_found, overloaded, refused};
use crate::jobs::request::chosen;
use crate::proto::describe_group_response::{Member, Offset, offset};
use crate::proto::list_groups_response::Group;
use crate::proto::reset_offsets_request::{self as asked, To};
use crate::proto::reset_offsets_response::PartitionOffset;
use crate::proto::{DescribeGroupResponse, ListGroupsResponse, ResetOffsetsRequest, ResetOffsetsResponse};

/// Lists the groups.
pub(super) async fn list(app: &App) -> Result<(ListGroupsResponse, ByteClaim), Status> {
    let now = app.database().now();
    let mut claim = app.caller().claim();
    let groups = app.database().read_permitted(|view| {
        let shown = || view.streams.groups().filter(|group| view.shows(ResourceKind::Group, group.name));
        let bytes = shown().map(|group| size_of::<Group>() + group.name.len()).sum();
        claim.grow(bytes)?;
        let members = |group: &str| {
            let leases = view.streams.shared_topics(group).flat_map(|topic| view.streams.members(group, topic));
            leases.filter(|member| member.until > now).count()
        };
        let group = |group: quire::streams::GroupInfo<'_>| Group {
            group: group.name.to_owned(),
            partitions: u32::try_from(group.partitions).unwrap_or(u32::MAX),
            generation: group.generation.get(),
            members: u32::try_from(members(group.name)).unwrap_or(u32::MAX),
        };
        Ok(shown().map(group).collect())
    });
    let groups = groups.map_err(failed)?.await.map_err(failed)?;
    Ok((ListGroupsResponse { groups: groups.map_err(overloaded)? }, claim))
}

/// Returns the members of a group, its offsets and its lag.
pub(super) async fn describe(app: &App, group: String) -> Result<(DescribeGroupResponse, ByteClaim), Status> {
    let (bounded, mut claim) = (BoundedRequest::begin(app.database()), app.caller().claim());
    let database = bounded.database().clone();
    aside(move || {
        let claimed = |bytes| claim.grow(bytes).map_err(|refusal| CallFailure(overloaded(refusal)));
        let found = database.group(&group).describe_claiming(claimed).map_err(|CallFailure(status)| status)?;
        let found = found.ok_or_else(|| not_found(format!("unknown group {group:?}")))?;
        let message = DescribeGroupResponse {
            generation: found.generation,
            protocol: found.protocol,
            members: found.members.into_iter().map(member).collect(),
            protected_in: found.protected_in,
            offsets: found.offsets.into_iter().map(shown).collect(),
        };
        Ok((message, claim))
    })
    .await
}

fn member(member: quire::GroupMember) -> Member {
    let quire::GroupMember { topic, member, name, partitions, until } = member;
    Member { topic, member: member.get(), name, partitions, until_us: until.as_micros() }
}

fn shown(at: quire::GroupOffset) -> Offset {
    let lag = at.lag();
    let source = match at.source {
        Source::Topic(topic) => offset::Source::Topic(topic),
        Source::Store(store) => offset::Source::Store(store),
        Source::Queue(queue) => offset::Source::Queue(queue),
    };
    Offset {
        source: Some(source),
        partition: at.partition,
        offset: at.offset.get(),
        start: at.start.get(),
        next: at.next.get(),
        lag,
        metadata: at.metadata,
        time_us: at.time.as_micros(),
    }
}

/// Sets the offsets of a group.
pub(super) async fn reset(app: &Arc<App>, request: ResetOffsetsRequest) -> Result<ResetOffsetsResponse, Status> {
    let ResetOffsetsRequest { group, source, partitions, to } = request;
    let source = source.ok_or_else(|| invalid("give a topic, a store or a queue"))?;
    let to = to.ok_or_else(|| invalid("give start, end, offset or timestamp_ms"))?;
    match to {
        To::Start(said) => chosen("start", said)?,
        To::End(said) => chosen("end", said)?,
        To::Offset(_) | To::TimestampMs(_) => {}
    }
    if !partitions.is_empty() && !matches!(source, asked::Source::Topic(_)) {
        return Err(invalid("only a topic has partitions"));
    }
    let bounded = BoundedRequest::begin(app.database());
    let database = bounded.database().clone();
    match source {
        asked::Source::Topic(topic) => reset_in_topic(app, &bounded, group, topic, partitions, to).await,
        asked::Source::Store(store) => aside(move || reset_in_store(&database, &group, &store, to)).await,
        asked::Source::Queue(queue) => aside(move || reset_in_queue(&database, &group, &queue, to)).await,
    }
}

fn only(offset: u64) -> ResetOffsetsResponse {
    ResetOffsetsResponse { offsets: vec![PartitionOffset { partition: 0, offset }] }
}

fn no_times() -> Status {
    invalid("timestamp_ms applies to topics only: give start, end or offset")
}

fn reset_in_store(database: &Database, group: &str, store: &str, to: To) -> Result<ResetOffsetsResponse, Status> {
    let next = match to {
        To::Start(_) => 1,
        To::End(_) => database.events(store).head().map_err(failed)?.get() + 1,
        To::Offset(offset) => offset,
        To::TimestampMs(_) => return Err(no_times()),
    };
    database.group(group).commit_position(store, EventPosition::new(next)).map_err(failed)?;
    Ok(only(next))
}

fn reset_in_queue(database: &Database, group: &str, queue: &str, to: To) -> Result<ResetOffsetsResponse, Status> {
    let next = match to {
        To::Start(_) => NextEvent::First,
        To::End(_) => NextEvent::ToCome,
        To::Offset(number) => NextEvent::Numbered(Sequence::new(number)),
        To::TimestampMs(_) => return Err(no_times()),
    };
    Ok(only(database.group(group).commit_in_queue(queue, next).map_err(failed)?.get()))
}

/// Sets the offsets in partitions of a topic in one commit.
async fn reset_in_topic(
    app: &Arc<App>,
    bounded: &BoundedRequest,
    group: String,
    topic: String,
    partitions: Vec<u32>,
    to: To,
) -> Result<ResetOffsetsResponse, Status> {
    let resource = Resource::new(ResourceKind::Topic, &topic);
    let look = |view: &ReadView<'_>| view.streams.topic_named(&topic).map(|topic| topic.partitions);
    let count = app.database().read_published_for(resource, Operation::Read, look);
    let count = count.map_err(failed)?.ok_or_else(|| not_found(format!("unknown topic {topic:?}")))?;
    let partitions = chosen_partitions(partitions, count)?;
    let mut offsets = Vec::with_capacity(partitions.len());
    if let To::TimestampMs(timestamp_ms) = to {
        for &partition in &partitions {
            let offset = offset_at_time(app, bounded, &topic, partition, timestamp_ms).await?;
            offsets.push(PartitionOffset { partition, offset: offset.get() });
        }
    }
    let database = bounded.database().clone();
    aside(move || {
        let handle = database.topic(&topic);
        for partition in partitions {
            let offset = match to {
                To::Start(_) => start_of(&database, &topic, partition)?,
                To::End(_) => handle.offsets(partition).map_err(failed)?.next,
                To::Offset(offset) => Sequence::new(offset),
                To::TimestampMs(_) => break,
            };
            offsets.push(PartitionOffset { partition, offset: offset.get() });
        }
        let commit = offsets.iter().fold(Commit::new(), |commit, at| {
            commit.part(Part::Streams(Command::CommitOffset {
                group: &group,
                topic: TopicRef::Name(&topic),
                partition: at.partition,
                offset: Sequence::new(at.offset),
                leader_epoch: None,
                metadata: "",
                by: Committer::Anyone,
            }))
        });
        match database.commit(&commit).map_err(failed)? {
            quire::Outcome::Committed(_) => Ok(ResetOffsetsResponse { offsets }),
            quire::Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    })
    .await
}

/// The partitions of a request, each at most once, in a topic of `count` partitions. None means
/// all.
fn chosen_partitions(partitions: Vec<u32>, count: u32) -> Result<Vec<u32>, Status> {
    if partitions.is_empty() {
        return Ok((0..count).collect());
    }
    if partitions.len() > count as usize {
        let given = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        return Err(ItemFault::out_of_range("the number of partitions", given, count).into());
    }
    let mut sorted = partitions.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(invalid(format!("partition {} is given twice: give each partition once", twice[0])));
    }
    Ok(partitions)
}
