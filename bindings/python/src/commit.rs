//! Commits, and the replies to their parts.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quire::{AcceptedCommit, Message, NewBlock, NewEdge, Reply, Sequence, graph, jobs, streams};

use crate::jobs::{Job, new_job, retry_time};
use crate::query::{conditions, new_events, owned_event, strings};
use crate::topic::message;
use crate::values::{self, duration};

/// Parts that happen together, or not at all.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Commit(Mutex<quire::Commit<'static>>);

impl Commit {
    pub(crate) fn lock(&self) -> MutexGuard<'_, quire::Commit<'static>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add<'py>(
        slf: PyRef<'py, Self>,
        add: impl FnOnce(quire::Commit<'static>) -> quire::Commit<'static>,
    ) -> PyRef<'py, Self> {
        {
            let mut commit = slf.lock();
            *commit = add(std::mem::take(&mut *commit));
        }
        slf
    }
}

#[pymethods]
impl Commit {
    #[new]
    #[pyo3(signature = (*, idempotency_key=None))]
    fn new(idempotency_key: Option<String>) -> Self {
        let commit = quire::Commit::new();
        Commit(Mutex::new(match idempotency_key {
            Some(key) => commit.idempotency_key(key),
            None => commit,
        }))
    }

    fn __len__(&self) -> usize {
        self.lock().len()
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
        let event = owned_event(event_type, data, tags, metadata, id)?;
        let conditions = self::conditions(conditions)?;
        Ok(Self::add(slf, |commit| commit.append_if(store, [event], conditions)))
    }

    #[pyo3(signature = (store, events, *, conditions=None))]
    fn append_all<'py>(
        slf: PyRef<'py, Self>,
        store: String,
        events: &Bound<'py, PyAny>,
        conditions: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<PyRef<'py, Self>> {
        let (events, conditions) = (new_events(events)?, self::conditions(conditions)?);
        Ok(Self::add(slf, |commit| commit.append_if(store, events, conditions)))
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
        let message: Message<'static> = message(value, key, headers, partition, time)?;
        Ok(Self::add(slf, |commit| commit.produce(topic, message)))
    }

    fn commit_offset(
        slf: PyRef<'_, Self>,
        group: String,
        topic: String,
        partition: u32,
        offset: u64,
    ) -> PyRef<'_, Self> {
        Self::add(slf, |commit| commit.commit_offset(group, topic, partition, Sequence::new(offset)))
    }

    #[pyo3(signature = (queue, payload=None, **options))]
    fn enqueue<'py>(
        slf: PyRef<'py, Self>,
        queue: String,
        payload: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        let job = new_job(payload, options)?;
        Ok(Self::add(slf, |commit| commit.enqueue(queue, job)))
    }

    #[pyo3(signature = (job, result=None))]
    fn ack<'py>(slf: PyRef<'py, Self>, job: &Job, result: Option<&Bound<'py, PyAny>>) -> PyResult<PyRef<'py, Self>> {
        let result = values::owned(result)?;
        Ok(Self::add(slf, |commit| commit.ack(job.id(), job.token(), result)))
    }

    #[pyo3(signature = (job, error, *, retry_in=None, retry=true))]
    fn fail<'py>(
        slf: PyRef<'py, Self>,
        job: &Job,
        error: String,
        retry_in: Option<f64>,
        retry: bool,
    ) -> PyResult<PyRef<'py, Self>> {
        let retry = retry_time(retry_in, retry)?;
        Ok(Self::add(slf, |commit| commit.fail(job.id(), job.token(), error, retry)))
    }

    fn snooze<'py>(slf: PyRef<'py, Self>, job: &Job, seconds: f64) -> PyResult<PyRef<'py, Self>> {
        let until = duration("seconds", seconds)?;
        Ok(Self::add(slf, |commit| commit.snooze(job.id(), job.token(), until)))
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
        let block = new_block(name, kind, content, tags, metadata, source, expect_version)?;
        Ok(Self::add(slf, |commit| commit.put_block(graph, block)))
    }

    fn delete(slf: PyRef<'_, Self>, graph: String, name: String) -> PyRef<'_, Self> {
        Self::add(slf, |commit| commit.delete_block(graph, name))
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
        let edge = NewEdge::new(source, edge_type, target).properties(values::owned(properties)?);
        Ok(Self::add(slf, |commit| commit.put_edge(graph, edge.allow_missing(allow_missing))))
    }

    fn unlink(
        slf: PyRef<'_, Self>,
        graph: String,
        source: String,
        edge_type: String,
        target: String,
    ) -> PyRef<'_, Self> {
        Self::add(slf, |commit| commit.delete_edge(graph, source, edge_type, target))
    }
}

