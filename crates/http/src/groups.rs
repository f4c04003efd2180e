//! Consumer groups: the list, one group with its members and its lag, and its offsets in event
//! stores.

use std::sync::Arc;

use axum::extract::State;
use quire::events::EventPosition;
use quire::streams::Streams;
use quire::{Database, GroupMember, GroupOffset, NextEvent, ResourceKind, Sequence, Source, Timestamp};
use quire_access::BoundedRequest;
use quire_api::ListPage;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::body::Body;
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::memory::Claim;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{
    GroupEventReply, GroupReply, GroupSourceReply, GroupStats, GroupWithOffsets, MemberReply, OffsetReply,
    PositionReply,
};

/// A new offset of a group in an event store.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionRequest {
    /// The position of the next event to read.
    offset: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupEventRequest {
    /// The number of the next event to read.
    offset: Option<u64>,
    /// Instead of a number.
    to: Option<PartitionEnd>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartitionEnd {
    Start,
    End,
}

/// `GET /v1/groups`: lists the groups.
pub(crate) async fn groups(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let database = app.database();
    let now = database.now();
    let mut claim = app.memory.claim();
    let groups = database.read_permitted(|view| {
        let group = |group: quire::streams::GroupInfo<'_>| -> Result<GroupReply, Problem> {
            claim.grow(size_of::<GroupReply>() + group.name.len())?;
            Ok(GroupReply {
                group: group.name.to_owned(),
                partitions: group.partitions,
                generation: group.generation.get(),
                members: members(view.streams, group.name, now),
            })
        };
        let shown = view.streams.groups().filter(|group| view.shows(ResourceKind::Group, group.name));
        shown.map(group).collect::<Result<Vec<_>, _>>()
    })?;
    JsonResponse::within(claim, &ListPage::whole(groups.await??))
}

/// The number of members with a lease.
fn members(streams: &Streams, group: &str, now: Timestamp) -> usize {
    let leases = streams.shared_topics(group).flat_map(|topic| streams.members(group, topic));
    leases.filter(|member| member.until > now).count()
}

/// `GET /v1/groups/{group}`: the members of a group, its offsets and its lag.
pub(crate) async fn group(
    State(app): State<Arc<App>>,
    PathNames(group): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut claim = app.memory.claim();
        let found = database.group(&group).describe_claiming(|bytes| claim.grow(bytes))?;
        let found = found.ok_or_else(|| Problem::not_found(format!("unknown group {group:?}")))?;
        JsonResponse::within(
            claim,
            &GroupWithOffsets {
                generation: found.generation,
                protocol: found.protocol,
                members: found.members.into_iter().map(member_reply).collect(),
                protected_in: found.protected_in,
                offsets: found.offsets.into_iter().map(offset_reply).collect(),
                group,
            },
        )
    })
    .await
}

/// The first groups by name with their lags: at most `count_max`, with `offsets_max` committed
/// offsets together. Claims the memory of the list.
pub(crate) fn statistics(
    database: &Database,
    count_max: usize,
    offsets_max: usize,
    claim: &mut Claim,
) -> Result<Vec<GroupStats>, Problem> {
    let now = database.now();
    let names = database.read_published_permitted(|view| {
        let mut offsets: usize = 0;
        let shown = view.streams.groups().filter(|group| view.shows(ResourceKind::Group, group.name));
        let groups = shown.take(count_max).take_while(|group| {
            offsets = offsets.saturating_add(group.partitions);
            offsets <= offsets_max
        });
        let groups = groups.map(|group| -> Result<_, Problem> {
            claim.grow(size_of::<GroupStats>() + group.name.len())?;
            Ok((group.name.to_owned(), members(view.streams, group.name, now)))
        });
        groups.collect::<Result<Vec<_>, _>>()
    })??;
    let statistics = names.into_iter().map(|(group, members)| {
        let described = database.group(&group).describe()?;
        let lag = described.iter().flat_map(|group| &group.offsets).map(GroupOffset::lag).sum();
        Ok(GroupStats { group, members, lag })
    });
    statistics.collect()
}

/// `POST /v1/groups/{group}/stores/{store}`: sets a group's offset in an event store.
pub(crate) async fn position(
    State(app): State<Arc<App>>,
    PathNames((group, store)): PathNames<(String, String)>,
    _no_key: NoRequestKey,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    body.bounded(BoundedRequest::begin(&app.database()), move |database, body| {
        let PositionRequest { offset } = body.parse()?;
        database.group(&group).commit_position(&store, EventPosition::new(offset))?;
        JsonResponse::of(&app.memory, &PositionReply { group, store, offset })
    })
    .await
}

/// `POST /v1/groups/{group}/queues/{queue}`: sets a group's offset in the history of a queue.
pub(crate) async fn event(
    State(app): State<Arc<App>>,
    PathNames((group, queue)): PathNames<(String, String)>,
    _no_key: NoRequestKey,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    body.bounded(BoundedRequest::begin(&app.database()), move |database, body| {
        let next = match body.parse()? {
            GroupEventRequest { offset: Some(number), to: None } => NextEvent::Numbered(Sequence::new(number)),
            GroupEventRequest { offset: None, to: Some(PartitionEnd::Start) } => NextEvent::First,
            GroupEventRequest { offset: None, to: Some(PartitionEnd::End) } => NextEvent::ToCome,
            _ => return Err(Problem::invalid("give an `offset`, or `to` as \"start\" or \"end\"")),
        };
        let offset = database.group(&group).commit_in_queue(&queue, next)?.get();
        JsonResponse::of(&app.memory, &GroupEventReply { group, queue, offset })
    })
    .await
}

fn member_reply(member: GroupMember) -> MemberReply {
    let GroupMember { topic, member, name, partitions, until } = member;
    MemberReply { topic, member: member.get(), name, partitions, until_ms: until.as_millis() }
}

fn offset_reply(at: GroupOffset) -> OffsetReply {
    let lag = at.lag();
    let source = match at.source {
        Source::Topic(topic) => GroupSourceReply::Topic(topic),
        Source::Store(store) => GroupSourceReply::Store(store),
        Source::Queue(queue) => GroupSourceReply::Queue(queue),
    };
    OffsetReply {
        source,
        partition: at.partition,
        offset: at.offset.get(),
        start: at.start.get(),
        next: at.next.get(),
        lag,
        metadata: at.metadata,
        time_ms: at.time.as_millis(),
    }
}
