//! `records`: the messages of all topics, partition by partition.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use quire::streams::StoredBatch;
use quire::{ErrorKind, Operation, ReadView, Resource, ResourceKind, Result, Sequence, open_batch};
use quire_vtab::{
    ColumnKind, ColumnSet, EQUAL, IntegerBounds, NoRows, RANGE, RowPage, RowSource, ScanRequest, TableColumn,
};

use super::{TableKind, always, named, permits, push_json};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const RECORDS: TableKind = TableKind {
    name: "records",
    about: "A message of a topic.",
    columns: &[
        TableColumn::new("topic", ColumnKind::Text, "The name of the topic.").filtered(EQUAL, 10).listed(),
        TableColumn::new("partition", ColumnKind::Integer, "The partition, from 0.").filtered(RANGE, 4).listed(),
        TableColumn::new("offset", ColumnKind::Integer, "The offset in the partition.").filtered(RANGE, 1_000_000),
        TableColumn::new("time_ms", ColumnKind::Integer, "Its time, in milliseconds since 1970.")
            .filtered(RANGE, 1_000),
        TableColumn::new("key", ColumnKind::Bytes, "The key, or `NULL`."),
        TableColumn::new("value", ColumnKind::Bytes, "The value; `NULL` for a tombstone."),
        TableColumn::new("headers", ColumnKind::Text, "The headers, as a JSON array of `[name, value]`."),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of its commit in the log."),
    ],
    rows: 1_000_000,
    order: None,
    in_order: always,
    scan,
};

const TOPIC: usize = 0;
const PARTITION: usize = 1;
const OFFSET: usize = 2;
const TIME: usize = 3;
const KEY: usize = 4;
const VALUE: usize = 5;
const HEADERS: usize = 6;

/// The bytes of batches that one page reads.
const BATCH_BYTES: usize = 1 << 20;

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let bounds = (request.integers(PARTITION), request.integers(OFFSET), request.integers(TIME));
    let (Some(partitions), Some(offsets), Some(times)) = bounds else { return Ok(Box::new(NoRows)) };
    let list = || {
        let mut names = Vec::new();
        context.database.read_published_permitted(|view| {
            let shown =
                view.streams.topics().filter(|topic| view.permits(ResourceKind::Topic, topic.name, Operation::Read));
            names.extend(shown.map(|topic| topic.name.to_owned()));
        })?;
        Ok(names)
    };
    let topics = named(request, TOPIC, list)?.into();
    let (partitions, offsets, columns) = (NumberFilter(partitions), NumberFilter(offsets), request.columns);
    let from_ms = u64::try_from(times.min).ok();
    let mut scan = RecordScan {
        context: Arc::clone(context),
        topics,
        partitions,
        offsets,
        from_ms,
        columns,
        left: VecDeque::new(),
        current: None,
    };
    Ok(context.source(move |page, count| scan.read(page, count)))
}

/// The numbers that a scan wants.
#[derive(Debug)]
struct NumberFilter(IntegerBounds);

impl NumberFilter {
    fn has(&self, number: u64) -> bool {
        let Ok(number) = i64::try_from(number) else { return false };
        let listed = self.0.list.as_ref().is_none_or(|list| list.binary_search(&number).is_ok());
        listed && (self.0.min..=self.0.max).contains(&number)
    }
}

#[derive(Debug)]
struct RecordScan {
    context: Arc<StatementContext>,
    topics: VecDeque<String>,
    partitions: NumberFilter,
    offsets: NumberFilter,
    /// Records before the first one of this time or later are skipped.
    from_ms: Option<u64>,
    columns: ColumnSet,
    /// Partitions of the current topic that are still to be read.
    left: VecDeque<PartitionCursor>,
    current: Option<PartitionCursor>,
}

#[derive(Debug)]
struct PartitionCursor {
    topic: Arc<str>,
    id: u64,
    partition: u32,
    next: Sequence,
}

