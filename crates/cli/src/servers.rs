//! The Kafka, HTTP and gRPC servers of one database, on a runtime of their own: started together, stopped together.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use quire::Database;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::failure::{Failure, Result};
use crate::opening::tell_damage;
use crate::stop::Stop;
use crate::threads;

/// Where to serve. All are on loopback unless told otherwise, for there is no authentication yet.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Addresses {
    /// Where to serve the Kafka protocol; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = resolve, default_value = "127.0.0.1:9092")]
    pub(crate) kafka: SocketAddr,
    /// Where to serve HTTP; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = resolve, default_value = "127.0.0.1:7070")]
    pub(crate) http: SocketAddr,
    /// Where to serve gRPC; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = resolve, default_value = "127.0.0.1:7071")]
    pub(crate) grpc: SocketAddr,
}

impl Addresses {
    /// That they can be listened on now: looked at before anything is made or removed on the disk.
    ///
    /// # Errors
    /// When one of them can't be.
    pub(crate) fn check(&self) -> Result {
        for (address, flag) in [(self.kafka, "--kafka"), (self.http, "--http"), (self.grpc, "--grpc")] {
            TcpListener::bind(address).map_err(|error| {
                let error = io::Error::new(error.kind(), format!("can't listen on {address}: {error}"));
                not_bound(address, flag, &error)
            })?;
        }
        Ok(())
    }
}

/// Reads `HOST:PORT`, where the host may be a name, like `localhost`: the first address it has.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "the name has no address".to_owned())
}

/// How often it is looked whether damage was found.
const DAMAGE_EVERY: Duration = Duration::from_secs(1);

/// Servers that are running.
#[derive(Debug)]
pub(crate) struct Servers {
    runtime: Runtime,
    stop: Stop,
    task: JoinHandle<io::Result<()>>,
    addresses: Addresses,
}

impl Servers {
    /// Starts them. They run until a signal, or until [`Servers::stop`].
    ///
    /// # Errors
    /// When one of the addresses can't be listened on; then none runs.
    pub(crate) fn start(
        database: &Database,
        wanted: Addresses,
        kafka: quire_kafka::Settings,
        http: quire_http::Settings,
    ) -> Result<Self> {
        let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
        let stop = Stop::on_signals(&runtime)?;
        let kafka = runtime.block_on(quire_kafka::Server::bind_with(database.clone(), wanted.kafka, kafka));
        let kafka = kafka.map_err(|error| not_bound(wanted.kafka, "--kafka", &error))?;
        let http = runtime.block_on(quire_http::Server::bind_with(database.clone(), wanted.http, http));
        let http = http.map_err(|error| not_bound(wanted.http, "--http", &error))?;
        let grpc = runtime.block_on(quire_grpc::Server::bind(database.clone(), wanted.grpc));
        let grpc = grpc.map_err(|error| not_bound(wanted.grpc, "--grpc", &error))?;
        let addresses = Addresses { kafka: kafka.address(), http: http.address(), grpc: grpc.address() };
        let when_gone = AskWhenGone(stop.clone());
        let task = runtime.spawn(async move {
            let AskWhenGone(stop) = &when_gone;
            tokio::try_join!(kafka.run(stop.asked()), http.run(stop.asked()), grpc.run(stop.asked())).map(|_| ())
        });
        Ok(Servers { runtime, stop, task, addresses })
    }

    /// Where they serve, with the real ports.
    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What ends the run.
    pub(crate) fn stop_signal(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until the run is to end: by a signal, or because a server failed. Damage that is found meanwhile, by a reader or by the
    /// scrub, is told on standard error; so much of it was already.
    pub(crate) fn wait(&self, database: &Database, mut told: usize) {
        let asked = self.stop.asked();
        self.runtime.block_on(async {
            tokio::pin!(asked);
            while tokio::time::timeout(DAMAGE_EVERY, &mut asked).await.is_err() {
                let damage = database.damage();
                for found in damage.iter().skip(told) {
                    tell_damage(found);
                }
                told = damage.len();
            }
        });
    }

    /// Stops them, and waits until they hold the database no more. What still looks through much history for a client by then is left behind
    /// after some seconds: it holds the database until the process ends, which then ends like a crash does, and nothing that was acknowledged is lost.
    ///
    /// # Errors
    /// What a server failed with.
    pub(crate) fn stop(self) -> Result {
        self.stop.ask();
        let ended = self.runtime.block_on(self.task).map_err(|error| Failure::at("stop the servers", error));
        self.runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
        ended?.map_err(|error| Failure::at("serve", error))
    }
}

/// How long what the servers have begun may go on behind their end.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(5);

/// Why an address can't be listened on, and what to do when it is taken.
fn not_bound(address: SocketAddr, flag: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(format!(
            "can't listen on {address}: address already in use; choose another with {flag} (port 0 takes a free one)"
        )),
        _ => Failure::new(error.to_string()),
    }
}

/// Ends the run when the servers are gone, also when one of them panicked.
struct AskWhenGone(Stop);

impl Drop for AskWhenGone {
    fn drop(&mut self) {
        self.0.ask();
    }
}
