//! The history of a job, page by page.

use alloc::vec::Vec;

use quire_model::{History, Place, ReadError};

use super::chain::{Chain, Transition};
use super::logged::ended;
use crate::{JobId, Jobs};

/// Some steps of a job, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPage {
    /// The steps.
    pub steps: Vec<Transition>,
    /// The place where older steps begin; `None` when there are none.
    pub older: Option<Place>,
}

impl Jobs {
    /// The steps of a job, newest first: from its last step, or from the end of the previous page.
    /// Empty for an unknown job.
    ///
    /// # Errors
    /// When an entry can't be read.
    pub fn history(
        &self,
        history: &dyn History,
        id: JobId,
        older: Option<Place>,
        count_max: usize,
    ) -> Result<HistoryPage, ReadError> {
        let last = match self.jobs.get(&id) {
            Some(job) => Some(job.last()),
            None => ended(history, id)?.map(|end| end.ended.place),
        };
        let mut chain = Chain { history, id, next: last.and(older).or(last) };
        let mut page = HistoryPage::default();
        while page.steps.len() < count_max
            && let Some(step) = chain.next()?
        {
            page.steps.push(step);
        }
        page.older = chain.next;
        Ok(page)
    }
}
