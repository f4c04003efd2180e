//! `jobs`: the jobs of all queues, as they are now.

use std::sync::Arc;

use quire::jobs::{Cursor, Filter, JobId, JobState, JobView, States, Status};
use quire::{Operation, PermittedView, Result, Timestamp};
use quire_vtab::{
    ColumnKind, ColumnSet, EQUAL, IntegerBounds, MATCH, NoRows, RANGE, RowPage, RowSource, ScanRequest, TableColumn,
};

use super::{TableKind, json_array, never};
use crate::SqlValue;
use crate::context::{StatementContext, invalid};
use crate::pattern;

pub(super) const JOBS: TableKind = TableKind {
    name: "jobs",
    about: "A job, unfinished or finished, as long as its queue keeps it.",
    columns: &[
        TableColumn::new("id", ColumnKind::Text, "The id.").filtered(EQUAL, 1_000_000).listed(),
        TableColumn::new("queue", ColumnKind::Text, "The name of the queue.").filtered(EQUAL, 10),
        TableColumn::new("kind", ColumnKind::Text, "The kind.").filtered(EQUAL, 10),
        TableColumn::new(
            "state",
            ColumnKind::Text,
            "`scheduled`, `pending`, `active`, `retrying`, `held`, `completed`, `cancelled` or `dead`.",
        )
        .filtered(EQUAL, 100)
        .listed(),
        TableColumn::new("job_group", ColumnKind::Text, "The job's group; empty for none."),
        TableColumn::new("priority", ColumnKind::Integer, "The priority, from 0 to 255."),
        TableColumn::new("attempt", ColumnKind::Integer, "The number of started attempts."),
        TableColumn::new("attempts_max", ColumnKind::Integer, "The most attempts."),
        TableColumn::new("enqueued_at_ms", ColumnKind::Integer, "When it was enqueued, in milliseconds since 1970.")
            .filtered(RANGE, 1_000),
        TableColumn::new("run_at_ms", ColumnKind::Integer, "When it was to run, by the last request."),
        TableColumn::new("finished_at_ms", ColumnKind::Integer, "When it finished; `NULL` while it has not.")
            .filtered(RANGE, 1_000),
        TableColumn::new("worker", ColumnKind::Text, "The worker of an active job."),
        TableColumn::new("deadline_ms", ColumnKind::Integer, "When the lease of an active job ends."),
        TableColumn::new("retry_at_ms", ColumnKind::Integer, "When the next attempt of a retrying job may start."),
        TableColumn::new("reason", ColumnKind::Text, "Why it is held, cancelled or dead."),
        TableColumn::new("last_error", ColumnKind::Text, "The error of the last failed attempt."),
        TableColumn::new("tags", ColumnKind::Text, "The tags, as a JSON array.").filtered(MATCH, 10_000),
        TableColumn::new("payload", ColumnKind::Bytes, "The payload."),
        TableColumn::new("result", ColumnKind::Bytes, "The result of a completed job."),
        TableColumn::new("progress", ColumnKind::Bytes, "The last progress that a worker reported."),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of the commit that enqueued it."),
    ],
    rows: 100_000,
    order: None,
    in_order: never,
    scan,
};

const ID: usize = 0;
const QUEUE: usize = 1;
const KIND: usize = 2;
const STATE: usize = 3;
const ENQUEUED: usize = 8;
const FINISHED: usize = 10;
const TAGS: usize = 16;
const PAYLOAD: usize = 17;
const RESULT: usize = 18;
const PROGRESS: usize = 19;

/// How many jobs are read before writers get their turn.
const JOBS_AT_ONCE: usize = 32;

/// The most ids that one search takes.
const IDS_MAX: usize = 10_000;

/// A filter that owns its texts.
#[derive(Debug)]
struct JobFilter {
    ids: Option<Vec<JobId>>,
    queue: Option<String>,
    kind: Option<String>,
    states: States,
    tags: Vec<String>,
    enqueued: IntegerBounds,
    finished: IntegerBounds,
}

impl JobFilter {
    /// Returns the filter of a request; `None` when it matches no job.
    fn of(request: &ScanRequest) -> Result<Option<Self>> {
        let (enqueued, finished) = (request.integers(ENQUEUED), request.integers(FINISHED));
        let (Some(enqueued), Some(finished)) = (enqueued, finished) else { return Ok(None) };
        let states = match request.texts(STATE) {
            None => States::default(),
            Some(names) => {
                let named = JobState::ALL.into_iter().filter(|state| names.iter().any(|name| name == state.name()));
                States::of(named)
            }
        };
        let is_none = |texts: &Option<Vec<String>>| texts.as_ref().is_some_and(Vec::is_empty);
        let (ids, queues, kinds) = (request.texts(ID), request.texts(QUEUE), request.texts(KIND));
        if [&ids, &queues, &kinds].into_iter().any(is_none)
            || !JobState::ALL.iter().any(|state| states.contains(*state))
        {
            return Ok(None);
        }
        let ids: Option<Vec<JobId>> = ids.map(|ids| ids.iter().filter_map(|id| id.parse().ok()).collect());
        if ids.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let only =
            |texts: Option<Vec<String>>| texts.filter(|texts| texts.len() == 1).and_then(|mut texts| texts.pop());
        let mut alternatives = pattern::joined(&request.patterns(TAGS).map_err(invalid)?).map_err(invalid)?;
        if alternatives.len() > 1 {
            return Err(invalid("jobs.tags MATCH takes one alternative: join two queries by UNION in place of OR"));
        }
        let tags = alternatives.pop().unwrap_or_default();
        let (queue, kind) = (only(queues), only(kinds));
        let ids = ids.filter(|ids| ids.len() <= IDS_MAX);
        Ok(Some(JobFilter { ids, queue, kind, states, tags, enqueued, finished }))
    }

