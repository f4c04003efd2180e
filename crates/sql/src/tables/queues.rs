//! `queues`: job queues with their counts.

use std::sync::Arc;

use quire::Result;
use quire::jobs::{JobState, QueueSettings, QueueStats};
use quire_vtab::{ColumnKind, EQUAL, RowSource, ScanRequest, TableColumn};

use super::{TableKind, key, never};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const QUEUES: TableKind = TableKind {
    name: "queues",
    about: "A job queue, with the number of its jobs in each state.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name.").filtered(EQUAL, 1_000).listed(),
        TableColumn::new("scheduled", ColumnKind::Integer, "Jobs that wait for their scheduled time."),
        TableColumn::new("pending", ColumnKind::Integer, "Jobs that may be fetched."),
        TableColumn::new("active", ColumnKind::Integer, "Jobs that workers hold."),
        TableColumn::new("retrying", ColumnKind::Integer, "Jobs that wait for their next attempt."),
        TableColumn::new("held", ColumnKind::Integer, "Jobs on hold."),
        TableColumn::new("completed", ColumnKind::Integer, "Completed jobs since the queue was created."),
        TableColumn::new("cancelled", ColumnKind::Integer, "Cancelled jobs since the queue was created."),
        TableColumn::new("dead", ColumnKind::Integer, "Dead jobs."),
        TableColumn::new("paused", ColumnKind::Integer, "1 when workers get no jobs, otherwise 0."),
        TableColumn::new("draining", ColumnKind::Integer, "1 when the queue takes no new jobs, otherwise 0."),
    ],
    rows: 100,
    order: None,
    in_order: never,
    scan,
};

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("queues")?;
    let (own, names) = (Arc::clone(context), request.texts(0));
    Ok(context.once(move |page| {
        let show = |name: &str, stats: QueueStats, settings: QueueSettings| (name.to_owned(), stats, settings);
        let queues = match names {
            Some(names) => own.database.visit_queues_named(names, show)?,
            None => own.database.visit_queues(usize::MAX, show)?,
        };
        for (name, stats, settings) in queues {
            let key = key(&[&name]);
            let [scheduled, pending, active, retrying, held, completed, cancelled, dead] =
                JobState::ALL.map(|state| SqlValue::count(stats.of(state)));
            let [paused, draining] =
                [settings.paused, settings.draining].map(|is_set| SqlValue::Integer(is_set.into()));
            let name = name.into();
            let row = [name, scheduled, pending, active, retrying, held, completed, cancelled, dead, paused, draining];
            page.push(key, row);
        }
        Ok(())
    }))
}
