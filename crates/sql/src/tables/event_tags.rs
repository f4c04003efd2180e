//! `event_tags`: one row for each tag of each event, for joins.

use std::sync::Arc;

use quire::Result;
use quire::events::{Query, QueryItem};
use quire_vtab::{ColumnKind, EQUAL, FilterOp, NoRows, PlannedFilter, RANGE, RowSource, ScanRequest, TableColumn};

use super::TableKind;
use super::events::{EventColumns, StoreWalk};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const EVENT_TAGS: TableKind = TableKind {
    name: "event_tags",
    about: "A tag of an event. Join it with `events` by `store` and `position`.",
    columns: &[
        TableColumn::new("store", ColumnKind::Text, "The name of the store.").filtered(EQUAL, 4).listed(),
        TableColumn::new("tag", ColumnKind::Bytes, "The tag.").filtered(EQUAL, 50_000).listed(),
        TableColumn::new("position", ColumnKind::Integer, "The position of the event in its store.")
            .filtered(RANGE, 1_000_000)
            .listed(),
        TableColumn::new("time_ms", ColumnKind::Integer, "When the event was recorded.").filtered(RANGE, 1_000),
    ],
    rows: 2_000_000,
    order: Some((POSITION, &[super::events::STORE])),
    in_order: reads_store,
    scan,
};

const TAG: usize = 1;
const POSITION: usize = 2;
const TIME: usize = 3;

/// Whether a scan reads the events of whole stores, or of a range of them.
fn reads_store(filters: &[PlannedFilter]) -> bool {
    let is_range = |filter: &PlannedFilter| match filter.column {
        super::events::STORE | TIME => true,
        POSITION => filter.op != FilterOp::Equal,
        _ => false,
    };
    filters.iter().all(is_range)
}

/// The most tags that a query names. With more, the scan reads all events.
const TAGS_MAX: usize = 32;

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let columns = request.columns;
    let Some(mut walk) = StoreWalk::of(context, request, EventColumns { position: POSITION, time: TIME })? else {
        return Ok(Box::new(NoRows));
    };
    // A tag that is not UTF-8 is a blob: no text equals it.
    let wanted = request.texts(TAG);
    if let Some(tags) = &wanted {
        if tags.is_empty() {
            return Ok(Box::new(NoRows));
        }
        if tags.len() <= TAGS_MAX {
            let item = |tag: &String| QueryItem::new().tag(tag.clone().into_bytes());
            walk.query = Query { items: tags.iter().map(item).collect() };
        }
    }
    Ok(context.source(move |page, count| {
        walk.read(page, count, |page, store, event| {
            for (number, tag) in event.tags().enumerate() {
                if wanted.as_ref().is_some_and(|wanted| !wanted.iter().any(|wanted| wanted.as_bytes() == tag)) {
                    continue;
                }
                let row = [
                    columns.value(0, || store),
                    SqlValue::text_or_blob(tag),
                    SqlValue::count(event.position.get()),
                    SqlValue::count(event.time.as_millis()),
                ];
                page.push([u64::from(event.store.get()) << 32 | number as u64, event.position.get()], row);
            }
        })
    }))
}
