//! `groups` and `lag`: consumer groups, and how far each is behind.

use std::sync::Arc;

use quire::{Operation, ResourceKind, Result, Source};
use quire_vtab::{ColumnKind, EQUAL, RowSource, ScanRequest, TableColumn};

use super::{TableKind, key, named, never, permits};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const GROUPS: TableKind = TableKind {
    name: "groups",
    about: "A consumer group.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name.").filtered(EQUAL, 1_000).listed(),
        TableColumn::new("partitions", ColumnKind::Integer, "The number of partitions with a committed offset."),
        TableColumn::new("generation", ColumnKind::Integer, "The newest generation; 0 without a coordinator."),
        TableColumn::new("protocol", ColumnKind::Text, "How the members share the partitions; empty without members."),
    ],
    rows: 100,
    order: None,
    in_order: never,
    scan: groups,
};

pub(super) const LAG: TableKind = TableKind {
    name: "lag",
    about: "The offset of a consumer group in a partition, an event store or a queue's life-cycle events.",
    columns: &[
        TableColumn::new("consumer_group", ColumnKind::Text, "The name of the group.").filtered(EQUAL, 100).listed(),
        TableColumn::new("kind", ColumnKind::Text, "`topic`, `store` or `queue`."),
        TableColumn::new("source", ColumnKind::Text, "The name of the topic, store or queue."),
        TableColumn::new("partition", ColumnKind::Integer, "The partition; 0 for a store and a queue."),
        TableColumn::new("committed", ColumnKind::Integer, "The committed offset: the next one to read."),
        TableColumn::new("start_offset", ColumnKind::Integer, "The first offset that is left."),
        TableColumn::new("next_offset", ColumnKind::Integer, "The offset that the next record gets."),
        TableColumn::new("lag", ColumnKind::Integer, "The number of unread records."),
        TableColumn::new("metadata", ColumnKind::Text, "The consumer's note."),
        TableColumn::new("committed_at_ms", ColumnKind::Integer, "When the offset was committed."),
    ],
    rows: 1_000,
    order: None,
    in_order: never,
    scan: lag,
};

/// A group for one row.
struct GroupRow {
    name: String,
    generation: u64,
    protocol: String,
}

fn list(context: &StatementContext) -> Result<Vec<GroupRow>> {
    let look = |view: &quire::PermittedView<'_>| {
        let shown = view.streams.groups().filter(|group| view.shows(ResourceKind::Group, group.name));
        let row = |group: quire::streams::GroupInfo<'_>| GroupRow {
            name: group.name.to_owned(),
            generation: u64::from(group.generation.get()),
            protocol: group.protocol.to_owned(),
        };
        shown.map(row).collect()
    };
    context.database.read_permitted(look)?.wait()
}

fn groups(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("groups")?;
    let (own, names) = (Arc::clone(context), request.texts(0));
    Ok(context.once(move |page| {
        for group in list(&own)? {
            if names.as_ref().is_none_or(|names| names.contains(&group.name)) {
                // Those of objects that the client may describe.
                let described = own.database.group(&group.name).describe()?;
                let partitions = SqlValue::count(described.map_or(0, |group| group.offsets.len()) as u64);
                let generation = SqlValue::count(group.generation);
                page.push(key(&[&group.name]), [group.name.into(), partitions, generation, group.protocol.into()]);
            }
        }
        Ok(())
    }))
}

fn lag(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("lag")?;
    let own = Arc::clone(context);
    let names = named(request, 0, || Ok(list(context)?.into_iter().map(|group| group.name).collect()))?;
    let mut names = names.into_iter();
    Ok(context.source(move |page, count| {
        while page.len() < count {
            let Some(name) = names.next() else { return Ok(()) };
            if !permits(&own, ResourceKind::Group, &name, Operation::Describe)? {
                continue;
            }
            let Some(group) = own.database.group(&name).describe()? else { continue };
            for offset in group.offsets {
                let lag = offset.lag();
                let (kind, source) = match offset.source {
                    Source::Topic(topic) => ("topic", topic),
                    Source::Store(store) => ("store", store),
                    Source::Queue(queue) => ("queue", queue),
                };
                let key = key(&[&name, kind, &source, &offset.partition.to_string()]);
                let row = [
                    name.as_str().into(),
                    kind.into(),
                    source.into(),
                    SqlValue::count(u64::from(offset.partition)),
                    SqlValue::count(offset.offset.get()),
                    SqlValue::count(offset.start.get()),
                    SqlValue::count(offset.next.get()),
                    SqlValue::count(lag),
                    offset.metadata.into(),
                    SqlValue::count(offset.time.as_millis()),
                ];
                page.push(key, row);
            }
        }
        Ok(())
    }))
}
