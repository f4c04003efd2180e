//! `stores`: the event stores.

use std::sync::Arc;

use quire::{ErrorKind, Operation, ResourceKind, Result};
use quire_vtab::{ColumnKind, EQUAL, RowSource, ScanRequest, TableColumn};

use super::{TableKind, named, never, permits};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const STORES: TableKind = TableKind {
    name: "stores",
    about: "An event store.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name.").filtered(EQUAL, 1_000).listed(),
        TableColumn::new("head", ColumnKind::Integer, "The position of the last event, even if it was deleted."),
        TableColumn::new("trimmed", ColumnKind::Integer, "The last position that was trimmed; 0 for none."),
        TableColumn::new("forgotten", ColumnKind::Integer, "The number of forgotten tags."),
        TableColumn::new("retention_ms", ColumnKind::Integer, "How long events are kept; `NULL` for forever."),
        TableColumn::new("subscriptions", ColumnKind::Integer, "The number of named subscriptions."),
        TableColumn::new("projections", ColumnKind::Integer, "The number of saved projections."),
    ],
    rows: 100,
    order: None,
    in_order: never,
    scan,
};

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("stores")?;
    let (own, columns) = (Arc::clone(context), request.columns);
    let list = || {
        context.database.read_published_permitted(|view| {
            let shown = view.events.stores().filter(|(name, _)| view.shows(ResourceKind::Store, name));
            shown.map(|(name, _)| name.to_owned()).collect()
        })
    };
    let mut names = named(request, 0, list)?.into_iter();
    Ok(context.source(move |page, count| {
        while page.len() < count {
            let Some(name) = names.next() else { return Ok(()) };
            if !permits(&own, ResourceKind::Store, &name, Operation::Describe)? {
                continue;
            }
            let statistics = match own.database.events(&name).statistics() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                statistics => statistics?,
            };
            let count = |number: usize| SqlValue::count(number as u64);
            let row = [
                columns.value(0, || name.as_str()),
                SqlValue::count(statistics.head.get()),
                SqlValue::count(statistics.trimmed.get()),
                count(statistics.forgotten),
                statistics.retention_ms.map_or(SqlValue::Null, SqlValue::count),
                count(statistics.subscriptions),
                count(statistics.projections),
            ];
            page.push(super::key(&[&name]), row);
        }
        Ok(())
    }))
}
