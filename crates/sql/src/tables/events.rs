//! `events`: the events of all stores, store by store.
//!
//! A range of times is a range of positions, because the events of a store never go back in time.

use std::ops::ControlFlow;
use std::sync::Arc;

use quire::events::{EventId, EventPosition, EventView, Query, QueryItem, ReadOptions};
use quire::{Operation, Resource, ResourceKind, Result};
use quire_vtab::{
    ColumnKind, ColumnSet, EQUAL, FilterOp, IntegerBounds, MATCH, NoRows, PlannedFilter, RANGE, RowPage, RowSource,
    ScanRequest, TableColumn,
};

use super::{TableKind, json_array};
use crate::SqlValue;
use crate::context::{StatementContext, invalid};
use crate::pattern;

pub(super) const EVENTS: TableKind = TableKind {
    name: "events",
    about: "An event of an event store.",
    columns: &[
        TableColumn::new("store", ColumnKind::Text, "The name of the store.").filtered(EQUAL, 4).listed(),
        TableColumn::new("position", ColumnKind::Integer, "The position in the store, from 1.")
            .filtered(RANGE, 1_000_000)
            .listed(),
        TableColumn::new("time_ms", ColumnKind::Integer, "When it was recorded, in milliseconds since 1970.")
            .filtered(RANGE, 1_000),
        TableColumn::new("type", ColumnKind::Text, "The type.").filtered(EQUAL, 20).listed(),
        TableColumn::new("tags", ColumnKind::Text, "The tags, as a JSON array.").filtered(MATCH, 20_000),
        TableColumn::new("data", ColumnKind::Bytes, "The data."),
        TableColumn::new("metadata", ColumnKind::Bytes, "The metadata."),
        TableColumn::new("id", ColumnKind::Text, "The id.").filtered(EQUAL, 1_000_000).listed(),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of its commit in the log."),
    ],
    rows: 1_000_000,
    order: Some((POSITION, &[STORE])),
    in_order: reads_store,
    scan,
};

pub(super) const STORE: usize = 0;
const POSITION: usize = 1;
const TIME: usize = 2;
const TYPE: usize = 3;
const TAGS: usize = 4;
const DATA: usize = 5;
const METADATA: usize = 6;
const ID: usize = 7;

/// The most events that are read before the statement's limits are checked.
const EVENTS_AT_ONCE: u64 = 4_096;

/// The most types that a query names. With more, the scan reads events of every type.
const TYPES_MAX: usize = 32;

/// Whether a scan reads the events of whole stores, or of a range of them.
fn reads_store(filters: &[PlannedFilter]) -> bool {
    let is_range = |filter: &PlannedFilter| match filter.column {
        STORE | TIME => true,
        POSITION => filter.op != FilterOp::Equal,
        _ => false,
    };
    filters.iter().all(is_range)
}

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let columns = request.columns;
    let Some(mut walk) = StoreWalk::of(context, request, EventColumns { position: POSITION, time: TIME })? else {
        return Ok(Box::new(NoRows));
    };
    let types = request.texts(TYPE);
    if types.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Box::new(NoRows));
    }
    let patterns = request.patterns(TAGS).map_err(invalid)?;
    walk.query = query(types.filter(|types| types.len() <= TYPES_MAX), &pattern::joined(&patterns).map_err(invalid)?);
    walk.needs_query = !patterns.is_empty();
    if let Some(ids) = request.texts(ID).filter(|_| patterns.is_empty()) {
        let ids = ids.iter().filter_map(|id| id.parse().ok()).collect();
        return Ok(by_id(walk, ids, columns));
    }
    Ok(context
        .source(move |page, count| walk.read(page, count, |page, store, event| push(page, columns, store, event))))
}

/// Returns a query for events of one of the types that match one of the lists of tags.
fn query(types: Option<Vec<String>>, alternatives: &[Vec<String>]) -> Query<'static> {
    let types: Vec<_> = types.unwrap_or_default().into_iter().map(Into::into).collect();
    let item = |tags: &Vec<String>| QueryItem {
        types: types.clone(),
        tags: tags.iter().map(|tag| tag.clone().into_bytes().into()).collect(),
        only_last_event: false,
    };
    Query { items: alternatives.iter().map(item).collect() }
}

