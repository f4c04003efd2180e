//! `commits` and `entries`: the log itself, for clients that may read the whole database.

use std::sync::Arc;

use quire::{Entry, History, ModelId, Operation, Place, Position, Reader, Resource, Result};
use quire_vtab::{ColumnKind, NoRows, RANGE, RowPage, RowSource, ScanRequest, TableColumn};

use super::TableKind;
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
    scan: entries,
};

/// The columns by which a scan is bounded.
const POSITION: usize = 0;

fn commits(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let Some(mut walk) = LogWalk::of(context, request, 1)? else { return Ok(Box::new(NoRows)) };
    Ok(context.source(move |page, count| {
        walk.read(page, count, |page, position, entries| {
            let models = [ModelId::STREAMS, ModelId::EVENTS, ModelId::JOBS, ModelId::GRAPH, ModelId::SYSTEM];
            let (mut counts, mut count, mut bytes, mut time) = ([0; 5], 0, 0, 0);
            for entry in entries {
                (count, bytes, time) = (count + 1, bytes + entry.body.len() as u64, entry.time.as_millis());
                if let Some(model) = models.iter().position(|model| *model == entry.kind.model) {
                    counts[model] += 1;
                }
            }
            let [streams, events, jobs, graph, system] = counts.map(SqlValue::count);
            let [position_value, time, entries, bytes] = [position.get(), time, count, bytes].map(SqlValue::count);
            let row = [position_value, time, entries, bytes, streams, events, jobs, graph, system];
            page.push([position.get(), 0], row);
        })
    }))
}

fn entries(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let Some(mut walk) = LogWalk::of(context, request, 2)? else { return Ok(Box::new(NoRows)) };
    Ok(context.source(move |page, count| {
        walk.read(page, count, |page, position, entries| {
            for entry in entries {
                let row = [
                    SqlValue::count(position.get()),
                    SqlValue::count(entry.place.index.into()),
                    SqlValue::count(entry.time.as_millis()),
                    model_name(entry.kind.model).into(),
                    SqlValue::count(entry.kind.kind.into()),
                    entry.sequence.map_or(SqlValue::Null, |sequence| SqlValue::count(sequence.get())),
                    SqlValue::count(entry.body.len() as u64),
                ];
                page.push([position.get(), entry.place.index.into()], row);
            }
        })
    }))
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

/// A walk over the commits of a range, in either direction.
#[derive(Debug)]
struct LogWalk {
    context: Arc<StatementContext>,
    min: u64,
    max: u64,
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
        let walk = LogWalk { context: Arc::clone(context), min, max, is_descending: request.is_descending };
        Ok((min <= max).then_some(walk))
    }

    /// Passes about `count` commits with entries to `push`.
    fn read(
        &mut self,
        page: &mut RowPage,
        count: usize,
        mut push: impl FnMut(&mut RowPage, Position, &mut dyn Iterator<Item = Entry<'_>>),
    ) -> Result<()> {
        let history = self.context.database.history();
        while self.min <= self.max && page.len() < count && !page.is_full() && !history.holds_too_much() {
            let found = if self.is_descending {
                history.previous(&[], Place::new(Position::new(self.max).next(), 0))?
            } else {
                history.next(&[], Place::new(Position::new(self.min), 0))?
            };
            let range = self.min..=self.max;
            let Some(position) = found.map(|entry| entry.place.position).filter(|at| range.contains(&at.get())) else {
                (self.min, self.max) = (1, 0);
                return Ok(());
            };
            if let Some(mut entries) = history.record(position)? {
                push(page, position, &mut entries);
            }
            if self.is_descending {
                self.max = position.get() - 1;
            } else {
                self.min = position.get() + 1;
            }
        }
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
