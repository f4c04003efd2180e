//! Listens, and starts a task for each connection. It only wires the parts: `connection.rs` serves
//! a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quire::Database;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

use crate::broker::Broker;
use crate::connection::{self, CloseReason};
use crate::{Counters, Settings};

/// The pause after a failed accept. The process is then out of file handles, and an immediate retry
/// would only waste processor time.
const ACCEPT_REST: Duration = Duration::from_millis(100);

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
    listener: TcpListener,
    address: SocketAddr,
    broker: Arc<Broker>,
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
        let failed = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => "address already in use".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("can't listen on {address}: {why}"))
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Server { listener, address, broker: Arc::new(Broker::new(database, settings)) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        let mut connections = JoinSet::new();
        let broker = Arc::clone(&self.broker);
        let watching = tokio::spawn(async move { broker.waiting.watch(&broker.database).await });
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        self.broker.counters().accepted();
                        if connections.len() < self.broker.settings.connections_max {
                            connections.spawn(serve(stream, Arc::clone(&self.broker)));
                        } else {
                            drop(stream);
                            self.broker.counters().closed(CloseReason::Surplus);
                        }
                    }
                    Err(_) => {
                        self.broker.counters().accept_failed();
                        tokio::time::sleep(ACCEPT_REST).await;
                    }
                },
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

async fn serve(stream: TcpStream, broker: Arc<Broker>) -> CloseReason {
    match connection::serve(stream, &broker).await {
        Ok(()) => CloseReason::ByClient,
        Err(closed) => closed,
    }
}