fn push(page: &mut RowPage, columns: ColumnSet, store: &str, event: &EventView<'_>) {
    let row = [
        columns.value(STORE, || store),
        SqlValue::count(event.position.get()),
        SqlValue::count(event.time.as_millis()),
        columns.value(TYPE, || event.event_type),
        if columns.has(TAGS) { json_array(event.tags()) } else { SqlValue::Null },
        if columns.has(DATA) { SqlValue::text_or_blob(event.data) } else { SqlValue::Null },
        if columns.has(METADATA) { SqlValue::text_or_blob(event.metadata) } else { SqlValue::Null },
        columns.value(ID, || event.id().to_string()),
        SqlValue::count(event.place.position.get()),
    ];
    page.push([u64::from(event.store.get()), event.position.get()], row);
}

/// Returns the events with some ids, store by store.
fn by_id(mut walk: StoreWalk, ids: Vec<EventId>, columns: ColumnSet) -> Box<dyn RowSource> {
    let context = Arc::clone(&walk.context);
    context.source(move |page, _| {
        while page.is_empty() {
            let Some(store) = walk.stores.pop() else { return Ok(()) };
            walk.context.check(0)?;
            for id in &ids {
                let look = |view: &quire::ReadView<'_>| -> Result<()> {
                    let found = view.events.event_by_id(view.history, &store, *id)?;
                    if let Some(event) = found.filter(|event| event.place.position <= walk.context.at) {
                        push(page, columns, &store, &event);
                    }
                    Ok(())
                };
                let resource = Resource::new(ResourceKind::Store, &store);
                walk.context.database.read_published_for(resource, Operation::Read, look)??;
            }
        }
        Ok(())
    })
}

/// The numbers of the columns by which a walk is bounded.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventColumns {
    pub(super) position: usize,
    pub(super) time: usize,
}

/// A walk over the events of some stores, one store after the other.
#[derive(Debug)]
pub(super) struct StoreWalk {
    context: Arc<StatementContext>,
    /// The stores to visit; the last one comes first.
    stores: Vec<String>,
    positions: IntegerBounds,
    times: IntegerBounds,
    pub(super) query: Query<'static>,
    /// Whether an invalid query is an error. Otherwise, all events are read in its place.
    pub(super) needs_query: bool,
    is_descending: bool,
    current: Option<CurrentStore>,
}

#[derive(Debug)]
struct CurrentStore {
    name: String,
    options: ReadOptions,
    /// The positions to look up, in place of a range; the last one comes first.
    listed: Option<Vec<i64>>,
}

impl StoreWalk {
    /// Returns the walk of a request; `None` when its bounds leave no event.
    pub(super) fn of(
        context: &Arc<StatementContext>,
        request: &ScanRequest,
        columns: EventColumns,
    ) -> Result<Option<Self>> {
        let (positions, times) = (request.integers(columns.position), request.integers(columns.time));
        let (Some(positions), Some(times)) = (positions, times) else { return Ok(None) };
        let wanted = request.texts(STORE);
        let mut stores: Vec<String> = context.database.read_published_permitted(|view| {
            let is_shown = |name: &str| view.permits(ResourceKind::Store, name, Operation::Read);
            match wanted {
                Some(names) => {
                    let exists = |name: &String| view.events.store(name).is_some() && is_shown(name);
                    names.into_iter().filter(exists).collect()
                }
                None => {
                    let names = view.events.stores().map(|(name, _)| name).filter(|name| is_shown(name));
                    names.map(str::to_owned).collect()
                }
            }
        })?;
        stores.reverse();
        let (context, is_descending) = (Arc::clone(context), request.is_descending);
        let (query, current) = (Query::all(), None);
        Ok(Some(StoreWalk { context, stores, positions, times, query, needs_query: false, is_descending, current }))
    }

