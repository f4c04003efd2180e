//! Handles on the named objects of the four models. Each call is an ordinary commit or read.

mod accessors;
mod decision;
mod events;
mod graph;
mod graph_changes;
#[cfg(feature = "serde")]
mod graph_filter;
mod graph_snapshot;
mod graph_walks;
mod group;
mod job_search;
mod life;
mod missing_sources;
mod projection;
mod queue;
mod queue_list;
mod recorded;
mod rest;
mod saved_projection;
mod store_statistics;
mod subscription;
mod topic;
mod topic_list;
#[cfg(feature = "serde")]
mod typed;
mod unknown_block;
mod worker;
#[cfg(feature = "tokio")]
mod worker_async;

pub use events::{Event, EventStore, Events};
pub use graph::Graph;
pub use graph_changes::GraphChanges;
#[cfg(feature = "serde")]
pub use graph_filter::GraphFilter;
pub use graph_snapshot::GraphSnapshot;
pub use group::{Group, GroupDescription, GroupMember, GroupOffset, NextEvent, Source};
pub use life::LifeEvents;
pub use projection::{Project, ProjectedState, Projection};
pub use queue::{Queue, SubscriptionJob};
pub use recorded::{CommandRecord, RecordedDecision};
pub use rest::Rest;
pub use saved_projection::SavedProjection;
pub use store_statistics::StoreStatistics;
#[cfg(feature = "tokio")]
pub use subscription::EventStream;
pub use subscription::{Progress, Subscription};
pub(crate) use topic::unreadable;
pub use topic::{PartitionStatistics, Producer, Record, Records, Topic, TopicStatistics};
#[cfg(feature = "serde")]
pub use typed::{typed, typed_event};
pub use unknown_block::UnknownBlock;
pub use worker::{HandlerResult, JobOutcome, WorkSummary, Worker};

use quire_shard::{Commands, Replies};

use crate::database::Database;
use crate::{Error, Result, scratch};

/// Commits one command of one model, and waits until the commit is durable. Returns the model's
/// replies.
pub(crate) fn commit_one<T>(
    database: &Database,
    commands: &Commands<'_, '_>,
    of_model: fn(&mut Replies) -> &mut Vec<T>,
) -> Result<T> {
    scratch::with_replies(|replies| match database.commit_and_wait(database.now(), commands, replies)? {
        Ok(_) => Ok(of_model(replies).pop().expect("one command has one answer")),
        Err(refused) => Err(Error::from(*refused)),
    })
}
