//! A search of jobs in slices: commits continue between them.

use std::mem;

use quire_model::{Operation, ReadError};

use crate::database::Database;
use crate::jobs::{Cursor, Filter, JobPage, SEARCH_LOOKED_AT_MAX};
use crate::reading::PermittedView;
use crate::{ErrorKind, Result};

/// The most steps of a search while commits wait, which take about a millisecond.
const SLICE_STEPS: u64 = 1_024;

impl Database {
    /// Returns the jobs that a filter matches, at most `count_max`, after the cursor of the page
    /// before. Jobs of queues that the client may not read are omitted. A page that uses up the
    /// steps of its request is short, and has a next page.
    ///
    /// # Errors
    /// [`ErrorKind::TooCostly`] when no job could be looked at within the steps of the request.
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn search_jobs(&self, filter: &Filter<'_>, after: Option<Cursor>, count_max: usize) -> Result<JobPage> {
        let mut found = JobPage { next: after, ..JobPage::default() };
        let (mut is_first, mut slice_steps) = (true, SLICE_STEPS);
        loop {
            let (left, after) = (count_max - found.jobs.len(), found.next);
            let slice = self.within_slice(slice_steps);
            let look = |view: &PermittedView<'_>| {
                let mut page = view.jobs.search(view.history, filter, after, left)?;
                let found = mem::take(&mut page.jobs);
                for job in found {
                    if view.permits_job(job, Operation::Read)? {
                        page.jobs.push(job);
                    }
                }
                Ok::<_, ReadError>(page)
            };
            match slice.read_permitted(look)?.wait()? {
                Ok(page) => {
                    found.jobs.extend(page.jobs);
                    found.looked_at += page.looked_at;
                    found.next = page.next;
                    (is_first, slice_steps) = (false, SLICE_STEPS);
                }
                Err(error) => {
                    let error = crate::Error::from(error);
                    let is_spent = self.budget().is_some_and(|budget| budget.left() == 0);
                    match error.kind() {
                        ErrorKind::TooCostly if is_spent && !is_first => return Ok(found),
                        // One step of the search takes more than the slice.
                        ErrorKind::TooCostly if !is_spent => slice_steps = slice_steps.saturating_mul(4),
                        _ => return Err(error),
                    }
                }
            }
            let is_full = found.jobs.len() >= count_max || found.looked_at >= SEARCH_LOOKED_AT_MAX;
            if !is_first && (found.next.is_none() || is_full) {
                return Ok(found);
            }
        }
    }
}
