//! `topics` and `partitions`.

use std::sync::Arc;

use quire::{ErrorKind, Operation, ResourceKind, Result};
use quire_vtab::{ColumnKind, EQUAL, RowSource, ScanRequest, TableColumn};

use super::{TableKind, key, named, never, permits};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const TOPICS: TableKind = TableKind {
    name: "topics",
    about: "A topic.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name.").filtered(EQUAL, 1_000).listed(),
        TableColumn::new("partitions", ColumnKind::Integer, "The number of partitions."),
        TableColumn::new("cleanup", ColumnKind::Text, "How old messages are removed: `delete`, `compact` or both."),
        TableColumn::new("retention_ms", ColumnKind::Integer, "How long messages are kept; `NULL` for forever."),
        TableColumn::new("retention_bytes", ColumnKind::Integer, "The bytes that a partition keeps; `NULL` for all."),
    ],
    rows: 100,
    order: None,
    in_order: never,
    scan: topics,
};

pub(super) const PARTITIONS: TableKind = TableKind {
    name: "partitions",
    about: "A partition of a topic.",
    columns: &[
        TableColumn::new("topic", ColumnKind::Text, "The name of the topic.").filtered(EQUAL, 100).listed(),
        TableColumn::new("partition", ColumnKind::Integer, "The partition, from 0."),
        TableColumn::new("start_offset", ColumnKind::Integer, "The offset of the first message."),
        TableColumn::new("next_offset", ColumnKind::Integer, "The offset that the next message gets."),
        TableColumn::new("bytes", ColumnKind::Integer, "The bytes of the batches, within one part in 32."),
        TableColumn::new("unreadable", ColumnKind::Text, "Why the end can't be read; `NULL` when it can."),
    ],
    rows: 1_000,
    order: None,
    in_order: never,
    scan: partitions,
};

/// A topic for one row.
struct TopicRow {
    name: String,
    partitions: u32,
    cleanup: String,
    retention_ms: Option<u64>,
    retention_bytes: Option<u64>,
}

fn list(context: &StatementContext) -> Result<Vec<TopicRow>> {
    let mut found = Vec::new();
    context.database.visit_topics(|topic| -> Result<()> {
        let settings = topic.settings;
        found.push(TopicRow {
            name: topic.name.to_owned(),
            partitions: topic.partitions,
            cleanup: settings.cleanup.to_string(),
            retention_ms: settings.retention_ms,
            retention_bytes: settings.retention_bytes,
        });
        Ok(())
    })?;
    Ok(found)
}

fn topics(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("topics")?;
    let (own, names) = (Arc::clone(context), request.texts(0));
    Ok(context.once(move |page| {
        for topic in list(&own)? {
            if names.as_ref().is_some_and(|names| !names.contains(&topic.name)) {
                continue;
            }
            let key = key(&[&topic.name]);
            let row = [
                topic.name.into(),
                SqlValue::count(u64::from(topic.partitions)),
                topic.cleanup.into(),
                topic.retention_ms.map_or(SqlValue::Null, SqlValue::count),
                topic.retention_bytes.map_or(SqlValue::Null, SqlValue::count),
            ];
            page.push(key, row);
        }
        Ok(())
    }))
}

fn partitions(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("partitions")?;
    let own = Arc::clone(context);
    let names = named(request, 0, || Ok(list(context)?.into_iter().map(|topic| topic.name).collect()))?;
    let mut names = names.into_iter();
    Ok(context.source(move |page, count| {
        while page.len() < count {
            let Some(name) = names.next() else { return Ok(()) };
            if !permits(&own, ResourceKind::Topic, &name, Operation::Describe)? {
                continue;
            }
            let statistics = match own.database.topic(&name).statistics() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                statistics => statistics?,
            };
            for partition in statistics.partitions {
                let row = [
                    name.as_str().into(),
                    SqlValue::count(u64::from(partition.partition)),
                    SqlValue::count(partition.start.get()),
                    SqlValue::count(partition.next.get()),
                    SqlValue::count(partition.bytes),
                    partition.unreadable.into(),
                ];
                page.push(key(&[&name, &partition.partition.to_string()]), row);
            }
        }
        Ok(())
    }))
}
