//! `quire_tables` and `quire_columns`: the tables themselves.

use std::sync::Arc;

use quire::Result;
use quire_vtab::{ColumnKind, EQUAL, RowSource, ScanRequest, TableColumn};

use super::{TableKind, narrows, never, tables};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const TABLES: TableKind = TableKind {
    name: "quire_tables",
    about: "A table. For example, `SELECT name, about FROM quire_tables`.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name."),
        TableColumn::new("about", ColumnKind::Text, "What a row is."),
    ],
    rows: 30,
    order: None,
    in_order: never,
    scan: scan_tables,
};

pub(super) const COLUMNS: TableKind = TableKind {
    name: "quire_columns",
    about: "A column of a table.",
    columns: &[
        TableColumn::new("table_name", ColumnKind::Text, "The name of the table.").filtered(EQUAL, 30).listed(),
        TableColumn::new("number", ColumnKind::Integer, "The number of the column, from 0."),
        TableColumn::new("name", ColumnKind::Text, "The name."),
        TableColumn::new("type", ColumnKind::Text, "`integer`, `text` or `text or blob`."),
        TableColumn::new("narrows", ColumnKind::Text, "The comparisons that narrow a scan; empty for none."),
        TableColumn::new("is_argument", ColumnKind::Integer, "1 for an argument of a table-valued function."),
        TableColumn::new("about", ColumnKind::Text, "What the column holds."),
    ],
    rows: 300,
    order: None,
    in_order: never,
    scan: scan_columns,
};

fn scan_tables(context: &Arc<StatementContext>, _: &ScanRequest) -> Result<Box<dyn RowSource>> {
    Ok(context.once(|page| {
        for (number, table) in tables().enumerate() {
            page.push([number as u64, 0], [table.name.into(), table.about.into()]);
        }
        Ok(())
    }))
}

fn scan_columns(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let names = request.texts(0);
    Ok(context.once(move |page| {
        let is_named = |name: &str| names.as_ref().is_none_or(|names| names.iter().any(|named| named == name));
        for (table_number, table) in tables().enumerate().filter(|(_, table)| is_named(table.name)) {
            for (number, column) in table.columns.iter().enumerate() {
                let row = [
                    table.name.into(),
                    SqlValue::count(number as u64),
                    column.name.into(),
                    super::type_name(column.kind).into(),
                    narrows(column).join(" ").into(),
                    SqlValue::Integer(column.is_argument.into()),
                    column.about.into(),
                ];
                page.push([table_number as u64, number as u64], row);
            }
        }
        Ok(())
    }))
}
