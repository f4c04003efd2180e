//! The server: a listener, and the tasks that serve its connections.
//!
//! Invariant: when [`Server::run`] returns, every connection has ended, so no handle to the
//! database is left. It speaks plain HTTP/1.1; the routes interpret requests.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quire::Database;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::Settings;
use crate::app::App;
use crate::{connection, routes};

/// Maximum number of connections; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 4_096;

/// How long open connections may take to end after a shutdown, in seconds.
const GRACE_S: u64 = 5;

/// An HTTP server for one database, bound to its address.
#[derive(Debug)]
pub struct Server {
    database: Database,
    listener: TcpListener,
    address: SocketAddr,
    settings: Settings,
}

impl Server {
    /// Listens on an address; port 0 selects a free port. Requests wait until [`Server::run`].
    ///
    /// # Errors
    /// When it can't listen on the address; the message names it.
    pub async fn bind(database: Database, address: SocketAddr) -> io::Result<Server> {
        Server::bind_with(database, address, Settings::default()).await
    }

    /// Listens on an address, with these settings.
    ///
    /// # Errors
    /// Like [`Server::bind`], and with kind `InvalidInput` when settings are invalid; the message
    /// names each.
    pub async fn bind_with(database: Database, address: SocketAddr, settings: Settings) -> io::Result<Server> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        let named = |error: io::Error| io::Error::new(error.kind(), format!("can't listen on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        Ok(Server { database, listener, address, settings })
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`. Then it accepts no further connection and completes running
    /// requests; a long poll ends at once. It returns after at most a few seconds.
    ///
    /// # Errors
    /// Empty at the start: a connection that fails ends alone.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let (closing, closed) = watch::channel(false);
        let router = routes::router(App::new(self.database, &self.settings, closed.clone()));
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            let next = async {
                let permit = Arc::clone(&free).acquire_owned().await.expect("the semaphore is never closed");
                (accept(&self.listener).await, permit)
            };
            tokio::select! {
                () = &mut shutdown => break,
                (stream, permit) = next => {
                    let (router, closed) = (router.clone(), closed.clone());
                    connections.spawn(async move {
                        connection::serve(stream, router, closed).await;
                        drop(permit);
                    });
                }
                // Removes ended tasks from the set.
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        drop(self.listener);
        closing.send_replace(true);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(Duration::from_secs(GRACE_S), all_ended).await;
        if in_time.is_err() {
            connections.shutdown().await;
        }
        Ok(())
    }
}

/// The next connection. A failure to accept concerns only that connection, or is temporary (no free
/// file handle), so it is retried.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
