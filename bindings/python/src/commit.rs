//! Commits: their parts, and the request that each home gets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quire::Sequence;
use quire::events;
use quire::jobs::{JobId, LeaseToken};
use quire_client::request::{
    Ack, AppendPart, CommitOffset, CommitRequest, DeleteBlockPart, DeleteEdgePart, PartRequest, Snooze,
};

use crate::errors::CallError;
use crate::jobs::Job;
use crate::pieces::{
    BlockPieces, BorrowValues, CopyValues, EdgePieces, JobPieces, Keep, MessagePieces, RetryIn, served_fail,
};
use crate::query::{conditions, kept_condition, kept_event, new_events, owned_event};
use crate::served::{self, millis};
use crate::values::{self, duration};

/// Parts that happen together, or not at all.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Commit(Mutex<CommitParts>);

/// The parts of a commit, which own their data.
#[derive(Default)]
pub(crate) struct CommitParts {
    pub(crate) key: Option<String>,
    parts: Vec<CommitPart>,
}

/// A part of a commit.
enum CommitPart {
    Append { store: String, events: Vec<events::NewEvent<'static>>, conditions: Vec<events::Condition<'static>> },
    Produce { topic: String, message: MessagePieces },
    CommitOffset { group: String, topic: String, partition: u32, offset: u64 },
    Enqueue { queue: String, job: JobPieces },
    Ack { lease: (JobId, LeaseToken), result: Vec<u8> },
    Fail { lease: (JobId, LeaseToken), error: String, retry: RetryIn },
    Snooze { lease: (JobId, LeaseToken), wait: std::time::Duration },
    Put { graph: String, block: BlockPieces },
    Delete { graph: String, name: String },
    Link { graph: String, edge: EdgePieces },
    Unlink { graph: String, source: String, edge_type: String, target: String },
}

impl CommitParts {
    /// The commit for an embedded database. It borrows the parts.
    pub(crate) fn embedded(&self) -> quire::Commit<'_> {
        self.embedded_as::<BorrowValues>()
    }

    /// The same with copies, for a handler that returns it.
    pub(crate) fn embedded_copy(&self) -> quire::Commit<'static> {
        self.embedded_as::<CopyValues>()
    }

    fn embedded_as<'c, 'o, K: Keep<'c, 'o>>(&'c self) -> quire::Commit<'o> {
        let commit = self.parts.iter().fold(quire::Commit::new(), |commit, part| part.embedded::<K>(commit));
        self.key.iter().fold(commit, |commit, key| commit.idempotency_key(K::text(key)))
    }

    /// The commit for a server, without its idempotency key.
    ///
    /// # Errors
    /// When a server can't carry out a part.
    pub(crate) fn served(&self) -> Result<CommitRequest<'static>, CallError> {
        Ok(CommitRequest { parts: self.parts.iter().map(CommitPart::served).collect::<Result<_, _>>()? })
    }
}