    /// Passes about `count` events to `push`, in the order of the walk.
    pub(super) fn read(
        &mut self,
        page: &mut RowPage,
        count: usize,
        mut push: impl FnMut(&mut RowPage, &str, &EventView<'_>),
    ) -> Result<()> {
        while page.len() < count && !page.is_full() {
            if self.current.is_none() {
                let Some(name) = self.stores.pop() else { return Ok(()) };
                self.current = self.begin(name)?;
            }
            let Some(mut store) = self.current.take() else { continue };
            let is_done = match &mut store.listed {
                Some(listed) => match listed.pop() {
                    Some(position) => {
                        self.look_up(&store.name, position, |event| push(page, &store.name, event))?;
                        false
                    }
                    None => true,
                },
                None => self.walk(&mut store, page, count, &mut push)?,
            };
            self.current = (!is_done).then_some(store);
        }
        Ok(())
    }

    /// Returns the part of a store that the walk visits; `None` for nothing.
    fn begin(&self, name: String) -> Result<Option<CurrentStore>> {
        if let Some(list) = self.positions.list.as_ref().filter(|_| !self.needs_query) {
            let mut listed = list.clone();
            if !self.is_descending {
                listed.reverse();
            }
            return Ok(Some(CurrentStore { name, options: ReadOptions::default(), listed: Some(listed) }));
        }
        let (mut min, mut max) = (self.positions.min.max(1) as u64, self.positions.max.max(0) as u64);
        if self.times.narrows() {
            let micros = |ms: i64| u64::try_from(ms).unwrap_or(0);
            if self.times.min > 0 {
                min = min.max(self.first_from(&name, micros(self.times.min))?);
            }
            if self.times.max < i64::MAX {
                max = max.min(self.first_from(&name, micros(self.times.max.max(-1) + 1))?.saturating_sub(1));
            }
        }
        if min > max {
            return Ok(None);
        }
        let options = ReadOptions {
            after: EventPosition::new(min - 1),
            up_to: Some(EventPosition::new(max)),
            backwards: self.is_descending,
            ..ReadOptions::default()
        };
        Ok(Some(CurrentStore { name, options, listed: None }))
    }

    /// Returns the position of the first event at a time, in milliseconds, or later; the position
    /// after the last event when there is none.
    fn first_from(&self, store: &str, time_ms: u64) -> Result<u64> {
        let handle = self.context.database.events(store);
        let options =
            |after| ReadOptions { after: EventPosition::new(after), limit: Some(1), ..ReadOptions::default() };
        let last = handle.read(&Query::all(), ReadOptions { backwards: true, ..options(0) })?.head.get();
        let (mut low, mut high) = (1, last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match handle.read(&Query::all(), options(middle - 1))?.events.first() {
                Some(event) if event.time.as_millis() < time_ms => low = event.position.get() + 1,
                Some(_) => high = middle,
                None => high = middle,
            }
        }
        Ok(low)
    }

    fn look_up(&self, store: &str, position: i64, push: impl FnOnce(&EventView<'_>)) -> Result<()> {
        let Ok(position) = u64::try_from(position) else { return Ok(()) };
        let at = self.context.at;
        let resource = Resource::new(ResourceKind::Store, store);
        self.context.database.read_published_for(resource, Operation::Read, |view| -> Result<()> {
            let found = view.events.event_at(view.history, store, EventPosition::new(position))?;
            if let Some(event) = found.filter(|event| event.place.position <= at) {
                push(&event);
            }
            Ok(())
        })?
    }

    /// Reads events of a store for one page. Returns whether this was the end of the
    /// store.
    fn walk(
        &self,
        store: &mut CurrentStore,
        page: &mut RowPage,
        count: usize,
        push: &mut impl FnMut(&mut RowPage, &str, &EventView<'_>),
    ) -> Result<bool> {
        self.context.check(0)?;
        let resource = Resource::new(ResourceKind::Store, &store.name);
        let select = |view: &quire::ReadView<'_>| match view.events.select(&store.name, &self.query) {
            // No event has an invalid type: SQLite drops every row.
            Err(_) if !self.needs_query => view.events.select(&store.name, &Query::all()).map(Some).or(Ok(None)),
            selection => selection.map(Some),
        };
        let selection = self.context.database.read_published_for(resource, Operation::Read, select)?;
        let Some(selection) = selection.map_err(|refusal| invalid(refusal.to_string()))? else { return Ok(true) };
        let history = self.context.database.history();
        let reading = selection.read(&history, store.options)?;
        let (mut given, mut next) = (0, None);
        reading.visit(&mut |event| {
            given += 1;
            if event.place.position <= self.context.at {
                push(page, &store.name, &event);
            } else if !self.is_descending {
                return ControlFlow::Break(());
            }
            if page.len() < count && !page.is_full() && given < EVENTS_AT_ONCE && !history.holds_too_much() {
                return ControlFlow::Continue(());
            }
            next = Some(event.position);
            ControlFlow::Break(())
        })?;
        let Some(last) = next else { return Ok(true) };
        store.options.go_on(last, given);
        Ok(false)
    }
}
