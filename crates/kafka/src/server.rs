//! Listens, and starts a task for each connection. It only wires the parts: `connection.rs` serves
//! a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quire::Database;
use quire_access::budget::ByteBudget;
use quire_access::{
    Admission, BoxedFuture, ConnectionCounters, ConnectionLimits, Listener, ListenerTls, LiveSettings, Traffic,
};
use tokio::task::{JoinError, JoinSet};

use crate::broker::Broker;
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
    listener: Listener,
    address: SocketAddr,
    broker: Arc<Broker>,
}

/// Replaces the settings of a server while it runs. It does not hold the database.
#[derive(Debug, Clone)]
pub struct KafkaSettingsHandle {
    settings: Arc<LiveSettings<Settings>>,
    limits: ConnectionLimits,
}

impl KafkaSettingsHandle {
    /// Replaces the settings, except `memory_bytes_max` and `frame_bytes_max`: the memory is shared
    /// out when the server starts. Open connections keep their timeouts.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for invalid settings; nothing changes.
    pub fn replace(&self, settings: Settings) -> io::Result<()> {
        let current = self.settings.current();
        let (memory_bytes_max, frame_bytes_max) = (current.memory_bytes_max, current.frame_bytes_max);
        let settings = Settings { memory_bytes_max, frame_bytes_max, ..settings };
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        self.limits.change(&settings.connections());
        self.settings.replace(settings);
        Ok(())
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
        let address = listener.address().tcp().expect("it is bound to TCP");
        let connections = Arc::clone(listener.counters());
        let broker = Broker::new(database, settings, address, connections)?;
        Ok(Server { listener, address, broker: Arc::new(broker) })
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

    /// Gives every connection TLS.
    ///
    /// # Errors
    /// Empty at the start: the server listens on TCP.
    pub fn with_tls(self, tls: Arc<ListenerTls>) -> io::Result<Self> {
        Ok(Server { listener: self.listener.with_tls(tls)?, ..self })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The running counts of connections. They stay readable while the server runs and after it
    /// ends.
    pub fn connections(&self) -> Arc<ConnectionCounters> {
        Arc::clone(self.listener.counters())
    }

    /// Counts requests in `traffic`, which the other front ends of the process share. Call it
    /// before [`Server::run`].
    pub fn counting(mut self, traffic: Arc<Traffic>) -> Self {
        traffic.kafka.listens(self.listener.counters());
        Arc::get_mut(&mut self.broker).expect("no connection is served yet").traffic = traffic;
        self
    }

    /// Replaces settings while the server runs, and before.
    pub fn settings_handle(&self) -> KafkaSettingsHandle {
        KafkaSettingsHandle { settings: self.broker.live_settings(), limits: self.listener.limits() }
    }

    /// The running counters. They stay readable while the server runs and after it ends.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.broker.counters())
    }

    /// Serves until `shutdown`, then ends every connection and returns. A committed request stays
    /// committed even if its response was not sent.
    ///
    /// # Errors
    /// Empty at the start: a failure to accept one connection does not end the others.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        self.run_boxed(Box::pin(shutdown)).await
    }

    /// Not generic, and boxed: so this crate compiles the code that serves, not each program that
    /// calls [`Server::run`].
    fn run_boxed(self, shutdown: BoxedFuture<()>) -> BoxedFuture<io::Result<()>> {
        Box::pin(self.run_until(shutdown))
    }

    async fn run_until(self, mut shutdown: BoxedFuture<()>) -> io::Result<()> {
        let mut connections = JoinSet::new();
        let broker = Arc::clone(&self.broker);
        let watching = tokio::spawn(async move { broker.waiting.watch(&broker.database).await });
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                admission = self.listener.accept() => {
                    connections.spawn(serve(admission, Arc::clone(&self.broker)));
                }
                Some(ended) = connections.join_next() => self.count(ended),
            }
        }
        drop(self.listener);
        watching.abort();
        // The task holds the database; ending it is the purpose.
        let _ = watching.await;
        connections.shutdown().await;
        self.broker.unpacking.end().await;
        self.broker.groups.shutdown().await;
        Ok(())
    }

    fn count(&self, ended: Result<CloseReason, JoinError>) {
        // A task that panicked found a broken invariant. Only its connection ends.
        self.broker.counters().closed(ended.unwrap_or(CloseReason::Failed));
    }
}

async fn serve(admission: Admission, broker: Arc<Broker>) -> CloseReason {
    match connection::serve(admission, &broker).await {
        Ok(()) => CloseReason::ByClient,
        Err(closed) => closed,
    }
}
