//! What the tables of one statement share: the database, the position, and the first error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quire::{Database, Error, ErrorKind, Position, Result, StepBudget, Timestamp};
use quire_vtab::{RowPage, RowSource};

/// The state of a statement that runs.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) database: Database,
    /// The position as of which the log is read.
    pub(crate) at: Position,
    /// Whether the statement gave the position. States have no past, so their tables refuse then.
    pub(crate) is_past: bool,
    /// The budget of the caller, for work of SQLite.
    pub(crate) budget: Option<StepBudget>,
    pub(crate) deadline: Timestamp,
    scanned: AtomicU64,
    /// The first error of a table or a limit. SQLite keeps only its message.
    failure: Mutex<Option<Error>>,
}

impl StatementContext {
    pub(crate) fn new(database: &Database, at: Position, is_past: bool, deadline: Timestamp) -> Self {
        let budget = database.budget().cloned();
        let (scanned, failure) = (AtomicU64::new(0), Mutex::default());
        StatementContext { database: database.clone(), at, is_past, budget, deadline, scanned, failure }
    }

    /// Returns the number of rows that scans read.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned.load(Ordering::Relaxed)
    }

    /// Keeps an error, unless there is an earlier one, and returns its message.
    pub(crate) fn note(&self, error: Error) -> String {
        let message = error.to_string();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        message
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Checks that the statement may continue.
    pub(crate) fn check(&self, steps: u64) -> Result<()> {
        if let Some(budget) = &self.budget {
            budget.claim(steps)?;
        }
        if self.database.now() > self.deadline {
            return Err(Error::new(ErrorKind::TooCostly, "the statement takes longer than it may: narrow it"));
        }
        Ok(())
    }

    /// Checks that a table of states is read as it is now.
    pub(crate) fn check_now(&self, table: &str) -> Result<()> {
        if self.is_past {
            let message = format!("table {table} has no past: query it without as_of");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Returns a scan whose errors the statement gets as they are. Checks and counts each page.
    pub(crate) fn source(
        self: &Arc<Self>,
        mut read: impl FnMut(&mut RowPage, usize) -> Result<()> + 'static,
    ) -> Box<dyn RowSource> {
        let context = Arc::clone(self);
        Box::new(move |page: &mut RowPage, count: usize| {
            let done = context.check(0).and_then(|()| read(page, count));
            context.scanned.fetch_add(page.len() as u64, Ordering::Relaxed);
            done.map_err(|error| context.note(error))
        })
    }

    /// Returns a scan of rows that `read` adds all at once.
    pub(crate) fn once(
        self: &Arc<Self>,
        read: impl FnOnce(&mut RowPage) -> Result<()> + 'static,
    ) -> Box<dyn RowSource> {
        let mut read = Some(read);
        self.source(move |page, _| read.take().map_or(Ok(()), |read| read(page)))
    }
}

/// Returns an error of a statement that is invalid.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
