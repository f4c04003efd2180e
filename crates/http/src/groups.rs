//! Reads of consumer groups: the groups, and one with how far it is behind.

use std::sync::Arc;

use axum::extract::State;
use quire::Sequence;
use serde::Serialize;

use crate::answer::{Answer, aside};
use crate::app::App;
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
}

#[derive(Debug, Serialize)]
struct GroupWithOffsets {
    group: String,
    generation: u32,
    offsets: Vec<OffsetReply>,
}

#[derive(Debug, Serialize)]
struct OffsetReply {
    topic: String,
    partition: u32,
    /// Where the group goes on.
    offset: u64,
    /// The offset that the next record gets.
    next: u64,
    /// How many records the group has still to read: what is deleted is not counted.
    lag: u64,
    metadata: String,
    time_ms: u64,
}

/// `GET /v1/groups`: the groups.
pub(crate) async fn groups(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    let groups = app.database.read(|view| {
        let group = |group: quire::streams::GroupInfo<'_>| GroupReply {
            group: group.name.to_owned(),
            partitions: group.partitions,
            generation: group.generation.get(),
        };
        view.streams.groups().map(group).collect()
    })?;
    Ok(Answer::of(&Groups { groups: groups.await? }))
}

/// `GET /v1/groups/{group}`: where a group goes on, and how much is left.
pub(crate) async fn group(
    State(app): State<Arc<App>>,
    Named(group): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let found = app.database.read(|view| {
        let info = view.streams.group_named(&group)?;
        let offsets = view.streams.committed_by(&group).filter_map(|(id, number, committed)| {
            let topic = view.streams.topic(id)?.name.to_owned();
            let partition = view.streams.partition(id, number).ok()?;
            let (offset, metadata) = (committed.offset.get(), committed.metadata.to_owned());
            let time_ms = committed.time.as_millis();
            Some((partition, OffsetReply { topic, partition: number, offset, next: 0, lag: 0, metadata, time_ms }))
        });
        Some((info.generation.get(), offsets.collect::<Vec<_>>()))
    })?;
    let found = found.await?;
    let (generation, found) = found.ok_or_else(|| Problem::not_found(format!("there is no group {group:?}")))?;
    aside(move || {
        let history = app.database.history();
        let offsets = found.into_iter().map(|(partition, reply)| {
            let ends = partition.offsets(&history).map_err(quire::Error::from)?;
            let goes_on = Sequence::new(reply.offset).max(ends.start);
            Ok(OffsetReply { next: ends.next.get(), lag: ends.next.get().saturating_sub(goes_on.get()), ..reply })
        });
        let offsets = offsets.collect::<quire::Result<_>>()?;
        Ok(Answer::of(&GroupWithOffsets { group, generation, offsets }))
    })
    .await
}
