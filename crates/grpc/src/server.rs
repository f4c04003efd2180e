//! The server: a listener, and the services behind it.
//!
//! Invariant: when [`Server::run`] returns, no handle to the database is left. The services
//! interpret requests.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quire::Database;
use quire_access::budget::{ByteBudget, FrontEnd};
use quire_access::{
    BoxedFuture, ConnectionCounters, ConnectionLimits, Forwarder, ListenAddress, Listener, ServedDatabase, ServerTls,
    StatementTurns, TlsProtocol, TokenVerifier, Traffic,
};
use quire_api::MetricsHistory;
use tokio::sync::watch;
use tonic_web::GrpcWebLayer;

use crate::Settings;
use crate::app::{DatabaseHold, ServiceComponents, closing};
use crate::browsers::BrowserGate;
use crate::calls::Calls;
use crate::connections::Connections;
use crate::counted::CountCalls;
use crate::metering::{MeterText, MeteredCalls};
use crate::services;
use crate::sessions::SessionCalls;

/// Maximum number of concurrent calls of a connection; the client queues further ones.
const CALLS_MAX: u32 = 64;

/// After how many seconds of silence a client is pinged, and how long it may take to respond.
const KEEPALIVE_S: u64 = 20;

/// Maximum bytes of a call, and of a connection, that were sent and not read. The transport holds
/// them in addition to the byte budget.
const CALL_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;

/// How long open calls may take to end after a shutdown, in seconds.
const GRACE_S: u64 = 5;

/// A gRPC server for one database, bound to its address.
#[derive(Debug)]
pub struct Server {
    database: Database,
    listener: Listener,
    settings: Settings,
    traffic: Arc<Traffic>,
    budget: ByteBudget,
    statements: StatementTurns,
    history: Arc<MetricsHistory>,
    is_audited: bool,
    tokens: Option<Arc<TokenVerifier>>,
    forwarding: Option<Forwarder>,
}

impl Server {
    /// Listens on an address; port 0 selects a free port. Calls wait until [`Server::run`].
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
        if let problems @ [_, ..] = &settings.problems()[..] {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let listener = Listener::bind(&address, &settings.connections).await?;
        let (traffic, budget, statements) = (Arc::default(), ByteBudget::default(), StatementTurns::default());
        Ok(Server {
            database,
            listener,
            settings,
            traffic,
            budget,
            statements,
            history: Arc::default(),
            is_audited: true,
            tokens: None,
            forwarding: None,
        })
    }

    /// Accepts tokens of an OpenID provider in the place of API keys.
    pub fn with_tokens(self, tokens: Arc<TokenVerifier>) -> Self {
        Server { tokens: Some(tokens), ..self }
    }

    /// Forwards calls to the leader of the cluster while another node leads, and admits those of
    /// other nodes.
    pub fn with_forwarding(self, forwarding: Forwarder) -> Self {
        forwarding.listens(FrontEnd::Grpc, &self.listener);
        Server { forwarding: Some(forwarding), ..self }
    }

    /// Records nothing of logins and denials in the audit store.
    pub fn without_audit(self) -> Self {
        Server { is_audited: false, ..self }
    }

    /// Shares a byte budget with other servers, in place of one of the default size.
    pub fn with_budget(self, budget: ByteBudget) -> Self {
        Server { budget, ..self }
    }

    /// Shares the turns of SQL statements with other servers, in place of turns of its own.
    pub fn with_statement_turns(self, statements: StatementTurns) -> Self {
        Server { statements, ..self }
    }

    /// Shows the samples of the last hour that an HTTP server takes. Without them, the server has
    /// none.
    pub fn with_history(self, history: Arc<MetricsHistory>) -> Self {
        Server { history, ..self }
    }

    /// Gives every connection TLS.
    ///
    /// # Errors
    /// `InvalidInput` on a Unix socket, which has no TLS.
    pub fn with_tls(self, tls: Arc<ServerTls>) -> io::Result<Self> {
        Ok(Server { listener: self.listener.with_tls(tls, TlsProtocol::Grpc)?, ..self })
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

    /// The limits on connections, to change them while the server runs.
    pub fn limits(&self) -> ConnectionLimits {
        self.listener.limits()
    }

    /// Counts in `traffic`, which the other front ends of the process share.
    pub fn counting(self, traffic: Arc<Traffic>) -> Self {
        Server { traffic, ..self }
    }

    /// Serves until `shutdown`. Then it accepts no further connection and completes running calls;
    /// a stream ends with `UNAVAILABLE`. It returns after at most a few seconds.
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

    async fn run_until(self, shutdown: BoxedFuture<()>) -> io::Result<()> {
        self.traffic.grpc.listens(&self.listener);
        let (close, closed) = watch::channel(false);
        let (cut, is_cut) = watch::channel(false);
        let message_bytes_max = services::request_bytes_max(&self.database);
        let (hold, gone) = DatabaseHold::new();
        let served = ServedDatabase::new(self.database);
        let served = if self.is_audited { served.with_audit("grpc") } else { served };
        let served = self.tokens.into_iter().fold(served, ServedDatabase::with_tokens);
        let served = self.forwarding.into_iter().fold(served, ServedDatabase::with_forwarding);
        let (audited, caller) = (served.clone(), self.budget.caller(FrontEnd::Grpc, None));
        let components =
            ServiceComponents::new(served, caller, self.statements, self.history, closed.clone(), hold.clone());
        let calls = services::routes(&components).await;
        let calls = Calls::new(calls, self.settings.connections.clone(), Arc::clone(&components));
        let calls = SessionCalls::new(MeteredCalls::new(calls, message_bytes_max), components);
        let gate = Arc::new(BrowserGate::new(&self.settings));
        let connections = Connections::new(self.listener, self.settings, self.budget, hold, is_cut);
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(CALLS_MAX)
            .initial_stream_window_size(CALL_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keepalive_interval(Some(Duration::from_secs(KEEPALIVE_S)))
            .http2_keepalive_timeout(Some(Duration::from_secs(KEEPALIVE_S)))
            .accept_http1(true)
            .layer(CountCalls { traffic: self.traffic, gate })
            .layer(MeterText)
            .layer(GrpcWebLayer::new())
            .serve_with_incoming_shutdown(calls, connections, closing(closed));
        let serving = tokio::spawn(serving);
        shutdown.await;
        close.send_replace(true);
        let ended = async {
            let served = serving.await;
            gone.wait().await;
            served
        };
        tokio::pin!(ended);
        let served = match tokio::time::timeout(Duration::from_secs(GRACE_S), &mut ended).await {
            Ok(served) => served,
            Err(_) => {
                cut.send_replace(true);
                ended.await
            }
        };
        audited.end_audit().await;
        match served {
            Ok(served) => served.map_err(io::Error::other),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}