impl CommitPart {
    fn embedded<'c, 'o, K: Keep<'c, 'o>>(&'c self, commit: quire::Commit<'o>) -> quire::Commit<'o> {
        match self {
            CommitPart::Append { store, events, conditions } => {
                let (events, conditions) =
                    (events.iter().map(kept_event::<K>), conditions.iter().map(kept_condition::<K>));
                commit.append_if(K::text(store), events, conditions)
            }
            CommitPart::Produce { topic, message } => commit.produce(K::text(topic), message.embedded::<K>()),
            CommitPart::CommitOffset { group, topic, partition, offset } => {
                commit.commit_offset(K::text(group), K::text(topic), *partition, Sequence::new(*offset))
            }
            CommitPart::Enqueue { queue, job } => commit.enqueue(K::text(queue), job.embedded::<K>()),
            CommitPart::Ack { lease: (job, token), result } => commit.ack(*job, *token, K::bytes(result)),
            CommitPart::Fail { lease: (job, token), error, retry } => commit.fail(*job, *token, K::text(error), *retry),
            CommitPart::Snooze { lease: (job, token), wait } => commit.snooze(*job, *token, *wait),
            CommitPart::Put { graph, block } => commit.put_block(K::text(graph), block.embedded::<K>()),
            CommitPart::Delete { graph, name } => commit.delete_block(K::text(graph), K::text(name)),
            CommitPart::Link { graph, edge } => commit.put_edge(K::text(graph), edge.embedded::<K>()),
            CommitPart::Unlink { graph, source, edge_type, target } => {
                commit.delete_edge(K::text(graph), K::text(source), K::text(edge_type), K::text(target))
            }
        }
    }

    fn served(&self) -> Result<PartRequest<'static>, CallError> {
        Ok(match self {
            CommitPart::Append { store, events, conditions } => {
                let append = events.iter().map(served::event).fold(AppendPart::new(store.clone()), AppendPart::event);
                conditions.iter().map(served::condition).fold(append, AppendPart::condition).into()
            }
            CommitPart::Produce { topic, message } => message.served(topic).into(),
            CommitPart::CommitOffset { group, topic, partition, offset } => {
                CommitOffset::new(group.clone(), topic.clone(), *partition, *offset).into()
            }
            CommitPart::Enqueue { queue, job } => job.served(queue)?.into(),
            CommitPart::Ack { lease: (job, token), result } => Ack::new(*job, *token).result(result).into(),
            CommitPart::Fail { lease, error, retry } => served_fail(*lease, error, *retry).into(),
            CommitPart::Snooze { lease: (job, token), wait } => Snooze::new(*job, *token, millis(*wait)).into(),
            CommitPart::Put { graph, block } => block.served(graph).into(),
            CommitPart::Delete { graph, name } => DeleteBlockPart::new(graph.clone(), name.clone()).into(),
            CommitPart::Link { graph, edge } => edge.served(graph).into(),
            CommitPart::Unlink { graph, source, edge_type, target } => {
                DeleteEdgePart::new(graph.clone(), source.clone(), edge_type.clone(), target.clone()).into()
            }
        })
    }
}

impl Commit {
    pub(crate) fn lock(&self) -> MutexGuard<'_, CommitParts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(slf: PyRef<'_, Self>, part: CommitPart) -> PyRef<'_, Self> {
        slf.lock().parts.push(part);
        slf
    }
}

#[pymethods]
impl Commit {
    #[new]
    #[pyo3(signature = (*, idempotency_key=None))]
    fn new(idempotency_key: Option<String>) -> Self {
        Commit(Mutex::new(CommitParts { key: idempotency_key, parts: Vec::new() }))
    }

    fn __len__(&self) -> usize {
        self.lock().parts.len()
    }

