//! The server: a listener, and the tasks that serve its connections.
//!
//! Invariant: when [`Server::run`] returns, every connection has ended, so no handle to the
//! database is left, except those of [`Server::metrics`]. It speaks HTTP/1.1; the routes interpret
//! requests.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quire::Database;
use quire_access::budget::{ByteBudget, FrontEnd};
use quire_access::{
    BoxedFuture, ConnectionCounters, ConnectionLimits, Forwarder, ListenAddress, Listener, LiveSettings,
    ServedDatabase, ServerTls, StatementTurns, TlsProtocol, TokenVerifier, Traffic,
};
use quire_api::MetricsHistory;
use quire_sql::TextIndexes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Settings;
use crate::app::App;
use crate::metrics::MetricsSource;
use crate::{connection, history, indexes, routes};

/// The number of connections beyond the limits that are admitted for health and metrics.
pub(crate) const RESERVE: usize = 16;

/// How long open connections may take to end after a shutdown, in seconds.
const GRACE_S: u64 = 5;

/// An HTTP server for one database, bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    settings: Arc<LiveSettings<Settings>>,
    app: Arc<App>,
    /// Ends long polls when the server stops.
    closing: watch::Sender<bool>,
}

/// Replaces the settings of a server while it runs. It does not hold the database.
#[derive(Debug, Clone)]
pub struct HttpSettingsHandle {
    settings: Arc<LiveSettings<Settings>>,
    limits: ConnectionLimits,
}

impl HttpSettingsHandle {
    /// Replaces the settings, except `memory_bytes_max`: the memory is shared out when the server
    /// starts. Open connections keep their timeouts.
    ///
    /// # Errors
    /// `InvalidInput` when settings are invalid; the message names each. Nothing changes then.
    pub fn replace(&self, settings: Settings) -> io::Result<()> {
        let settings = Settings { memory_bytes_max: self.settings.current().memory_bytes_max, ..settings };
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        self.limits.change(&settings.connections);
        self.settings.replace(settings);
        Ok(())
    }
}

impl Server {
    /// Listens on an address; port 0 selects a free port. Requests wait until [`Server::run`].
    ///
    /// # Errors
    /// When it can't listen on the address; the message names it.
    pub async fn bind(database: Database, address: ListenAddress) -> io::Result<Server> {
        Server::bind_with(database, address, Settings::default()).await
    }

