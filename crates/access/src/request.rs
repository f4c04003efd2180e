//! The work of one request: bounded in steps, and cancelled when its client leaves.
//!
//! A front end keeps the [`BoundedRequest`] in the future that answers the request. The protocol's
//! library drops that future when the client leaves, and the work on another thread ends at its
//! next claim of steps, some hundred steps later.

use quire::{Database, StepBudget};

/// The step budget of one running request. Dropping it cancels the request's work. See the module.
#[derive(Debug)]
pub struct BoundedRequest {
    budget: StepBudget,
    database: Database,
}

impl BoundedRequest {
    /// Begins a request with the budget of the database's settings.
    pub fn begin(database: &Database) -> Self {
        BoundedRequest::within(database, StepBudget::new(database.request_steps_max()))
    }

    /// Begins a request that may take any number of steps over time, such as a subscription, and
    /// ends when its client leaves.
    pub fn unbounded(database: &Database) -> Self {
        BoundedRequest::within(database, StepBudget::unbounded())
    }

    fn within(database: &Database, budget: StepBudget) -> Self {
        BoundedRequest { database: database.within(budget.clone()), budget }
    }

    /// Returns the database for this request.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Drop for BoundedRequest {
    fn drop(&mut self) {
        self.budget.cancel();
    }
}