/// Returns the block of the keywords.
pub(crate) fn new_block(
    name: String,
    kind: String,
    content: Option<&Bound<'_, PyAny>>,
    tags: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
    source: Option<String>,
    expect_version: Option<u64>,
) -> PyResult<NewBlock<'static>> {
    let block = NewBlock::new(name, kind).content(values::owned(content)?).metadata(values::owned(metadata)?);
    let block = strings("tags", tags)?.into_iter().fold(block, NewBlock::tag);
    let block = block.source(source.unwrap_or_default());
    Ok(match expect_version {
        Some(version) => block.expect_version(graph::Version::new(version)),
        None => block,
    })
}

/// The result of a commit.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct CommitResult {
    position: u64,
    is_replay: bool,
    replies: Vec<Py<PyAny>>,
}

/// The reply to an append.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct AppendResult {
    first: Option<u64>,
    last: Option<u64>,
    duplicate: bool,
}

/// The reply to an enqueue.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct EnqueueResult {
    job: String,
    duplicate: bool,
}

/// The reply to a produced message.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct ProduceResult {
    partition: u32,
    offset: u64,
}

/// The reply to a block that was put.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct PutResult {
    version: u64,
    created: bool,
}

impl AppendResult {
    pub(crate) fn new(appended: quire::events::AppendResult) -> Self {
        let quire::events::AppendResult { first, last, duplicate } = appended;
        AppendResult { first: first.map(|first| first.get()), last: last.map(|last| last.get()), duplicate }
    }
}

impl ProduceResult {
    pub(crate) fn new(produced: &streams::ProduceResult) -> Self {
        ProduceResult { partition: produced.partition, offset: produced.base_offset.get() }
    }
}

impl PutResult {
    /// The reply to a block; `None` for other replies of a graph.
    pub(crate) fn new(reply: &graph::Reply) -> Option<Self> {
        match reply {
            graph::Reply::BlockPut { version, created, .. } => {
                Some(PutResult { version: version.get(), created: *created })
            }
            _ => None,
        }
    }
}

/// Converts the result of a commit.
pub(crate) fn committed(py: Python<'_>, accepted: AcceptedCommit) -> PyResult<Py<PyAny>> {
    let reply = |reply: Reply| -> PyResult<Py<PyAny>> {
        Ok(match reply {
            Reply::Events(appended) => Py::new(py, AppendResult::new(appended))?.into_any(),
            Reply::Jobs(jobs::Reply::Enqueued { job, duplicate, .. }) => {
                Py::new(py, EnqueueResult { job: job.to_string(), duplicate })?.into_any()
            }
            Reply::Streams(streams::Reply::Produced(produced)) => {
                Py::new(py, ProduceResult::new(&produced))?.into_any()
            }
            Reply::Graph(put) => match PutResult::new(&put) {
                Some(put) => Py::new(py, put)?.into_any(),
                None => py.None(),
            },
            _ => py.None(),
        })
    };
    let replies = accepted.replies.into_iter().map(reply).collect::<PyResult<_>>()?;
    let (position, is_replay) = (accepted.at.position.get(), accepted.is_replay);
    Ok(Py::new(py, CommitResult { position, is_replay, replies })?.into_any())
}
