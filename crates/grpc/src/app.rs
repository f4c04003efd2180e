//! The components that every service uses, and the database of each call.
//!
//! ```text
//! ServiceComponents: one a server ──call──▶ App: one a call, with the database of its client
//! ```
//!
//! A stream of responses and the tasks of a call outlive its handler and the task-local session.
//! So an [`App`] holds the database of the session. Without a session it permits nothing.

use std::convert::Infallible;
use std::sync::Arc;

use quire::Database;
use quire_access::budget::{BudgetCaller, running_caller};
use quire_access::{BoundedRequest, FetchTurns, ReadTurns, ServedDatabase, Session, StatementTurns};
use quire_api::MetricsHistory;
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::error::{not_leader, session_ended, stopping};

/// Keeps the server waiting for its calls: what holds a database has one, and drops it last.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseHold {
    _held: mpsc::Sender<Infallible>,
}

impl DatabaseHold {
    /// Creates the first hold, and an end to wait until no hold is left.
    pub(crate) fn new() -> (Self, DatabaseEnd) {
        let (held, gone) = mpsc::channel(1);
        (DatabaseHold { _held: held }, DatabaseEnd(gone))
    }
}

/// The end of the last [`DatabaseHold`].
#[derive(Debug)]
pub(crate) struct DatabaseEnd(mpsc::Receiver<Infallible>);

impl DatabaseEnd {
    /// Waits until no hold is left.
    pub(crate) async fn wait(mut self) {
        // No value is ever sent: this returns when the last sender is dropped.
        let _ = self.0.recv().await;
    }
}

/// The components behind the services.
#[derive(Debug)]
pub(crate) struct ServiceComponents {
    served: ServedDatabase,
    /// The caller of work without a running call.
    server: BudgetCaller,
    /// The turns of reads that decompress much.
    unpacking: ReadTurns,
    /// The turns of pages after the first one.
    pages: ReadTurns,
    /// The turns of waiting fetches.
    fetching: FetchTurns,
    /// The turns of SQL statements.
    statements: StatementTurns,
    /// The figures of the last hour.
    history: Arc<MetricsHistory>,
    /// Whether the server is stopping: streams then end.
    closed: watch::Receiver<bool>,
    _hold: DatabaseHold,
}

impl ServiceComponents {
    pub(crate) fn new(
        served: ServedDatabase,
        server: BudgetCaller,
        statements: StatementTurns,
        history: Arc<MetricsHistory>,
        closed: watch::Receiver<bool>,
        hold: DatabaseHold,
    ) -> Arc<Self> {
        let (unpacking, pages) = (ReadTurns::of_decompression(), ReadTurns::of_batches());
        let fetching = FetchTurns::default();
        Arc::new(ServiceComponents {
            served,
            server,
            unpacking,
            pages,
            fetching,
            statements,
            history,
            closed,
            _hold: hold,
        })
    }

    /// The sessions.
    pub(crate) fn served(&self) -> &ServedDatabase {
        &self.served
    }

    /// Returns the components for the running call.
    pub(crate) fn call(self: &Arc<Self>) -> Arc<App> {
        let (database, session) = (self.served.get(), Session::current());
        Arc::new(App { database, session, components: Arc::clone(self) })
    }
}

/// The components of one call.
#[derive(Debug)]
pub(crate) struct App {
    /// The database as the client may use it.
    database: Database,
    session: Option<Session>,
    components: Arc<ServiceComponents>,
}

impl App {
    /// Creates the components of a call to a server without access control.
    #[cfg(test)]
    pub(crate) fn open(
        database: Database,
        server: BudgetCaller,
        closed: watch::Receiver<bool>,
    ) -> (Arc<Self>, DatabaseEnd) {
        let (hold, end) = DatabaseHold::new();
        let served = ServedDatabase::new(database);
        let session = served.session(&quire_access::Credential::Absent).expect("access control is disabled");
        let database = served.of(&session);
        let components =
            ServiceComponents::new(served, server, StatementTurns::default(), Arc::default(), closed, hold);
        (Arc::new(App { database, session: Some(session), components }), end)
    }

    /// The database as the client may use it.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// The database without a guard, for the server's own work: it must not touch data for the
    /// client.
    pub(crate) fn owner(&self) -> &Database {
        self.components.served.owner()
    }

    /// The client of the running call.
    pub(crate) fn caller(&self) -> BudgetCaller {
        running_caller().unwrap_or_else(|| self.components.server.clone())
    }

    /// The turns of reads that decompress much.
    pub(crate) fn unpacking(&self) -> &ReadTurns {
        &self.components.unpacking
    }

    /// The turns of pages after the first one.
    pub(crate) fn pages(&self) -> &ReadTurns {
        &self.components.pages
    }

    /// The turns of waiting fetches.
    pub(crate) fn fetching(&self) -> &FetchTurns {
        &self.components.fetching
    }

    /// The turns of SQL statements.
    pub(crate) fn statements(&self) -> &StatementTurns {
        &self.components.statements
    }

    /// The figures of the last hour.
    pub(crate) fn history(&self) -> &MetricsHistory {
        &self.components.history
    }

    /// Returns the components with the database of a request.
    pub(crate) fn within(&self, request: &BoundedRequest) -> Arc<Self> {
        let (database, session) = (request.database().clone(), self.session.clone());
        Arc::new(App { database, session, components: Arc::clone(&self.components) })
    }

    /// Waits until the server is stopping, or this node of a cluster does not lead and does not
    /// answer the call for itself. Returns the status of a stream that ends then.
    pub(crate) async fn closing(&self) -> Status {
        tokio::select! {
            () = closing(self.components.closed.clone()) => stopping(),
            () = self.components.served.deposed(self.session.as_ref()) => not_leader(self.owner()),
        }
    }

    /// Checks that the session of the call goes on.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` when it has ended.
    pub(crate) fn check_session(&self) -> Result<(), Status> {
        match &self.session {
            Some(session) if session.is_live() => Ok(()),
            _ => Err(session_ended()),
        }
    }

    /// Waits until the session of the call has ended.
    pub(crate) async fn session_ended(&self) -> Status {
        if let Some(session) = &self.session {
            self.components.served.ended(session).await;
        }
        session_ended()
    }
}

/// Waits until the signal says that the server is stopping.
pub(crate) async fn closing(mut closed: watch::Receiver<bool>) {
    // A dropped sender has sent the signal before.
    drop(closed.wait_for(|closed| *closed).await);
}
