//! The values of a commit that its parts keep: each is made into the request of either home.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quire::jobs::{Backoff, Clash, JobId, LeaseToken, Priority};
use quire::{Message, NewBlock, NewEdge, NewJob, RetryTime, UniqueKey, graph};
use quire_client::request::{self, Enqueue, Produce, PutBlockPart, PutEdgePart};

use crate::errors::CallError;
use crate::query::strings;
use crate::served::millis;
use crate::values::{self, Value, duration};

/// Whether a commit of an embedded database borrows the values of its parts, or copies them.
pub(crate) trait Keep<'c, 'o> {
    fn text(text: &'c str) -> Cow<'o, str>;
    fn bytes(bytes: &'c [u8]) -> Cow<'o, [u8]>;
}

/// The commit borrows them.
pub(crate) enum BorrowValues {}

/// The commit owns copies.
pub(crate) enum CopyValues {}

impl<'c> Keep<'c, 'c> for BorrowValues {
    fn text(text: &'c str) -> Cow<'c, str> {
        Cow::Borrowed(text)
    }

    fn bytes(bytes: &'c [u8]) -> Cow<'c, [u8]> {
        Cow::Borrowed(bytes)
    }
}

impl<'c> Keep<'c, 'static> for CopyValues {
    fn text(text: &'c str) -> Cow<'static, str> {
        Cow::Owned(text.to_owned())
    }

    fn bytes(bytes: &'c [u8]) -> Cow<'static, [u8]> {
        Cow::Owned(bytes.to_owned())
    }
}

/// A job to enqueue.
#[derive(Default)]
pub(crate) struct JobPieces {
    payload: Vec<u8>,
    kind: Option<String>,
    group: Option<String>,
    tags: Vec<String>,
    unique: Option<Vec<u8>>,
    priority: Option<u8>,
    run_in: Option<Duration>,
    expires_in: Option<Duration>,
    timeout: Option<Duration>,
    backoff: Option<Duration>,
    attempts_max: Option<u16>,
    retention: Option<Duration>,
}

impl JobPieces {
    /// The job of the keywords of an enqueue.
    pub(crate) fn of(payload: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut job = JobPieces { payload: values::owned(payload)?, ..JobPieces::default() };
        for (name, value) in options.into_iter().flat_map(|options| options.iter()) {
            if value.is_none() {
                continue;
            }
            let name: String = name.extract()?;
            let seconds = || duration(&name, value.extract()?).map(Some);
            match name.as_str() {
                "kind" => job.kind = value.extract()?,
                "group" => job.group = value.extract()?,
                "tags" => job.tags = strings("tags", Some(&value))?,
                "unique" => job.unique = Some(values::owned(Some(&value))?),
                "priority" => job.priority = value.extract()?,
                "run_in" => job.run_in = seconds()?,
                "expires_in" => job.expires_in = seconds()?,
                "timeout" => job.timeout = seconds()?,
                "backoff" => job.backoff = seconds()?,
                "attempts_max" => job.attempts_max = value.extract()?,
                "retention" => job.retention = seconds()?,
                other => {
                    let message = format!("enqueue got an unexpected keyword argument {other:?}");
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        Ok(job)
    }

    pub(crate) fn embedded<'c, 'o, K: Keep<'c, 'o>>(&'c self) -> NewJob<'o> {
        let mut job = NewJob::new(K::bytes(&self.payload));
        job = self.kind.iter().fold(job, |job, kind| job.kind(K::text(kind)));
        job = self.group.iter().fold(job, |job, group| job.group(K::text(group)));
        job = self.tags.iter().fold(job, |job, tag| job.tag(K::text(tag)));
        job = self.unique.iter().fold(job, |job, key| job.unique(UniqueKey::new(K::bytes(key)).clash(Clash::Keep)));
        job = self.priority.into_iter().fold(job, |job, priority| job.priority(Priority::new(priority)));
        job = self.run_in.into_iter().fold(job, NewJob::run_at);
        job = self.expires_in.into_iter().fold(job, NewJob::expires_at);
        job = self.timeout.into_iter().fold(job, NewJob::timeout);
        job = self.backoff.into_iter().fold(job, |job, wait| job.backoff(Backoff::fixed(wait)));
        job = self.attempts_max.into_iter().fold(job, NewJob::attempts_max);
        self.retention.into_iter().fold(job, NewJob::retention)
    }

    pub(crate) fn served(&self, queue: &str) -> Result<Enqueue<'static>, CallError> {
        let mut job = Enqueue::new(queue.to_owned(), &self.payload);
        job = self.kind.iter().cloned().fold(job, Enqueue::kind);
        job = self.group.iter().cloned().fold(job, Enqueue::group);
        job = self.tags.iter().cloned().fold(job, Enqueue::tag);
        if let Some(key) = &self.unique {
            let bytes =
                |_| CallError::Invalid("the unique key of a job must be text when a server has the queue".to_owned());
            job = job.unique_key(str::from_utf8(key).map_err(bytes)?.to_owned());
        }
        job = self.priority.into_iter().fold(job, Enqueue::priority);
        job = self.run_in.into_iter().map(millis).fold(job, Enqueue::delay_ms);
        job = self.expires_in.into_iter().map(millis).fold(job, Enqueue::expires_in_ms);
        job = self.timeout.into_iter().map(millis).fold(job, Enqueue::timeout_ms);
        job = self.backoff.into_iter().fold(job, |job, wait| job.backoff_list_ms(vec![millis(wait)]));
        job = self.attempts_max.into_iter().fold(job, Enqueue::attempts_max);
        Ok(self.retention.into_iter().map(millis).fold(job, Enqueue::retention_ms))
    }
}

/// A message to produce.
pub(crate) struct MessagePieces {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) partition: Option<u32>,
    pub(crate) timestamp_ms: Option<i64>,
}

impl MessagePieces {
    /// The message of the keywords of a produce.
    pub(crate) fn of(
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyDict>>,
        partition: Option<u32>,
        time: Option<f64>,
    ) -> PyResult<Self> {
        let headers = headers.into_iter().flat_map(|headers| headers.iter()).map(|(name, value)| {
            let value = Value::of(Some(&value))?.into_present();
            Ok((name.extract()?, value))
        });
        Ok(MessagePieces {
            key: Value::of(key)?.into_present(),
            value: Value::of(value)?.into_present(),
            headers: headers.collect::<PyResult<_>>()?,
            partition,
            timestamp_ms: time.map(|time| (time * 1e3).round() as i64),
        })
    }

    pub(crate) fn embedded<'c, 'o, K: Keep<'c, 'o>>(&'c self) -> Message<'o> {
        let mut message = match &self.value {
            Some(value) => Message::new(K::bytes(value)),
            None => Message::tombstone(),
        };
        message = self.key.iter().fold(message, |message, key| message.key(K::bytes(key)));
        for (name, value) in &self.headers {
            message = match value {
                Some(value) => message.header(K::text(name), K::bytes(value)),
                None => message.header_without_value(K::text(name)),
            };
        }
        message = self.partition.into_iter().fold(message, Message::partition);
        self.timestamp_ms.into_iter().fold(message, Message::timestamp_ms)
    }

    pub(crate) fn served(&self, topic: &str) -> Produce<'static> {
        let topic = topic.to_owned();
        let mut message = match &self.value {
            Some(value) => Produce::new(topic, value),
            None => Produce::tombstone(topic),
        };
        message = self.key.iter().fold(message, Produce::key);
        for (name, value) in &self.headers {
            message = match value {
                Some(value) => message.header(name.clone(), value),
                None => message.header_without_value(name.clone()),
            };
        }
        message = self.partition.into_iter().fold(message, Produce::partition);
        self.timestamp_ms.into_iter().fold(message, Produce::timestamp_ms)
    }
}

/// A block to put.
pub(crate) struct BlockPieces {
    pub(crate) name: String,
    kind: String,
    content: Vec<u8>,
    tags: Vec<String>,
    metadata: Vec<u8>,
    source: String,
    expect_version: Option<u64>,
}

impl BlockPieces {
    /// The block of the keywords of a put.
    pub(crate) fn of(
        name: String,
        kind: String,
        content: Option<&Bound<'_, PyAny>>,
        tags: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        source: Option<String>,
        expect_version: Option<u64>,
    ) -> PyResult<Self> {
        let (content, metadata) = (values::owned(content)?, values::owned(metadata)?);
        let (tags, source) = (strings("tags", tags)?, source.unwrap_or_default());
        Ok(BlockPieces { name, kind, content, tags, metadata, source, expect_version })
    }

    pub(crate) fn embedded<'c, 'o, K: Keep<'c, 'o>>(&'c self) -> NewBlock<'o> {
        let block = NewBlock::new(K::text(&self.name), K::text(&self.kind)).content(K::bytes(&self.content));
        let block = block.metadata(K::bytes(&self.metadata)).source(K::text(&self.source));
        let block = self.tags.iter().fold(block, |block, tag| block.tag(K::text(tag)));
        self.expect_version.into_iter().map(graph::Version::new).fold(block, NewBlock::expect_version)
    }

    pub(crate) fn served(&self, graph: &str) -> PutBlockPart<'static> {
        let block = PutBlockPart::new(graph.to_owned(), self.name.clone(), self.kind.clone());
        let block = block.content(&self.content).metadata(&self.metadata).source(self.source.clone());
        let block = self.tags.iter().cloned().fold(block, PutBlockPart::tag);
        self.expect_version.into_iter().fold(block, PutBlockPart::expect_version)
    }
}

/// An edge to put.
pub(crate) struct EdgePieces {
    pub(crate) source: String,
    pub(crate) edge_type: String,
    pub(crate) target: String,
    pub(crate) properties: Vec<u8>,
    pub(crate) allow_missing: bool,
}

impl EdgePieces {
    pub(crate) fn embedded<'c, 'o, K: Keep<'c, 'o>>(&'c self) -> NewEdge<'o> {
        let edge = NewEdge::new(K::text(&self.source), K::text(&self.edge_type), K::text(&self.target));
        edge.properties(K::bytes(&self.properties)).allow_missing(self.allow_missing)
    }

    pub(crate) fn served(&self, graph: &str) -> PutEdgePart<'static> {
        let (source, edge_type, target) = (self.source.clone(), self.edge_type.clone(), self.target.clone());
        let edge = PutEdgePart::new(graph.to_owned(), source, edge_type, target).properties(&self.properties);
        if self.allow_missing { edge.allow_missing() } else { edge }
    }
}

/// The request that ends an attempt with an error.
pub(crate) fn served_fail((job, token): (JobId, LeaseToken), error: &str, retry: RetryIn) -> request::Fail<'static> {
    let fail = request::Fail::new(job, token, error.to_owned());
    match retry {
        RetryIn::Backoff => fail,
        RetryIn::Never => fail.never_retry(),
        RetryIn::After(wait) => fail.retry_delay_ms(millis(wait)),
    }
}

/// When a failed job is tried again.
#[derive(Clone, Copy)]
pub(crate) enum RetryIn {
    Backoff,
    Never,
    After(Duration),
}

impl RetryIn {
    pub(crate) fn of(retry_in: Option<f64>, retry: bool) -> PyResult<Self> {
        Ok(match retry_in {
            _ if !retry => RetryIn::Never,
            Some(seconds) => RetryIn::After(duration("retry_in", seconds)?),
            None => RetryIn::Backoff,
        })
    }
}

impl From<RetryIn> for RetryTime {
    fn from(retry: RetryIn) -> Self {
        match retry {
            RetryIn::Backoff => RetryTime::Backoff,
            RetryIn::Never => RetryTime::Never,
            RetryIn::After(wait) => wait.into(),
        }
    }
}
