//! `commits` and `entries`: the log itself, for clients that may read the whole database.

use std::ops::ControlFlow;
use std::sync::Arc;

use quire::{Entry, History, ModelId, Operation, Place, Position, Reader, Resource, Result};
use quire_vtab::{ColumnKind, NoRows, RANGE, RowPage, RowSource, ScanRequest, TableColumn};

use super::{TableKind, always};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const COMMITS: TableKind = TableKind {
    name: "commits",
    about: "A commit: everything that happened together. It needs the right to read the whole database.",
    columns: &[
        TableColumn::new("position", ColumnKind::Integer, "The position in the log.").filtered(RANGE, 1_000_000),
        TableColumn::new("time_ms", ColumnKind::Integer, "When it was committed, in milliseconds since 1970.")
            .filtered(RANGE, 1_000),
        TableColumn::new("entries", ColumnKind::Integer, "The number of entries that are left."),
        TableColumn::new("bytes", ColumnKind::Integer, "The bytes of their bodies."),
        TableColumn::new("streams", ColumnKind::Integer, "Entries of topics and groups."),
        TableColumn::new("events", ColumnKind::Integer, "Entries of event stores."),
        TableColumn::new("jobs", ColumnKind::Integer, "Entries of queues."),
        TableColumn::new("graph", ColumnKind::Integer, "Entries of graphs."),
        TableColumn::new("system", ColumnKind::Integer, "Entries of users, keys, roles and rules."),
    ],
    rows: 1_000_000,
    order: Some((0, &[])),
    in_order: always,
    scan: commits,
};

pub(super) const ENTRIES: TableKind = TableKind {
    name: "entries",
    about: "An entry of a commit. It needs the right to read the whole database.",
    columns: &[
        TableColumn::new("position", ColumnKind::Integer, "The position of the commit.").filtered(RANGE, 1_000_000),
        TableColumn::new("number", ColumnKind::Integer, "The number in the commit, from 0."),
        TableColumn::new("time_ms", ColumnKind::Integer, "When it was committed.").filtered(RANGE, 1_000),
        TableColumn::new("model", ColumnKind::Text, "`streams`, `events`, `jobs`, `graph`, `system` or `idempotency`."),
        TableColumn::new("kind", ColumnKind::Integer, "The model's number for what happened."),
        TableColumn::new("sequence", ColumnKind::Integer, "Its first number in its first tag; `NULL` for none."),
        TableColumn::new("bytes", ColumnKind::Integer, "The bytes of its body."),
    ],
    rows: 2_000_000,
    order: None,
    in_order: always,
    scan: entries,
};

/// The columns by which a scan is bounded.
const POSITION: usize = 0;

/// The models whose entries a commit counts, in the order of the columns.
const COUNTED: [ModelId; 5] = [ModelId::STREAMS, ModelId::EVENTS, ModelId::JOBS, ModelId::GRAPH, ModelId::SYSTEM];

fn commits(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let Some(mut walk) = LogWalk::of(context, request, 1)? else { return Ok(Box::new(NoRows)) };
    Ok(context.source(move |page, count| match walk.is_descending {
        true => walk.commits_backwards(page, count),
        false => walk.commits(page, count),
    }))
}

fn entries(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let Some(mut walk) = LogWalk::of(context, request, 2)? else { return Ok(Box::new(NoRows)) };
    Ok(context.source(move |page, count| walk.entries(page, count)))
}

/// The row of a commit.
#[derive(Debug)]
struct CommitTotals {
    position: Position,
    time_ms: u64,
    entries: u64,
    bytes: u64,
    /// The entries of each of the counted models.
    models: [u64; COUNTED.len()],
}

impl CommitTotals {
    /// Returns the row of a commit without its entries.
    fn of(first: &Entry<'_>) -> Self {
        let (position, time_ms) = (first.place.position, first.time.as_millis());
        CommitTotals { position, time_ms, entries: 0, bytes: 0, models: [0; COUNTED.len()] }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        debug_assert_eq!(entry.place.position, self.position, "an entry of the commit");
        self.entries += 1;
        self.bytes += entry.body.len() as u64;
        if let Some(model) = COUNTED.iter().position(|model| *model == entry.kind.model) {
            self.models[model] += 1;
        }
    }

    fn push(&self, page: &mut RowPage) {
        let [streams, events, jobs, graph, system] = self.models.map(SqlValue::count);
        let [position, time, entries, bytes] =
            [self.position.get(), self.time_ms, self.entries, self.bytes].map(SqlValue::count);
        page.push([self.position.get(), 0], [position, time, entries, bytes, streams, events, jobs, graph, system]);
    }
}