    #[pyo3(signature = (store, event_type, data=None, *, tags=None, metadata=None, id=None, conditions=None))]
    fn append<'py>(
        slf: PyRef<'py, Self>,
        store: String,
        event_type: &str,
        data: Option<&Bound<'py, PyAny>>,
        tags: Option<&Bound<'py, PyAny>>,
        metadata: Option<&Bound<'py, PyAny>>,
        id: Option<&Bound<'py, PyAny>>,
        conditions: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRef<'py, Self>> {
        let events = vec![owned_event(event_type, data, tags, metadata, id)?];
        let conditions = self::conditions(conditions)?;
        Ok(Self::add(slf, CommitPart::Append { store, events, conditions }))
    }

    #[pyo3(signature = (store, events, *, conditions=None))]
    fn append_all<'py>(
        slf: PyRef<'py, Self>,
        store: String,
        events: &Bound<'py, PyAny>,
        conditions: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRef<'py, Self>> {
        let (events, conditions) = (new_events(events)?, self::conditions(conditions)?);
        Ok(Self::add(slf, CommitPart::Append { store, events, conditions }))
    }

    #[pyo3(signature = (topic, value=None, *, key=None, headers=None, partition=None, time=None))]
    fn produce<'py>(
        slf: PyRef<'py, Self>,
        topic: String,
        value: Option<&Bound<'py, PyAny>>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyDict>>,
        partition: Option<u32>,
        time: Option<f64>,
    ) -> PyResult<PyRef<'py, Self>> {
        let message = MessagePieces::of(value, key, headers, partition, time)?;
        Ok(Self::add(slf, CommitPart::Produce { topic, message }))
    }

    fn commit_offset(
        slf: PyRef<'_, Self>,
        group: String,
        topic: String,
        partition: u32,
        offset: u64,
    ) -> PyRef<'_, Self> {
        Self::add(slf, CommitPart::CommitOffset { group, topic, partition, offset })
    }

    #[pyo3(signature = (queue, payload=None, **options))]
    fn enqueue<'py>(
        slf: PyRef<'py, Self>,
        queue: String,
        payload: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        let job = JobPieces::of(payload, options)?;
        Ok(Self::add(slf, CommitPart::Enqueue { queue, job }))
    }

    #[pyo3(signature = (job, result=None))]
    fn ack<'py>(slf: PyRef<'py, Self>, job: &Job, result: Option<&Bound<'py, PyAny>>) -> PyResult<PyRef<'py, Self>> {
        let result = values::owned(result)?;
        Ok(Self::add(slf, CommitPart::Ack { lease: job.lease(), result }))
    }

    #[pyo3(signature = (job, error, *, retry_in=None, retry=true))]
    fn fail<'py>(
        slf: PyRef<'py, Self>,
        job: &Job,
        error: String,
        retry_in: Option<f64>,
        retry: bool,
    ) -> PyResult<PyRef<'py, Self>> {
        let retry = RetryIn::of(retry_in, retry)?;
        Ok(Self::add(slf, CommitPart::Fail { lease: job.lease(), error, retry }))
    }

    fn snooze<'py>(slf: PyRef<'py, Self>, job: &Job, seconds: f64) -> PyResult<PyRef<'py, Self>> {
        let wait = duration("seconds", seconds)?;
        Ok(Self::add(slf, CommitPart::Snooze { lease: job.lease(), wait }))
    }

    #[pyo3(signature = (graph, name, kind, content=None, *, tags=None, metadata=None, source=None, expect_version=None))]
    fn put<'py>(
        slf: PyRef<'py, Self>,
        graph: String,
        name: String,
        kind: String,
        content: Option<&Bound<'py, PyAny>>,
        tags: Option<&Bound<'py, PyAny>>,
        metadata: Option<&Bound<'py, PyAny>>,
        source: Option<String>,
        expect_version: Option<u64>,
    ) -> PyResult<PyRef<'py, Self>> {
        let block = BlockPieces::of(name, kind, content, tags, metadata, source, expect_version)?;
        Ok(Self::add(slf, CommitPart::Put { graph, block }))
    }

    fn delete(slf: PyRef<'_, Self>, graph: String, name: String) -> PyRef<'_, Self> {
        Self::add(slf, CommitPart::Delete { graph, name })
    }

    #[pyo3(signature = (graph, source, edge_type, target, properties=None, *, allow_missing=false))]
    fn link<'py>(
        slf: PyRef<'py, Self>,
        graph: String,
        source: String,
        edge_type: String,
        target: String,
        properties: Option<&Bound<'py, PyAny>>,
        allow_missing: bool,
    ) -> PyResult<PyRef<'py, Self>> {
        let properties = values::owned(properties)?;
        let edge = EdgePieces { source, edge_type, target, properties, allow_missing };
        Ok(Self::add(slf, CommitPart::Link { graph, edge }))
    }

    fn unlink(
        slf: PyRef<'_, Self>,
        graph: String,
        source: String,
        edge_type: String,
        target: String,
    ) -> PyRef<'_, Self> {
        Self::add(slf, CommitPart::Unlink { graph, source, edge_type, target })
    }
}