    /// Listens on an address, with these settings.
    ///
    /// # Errors
    /// Like [`Server::bind`], and with kind `InvalidInput` when settings are invalid; the message
    /// names each.
    pub async fn bind_with(database: Database, address: ListenAddress, settings: Settings) -> io::Result<Server> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let listener = Listener::bind_with_reserve(&address, &settings.connections, RESERVE).await?;
        let (closing, closed) = watch::channel(false);
        let budget = ByteBudget::new(settings.memory_bytes_max);
        // From now on, deleted events leave the text indexes.
        TextIndexes::over(&database);
        let app = App::new(ServedDatabase::new(database).with_audit("http"), budget, Arc::default(), closed);
        Ok(Server { listener, settings: LiveSettings::new(settings), app, closing })
    }

    /// Serves the owner of the database, who is never checked. Only the owner may be able to
    /// connect: listen on a Unix socket in a directory of the owner. Call it before
    /// [`Server::metrics`] and [`Server::run`].
    pub fn for_owner(mut self) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").serve_owner();
        self
    }

    /// Accepts tokens of an OpenID provider in the place of API keys. Call it before
    /// [`Server::metrics`] and [`Server::run`].
    pub fn with_tokens(mut self, tokens: Arc<TokenVerifier>) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").accept_tokens(tokens);
        self
    }

    /// Forwards requests to the leader of the cluster while another node leads, and admits those of
    /// other nodes. Call it before [`Server::metrics`] and [`Server::run`].
    pub fn with_forwarding(mut self, forwarding: Forwarder) -> Self {
        forwarding.listens(FrontEnd::Http, &self.listener);
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").forward_with(forwarding);
        self
    }

    /// Records nothing of logins and denials in the audit store. Call it before [`Server::metrics`]
    /// and [`Server::run`].
    pub fn without_audit(mut self) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").stop_audit();
        self
    }

    /// Shares a byte budget with other servers. Call it before [`Server::metrics`] and
    /// [`Server::run`].
    pub fn with_budget(mut self, budget: ByteBudget) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").use_budget(budget);
        self
    }

    /// Shares the turns of SQL statements with other servers, in place of turns of its own. Call it
    /// before [`Server::run`].
    pub fn with_statement_turns(mut self, turns: StatementTurns) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").querying = turns;
        self
    }

    /// Gives every connection TLS.
    ///
    /// # Errors
    /// `InvalidInput` on a Unix socket, which has no TLS.
    pub fn with_tls(self, tls: Arc<ServerTls>) -> io::Result<Self> {
        Ok(Server { listener: self.listener.with_tls(tls, TlsProtocol::Http)?, ..self })
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> &ListenAddress {
        self.listener.address()
    }

    /// The running counts of connections. They stay readable while the server runs and after it
    /// ends.
    pub fn connections(&self) -> Arc<ConnectionCounters> {
        Arc::clone(self.listener.counters())
    }

    /// Replaces settings while the server runs, and before.
    pub fn settings_handle(&self) -> HttpSettingsHandle {
        HttpSettingsHandle { settings: Arc::clone(&self.settings), limits: self.listener.limits() }
    }

    /// Counts in `traffic`, which the other front ends of the process share. `/metrics` shows the
    /// counts of all of them. Call it before [`Server::metrics`] and [`Server::run`].
    pub fn counting(mut self, traffic: Arc<Traffic>) -> Self {
        Arc::get_mut(&mut self.app).expect("nothing else uses the components yet").traffic = traffic;
        self
    }

    /// Returns the metrics of `GET /metrics`, for other exporters. They stay readable while the
    /// server runs and after it ends.
    pub fn metrics(&self) -> MetricsSource {
        MetricsSource(Arc::clone(&self.app))
    }

    /// Returns the samples of the last hour, which the server takes while it runs. Other front ends
    /// show them too.
    pub fn history(&self) -> Arc<MetricsHistory> {
        Arc::clone(&self.app.history)
    }

    /// Serves until `shutdown`. Then it accepts no further connection and completes running
    /// requests; a long poll ends at once. It returns after at most a few seconds.
    ///
    /// # Errors
    /// Empty at the start: a connection that fails ends alone.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        self.run_boxed(Box::pin(shutdown)).await
    }

    /// Not generic, and boxed: so this crate compiles the code that serves, not each program that
    /// calls [`Server::run`].
    fn run_boxed(self, shutdown: BoxedFuture<()>) -> BoxedFuture<io::Result<()>> {
        Box::pin(self.run_until(shutdown))
    }

    async fn run_until(self, mut shutdown: BoxedFuture<()>) -> io::Result<()> {
        let Server { listener, settings, app, closing } = self;
        app.traffic.http.listens(&listener);
        let (closed, budget) = (closing.subscribe(), app.budget.clone());
        let (served, sessions) = (app.served().clone(), Arc::clone(&app.browser_sessions));
        let mut connections = JoinSet::new();
        connections.spawn(history::keep(Arc::clone(&app), closed.clone(), MetricsHistory::INTERVAL));
        connections.spawn(indexes::keep(Arc::clone(&app), closed.clone(), indexes::ERASE_INTERVAL));
        let router = routes::router(app);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                admission = listener.accept() => {
                    let (router, settings, closed) = (router.clone(), Arc::clone(&settings), closed.clone());
                    let sessions = (served.clone(), Arc::clone(&sessions));
                    connections.spawn(connection::serve(admission, budget.clone(), router, settings, closed, sessions));
                }
                // Removes ended tasks from the set.
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        drop(listener);
        closing.send_replace(true);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(Duration::from_secs(GRACE_S), all_ended).await;
        if in_time.is_err() {
            connections.shutdown().await;
        }
        served.end_audit().await;
        Ok(())
    }
}
