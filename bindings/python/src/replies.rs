//! The results of commits, and the replies to their parts.

use pyo3::prelude::*;
use quire::{AcceptedCommit, Reply, graph, jobs, streams};
use quire_client::reply::{CommitReply, PartReply};

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
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    pub(crate) duplicate: bool,
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
    pub(crate) partition: u32,
    pub(crate) offset: u64,
}

/// The reply to a block that was put.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct PutResult {
    pub(crate) version: u64,
    pub(crate) created: bool,
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

/// Converts the result of a commit of an embedded database.
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

/// Converts the answer of a server to a commit.
pub(crate) fn answered(py: Python<'_>, (answer, is_replay): (CommitReply<'static>, bool)) -> PyResult<Py<PyAny>> {
    let reply = |reply: PartReply<'_>| -> PyResult<Py<PyAny>> {
        Ok(match reply {
            PartReply::Appended { first, last, duplicate } => {
                Py::new(py, AppendResult { first, last, duplicate })?.into_any()
            }
            PartReply::Enqueued { job, duplicate, .. } => Py::new(py, EnqueueResult { job, duplicate })?.into_any(),
            PartReply::Produced { partition, offset } => Py::new(py, ProduceResult { partition, offset })?.into_any(),
            PartReply::BlockPut { version, created, .. } => Py::new(py, PutResult { version, created })?.into_any(),
            _ => py.None(),
        })
    };
    let replies = answer.replies.into_iter().map(reply).collect::<PyResult<_>>()?;
    Ok(Py::new(py, CommitResult { position: answer.position, is_replay, replies })?.into_any())
}
