//! Listens, and starts a task for each connection. It only wires the parts: `connection.rs` serves
//! a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quire::Database;
use quire_access::budget::{ByteBudget, FrontEnd};
use quire_access::{
    Admission, BoxedFuture, ConnectionCounters, ConnectionLimits, Forwarder, Listener, LiveSettings, ServerTls,
    TlsProtocol, TokenVerifier, Traffic,
};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::broker::{Broker, BrokerListener};
use crate::close_reason::CloseReason;
use crate::connection;
use crate::{Counters, Settings};

/// A server of the Kafka protocol, listening.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let database = quire::Database::open("data")?;
/// let server = quire_kafka::Server::bind(database, "127.0.0.1:9092".parse()?).await?;
/// println!("Kafka clients connect to {}", server.address());
/// server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    /// They share their limits and counts.
    listeners: Vec<Listener>,
    broker: Arc<Broker>,
}

/// Replaces the settings of a server while it runs. It does not hold the database.
#[derive(Debug, Clone)]
pub struct KafkaSettingsHandle {
    settings: Arc<LiveSettings<Settings>>,
    limits: ConnectionLimits,
    listeners: usize,
}

impl KafkaSettingsHandle {
    /// Replaces the settings, except `memory_bytes_max` and `frame_bytes_max`: the memory is shared
    /// out when the server starts. Open connections keep their timeouts.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for invalid settings; nothing changes.
    pub fn replace(&self, settings: Settings) -> io::Result<()> {
        let settings = self.replacement(settings)?;
        self.limits.change(&settings.connections());
        self.settings.replace(settings);
        Ok(())
    }

    /// Checks settings like [`KafkaSettingsHandle::replace`], and changes nothing.
    ///
    /// # Errors
    /// Those of [`KafkaSettingsHandle::replace`].
    pub fn check(&self, settings: &Settings) -> io::Result<()> {
        self.replacement(settings.clone()).map(drop)
    }

    fn replacement(&self, settings: Settings) -> io::Result<Settings> {
        let current = self.settings.current();
        let (memory_bytes_max, frame_bytes_max) = (current.memory_bytes_max, current.frame_bytes_max);
        let settings = Settings { memory_bytes_max, frame_bytes_max, ..settings };
        let mut problems = settings.problems();
        problems.extend(settings.check_advertised(self.listeners).err());
        match &problems[..] {
            [] => Ok(settings),
            problems => Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; "))),
        }
    }
}

impl Server {
    /// Listens on this address, with default settings. Port 0 selects a free port.
    ///
    /// # Errors
    /// When it can't listen on the address; the message names the address.
    pub async fn bind(database: Database, address: SocketAddr) -> io::Result<Self> {
        Server::bind_with(database, address, Settings::default()).await
    }

