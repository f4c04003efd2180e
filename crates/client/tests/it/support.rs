//! Servers for tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use quire::Database;
use quire_access::ListenAddress;
use quire_client::Client;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server that runs until it is stopped.
pub(crate) struct TestServer {
    runtime: Runtime,
    running: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    pub(crate) address: ListenAddress,
}

impl TestServer {
    /// Serves the database of a directory at an address.
    pub(crate) fn start(directory: &Path, address: ListenAddress) -> Self {
        let database = Database::builder(directory).create(true).open().expect("a database");
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(quire_http::Server::bind(database, address)).expect("it listens");
        let address = server.address().clone();
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn(async {
            drop(server.run(async { drop(stopped.await) }).await);
        });
        TestServer { runtime, running, stop, address }
    }

    /// The same at any port.
    pub(crate) fn at_any_port(directory: &Path) -> Self {
        TestServer::start(directory, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
    }

    /// Stops the server, and closes the database.
    pub(crate) fn stop(self) {
        self.stop.send(()).expect("the server runs");
        self.runtime.block_on(self.running).expect("the server does not panic");
    }

    /// Stops the server, and starts it again at its address.
    pub(crate) fn restart(self, directory: &Path) -> Self {
        let address = self.address.clone();
        self.stop();
        TestServer::start(directory, address)
    }

    pub(crate) fn client(&self) -> Client {
        let address = match &self.address {
            ListenAddress::Tcp(address) => format!("http://{address}"),
            socket @ ListenAddress::Unix(_) => socket.to_string(),
        };
        Client::builder(address).build().expect("a client")
    }
}

/// Runs `check` with a client of a server.
pub(crate) fn served(check: impl FnOnce(&Client)) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = TestServer::at_any_port(directory.path());
    check(&server.client());
    server.stop();
}
