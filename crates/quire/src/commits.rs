//! The commits of the log: which entries of which models each one wrote.
//!
//! ```text
//! first_after, last_before ──▶ the position of a commit
//! commit                   ──▶ its entries that the client may read
//! ```

use quire_model::{Entry, EntryKind, History, ModelId, Operation, Place, Position, Resource, ResourceKind, Timestamp};

use crate::database::Database;
use crate::events::EventPosition;
use crate::graph::BlockId;
use crate::jobs::JobId;
use crate::reading::PermittedView;
use crate::streams::TopicEntry;
use crate::{Error, ErrorKind, Reader, Result};

/// The commits of the published log. See [`Database::commit_log`].
#[derive(Debug)]
pub struct CommitLog {
    database: Database,
    history: Reader,
}

/// A commit, with the entries that the client may read.
#[derive(Debug, Clone)]
pub struct LoggedCommit {
    /// Its position in the log.
    pub position: Position,
    /// Its time.
    pub time: Timestamp,
    /// The entries, in their order.
    pub entries: Vec<CommitEntry>,
    /// The index of the first entry that was not looked at; `None` when all were.
    pub next_index: Option<u32>,
}

/// An entry of a commit.
#[derive(Debug, Clone)]
pub struct CommitEntry {
    /// Its index in the commit.
    pub index: u32,
    /// Its model, and what happened.
    pub kind: EntryKind,
    /// The size of its body in bytes.
    pub bytes: usize,
    /// The object that it concerns.
    pub object: EntryObject,
}

/// The object that an entry concerns. A name is `None` when the object no longer exists.
#[derive(Debug, Clone)]
pub enum EntryObject {
    /// An event store.
    Store {
        /// The name of the store.
        store: Option<String>,
        /// The event, when the entry is one.
        event: Option<LoggedEvent>,
        /// The name of the subscription, the projection or the source.
        label: Option<String>,
    },
    /// A topic or a consumer group.
    Topic {
        /// The name of the topic.
        topic: Option<String>,
        /// The partition.
        partition: Option<u32>,
        /// The name of the consumer group.
        group: Option<String>,
        /// The first offset of a batch, a committed offset, or the new start of a partition.
        offset: Option<u64>,
        /// The number of records of a batch.
        records: Option<u32>,
    },
    /// A queue.
    Queue {
        /// The name of the queue; `None` also for an entry of several queues.
        queue: Option<String>,
        /// The first jobs that the entry adds or changes.
        jobs: Vec<JobId>,
        /// The number of these jobs.
        job_count: usize,
    },
    /// A graph.
    Graph {
        /// The name of the graph.
        graph: Option<String>,
        /// The block that is put or deleted.
        block: Option<BlockId>,
        /// The name of the block.
        name: Option<String>,
        /// The source, the type and the target of the edge that is put or deleted.
        edge: Option<(BlockId, String, BlockId)>,
    },
    /// The database itself: access, idempotency keys, and models of a newer program.
    Database,
}

/// An event of a commit.
#[derive(Debug, Clone)]
pub struct LoggedEvent {
    /// Its position in its store.
    pub position: EventPosition,
    /// Its type.
    pub event_type: String,
    /// Its tags.
    pub tags: Vec<Vec<u8>>,
}

impl Database {
    /// Returns the commits of the published log. A client sees the entries of objects that it has
    /// the permission [`Operation::Read`] for, and the commits with such entries.
    ///
    /// ```
    /// use quire::events::NewEvent;
    /// use quire::{Commit, EntryObject, NewJob, Position};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let order = Commit::new().append("shop/orders", [NewEvent::new("OrderPlaced")]).enqueue("shop/mails", NewJob::new("17"));
    /// let position = db.commit(&order)?.committed()?.at.position;
    ///
    /// let log = db.commit_log();
    /// assert_eq!(log.last_before(Position::MAX)?, Some(position));
    /// let commit = log.commit(position, 0, 100)?.expect("it is in the log");
    /// let stores = commit.entries.iter().filter(|entry| matches!(entry.object, EntryObject::Store { .. }));
    /// // The creation of the store, and the event.
    /// assert_eq!(stores.count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_log(&self) -> CommitLog {
        CommitLog { database: self.clone(), history: self.history() }
    }
}

impl CommitLog {
    /// Returns the position of the first commit after this one. A commit may have no entry that the
    /// client may read.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`]; [`ErrorKind::TooCostly`] within a budget.
    pub fn first_after(&self, position: Position) -> Result<Option<Position>> {
        let next = self.history.next(&[], Place::new(position.next(), 0))?;
        Ok(next.map(|entry| entry.place.position))
    }

    /// Returns the position of the last commit before this one. A commit may have no entry that the
    /// client may read.
    ///
    /// # Errors
    /// As [`CommitLog::first_after`].
    pub fn last_before(&self, position: Position) -> Result<Option<Position>> {
        let previous = self.history.previous(&[], Place::new(position, 0))?;
        Ok(previous.map(|entry| entry.place.position))
    }

