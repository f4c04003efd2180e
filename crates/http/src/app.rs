//! What every handler has at hand.

use std::sync::Arc;

use quire::Database;

/// The components behind the routes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) database: Database,
}

impl App {
    pub(crate) fn new(database: Database) -> Arc<Self> {
        Arc::new(App { database })
    }
}
