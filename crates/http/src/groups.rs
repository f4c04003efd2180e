//! Consumer groups: the groups, and one with its members and how far it is behind; and where a group goes on in an event store.

use std::sync::Arc;

use axum::extract::State;
use quire::events::EventPosition;
use quire::streams::Streams;
use quire::{Database, GroupMember, GroupOffset, NextEvent, Sequence, Source, Timestamp};
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::error::Problem;
use crate::params::{Named, Params};

#[derive(Debug, Serialize)]
struct Groups {
    groups: Vec<GroupReply>,
}

#[derive(Debug, Serialize)]
struct GroupReply {
    group: String,
    /// In how many partitions it committed an offset.
    partitions: usize,
    generation: u32,
    /// Its members by lease.
    members: usize,
}

#[derive(Debug, Serialize)]
struct GroupWithOffsets {
    group: String,
    generation: u32,
    /// How the members of its generation share the partitions; empty when it has none.
    protocol: String,
    members: Vec<MemberReply>,
    /// The topics that keep what it has not read.
    protected_in: Vec<String>,
    offsets: Vec<OffsetReply>,
}

#[derive(Debug, Serialize)]
struct MemberReply {
    topic: String,
    member: u64,
    name: String,
    partitions: Vec<u32>,
    /// When its lease runs out.
    until_ms: u64,
}

#[derive(Debug, Serialize)]
struct OffsetReply {
    #[serde(flatten)]
    source: SourceReply,
    partition: u32,
    /// Where the group goes on.
    offset: u64,
    /// The first offset that is there.
    start: u64,
    /// The offset that the next record gets.
    next: u64,
    /// How many records the group has still to read: what is deleted is not counted.
    lag: u64,
    metadata: String,
    time_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum SourceReply {
    Topic(String),
    Store(String),
    Queue(String),
}

/// Where a group is to go on in an event store.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PositionRequest {
    /// The position of the event that it reads next.
    offset: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventRequest {
    /// The number of the event that it reads next.
    offset: Option<u64>,
    /// In place of a number.
    to: Option<End>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Start,
    End,
}

#[derive(Debug, Serialize)]
struct EventReply {
    group: String,
    queue: String,
    offset: u64,
}

#[derive(Debug, Serialize)]
struct PositionReply {
    group: String,
    store: String,
    offset: u64,
}

/// `GET /v1/groups`: the groups.
pub(crate) async fn groups(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    let now = app.database.now();
    let groups = app.database.read(|view| {
        let group = |group: quire::streams::GroupInfo<'_>| GroupReply {
            group: group.name.to_owned(),
            partitions: group.partitions,
            generation: group.generation.get(),
            members: members(view.streams, group.name, now),
        };
        view.streams.groups().map(group).collect()
    })?;
    Answer::of(&app.memory, &Groups { groups: groups.await? })
}

/// How many members of a group have a lease.
fn members(streams: &Streams, group: &str, now: Timestamp) -> usize {
    let leases = streams.shared_topics(group).flat_map(|topic| streams.members(group, topic));
    leases.filter(|member| member.until > now).count()
}

/// `GET /v1/groups/{group}`: who is in a group, where it goes on, and how much is left.
pub(crate) async fn group(
    State(app): State<Arc<App>>,
    Named(group): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    aside(move || {
        let found = app.database.group(&group).describe()?;
        let found = found.ok_or_else(|| Problem::not_found(format!("there is no group {group:?}")))?;
        Answer::of(
            &app.memory,
            &GroupWithOffsets {
                generation: found.generation,
                protocol: found.protocol,
                members: found.members.into_iter().map(MemberReply::from).collect(),
                protected_in: found.protected_in,
                offsets: found.offsets.into_iter().map(OffsetReply::from).collect(),
                group,
            },
        )
    })
    .await
}

/// How far a group is behind, in all that it reads.
#[derive(Debug, Serialize)]
pub(crate) struct GroupStats {
    pub(crate) group: String,
    pub(crate) members: usize,
    pub(crate) lag: u64,
}

/// Every group with how far it is behind.
pub(crate) fn statistics(database: &Database) -> Result<Vec<GroupStats>, Problem> {
    let now = database.now();
    let names = database.read_published(|view| {
        let groups = view.streams.groups();
        groups.map(|group| (group.name.to_owned(), members(view.streams, group.name, now))).collect::<Vec<_>>()
    })?;
    let statistics = names.into_iter().map(|(group, members)| {
        let described = database.group(&group).describe()?;
        let lag = described.iter().flat_map(|group| &group.offsets).map(GroupOffset::lag).sum();
        Ok(GroupStats { group, members, lag })
    });
    statistics.collect()
}

/// `POST /v1/groups/{group}/stores/{store}`: has a group go on elsewhere in an event store.
pub(crate) async fn position(
    State(app): State<Arc<App>>,
    Named((group, store)): Named<(String, String)>,
    params: Params,
    body: Body,
) -> Result<Answer, Problem> {
    params.end()?;
    let PositionRequest { offset } = body.parse()?;
    aside(move || {
        app.database.group(&group).commit_position(&store, EventPosition::new(offset))?;
        Answer::of(&app.memory, &PositionReply { group, store, offset })
    })
    .await
}

/// `POST /v1/groups/{group}/queues/{queue}`: has a group go on elsewhere in what happens to a queue's jobs.
pub(crate) async fn event(
    State(app): State<Arc<App>>,
    Named((group, queue)): Named<(String, String)>,
    params: Params,
    body: Body,
) -> Result<Answer, Problem> {
    params.end()?;
    let next = match body.parse()? {
        EventRequest { offset: Some(number), to: None } => NextEvent::Numbered(Sequence::new(number)),
        EventRequest { offset: None, to: Some(End::Start) } => NextEvent::First,
        EventRequest { offset: None, to: Some(End::End) } => NextEvent::ToCome,
        _ => return Err(Problem::invalid("a group goes on at an `offset`, or `to` \"start\" or \"end\"")),
    };
    aside(move || {
        let offset = app.database.group(&group).commit_in_queue(&queue, next)?.get();
        Answer::of(&app.memory, &EventReply { group, queue, offset })
    })
    .await
}

impl From<GroupMember> for MemberReply {
    fn from(member: GroupMember) -> Self {
        let GroupMember { topic, member, name, partitions, until } = member;
        MemberReply { topic, member: member.get(), name, partitions, until_ms: until.as_millis() }
    }
}

impl From<GroupOffset> for OffsetReply {
    fn from(at: GroupOffset) -> Self {
        let lag = at.lag();
        let source = match at.source {
            Source::Topic(topic) => SourceReply::Topic(topic),
            Source::Store(store) => SourceReply::Store(store),
            Source::Queue(queue) => SourceReply::Queue(queue),
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
}
