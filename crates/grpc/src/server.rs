//! The server: a listener, and the services behind it.
//!
//! Invariant: when [`Server::run`] returns, nothing of it holds the database open. What a request means is the services'
//! business.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quire::Database;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

use crate::app::{App, closing};
use crate::connections::Connections;
use crate::services;

/// How many calls a connection may have under way; the client holds back further ones.
const CALLS_MAX: u32 = 1_024;

/// After how much silence a client is asked whether it is still there, and how long it may take to answer, in seconds.
const KEEPALIVE_S: u64 = 20;

/// How many bytes of a call, and of a connection, may be on their way without being read.
const WINDOW_BYTES: u32 = 1 << 20;

/// How long calls have to end once the server is told to stop, in seconds.
const GRACE_S: u64 = 5;

/// A gRPC server for one database, bound to its address.
#[derive(Debug)]
pub struct Server {
    database: Database,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on an address; port 0 takes a free one. Calls wait until [`Server::run`].
    ///
    /// # Errors
    /// When the address can't be listened on; the message names it.
    pub async fn bind(database: Database, address: SocketAddr) -> io::Result<Server> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("can't listen on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        Ok(Server { database, listener, address })
    }

    /// The address it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`. Then it accepts no more, answers what is under way (a stream ends with `UNAVAILABLE`), and
    /// returns after at most a few seconds.
    ///
    /// # Errors
    /// None so far: a connection that fails ends alone.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let (close, closed) = watch::channel(false);
        let (cut, is_cut) = watch::channel(false);
        let (app, gone) = App::new(self.database, closed.clone());
        let routes: Routes = services::routes(app).await;
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(CALLS_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .http2_keepalive_interval(Some(Duration::from_secs(KEEPALIVE_S)))
            .http2_keepalive_timeout(Some(Duration::from_secs(KEEPALIVE_S)))
            .add_routes(routes)
            .serve_with_incoming_shutdown(Connections::new(self.listener, is_cut), closing(closed));
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
        match served {
            Ok(served) => served.map_err(io::Error::other),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}