    /// Passes the filter to `work`.
    fn with<T>(&self, work: impl FnOnce(&Filter<'_>) -> T) -> T {
        let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
        let from = |bounds: &IntegerBounds| u64::try_from(bounds.min).ok().map(Timestamp::from_millis);
        // A time within the last millisecond is rounded down to it.
        let before = |bounds: &IntegerBounds| {
            let end = bounds.max.checked_add(1)?;
            Some(Timestamp::from_millis(u64::try_from(end).unwrap_or(0)))
        };
        work(&Filter {
            jobs: self.ids.as_deref(),
            queue: self.queue.as_deref(),
            kind: self.kind.as_deref(),
            states: self.states,
            tags: &tags,
            enqueued_from: from(&self.enqueued),
            enqueued_before: before(&self.enqueued),
            finished_from: from(&self.finished).filter(|_| self.finished.narrows()),
            finished_before: before(&self.finished).filter(|_| self.finished.narrows()),
            ..Filter::default()
        })
    }
}

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("jobs")?;
    let Some(filter) = JobFilter::of(request)? else { return Ok(Box::new(NoRows)) };
    let mut scan =
        JobScan { context: Arc::clone(context), filter, columns: request.columns, after: None, has_ended: false };
    Ok(context.source(move |page, count| scan.read(page, count)))
}

#[derive(Debug)]
struct JobScan {
    context: Arc<StatementContext>,
    filter: JobFilter,
    columns: ColumnSet,
    after: Option<Cursor>,
    has_ended: bool,
}

impl JobScan {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        while page.is_empty() && !self.has_ended {
            self.context.check(0)?;
            let database = &self.context.database;
            let found = self.filter.with(|filter| database.search_jobs(filter, self.after, count))?;
            (self.after, self.has_ended) = (found.next, found.next.is_none());
            for few in found.jobs.chunks(JOBS_AT_ONCE) {
                for job in self.views(few)? {
                    push(page, self.columns, job);
                }
            }
        }
        Ok(())
    }

    /// Returns jobs that the client may still read.
    fn views(&self, ids: &[JobId]) -> Result<Vec<JobView>> {
        let look = |view: &PermittedView<'_>| -> Result<Vec<JobView>> {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                if view.permits_job(*id, Operation::Read)? {
                    found.extend(view.jobs.job(view.history, *id)?);
                }
            }
            Ok(found)
        };
        self.context.database.read_permitted(look)?.wait()?
    }
}

fn push(page: &mut RowPage, columns: ColumnSet, job: JobView) {
    let (state, place) = (job.state(), job.id.place());
    let time = |time: Timestamp| SqlValue::count(time.as_millis());
    let bytes = |column: usize, bytes: Option<Vec<u8>>| match bytes {
        Some(bytes) if columns.has(column) => SqlValue::text_or_blob(bytes),
        _ => SqlValue::Null,
    };
    let said = |text: String| SqlValue::from(Some(text).filter(|text| !text.is_empty()));
    let mut finished = SqlValue::Null;
    let (mut run_at, mut worker, mut deadline, mut retry_at) =
        (time(job.run_at), SqlValue::Null, SqlValue::Null, SqlValue::Null);
    let (mut reason, mut result) = (SqlValue::Null, None);
    match job.status {
        Status::Pending => {}
        Status::Scheduled { run_at: at } => run_at = time(at),
        Status::Active { deadline: until, worker: name, .. } => (deadline, worker) = (time(until), name.into()),
        Status::Retrying { due } => retry_at = time(due),
        Status::Held { reason: why } => reason = said(why),
        Status::Completed { at, result: bytes } => (finished, result) = (time(at), Some(bytes)),
        Status::Cancelled { at, reason: why } => (finished, reason) = (time(at), said(why)),
        Status::Dead { at, cause } => (finished, reason) = (time(at), cause.name().into()),
    }
    let row = [
        job.id.to_string().into(),
        job.queue.into(),
        job.kind.into(),
        state.name().into(),
        job.group.into(),
        SqlValue::Integer(job.priority.get().into()),
        SqlValue::Integer(job.attempt.into()),
        SqlValue::Integer(job.attempts_max.into()),
        time(job.enqueued_at),
        run_at,
        finished,
        worker,
        deadline,
        retry_at,
        reason,
        job.last_error.into(),
        if columns.has(TAGS) { json_array(job.tags.iter().map(String::as_bytes)) } else { SqlValue::Null },
        bytes(PAYLOAD, Some(job.payload)),
        bytes(RESULT, result),
        bytes(PROGRESS, job.progress),
        SqlValue::count(place.position.get()),
    ];
    page.push([place.position.get(), place.index.into()], row);
}