    /// Reads a commit: of its entries from `index` on, it looks at `count_max`. Returns `None` for
    /// a commit without an entry there.
    ///
    /// # Errors
    /// As [`CommitLog::first_after`].
    pub fn commit(&self, position: Position, index: u32, count_max: usize) -> Result<Option<LoggedCommit>> {
        let mut found: Vec<Entry<'_>> = Vec::new();
        let (mut from, mut next_index) = (Place::new(position, index), None);
        while let Some(entry) = self.history.next(&[], from)? {
            if entry.place.position != position {
                break;
            }
            if found.len() == count_max {
                next_index = Some(entry.place.index);
                break;
            }
            from = entry.place.after();
            found.push(entry);
        }
        let Some(first) = found.first() else { return Ok(None) };
        let time = first.time;
        let entries = self.database.read_published_permitted(|view| {
            found.iter().filter_map(|entry| visible(view, entry).transpose()).collect::<Result<Vec<_>>>()
        })??;
        Ok(Some(LoggedCommit { position, time, entries, next_index }))
    }
}

impl CommitEntry {
    /// Returns the bytes of memory that the copies of names and tags take.
    pub fn memory_bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let object = match &self.object {
            EntryObject::Store { store, event, label } => {
                let event = event.as_ref().map_or(0, |event| {
                    event.event_type.len()
                        + event.tags.iter().map(|tag| size_of::<Vec<u8>>() + tag.len()).sum::<usize>()
                });
                of(store) + event + of(label)
            }
            EntryObject::Topic { topic, group, .. } => of(topic) + of(group),
            EntryObject::Queue { queue, jobs, .. } => of(queue) + jobs.len() * size_of::<JobId>(),
            EntryObject::Graph { graph, name, edge, .. } => {
                of(graph) + of(name) + edge.as_ref().map_or(0, |(_, edge_type, _)| edge_type.len())
            }
            EntryObject::Database => 0,
        };
        size_of::<Self>() + object
    }
}

/// The facts of an entry; `None` when the client may not read its object.
fn visible(view: &PermittedView<'_>, entry: &Entry<'_>) -> Result<Option<CommitEntry>> {
    // An object without a name needs the permission for every object of its kind.
    let reads = |kind: ResourceKind, name: Option<&str>, operation: Operation| match name {
        Some(name) => view.permits(kind, name, operation),
        None => view.permits_every(kind, operation),
    };
    let owned = |name: Option<&str>| name.map(str::to_owned);
    let (is_visible, object) = match entry.kind.model {
        ModelId::EVENTS => {
            let of = view.events.store_entry(entry);
            let event = of.event.map(|event| LoggedEvent {
                position: event.position,
                event_type: event.event_type.to_owned(),
                tags: event.tags().map(<[u8]>::to_vec).collect(),
            });
            let object = EntryObject::Store { store: owned(of.store), event, label: owned(of.label) };
            (reads(ResourceKind::Store, of.store, Operation::Read), object)
        }
        ModelId::JOBS => {
            let of = view.jobs.queue_entry(entry)?;
            let object = EntryObject::Queue { queue: owned(of.queue), jobs: of.jobs, job_count: of.job_count };
            (reads(ResourceKind::Queue, of.queue, Operation::Read), object)
        }
        ModelId::GRAPH => {
            let of = view.graphs.graph_entry(entry).map_err(|error| newer(entry, &error))?;
            let edge = of.edge.map(|(source, edge_type, target)| (source, edge_type.to_owned(), target));
            let object = EntryObject::Graph { graph: owned(of.graph), block: of.block, name: owned(of.name), edge };
            (reads(ResourceKind::Graph, of.graph, Operation::Read), object)
        }
        ModelId::STREAMS => streams(view, entry, reads)?,
        ModelId::SYSTEM => {
            (view.permits(Resource::ACCESS.kind, Resource::ACCESS.name, Operation::Describe), EntryObject::Database)
        }
        _ => (view.permits(Resource::DATABASE.kind, Resource::DATABASE.name, Operation::Read), EntryObject::Database),
    };
    let (index, kind, bytes) = (entry.place.index, entry.kind, entry.body.len());
    Ok(is_visible.then_some(CommitEntry { index, kind, bytes, object }))
}

/// An entry of topics and groups: whether the client may read it, and its object.
fn streams(
    view: &PermittedView<'_>,
    entry: &Entry<'_>,
    reads: impl Fn(ResourceKind, Option<&str>, Operation) -> bool,
) -> Result<(bool, EntryObject)> {
    let TopicEntry { topic, partition, group, offset } = TopicEntry::of(entry).map_err(|error| newer(entry, &error))?;
    let topic_name = topic.and_then(|topic| view.streams.topic(topic)).map(|topic| topic.name);
    let group_name = group.and_then(|group| view.streams.group_numbered(group)).map(|group| group.name);
    let is_visible = match group {
        // A group names the topics that it reads.
        Some(_) => {
            let names_topic = topic.is_none() || reads(ResourceKind::Topic, topic_name, Operation::Describe);
            names_topic && reads(ResourceKind::Group, group_name, Operation::Read)
        }
        None => reads(ResourceKind::Topic, topic_name, Operation::Read),
    };
    let object = EntryObject::Topic {
        topic: topic_name.map(str::to_owned),
        partition,
        group: group_name.map(str::to_owned),
        offset: offset.map(|offset| offset.get()),
        records: (entry.count > 0).then_some(entry.count),
    };
    Ok((is_visible, object))
}

fn newer(entry: &Entry<'_>, error: &quire_model::codec::CodecError) -> Error {
    let message = format!("entry {} can not be decoded: {error}; use a newer version", entry.place);
    Error::new(ErrorKind::NewerFormat, message)
}
