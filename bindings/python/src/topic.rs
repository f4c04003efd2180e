//! Topics and their records.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList};
use quire::{ConsumerSettings, Lease, PartitionSharing, Sequence};
use quire_client::reply::PartReply;
use quire_client::request::{CommitOffset, CreateTopic};

use crate::consumer::Consumer;
use crate::home::Home;
use crate::pieces::{BorrowValues, MessagePieces};
use crate::replies::ProduceResult;
use crate::served::consumer::{ServedConsumer, ServedSettings};
use crate::values::{self, duration};
use crate::{errors, served};

/// A record of a topic.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Record {
    partition: u32,
    offset: u64,
    time: f64,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    headers: Vec<(String, Option<Py<PyBytes>>)>,
}

#[pymethods]
impl Record {
    fn text(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.value.as_ref().map(|value| values::text(value.bind(py))).transpose()
    }

    fn json(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.value.as_ref().map(|value| values::json(value.bind(py))).transpose()
    }

    fn __repr__(&self) -> String {
        format!("Record(partition={}, offset={})", self.partition, self.offset)
    }
}

impl Record {
    pub(crate) fn new<'r>(
        py: Python<'_>,
        (partition, offset, timestamp_ms): (u32, Sequence, i64),
        (key, value): (Option<&[u8]>, Option<&[u8]>),
        headers: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>,
    ) -> PyResult<Py<Record>> {
        let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| PyBytes::new(py, bytes).unbind());
        let record = Record {
            partition,
            offset: offset.get(),
            time: timestamp_ms as f64 / 1e3,
            key: bytes(key),
            value: bytes(value),
            headers: headers.map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), bytes(value))).collect(),
        };
        Py::new(py, record)
    }

    /// A record that owns its bytes.
    pub(crate) fn owned(py: Python<'_>, partition: u32, record: &quire::Record) -> PyResult<Py<Record>> {
        let headers = record.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref()));
        let place = (partition, record.offset, record.timestamp_ms);
        Record::new(py, place, (record.key.as_deref(), record.value.as_deref()), headers)
    }
}

/// Records of a partition, and the offset to continue from.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Records {
    records: Py<PyList>,
    next_offset: u64,
}

#[pymethods]
impl Records {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.records.bind(py).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.records.bind(py).try_iter()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.records.bind(index.py()).as_any().get_item(index)
    }
}

/// A topic.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Topic {
    home: Home,
    #[pyo3(get)]
    name: String,
}

impl Topic {
    pub(crate) fn new(home: Home, name: String) -> Self {
        Topic { home, name }
    }
}

#[pymethods]
impl Topic {
    #[pyo3(signature = (partitions=1))]
    fn create(&self, py: Python<'_>, partitions: u32) -> PyResult<()> {
        match &self.home {
            Home::Embedded(database) => {
                database.call(py, |database| database.topic(&self.name).create(partitions).map(|_| ()))
            }
            Home::Served(client) => {
                let create = CreateTopic::new(self.name.clone(), partitions);
                client.call(py, move |client| served::commit_part(client, create).map(drop))
            }
        }
    }

    #[pyo3(signature = (value=None, *, key=None, headers=None, partition=None, time=None))]
    fn produce(
        &self,
        py: Python<'_>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyDict>>,
        partition: Option<u32>,
        time: Option<f64>,
    ) -> PyResult<ProduceResult> {
        let message = MessagePieces::of(value, key, headers, partition, time)?;
        match &self.home {
            Home::Embedded(database) => {
                let produced = database
                    .call(py, |database| database.topic(&self.name).produce(message.embedded::<BorrowValues>()));
                Ok(ProduceResult::new(&produced?))
            }
            Home::Served(client) => {
                let produce = message.served(&self.name);
                match client.call(py, move |client| served::commit_part(client, produce))? {
                    Some(PartReply::Produced { partition, offset }) => Ok(ProduceResult { partition, offset }),
                    _ => Err(errors::unserved("the server's answer to a message has no offset")),
                }
            }
        }
    }

