//! `segments`, `statistics` and `damage`: the database itself, for clients that may describe it.

use std::sync::Arc;

use quire::{Operation, Resource, Result};
use quire_vtab::{ColumnKind, RowSource, ScanRequest, TableColumn};

use super::{TableKind, key, never};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const SEGMENTS: TableKind = TableKind {
    name: "segments",
    about: "A segment of the log, with its published commits. It needs the right to describe the whole database.",
    columns: &[
        TableColumn::new("first_position", ColumnKind::Integer, "The position of the first commit."),
        TableColumn::new("end_position", ColumnKind::Integer, "The position after the last commit."),
        TableColumn::new("stage", ColumnKind::Text, "`active`, `full`, `sealed`, `compacted` or `packed`."),
        TableColumn::new("commits", ColumnKind::Integer, "The number of commits that have entries left."),
        TableColumn::new("entries", ColumnKind::Integer, "The number of entries that are left."),
        TableColumn::new("bytes", ColumnKind::Integer, "The bytes of the file; `NULL` when it is missing."),
        TableColumn::new("index_bytes", ColumnKind::Integer, "The bytes of the index file; 0 while there is none."),
        TableColumn::new("last_time_ms", ColumnKind::Integer, "The time of the last commit; `NULL` for none."),
        TableColumn::new("file", ColumnKind::Text, "The name of the file."),
    ],
    rows: 100,
    order: None,
    in_order: never,
    scan: segments,
};

pub(super) const STATISTICS: TableKind = TableKind {
    name: "statistics",
    about: "A count of the database, since it was opened. It needs the right to describe the whole database.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name, for example `commits`."),
        TableColumn::new("value", ColumnKind::Integer, "The value."),
        TableColumn::new("about", ColumnKind::Text, "What is counted."),
    ],
    rows: 10,
    order: None,
    in_order: never,
    scan: statistics,
};

pub(super) const DAMAGE: TableKind = TableKind {
    name: "damage",
    about: "Damaged bytes that reads found. It needs the right to describe the whole database.",
    columns: &[
        TableColumn::new("file", ColumnKind::Text, "The name of the file."),
        TableColumn::new("offset", ColumnKind::Integer, "The first damaged byte."),
        TableColumn::new("position", ColumnKind::Integer, "The position of the record; `NULL` when it is unknown."),
        TableColumn::new("message", ColumnKind::Text, "The defect."),
    ],
    rows: 10,
    order: None,
    in_order: never,
    scan: damage,
};

fn segments(context: &Arc<StatementContext>, _: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("segments")?;
    context.database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let own = Arc::clone(context);
    Ok(context.once(move |page| {
        for found in own.database.segments()? {
            let [first, end, commits, entries, index_bytes] =
                [found.first.get(), found.end.get(), found.records, found.entries, found.index_bytes]
                    .map(SqlValue::count);
            let bytes = found.bytes.map_or(SqlValue::Null, SqlValue::count);
            let last_time = found.last_time.map_or(SqlValue::Null, |time| SqlValue::count(time.as_millis()));
            let (key, stage, file) = ([found.first.get(), 0], found.stage.name().into(), found.file.into());
            page.push(key, [first, end, stage, commits, entries, bytes, index_bytes, last_time, file]);
        }
        Ok(())
    }))
}

fn statistics(context: &Arc<StatementContext>, _: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("statistics")?;
    context.database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let own = Arc::clone(context);
    Ok(context.once(move |page| {
        let found = own.database.statistics();
        for (number, (name, value, about)) in [
            ("published", found.published.get(), "The position of the last published commit."),
            ("commits", found.commits, "Accepted commits."),
            ("refusals", found.refusals, "Refused commits."),
            ("entries", found.entries, "Appended entries."),
            ("bytes", found.bytes, "Bytes that were appended to the log."),
            ("syncs", found.syncs, "Completed syncs."),
            ("checkpoints", found.checkpoints, "Saved checkpoints."),
            ("segments", found.segments, "Segments of the log."),
            ("unpacked_bytes", found.unpacked_bytes, "Bytes of memory of records of packed segments."),
        ]
        .into_iter()
        .enumerate()
        {
            page.push([number as u64, 0], [name.into(), SqlValue::count(value), about.into()]);
        }
        Ok(())
    }))
}

fn damage(context: &Arc<StatementContext>, _: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("damage")?;
    context.database.check_permission(Resource::DATABASE, Operation::Describe)?;
    let own = Arc::clone(context);
    Ok(context.once(move |page| {
        for found in own.database.damage() {
            let file = found.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let row_key = key(&[&file, &found.offset.to_string(), &found.message]);
            let position = found.position.map_or(SqlValue::Null, |position| SqlValue::count(position.get()));
            page.push(row_key, [file.into(), SqlValue::count(found.offset), position, found.message.into()]);
        }
        Ok(())
    }))
}
