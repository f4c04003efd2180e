//! The server: a listener, and the tasks that serve its connections.
//!
//! Invariant: when [`Server::run`] returns, every connection has ended, so no handle to the
//! database is left. It speaks plain HTTP/1.1; the routes interpret requests.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quire::Database;
use quire_access::{ConnectionCounters, ListenAddress, Listener, Traffic};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Settings;
use crate::app::App;
use crate::{connection, routes};

/// The number of connections beyond the limits that are admitted for health and metrics.
pub(crate) const RESERVE: usize = 16;

/// How long open connections may take to end after a shutdown, in seconds.
const GRACE_S: u64 = 5;

/// An HTTP server for one database, bound to its address.
#[derive(Debug)]
pub struct Server {
    database: Database,
    listener: Listener,
    settings: Settings,
    traffic: Arc<Traffic>,
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
        Ok(Server { database, listener, settings, traffic: Arc::default() })
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

    /// Counts in `traffic`, which the other front ends of the process share. `/metrics` shows the
    /// counts of all of them.
    pub fn counting(self, traffic: Arc<Traffic>) -> Self {
        Server { traffic, ..self }
    }

    /// Serves until `shutdown`. Then it accepts no further connection and completes running
    /// requests; a long poll ends at once. It returns after at most a few seconds.
    ///
    /// # Errors
    /// Empty at the start: a connection that fails ends alone.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let Server { database, listener, settings, traffic } = self;
        traffic.http.listens(listener.counters());
        let (closing, closed) = watch::channel(false);
        let router = routes::router(App::new(database, &settings, traffic, closed.clone()));
        let settings = Arc::new(settings);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                admission = listener.accept() => {
                    let (router, settings, closed) = (router.clone(), Arc::clone(&settings), closed.clone());
                    connections.spawn(connection::serve(admission, router, settings, closed));
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
        Ok(())
    }
}