impl RecordScan {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        while page.len() < count && !page.is_full() {
            self.context.check(0)?;
            if let Some(mut current) = self.current.take().or_else(|| self.left.pop_front()) {
                if !self.fetch(&mut current, page, count)? {
                    self.current = Some(current);
                }
            } else if let Some(topic) = self.topics.pop_front() {
                self.begin(&topic)?;
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lists the partitions of a topic that are wanted.
    fn begin(&mut self, topic: &str) -> Result<()> {
        if !permits(&self.context, ResourceKind::Topic, topic, Operation::Read)? {
            return Ok(());
        }
        let resource = Resource::new(ResourceKind::Topic, topic);
        let look = |view: &ReadView<'_>| view.streams.topic_named(topic).map(|topic| (topic.id, topic.partitions));
        let found = self.context.database.read_published_for(resource, Operation::Read, look)?;
        let Some((id, partitions)) = found else { return Ok(()) };
        let name: Arc<str> = topic.into();
        let next = Sequence::new(self.offsets.0.min.max(0) as u64);
        let wanted = (0..partitions).filter(|partition| self.partitions.has(u64::from(*partition)));
        let scan = |partition| {
            let next = next.max(self.first_from(topic, partition)?);
            Ok(PartitionCursor { topic: Arc::clone(&name), id: u64::from(id.get()), partition, next })
        };
        self.left = wanted.map(scan).collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns the offset of the first record of the wanted time, as far as the client may know it.
    fn first_from(&self, topic: &str, partition: u32) -> Result<Sequence> {
        let none = Sequence::new(0);
        let Some(from_ms) = self.from_ms.filter(|from| *from > 0) else { return Ok(none) };
        let Some(time) = UNIX_EPOCH.checked_add(Duration::from_millis(from_ms)) else { return Ok(none) };
        if !permits(&self.context, ResourceKind::Topic, topic, Operation::Describe)? {
            return Ok(none);
        }
        match self.context.database.topic(topic).offset_at_time(partition, time) {
            Ok(Some(found)) => Ok(found.offset),
            // Each record is earlier, and one that is produced now is after the position.
            Ok(None) => Ok(Sequence::new(u64::MAX)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(none),
            Err(error) => Err(error),
        }
    }

    /// Reads batches of a partition. Returns whether this was its end.
    fn fetch(&self, scan: &mut PartitionCursor, page: &mut RowPage, count: usize) -> Result<bool> {
        if i64::try_from(scan.next.get()).map_or(true, |next| next > self.offsets.0.max) {
            return Ok(true);
        }
        let resource = Resource::new(ResourceKind::Topic, &scan.topic);
        let found = self.context.database.read_published_for(resource, Operation::Read, |view| {
            let topic = view.streams.topic_named(&scan.topic)?;
            view.streams.partition(topic.id, scan.partition).ok()
        })?;
        let Some(partition) = found else { return Ok(true) };
        let history = self.context.database.history();
        let from = scan.next.max(partition.offsets(&history)?.start);
        let (mut bytes, mut next, mut problem) = (0, None, None);
        partition.scan(&history, from, &mut |stored| {
            let is_wanted = i64::try_from(stored.base_offset.get()).is_ok_and(|base| base <= self.offsets.0.max);
            if stored.place.position > self.context.at || !is_wanted {
                return ControlFlow::Break(());
            }
            bytes += stored.batch.records_bytes().len();
            if let Err(error) = self.push(scan, &stored, from, page) {
                problem = Some(error);
                return ControlFlow::Break(());
            }
            if page.len() < count && !page.is_full() && bytes < BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            next = Some(stored.next_offset());
            ControlFlow::Break(())
        })?;
        problem.map_or(Ok(()), Err)?;
        scan.next = next.unwrap_or(from);
        Ok(next.is_none())
    }

    fn push(&self, scan: &PartitionCursor, stored: &StoredBatch<'_>, from: Sequence, page: &mut RowPage) -> Result<()> {
        let columns = self.columns;
        let opened = open_batch(&stored.batch)?;
        for record in stored.batch.records_from(&opened) {
            let invalid = |error| {
                let base = stored.base_offset;
                quire::Error::new(ErrorKind::Invalid, format!("in the batch at offset {base}, {error}"))
            };
            let record = record.map_err(invalid)?;
            let offset = stored.base_offset.get() + u64::from(record.offset_delta);
            if offset < from.get() || !self.offsets.has(offset) {
                continue;
            }
            let bytes = |column, bytes: Option<&[u8]>| match bytes {
                Some(bytes) if columns.has(column) => SqlValue::text_or_blob(bytes),
                _ => SqlValue::Null,
            };
            let row = [
                columns.value(TOPIC, || &*scan.topic),
                SqlValue::count(u64::from(scan.partition)),
                SqlValue::count(offset),
                SqlValue::Integer(record.timestamp_ms),
                bytes(KEY, record.key),
                bytes(VALUE, record.value),
                columns.value(HEADERS, || {
                    let mut json = String::from("[");
                    for header in record.headers.iter() {
                        json.push_str(if json.len() > 1 { ",[" } else { "[" });
                        push_json(&mut json, header.key);
                        json.push(',');
                        match header.value {
                            Some(value) => push_json(&mut json, value),
                            None => json.push_str("null"),
                        }
                        json.push(']');
                    }
                    json + "]"
                }),
                SqlValue::count(stored.place.position.get()),
            ];
            page.push([scan.id << 32 | u64::from(scan.partition), offset], row);
        }
        Ok(())
    }
}
