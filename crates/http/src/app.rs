//! The components that every handler uses.

use std::sync::Arc;

use axum::extract::FromRef;
use quire::Database;
use quire_access::budget::ByteBudget;
use quire_access::{
    BrowserSessions, FetchTurns, Forwarder, ReadTurns, ServedDatabase, Session, StatementTurns, ThreadTurns,
    TokenVerifier, Traffic,
};
use quire_api::MetricsHistory;
use tokio::sync::{Mutex, watch};

use crate::connection;
use crate::finished::FinishedJobs;
use crate::memory::ResponseMemory;

/// The components behind the routes.
#[derive(Debug)]
pub(crate) struct App {
    /// Reached with [`App::database`] and [`App::owner`].
    served: ServedDatabase,
    /// The counts of all front ends.
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) finished: FinishedJobs,
    /// The figures of the last hour.
    pub(crate) history: Arc<MetricsHistory>,
    /// The turns of waiting fetches.
    pub(crate) fetching: FetchTurns,
    pub(crate) unpacking: ReadTurns,
    /// The turns of batches of subscriptions.
    pub(crate) batches: ReadTurns,
    /// The turns of pages that become long.
    pub(crate) long_pages: ThreadTurns,
    pub(crate) memory: ResponseMemory,
    pub(crate) budget: ByteBudget,
    /// Held during a compaction.
    pub(crate) compacting: Mutex<()>,
    /// Held during a backup.
    pub(crate) backing_up: Arc<Mutex<()>>,
    /// Held during an import.
    pub(crate) importing: Arc<Mutex<()>>,
    /// The sessions of browsers that signed in.
    pub(crate) browser_sessions: Arc<BrowserSessions>,
    /// The turns of requests to an OpenID provider.
    pub(crate) logins: ReadTurns,
    /// The turns of SQL statements.
    pub(crate) querying: StatementTurns,
    /// Whether the server is stopping: long polls then end.
    closed: watch::Receiver<bool>,
}

impl FromRef<Arc<App>> for ResponseMemory {
    fn from_ref(app: &Arc<App>) -> Self {
        app.memory.clone()
    }
}

impl App {
    pub(crate) fn new(
        served: ServedDatabase,
        budget: ByteBudget,
        traffic: Arc<Traffic>,
        closed: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let memory = ResponseMemory::new(&budget);
        let (finished, fetching) = (FinishedJobs::default(), FetchTurns::default());
        let (unpacking, batches) = (ReadTurns::of_decompression(), ReadTurns::of_batches());
        let (compacting, backing_up, importing) = (Mutex::default(), Arc::default(), Arc::default());
        Arc::new(App {
            served,
            traffic,
            finished,
            history: Arc::default(),
            fetching,
            unpacking,
            batches,
            long_pages: ThreadTurns::default(),
            memory,
            budget,
            compacting,
            backing_up,
            importing,
            browser_sessions: Arc::default(),
            logins: ReadTurns::of_logins(),
            querying: StatementTurns::default(),
            closed,
        })
    }

    /// The database as the client of the running request may use it.
    pub(crate) fn database(&self) -> Database {
        self.served.get()
    }

    /// The database without a guard: for the server's own work, and for facts that every client may
    /// know.
    pub(crate) fn owner(&self) -> &Database {
        self.served.owner()
    }

    /// The sessions.
    pub(crate) fn served(&self) -> &ServedDatabase {
        &self.served
    }

    /// Serves the owner only.
    pub(crate) fn serve_owner(&mut self) {
        self.served = ServedDatabase::owned(self.served.owner().clone());
    }

    /// Audits no logins and denials.
    pub(crate) fn stop_audit(&mut self) {
        self.served = self.served.clone().without_audit();
    }

    /// Accepts tokens in the place of API keys.
    pub(crate) fn accept_tokens(&mut self, tokens: Arc<TokenVerifier>) {
        self.served = self.served.clone().with_tokens(tokens);
    }

    /// Forwards requests while another node of the cluster leads.
    pub(crate) fn forward_with(&mut self, forwarding: Forwarder) {
        self.served = self.served.clone().with_forwarding(forwarding);
    }

    /// Replaces the memory of all clients.
    pub(crate) fn use_budget(&mut self, budget: ByteBudget) {
        self.memory = ResponseMemory::new(&budget);
        self.budget = budget;
    }

    /// Whether the server is stopping.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the server is stopping, the client of the current request has closed its side,
    /// its session has ended, or this node of a cluster does not lead and does not answer the
    /// request for itself. A wait for data then ends.
    pub(crate) async fn closing(&self) {
        let session = Session::current();
        tokio::select! {
            () = closing(self.closed.clone()) => {}
            () = connection::left() => {}
            () = self.served.current_ended() => {}
            () = self.served.deposed(session.as_ref()) => {}
        }
    }
}

/// Waits until the signal says that the server is stopping.
pub(crate) async fn closing(mut closed: watch::Receiver<bool>) {
    // A dropped sender has sent the signal before.
    drop(closed.wait_for(|closed| *closed).await);
}