    /// Listens on this address.
    ///
    /// # Errors
    /// When it can't listen there, and [`io::ErrorKind::InvalidInput`] for invalid settings.
    pub async fn bind_with(database: Database, address: SocketAddr, settings: Settings) -> io::Result<Self> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let listener = Listener::bind(&address.into(), &settings.connections()).await?;
        let broker = Arc::new(Broker::new(database, settings, Arc::clone(listener.counters()))?);
        Ok(Server { listeners: vec![listener], broker })
    }

    /// Listens on another address too, with TLS or without. All addresses share the limits on
    /// connections. The setting `advertised` has an address for each, in this order.
    ///
    /// # Errors
    /// When it can't listen there.
    pub async fn and_on(mut self, address: SocketAddr, tls: Option<Arc<ServerTls>>) -> io::Result<Self> {
        let listener = self.first().and_on(&address.into()).await?;
        self.listeners.push(match tls {
            Some(tls) => listener.with_tls(tls, TlsProtocol::Kafka)?,
            None => listener,
        });
        Ok(self)
    }

    /// Shares a byte budget with other servers, in place of one of `memory_bytes_max`.
    pub fn with_budget(mut self, budget: ByteBudget) -> Self {
        let broker = Arc::get_mut(&mut self.broker).expect("only a running server shares its broker");
        let settings = Settings::clone(&broker.settings());
        // A larger request would never get its memory.
        let frame_bytes_most = usize::try_from(budget.bytes_for_all()).unwrap_or(usize::MAX);
        let frame_bytes_max = settings.frame_bytes_max.min(frame_bytes_most);
        broker.live_settings().replace(Settings { memory_bytes_max: budget.bytes_max(), frame_bytes_max, ..settings });
        broker.budget = budget;
        self
    }

    /// Gives every connection of the present listeners TLS.
    ///
    /// # Errors
    /// Empty at the start: the server listens on TCP.
    pub fn with_tls(self, tls: Arc<ServerTls>) -> io::Result<Self> {
        let with_tls = |listener: Listener| listener.with_tls(Arc::clone(&tls), TlsProtocol::Kafka);
        let listeners = self.listeners.into_iter().map(with_tls).collect::<io::Result<_>>()?;
        Ok(Server { listeners, broker: self.broker })
    }

    /// The address that it listens on, or the first of several.
    pub fn address(&self) -> SocketAddr {
        address_of(self.first())
    }

    /// The addresses that it listens on, in the order of their listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(address_of).collect()
    }

    fn first(&self) -> &Listener {
        self.listeners.first().expect("a server has a listener")
    }

    /// The running counts of connections. They stay readable while the server runs and after it
    /// ends.
    pub fn connections(&self) -> Arc<ConnectionCounters> {
        Arc::clone(self.first().counters())
    }

    /// Counts requests in `traffic`, which the other front ends of the process share. Call it
    /// before [`Server::run`].
    pub fn counting(mut self, traffic: Arc<Traffic>) -> Self {
        self.listeners.iter().for_each(|listener| traffic.kafka.listens(listener));
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").traffic = traffic;
        self
    }

    /// Accepts tokens of an OpenID provider over OAUTHBEARER. Call it before [`Server::run`].
    pub fn with_tokens(mut self, tokens: Arc<TokenVerifier>) -> Self {
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").accept_tokens(tokens);
        self
    }

    /// Forwards requests to the leader of the cluster while another node leads, and admits those of
    /// other nodes. Call it before [`Server::run`].
    pub fn with_forwarding(mut self, forwarding: Forwarder) -> Self {
        forwarding.listens(FrontEnd::Kafka, self.first());
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").forward_with(forwarding);
        self
    }

    /// Records nothing of logins and denials in the audit store. Call it before [`Server::run`].
    pub fn without_audit(mut self) -> Self {
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").stop_audit();
        self
    }

    /// Replaces settings while the server runs, and before.
    pub fn settings_handle(&self) -> KafkaSettingsHandle {
        let (settings, limits) = (self.broker.live_settings(), self.first().limits());
        KafkaSettingsHandle { settings, limits, listeners: self.listeners.len() }
    }

    /// The running counters. They stay readable while the server runs and after it ends.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.broker.counters())
    }

    /// Serves until `shutdown`, then ends every connection and returns. A committed request stays
    /// committed even if its response was not sent.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when the advertised addresses are not as many as the
    /// listeners. A failure to accept one connection does not end the others.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        self.run_boxed(Box::pin(shutdown)).await
    }

    /// Not generic, and boxed: so this crate compiles the code that serves, not each program that
    /// calls [`Server::run`].
    fn run_boxed(self, shutdown: BoxedFuture<()>) -> BoxedFuture<io::Result<()>> {
        Box::pin(self.run_until(shutdown))
    }

    async fn run_until(mut self, mut shutdown: BoxedFuture<()>) -> io::Result<()> {
        let advertised = self.broker.settings().check_advertised(self.listeners.len());
        advertised.map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let listener =
            |listener: &Listener| BrokerListener { address: address_of(listener), has_tls: listener.tls().is_some() };
        let listeners = self.listeners.iter().map(listener).collect();
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").listen_on(listeners);
        let (mut accepting, mut admissions) = accept_on(self.listeners);
        let mut connections = JoinSet::new();
        let broker = Arc::clone(&self.broker);
        let watching = tokio::spawn(async move { broker.waiting.watch(broker.owner()).await });
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some((listener, admission)) = admissions.recv() => {
                    connections.spawn(serve(admission, listener, Arc::clone(&self.broker)));
                }
                Some(ended) = connections.join_next() => count(&self.broker, ended),
            }
        }
        accepting.shutdown().await;
        watching.abort();
        // The task holds the database; ending it is the purpose.
        let _ = watching.await;
        connections.shutdown().await;
        self.broker.unpacking.end().await;
        self.broker.groups.shutdown().await;
        self.broker.served().end_audit().await;
        Ok(())
    }
}

fn address_of(listener: &Listener) -> SocketAddr {
    listener.address().tcp().expect("it is bound to TCP")
}

/// Accepts connections on each listener in a task of its own, so that a busy listener does not
/// delay another one. An admission comes with the place of its listener in their order.
fn accept_on(listeners: Vec<Listener>) -> (JoinSet<()>, mpsc::Receiver<(usize, Admission)>) {
    let (sender, admissions) = mpsc::channel(1);
    let mut accepting = JoinSet::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        let sender = sender.clone();
        accepting.spawn(async move { while sender.send((index, listener.accept().await)).await.is_ok() {} });
    }
    (accepting, admissions)
}

fn count(broker: &Broker, ended: Result<CloseReason, JoinError>) {
    // A task that panicked found a broken invariant. Only its connection ends.
    broker.counters().closed(ended.unwrap_or(CloseReason::Failed));
}

async fn serve(admission: Admission, listener: usize, broker: Arc<Broker>) -> CloseReason {
    match connection::serve(admission, listener, &broker).await {
        Ok(()) => CloseReason::ByClient,
        Err(closed) => closed,
    }
}