    #[pyo3(signature = (partition=0, offset=0, *, bytes_max=1 << 20))]
    fn read(&self, py: Python<'_>, partition: u32, offset: u64, bytes_max: usize) -> PyResult<Records> {
        let read = match &self.home {
            Home::Embedded(database) => database
                .call(py, |database| database.topic(&self.name).fetch(partition, Sequence::new(offset), bytes_max))?,
            Home::Served(client) => {
                let topic = self.name.clone();
                client.call(py, move |client| served::topics::read(client, &topic, partition, offset, bytes_max))?
            }
        };
        let records = read.records.iter().map(|record| Record::owned(py, partition, record));
        let records = PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?.unbind();
        Ok(Records { records, next_offset: read.next_offset.get() })
    }

    /// The first offset of a partition, and the offset after its last record.
    #[pyo3(signature = (partition=0))]
    fn offsets(&self, py: Python<'_>, partition: u32) -> PyResult<(u64, u64)> {
        match &self.home {
            Home::Embedded(database) => database.call(py, |database| {
                let offsets = database.topic(&self.name).offsets(partition)?;
                Ok((offsets.start.get(), offsets.next.get()))
            }),
            Home::Served(client) => {
                let topic = self.name.clone();
                client.call(py, move |client| served::topics::offsets(client, &topic, partition))
            }
        }
    }

    #[pyo3(signature = (group, partition=0))]
    fn committed_offset(&self, py: Python<'_>, group: &str, partition: u32) -> PyResult<Option<u64>> {
        match &self.home {
            Home::Embedded(database) => database.call(py, |database| {
                Ok(database.topic(&self.name).committed_offset(group, partition)?.map(Sequence::get))
            }),
            Home::Served(client) => {
                let (topic, group) = (self.name.clone(), group.to_owned());
                client.call(py, move |client| served::topics::committed_offset(client, &topic, &group, partition))
            }
        }
    }

    fn commit_offset(&self, py: Python<'_>, group: &str, partition: u32, offset: u64) -> PyResult<()> {
        match &self.home {
            Home::Embedded(database) => database
                .call(py, |database| database.topic(&self.name).commit_offset(group, partition, Sequence::new(offset))),
            Home::Served(client) => {
                let commit = CommitOffset::new(group.to_owned(), self.name.clone(), partition, offset);
                client.call(py, move |client| served::commit_part(client, commit).map(drop))
            }
        }
    }

    /// A consumer of a group. Members with a name share the partitions by leases; without a name
    /// the consumer reads all of them.
    #[pyo3(signature = (group, *, member=None, lease=10.0, records_max=None, retries=3, dead_letter=None, from_start=true))]
    fn consumer(
        &self,
        py: Python<'_>,
        group: &str,
        member: Option<String>,
        lease: f64,
        records_max: Option<usize>,
        retries: u32,
        dead_letter: Option<String>,
        from_start: bool,
    ) -> PyResult<Consumer> {
        let database = match &self.home {
            Home::Embedded(database) => database.get()?,
            Home::Served(_) if member.is_some() => {
                return Err(errors::unserved(
                    "a server has no groups of members over HTTP: leave out member, and the consumer reads all \
                     partitions; or use a Kafka client",
                ));
            }
            Home::Served(client) => {
                let records_max = records_max.unwrap_or(usize::MAX);
                let settings = ServedSettings { records_max, retries, dead_letter, from_start };
                let (topic, group) = (self.name.clone(), group.to_owned());
                let consumer =
                    client.call(py, move |client| ServedConsumer::new(client.clone(), topic, group, settings))?;
                return Ok(Consumer::served(consumer));
            }
        };
        let mut settings = ConsumerSettings { retries, dead_letter, from_start, ..ConsumerSettings::default() };
        settings.records_max = records_max.unwrap_or(settings.records_max);
        if let Some(name) = member {
            let duration = duration("lease", lease)?;
            settings.sharing = PartitionSharing::Lease(Lease { name, duration, ..Lease::default() });
        }
        let made = py.detach(|| {
            let consumer = database.topic(&self.name).consumer(group, settings);
            consumer.map(|consumer| Consumer::embedded(database, consumer))
        });
        errors::result(py, made)
    }
}
