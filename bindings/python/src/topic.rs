//! Topics and their records.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList};
use quire::{ConsumerSettings, Lease, Message, PartitionSharing, Sequence};

use crate::commit::ProduceResult;
use crate::consumer::Consumer;
use crate::errors;
use crate::shared::Shared;
use crate::values::{self, Value, duration};

/// Returns the message of the keywords of a produce.
pub(crate) fn message(
    value: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    headers: Option<&Bound<'_, PyDict>>,
    partition: Option<u32>,
    time: Option<f64>,
) -> PyResult<Message<'static>> {
    let mut message = match Value::of(value)?.into_present() {
        Some(value) => Message::new(value),
        None => Message::tombstone(),
    };
    if let Some(key) = Value::of(key)?.into_present() {
        message = message.key(key);
    }
    for (name, value) in headers.into_iter().flat_map(|headers| headers.iter()) {
        let name: String = name.extract()?;
        message = match Value::of(Some(&value))?.into_present() {
            Some(value) => message.header(name, value),
            None => message.header_without_value(name),
        };
    }
    if let Some(partition) = partition {
        message = message.partition(partition);
    }
    if let Some(time) = time {
        message = message.timestamp_ms((time * 1e3).round() as i64);
    }
    Ok(message)
}

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
    database: Shared,
    #[pyo3(get)]
    name: String,
}

impl Topic {
    pub(crate) fn new(database: Shared, name: String) -> Self {
        Topic { database, name }
    }

    fn call<T: Send>(&self, py: Python<'_>, call: impl FnOnce(quire::Topic) -> quire::Result<T> + Send) -> PyResult<T> {
        self.database.call(py, |database| call(database.topic(&self.name)))
    }
}

#[pymethods]
impl Topic {
    #[pyo3(signature = (partitions=1))]
    fn create(&self, py: Python<'_>, partitions: u32) -> PyResult<()> {
        self.call(py, |topic| topic.create(partitions).map(|_| ()))
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
        let message = message(value, key, headers, partition, time)?;
        Ok(ProduceResult::new(&self.call(py, |topic| topic.produce(&message))?))
    }

    #[pyo3(signature = (partition=0, offset=0, *, bytes_max=1 << 20))]
    fn read(&self, py: Python<'_>, partition: u32, offset: u64, bytes_max: usize) -> PyResult<Records> {
        let read = self.call(py, |topic| topic.fetch(partition, Sequence::new(offset), bytes_max))?;
        let records = read.records.iter().map(|record| {
            let headers = record.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref()));
            let place = (partition, record.offset, record.timestamp_ms);
            Record::new(py, place, (record.key.as_deref(), record.value.as_deref()), headers)
        });
        let records = PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?.unbind();
        Ok(Records { records, next_offset: read.next_offset.get() })
    }

    /// The first offset of a partition, and the offset after its last record.
    #[pyo3(signature = (partition=0))]
    fn offsets(&self, py: Python<'_>, partition: u32) -> PyResult<(u64, u64)> {
        let offsets = self.call(py, |topic| topic.offsets(partition))?;
        Ok((offsets.start.get(), offsets.next.get()))
    }

    #[pyo3(signature = (group, partition=0))]
    fn committed_offset(&self, py: Python<'_>, group: &str, partition: u32) -> PyResult<Option<u64>> {
        Ok(self.call(py, |topic| topic.committed_offset(group, partition))?.map(Sequence::get))
    }

    fn commit_offset(&self, py: Python<'_>, group: &str, partition: u32, offset: u64) -> PyResult<()> {
        self.call(py, |topic| topic.commit_offset(group, partition, Sequence::new(offset)))
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
        let mut settings = ConsumerSettings { retries, dead_letter, from_start, ..ConsumerSettings::default() };
        settings.records_max = records_max.unwrap_or(settings.records_max);
        if let Some(name) = member {
            let duration = duration("lease", lease)?;
            settings.sharing = PartitionSharing::Lease(Lease { name, duration, ..Lease::default() });
        }
        let database = self.database.get()?;
        let made = py.detach(|| {
            let consumer = database.topic(&self.name).consumer(group, settings);
            consumer.map(|consumer| Consumer::new(database, consumer))
        });
        errors::result(py, made)
    }
}