fn model_name(model: ModelId) -> &'static str {
    match model {
        ModelId::STREAMS => "streams",
        ModelId::EVENTS => "events",
        ModelId::JOBS => "jobs",
        ModelId::GRAPH => "graph",
        ModelId::SYSTEM => "system",
        ModelId::IDEMPOTENCY => "idempotency",
        _ => "unknown",
    }
}

/// A walk over the log in a range, in either direction.
#[derive(Debug)]
struct LogWalk {
    context: Arc<StatementContext>,
    /// The entries that are left: those from `from` on, and before `before`.
    from: Place,
    before: Place,
    is_descending: bool,
}

impl LogWalk {
    /// Returns the walk of a request; `None` when its bounds leave no commit.
    fn of(context: &Arc<StatementContext>, request: &ScanRequest, time: usize) -> Result<Option<Self>> {
        context.database.check_permission(Resource::DATABASE, Operation::Read)?;
        let (positions, times) = (request.integers(POSITION), request.integers(time));
        let (Some(positions), Some(times)) = (positions, times) else { return Ok(None) };
        let mut min = u64::try_from(positions.min).unwrap_or(0);
        let mut max = u64::try_from(positions.max).unwrap_or(0).min(context.at.get());
        let history = context.database.history();
        if let Ok(from) = u64::try_from(times.min) {
            min = min.max(first_from(&history, context.at, from)?);
        }
        if times.max < i64::MAX {
            let behind = u64::try_from(times.max + 1).unwrap_or(0);
            max = max.min(first_from(&history, context.at, behind)?.saturating_sub(1));
        }
        if min > max {
            return Ok(None);
        }
        let (from, before) = (Place::new(Position::new(min), 0), Place::new(Position::new(max).next(), 0));
        Ok(Some(LogWalk { context: Arc::clone(context), from, before, is_descending: request.is_descending }))
    }

    /// Adds about `count` commits, from the first one on.
    fn commits(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        let history = self.context.database.history();
        let mut current: Option<CommitTotals> = None;
        history.scan(&[], self.from, self.before, &mut |entry| {
            if let Some(totals) = current.take_if(|totals| totals.position != entry.place.position) {
                totals.push(page);
                self.from = Place::new(totals.position.next(), 0);
                if page.len() >= count || page.is_full() || history.holds_too_much() {
                    return ControlFlow::Break(());
                }
            }
            current.get_or_insert_with(|| CommitTotals::of(entry)).add(entry);
            ControlFlow::Continue(())
        })?;
        // The scan ended with the last commit of the range.
        if let Some(totals) = current {
            totals.push(page);
            self.from = self.before;
        }
        Ok(())
    }

    /// Adds about `count` commits, from the last one on.
    fn commits_backwards(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        let history = self.context.database.history();
        while page.len() < count && !page.is_full() && !history.holds_too_much() {
            let found = history.previous(&[], self.before)?.filter(|entry| entry.place >= self.from);
            let Some(last) = found else { return Ok(()) };
            let mut totals = CommitTotals::of(&last);
            if let Some(entries) = history.record(totals.position)? {
                entries.for_each(|entry| totals.add(&entry));
            }
            totals.push(page);
            self.before = Place::new(totals.position, 0);
        }
        Ok(())
    }

    /// Adds about `count` entries.
    fn entries(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        let history = self.context.database.history();
        history.scan(&[], self.from, self.before, &mut |entry| {
            let Place { position, index } = entry.place;
            let row = [
                SqlValue::count(position.get()),
                SqlValue::count(index.into()),
                SqlValue::count(entry.time.as_millis()),
                model_name(entry.kind.model).into(),
                SqlValue::count(entry.kind.kind.into()),
                entry.sequence.map_or(SqlValue::Null, |sequence| SqlValue::count(sequence.get())),
                SqlValue::count(entry.body.len() as u64),
            ];
            page.push([position.get(), index.into()], row);
            self.from = entry.place.after();
            match page.len() < count && !page.is_full() && !history.holds_too_much() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(())
    }
}

/// Returns the position of the first commit at a time, in milliseconds, or later, up to the
/// position after `last`.
fn first_from(history: &Reader, last: Position, time_ms: u64) -> Result<u64> {
    let (mut low, mut high) = (1, last.get() + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match history.next(&[], Place::new(Position::new(middle), 0))? {
            Some(entry) if entry.time.as_millis() < time_ms => low = entry.place.position.get() + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}
