//! Reports administrative acts to [`tracing`], under the target `quire::admin`.
//!
//! An act removes data or changes settings, and operators want to know later that it happened.
//! Every front end commits by this crate, so each act is reported here once. Without a subscriber
//! a commit pays for one relaxed load. Payloads are never reported.

use quire_model::At;
use quire_shard::Commands;
use tracing::{Level, enabled, info};

use crate::streams::{TopicId, TopicRef};
use crate::tools::{Backup, Verification};
use crate::{Compaction, events, graph, jobs, streams};

const TARGET: &str = "quire::admin";

/// The acts of a commit, before it is decided.
#[derive(Debug)]
pub(crate) struct Acts {
    is_enabled: bool,
    /// The names of topics that the commit deletes by their ids. After the commit they are unknown.
    deleted: Vec<(TopicId, String)>,
}

impl Acts {
    /// The acts of a commit. `name_of` returns the name of a topic.
    #[inline]
    pub(crate) fn of(commands: &Commands<'_, '_>, name_of: impl Fn(TopicId) -> Option<String>) -> Self {
        let is_enabled = enabled!(target: TARGET, Level::INFO);
        let deleted = commands.streams.iter().filter(|_| is_enabled).filter_map(|command| match command {
            streams::Command::DeleteTopic { topic: TopicRef::Id(id) } => Some((*id, name_of(*id)?)),
            _ => None,
        });
        Acts { is_enabled, deleted: deleted.collect() }
    }

    /// Reports the acts, once the commit was accepted.
    #[inline]
    pub(crate) fn report(&self, commands: &Commands<'_, '_>, at: At) {
        if self.is_enabled {
            self.report_all(commands, at.position.get());
        }
    }
}

/// Reports a compaction that a caller requested.
pub(crate) fn report_compaction(done: &Compaction) {
    let Compaction { segments, entries_dropped, bytes_before, bytes_after } = *done;
    info!(target: TARGET, segments, entries_dropped, bytes_before, bytes_after, "compacted the log");
}

/// Reports a backup.
pub(crate) fn report_backup(taken: &Backup) {
    let (position, files) = (taken.position.get(), taken.files.len());
    let bytes: u64 = taken.files.iter().map(|file| file.used).sum();
    info!(target: TARGET, position, files, bytes, "backed up the database");
}

/// Reports a database that was created from a backup.
pub(crate) fn report_restore(restored: &Verification) {
    let (records, position) = (restored.totals.records, restored.totals.last.get());
    info!(target: TARGET, records, position, "restored a database from a backup");
}

/// One function for each model.
impl Acts {
    fn report_all(&self, commands: &Commands<'_, '_>, position: u64) {
        commands.streams.iter().for_each(|command| self.report_streams(command, position));
        commands.events.iter().for_each(|command| report_events(command, position));
        commands.jobs.iter().for_each(|command| report_jobs(command, position));
        commands.graph.iter().for_each(|command| report_graph(command, position));
        commands.system.iter().for_each(|command| {
            info!(target: TARGET, position, operation = command.operation(), thing = command.thing(), "changed access");
        });
    }

    /// A topic in a report: its name, or its id when it has no name.
    fn named(&self, topic: &TopicRef<'_>) -> String {
        match topic {
            TopicRef::Name(name) => (*name).to_owned(),
            TopicRef::Id(id) => {
                let known = self.deleted.iter().find(|(deleted, _)| deleted == id);
                known.map_or_else(|| format!("id {}", id.get()), |(_, name)| name.clone())
            }
            TopicRef::Outside(number) => format!("outside {number}"),
        }
    }

    fn report_streams(&self, command: &streams::Command<'_>, position: u64) {
        use streams::Command as C;
        match command {
            C::CreateTopic { name: topic, partitions, .. } => {
                info!(target: TARGET, position, topic, partitions, "created a topic");
            }
            C::DeleteTopic { topic } => info!(target: TARGET, position, topic = self.named(topic), "deleted a topic"),
            C::AlterTopic { topic, .. } => {
                info!(target: TARGET, position, topic = self.named(topic), "changed the settings of a topic");
            }
            C::AddPartitions { topic, partitions } => {
                info!(target: TARGET, position, topic = self.named(topic), partitions, "added partitions to a topic");
            }
            C::DeleteRecords { topic, partition, .. } => {
                info!(target: TARGET, position, topic = self.named(topic), partition, "deleted records of a partition");
            }
            C::DeleteGroup { group, .. } => info!(target: TARGET, position, group, "deleted a consumer group"),
            C::ProtectUnread { group, topic, protects } => {
                info!(target: TARGET, position, group, topic = self.named(topic), protects, "changed the protection of unread records");
            }
            _ => {}
        }
    }
}

fn report_events(command: &events::Command<'_>, position: u64) {
    use events::Command as C;
    match command {
        C::Trim { store, up_to } => {
            info!(target: TARGET, position, store, up_to = up_to.get(), "trimmed an event store");
        }
        // A tag may identify a person, and forgetting it is the purpose.
        C::Forget { store, .. } => info!(target: TARGET, position, store, "deleted the events of a tag"),
        C::SetRetention { store, retention_ms } => {
            info!(target: TARGET, position, store, retention_ms, "changed the retention of an event store");
        }
        C::DropSubscription { name: subscription } => {
            info!(target: TARGET, position, subscription, "removed a subscription");
        }
        C::DropProjection { store, name: projection } => {
            info!(target: TARGET, position, store, projection, "removed a saved projection");
        }
        _ => {}
    }
}

fn report_jobs(command: &jobs::Command<'_>, position: u64) {
    use jobs::Command as C;
    match command {
        C::SetQueue { queue, .. } => info!(target: TARGET, position, queue, "changed the settings of a queue"),
        C::Clear { queue } => info!(target: TARGET, position, queue, "cleared a queue"),
        C::Destroy { queue } => info!(target: TARGET, position, queue, "destroyed a queue"),
        C::Bulk { .. } => info!(target: TARGET, position, "began a bulk change of jobs"),
        C::Each(commands) => commands.iter().for_each(|command| report_jobs(command, position)),
        _ => {}
    }
}

fn report_graph(command: &graph::Command<'_>, position: u64) {
    use graph::Command as C;
    match command {
        C::SetRetention(graph::SetRetention { graph, .. }) => {
            info!(target: TARGET, position, graph, "changed the retention of a graph");
        }
        C::TrimHistory(graph::TrimHistory { graph, from }) => {
            info!(target: TARGET, position, graph, from = from.get(), "trimmed the history of a graph");
        }
        _ => {}
    }
}
