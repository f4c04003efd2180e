//! `job_steps`: the life of jobs, step by step.

use std::collections::VecDeque;
use std::sync::Arc;

use quire::jobs::{Cursor, Filter, HistoryPage, JobId, Transition};
use quire::{Operation, PermittedView, Place, Result, Timestamp};
use quire_vtab::{ColumnKind, EQUAL, NoRows, RowPage, RowSource, ScanRequest, TableColumn};

use super::{TableKind, key, never};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const JOB_STEPS: TableKind = TableKind {
    name: "job_steps",
    about: "A step in the life of a job: why and when its state changed. Join `job` with `jobs.id`.",
    columns: &[
        TableColumn::new("job", ColumnKind::Text, "The id of the job.").filtered(EQUAL, 100_000).listed(),
        TableColumn::new("time_ms", ColumnKind::Integer, "When it happened, in milliseconds since 1970."),
        TableColumn::new("what", ColumnKind::Text, "The event, for example `enqueued`, `leased` or `failed`."),
        TableColumn::new("state", ColumnKind::Text, "The state after it; `NULL` when the job was deleted."),
        TableColumn::new("attempt", ColumnKind::Integer, "The number of started attempts; `NULL` before the first."),
        TableColumn::new("worker", ColumnKind::Text, "The worker that took the job."),
        TableColumn::new("error", ColumnKind::Text, "The error of a failed attempt."),
        TableColumn::new("reason", ColumnKind::Text, "The reason that was given."),
        TableColumn::new("until_ms", ColumnKind::Integer, "When a lease, a wait or a schedule ends."),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of its commit in the log."),
    ],
    rows: 500_000,
    order: None,
    in_order: never,
    scan,
};

const JOB: usize = 0;

/// How many steps are read before writers get their turn.
const STEPS_AT_ONCE: usize = 64;

/// How many jobs are listed at once.
const JOBS_AT_ONCE: usize = 256;

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("job_steps")?;
    let ids = request.texts(JOB).map(|ids| ids.iter().filter_map(|id| id.parse().ok()).collect::<VecDeque<JobId>>());
    if ids.as_ref().is_some_and(VecDeque::is_empty) {
        return Ok(Box::new(NoRows));
    }
    let mut scan = StepScan {
        context: Arc::clone(context),
        lists_all: ids.is_none(),
        jobs: ids.unwrap_or_default(),
        after: None,
        current: None,
    };
    Ok(context.source(move |page, count| scan.read(page, count)))
}

#[derive(Debug)]
struct StepScan {
    context: Arc<StatementContext>,
    /// Whether jobs are left to list, after `after`.
    lists_all: bool,
    jobs: VecDeque<JobId>,
    after: Option<Cursor>,
    /// The job whose older steps are read next.
    current: Option<(JobId, Option<Place>)>,
}

impl StepScan {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        while page.len() < count && !page.is_full() {
            self.context.check(0)?;
            if let Some((job, older)) = self.current.take() {
                let found = self.steps(job, older)?;
                for step in found.steps {
                    push(page, job, step);
                }
                self.current = found.older.map(|older| (job, Some(older)));
            } else if let Some(job) = self.jobs.pop_front() {
                self.current = Some((job, None));
            } else if self.lists_all {
                let found = self.context.database.search_jobs(&Filter::default(), self.after, JOBS_AT_ONCE)?;
                (self.after, self.lists_all) = (found.next, found.next.is_some());
                self.jobs = found.jobs.into();
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns steps of a job that the client may still read.
    fn steps(&self, job: JobId, older: Option<Place>) -> Result<HistoryPage> {
        let look = |view: &PermittedView<'_>| -> Result<HistoryPage> {
            if view.permits_job(job, Operation::Read)? {
                Ok(view.jobs.history(view.history, job, older, STEPS_AT_ONCE)?)
            } else {
                Ok(HistoryPage::default())
            }
        };
        self.context.database.read_permitted(look)?.wait()?
    }
}

fn push(page: &mut RowPage, job: JobId, step: Transition) {
    let note = |name: &str| match step.event.note_name() == name && !step.note.is_empty() {
        true => SqlValue::from(step.note.as_str()),
        false => SqlValue::Null,
    };
    let (id, place) = (job.to_string(), step.place);
    let row_key = key(&[&id, &place.position.get().to_string(), &place.index.to_string()]);
    let row = [
        id.into(),
        SqlValue::count(step.time.as_millis()),
        step.event.name().replace(' ', "_").into(),
        step.state.map(|state| state.name()).into(),
        Some(i64::from(step.attempt)).filter(|attempt| *attempt > 0).into(),
        note("worker"),
        note("error"),
        note("reason"),
        step.until.map(Timestamp::as_millis).map_or(SqlValue::Null, SqlValue::count),
        SqlValue::count(place.position.get()),
    ];
    page.push(row_key, row);
}
