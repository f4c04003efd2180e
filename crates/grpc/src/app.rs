//! The components that every service uses.

use std::convert::Infallible;
use std::sync::Arc;

use quire::Database;
use quire_access::budget::{BudgetCaller, running_caller};
use quire_access::{BoundedRequest, DecompressionTurns, FetchTurns};
use tokio::sync::{mpsc, watch};

/// The components behind the services.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) database: Database,
    /// The caller of work without a running call.
    server: BudgetCaller,
    /// The turns of reads that decompress much.
    pub(crate) unpacking: DecompressionTurns,
    /// The turns of waiting fetches.
    pub(crate) fetching: FetchTurns,
    /// Whether the server is stopping: streams then end.
    closed: watch::Receiver<bool>,
    /// The channel closes when the last call has released the database.
    _held: mpsc::Sender<Infallible>,
}

impl App {
    /// Creates the components, and an end to wait until no call holds them.
    pub(crate) fn new(database: Database, server: BudgetCaller, closed: watch::Receiver<bool>) -> (Arc<Self>, AppEnd) {
        let (held, gone) = mpsc::channel(1);
        let (unpacking, fetching) = (DecompressionTurns::default(), FetchTurns::default());
        (Arc::new(App { database, server, unpacking, fetching, closed, _held: held }), AppEnd(gone))
    }

    /// The client of the running call.
    pub(crate) fn caller(&self) -> BudgetCaller {
        running_caller().unwrap_or_else(|| self.server.clone())
    }

    /// Returns the components with the database of a request.
    pub(crate) fn within(&self, request: &BoundedRequest) -> Arc<Self> {
        let (database, server, closed) = (request.database().clone(), self.server.clone(), self.closed.clone());
        let (unpacking, fetching) = (self.unpacking.clone(), self.fetching.clone());
        Arc::new(App { database, server, unpacking, fetching, closed, _held: self._held.clone() })
    }

    /// Waits until the server is stopping.
    pub(crate) async fn closing(&self) {
        closing(self.closed.clone()).await;
    }
}

/// Waits until the signal says that the server is stopping.
pub(crate) async fn closing(mut closed: watch::Receiver<bool>) {
    // A dropped sender has sent the signal before.
    drop(closed.wait_for(|closed| *closed).await);
}

/// The end of an [`App`].
#[derive(Debug)]
pub(crate) struct AppEnd(mpsc::Receiver<Infallible>);

impl AppEnd {
    /// Waits until no call holds the components.
    pub(crate) async fn wait(mut self) {
        // No value is ever sent: this returns when the sender is dropped.
        let _ = self.0.recv().await;
    }
}
