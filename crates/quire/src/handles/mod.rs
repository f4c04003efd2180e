//! Handles on the named things of the four models: the everyday calls, each of them a commit or a read like any other.

mod decision;
mod events;
mod graph;
mod graph_changes;
#[cfg(feature = "serde")]
mod graph_filter;
mod graph_snapshot;
mod group;
mod life;
mod projection;
mod queue;
pub(crate) mod read_by;
mod recorded;
mod rest;
mod saved_projection;
mod store_statistics;
mod subscription;
mod topic;
#[cfg(feature = "serde")]
mod typed;
mod worker;

pub use decision::Fact;
pub use events::{Event, EventStore, Events};
pub use graph::Graph;
pub use graph_changes::GraphChanges;
#[cfg(feature = "serde")]
pub use graph_filter::GraphFilter;
pub use graph_snapshot::GraphSnapshot;
pub use group::{Group, GroupDescription, GroupMember, GroupOffset, NextEvent, Source};
pub use life::LifeEvents;
pub use projection::{Project, Projected, Projection};
pub use queue::{Delivered, Queue};
pub use read_by::OUTSIDE_QUEUE;
pub use recorded::{CommandRecord, Decided};
pub use rest::Rest;
pub use saved_projection::SavedProjection;
pub use store_statistics::StoreStatistics;
pub use subscription::{Progress, Subscription};
pub(crate) use topic::unreadable;
pub use topic::{PartitionStatistics, Producer, Record, Records, Topic, TopicStatistics};
#[cfg(feature = "serde")]
pub use typed::typed;
pub use worker::{Done, Stop, Worker};

use std::cell::Cell;

use crate::database::Database;
use crate::decide::{Commands, Replies};
use crate::outcome::Refused;
use crate::{Error, Result};

thread_local! {
    /// Room for the answer to the next commit of one command: who makes them makes many.
    static REPLIES: Cell<Replies> = const { Cell::new(Replies::new()) };
}

/// Commits one command of one model, whose answers these are, and waits until it is durable.
pub(crate) fn commit_one<T>(
    database: &Database,
    commands: &Commands<'_, '_>,
    of_model: fn(&mut Replies) -> &mut Vec<T>,
) -> Result<T> {
    // A thread that ends has none to give any more.
    let mut replies = REPLIES.try_with(Cell::take).unwrap_or_default();
    let verdict = database.commit_and_wait(database.now(), commands, &mut replies);
    let answer = of_model(&mut replies).pop();
    let _ = REPLIES.try_with(|room| room.set(replies));
    match verdict? {
        Ok(_) => Ok(answer.expect("one command has one answer")),
        Err(refused) => Err(Error::from(*refused)),
    }
}

/// The one answer to the one command of a commit, or the refusal as an error.
pub(crate) fn only<T>(verdict: std::result::Result<Vec<T>, Refused>) -> Result<T> {
    let mut replies = verdict.map_err(Error::from)?;
    Ok(replies.pop().expect("one command has one answer"))
}
