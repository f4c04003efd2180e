//! The Kafka, HTTP and gRPC servers of one database, on a runtime of their own: started together,
//! stopped together.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quire::Database;
use quire_access::budget::ByteBudget;
use quire_access::{
    ConnectionLimits, Forwarder, ServerTls, StatementTurns, TlsSettings, TokenVerifier, Traffic, check_address,
};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::connections::ServerSettings;
use crate::exposure::{self, ServerProtection};
use crate::failure::{CommandError, Result};
use crate::memory::FreedMemory;
use crate::served_address::ServedAddress;
use crate::stop::{StopReason, StopSignal};
use crate::threads;

/// Addresses to serve on. The defaults are on loopback because access control is disabled in
/// a new database.
#[derive(Debug, Clone, Args)]
pub(crate) struct Addresses {
    /// Address to serve the Kafka protocol on; port 0 chooses a free port; can be repeated;
    /// tls:// requires TLS, plain:// excludes it
    #[arg(long, value_name = "ADDR", value_parser = tcp_address, value_delimiter = ',', default_value = "127.0.0.1:9092")]
    pub(crate) kafka: Vec<ServedAddress>,
    /// Address to serve HTTP on; port 0 chooses a free port, unix:PATH a Unix socket;
    /// tls:// requires TLS, plain:// excludes it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070")]
    pub(crate) http: ServedAddress,
    /// Address to serve gRPC on; port 0 chooses a free port, unix:PATH a Unix socket;
    /// tls:// requires TLS, plain:// excludes it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7071")]
    pub(crate) grpc: ServedAddress,
    /// Listen without TLS or without access control on addresses that other machines can reach
    #[arg(long)]
    pub(crate) insecure_listen: bool,
}

impl Addresses {
    /// Checks that the addresses are protected and free, before anything is created or removed on
    /// the disk.
    ///
    /// # Errors
    /// When an address can't be listened on, requires TLS without a certificate, or would let other
    /// machines reach an unprotected server.
    pub(crate) fn check(&self, tls: Option<&Arc<ServerTls>>, protection: ServerProtection<'_>) -> Result {
        exposure::check(self, protection.with_tls(tls))?;
        for (flag, address) in self.all() {
            address.tls(tls).map_err(CommandError::new)?;
            check_address(&address.address).map_err(|error| not_bound(address, flag, &error))?;
        }
        Ok(())
    }

    /// The addresses, each with its flag.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &ServedAddress)> {
        let kafka = self.kafka.iter().map(|address| ("--kafka", address));
        kafka.chain([("--http", &self.http), ("--grpc", &self.grpc)])
    }
}

/// Parses the address of a server of the Kafka protocol.
fn tcp_address(text: &str) -> Result<ServedAddress, String> {
    let address: ServedAddress = text.parse()?;
    match address.tcp() {
        Some(_) => Ok(address),
        None => Err("Kafka clients connect over TCP: expected HOST:PORT".to_owned()),
    }
}

/// Interval of the looks at the database while it is served.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keeps SIGHUPs from ending this process, which has no servers to reload yet. The handler stays.
///
/// # Errors
/// When signals can't be received.
pub(crate) fn outlive_hangups() -> Result {
    let runtime = threads::only_this()?;
    let _in_runtime = runtime.enter();
    signal(SignalKind::hangup()).map(drop).map_err(|error| CommandError::at("listen to signals", error))
}

/// Servers that are running.
#[derive(Debug)]
pub(crate) struct Servers {
    runtime: Runtime,
    stop: StopSignal,
    task: JoinHandle<io::Result<()>>,
    addresses: Addresses,
    tls: Option<Arc<ServerTls>>,
    kafka_counters: Arc<quire_kafka::Counters>,
    traffic: Arc<Traffic>,
    budget: ByteBudget,
    kafka_settings: quire_kafka::KafkaSettingsHandle,
    http_settings: quire_http::HttpSettingsHandle,
    grpc_limits: ConnectionLimits,
    #[cfg(feature = "otlp")]
    metrics: quire_http::MetricsSource,
}

impl Servers {
    /// Starts the servers. They run until a signal, or until [`Servers::stop`].
    ///
    /// # Errors
    /// When one of the addresses can't be listened on, requires TLS without a certificate, or would
    /// let other machines reach an unprotected server. No server runs then.
    pub(crate) fn start(
        database: &Database,
        data: Option<&Path>,
        wanted: &Addresses,
        mut settings: ServerSettings,
        tls: Option<Arc<ServerTls>>,
        tokens: Option<Arc<TokenVerifier>>,
        forwarding: Option<&Forwarder>,
    ) -> Result<Self> {
        let protection = ServerProtection {
            requires_certificates: None,
            has_access_control: database.access().rules().is_enabled(),
            data,
        };
        exposure::check(wanted, protection.with_tls(tls.as_ref()))?;
        settings.fit_handles()?;
        let (budget, statements) = (settings.budget, StatementTurns::default());
        let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
        let stop = StopSignal::on_signals(&runtime)?;
        let tls_of =
            |address: &ServedAddress| address.tls(tls.as_ref()).map(|tls| tls.cloned()).map_err(CommandError::new);
        let kafka = runtime.block_on(bind_kafka(database, &wanted.kafka, settings.kafka, &tls_of))?;
        let kafka = tokens.iter().cloned().fold(kafka.with_budget(budget.clone()), quire_kafka::Server::with_tokens);
        let http = quire_http::Server::bind_with(database.clone(), wanted.http.address.clone(), settings.http);
        let http = runtime.block_on(http).map_err(|error| not_bound(&wanted.http, "--http", &error))?;
        let http = http.with_statement_turns(statements.clone());
        let mut http = tokens.iter().cloned().fold(http.with_budget(budget.clone()), quire_http::Server::with_tokens);
        let http_tls = tls_of(&wanted.http)?;
        if let Some(tls) = http_tls.clone() {
            http = http.with_tls(tls).map_err(|error| not_bound(&wanted.http, "--http", &error))?;
        }
        let grpc = quire_grpc::Server::bind_with(database.clone(), wanted.grpc.address.clone(), settings.grpc);
        let grpc = runtime.block_on(grpc).map_err(|error| not_bound(&wanted.grpc, "--grpc", &error))?;
        let grpc = grpc.with_statement_turns(statements).with_history(http.history());
        let mut grpc = tokens.into_iter().fold(grpc.with_budget(budget.clone()), quire_grpc::Server::with_tokens);
        let grpc_tls = tls_of(&wanted.grpc)?;
        if let Some(tls) = grpc_tls.clone() {
            grpc = grpc.with_tls(tls).map_err(|error| not_bound(&wanted.grpc, "--grpc", &error))?;
        }
        let kafka_tls = wanted.kafka.iter().map(&tls_of).collect::<Result<Vec<_>>>()?;
        let running = |(address, tls): (SocketAddr, &Option<_>)| ServedAddress::running(address.into(), tls.as_deref());
        let addresses = Addresses {
            kafka: kafka.addresses().into_iter().zip(&kafka_tls).map(running).collect(),
            http: ServedAddress::running(http.address().clone(), http_tls.as_deref()),
            grpc: ServedAddress::running(grpc.address().clone(), grpc_tls.as_deref()),
            insecure_listen: wanted.insecure_listen,
        };
        let traffic = Arc::new(Traffic::default());
        let (kafka, http, grpc) = (
            kafka.counting(Arc::clone(&traffic)),
            http.counting(Arc::clone(&traffic)),
            grpc.counting(Arc::clone(&traffic)),
        );
        let (kafka, http, grpc) = match forwarding {
            None => (kafka, http, grpc),
            Some(forwarding) => (
                kafka.with_forwarding(forwarding.clone()),
                http.with_forwarding(forwarding.clone()),
                grpc.with_forwarding(forwarding.clone()),
            ),
        };
        let kafka_counters = kafka.counters();
        let (kafka_settings, http_settings) = (kafka.settings_handle(), http.settings_handle());
        let grpc_limits = grpc.limits();
        #[cfg(feature = "otlp")]
        let metrics = http.metrics();
        let when_gone = StopOnDrop(stop.clone());
        let task = runtime.spawn(async move {
            let StopOnDrop(stop) = &when_gone;
            tokio::try_join!(kafka.run(stop.asked()), http.run(stop.asked()), grpc.run(stop.asked())).map(|_| ())
        });
        Ok(Servers {
            runtime,
            stop,
            task,
            addresses,
            tls,
            kafka_counters,
            traffic,
            budget,
            kafka_settings,
            http_settings,
            grpc_limits,
            #[cfg(feature = "otlp")]
            metrics,
        })
    }

    /// The addresses of the servers, with their real ports.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The signal that ends the run.
    pub(crate) fn stop_signal(&self) -> StopSignal {
        self.stop.clone()
    }

    /// Waits until a signal or a failed server ends the run, and returns the reason. Calls `look`
    /// about once a second in the meantime.
    pub(crate) fn wait(&self, mut look: impl FnMut()) -> StopReason {
        let asked = self.stop.asked();
        self.runtime.block_on(async {
            tokio::pin!(asked);
            while tokio::time::timeout(LOOK_EVERY, &mut asked).await.is_err() {
                look();
            }
        });
        self.stop.reason().expect("the wait ended with a reason")
    }

    /// Waits like [`Servers::wait`]. Calls `reload` at each SIGHUP, and returns freed memory to the
    /// system.
    ///
    /// # Errors
    /// When signals can't be received.
    pub(crate) fn wait_with_reload(&self, mut look: impl FnMut(), mut reload: impl FnMut()) -> Result<StopReason> {
        let hangup = {
            let _in_runtime = self.runtime.enter();
            signal(SignalKind::hangup())
        };
        let mut hangup = hangup.map_err(|error| CommandError::at("listen to signals", error))?;
        let asked = self.stop.asked();
        let mut freed = FreedMemory::new(self.budget.clone());
        self.runtime.block_on(async {
            tokio::pin!(asked);
            loop {
                tokio::select! {
                    () = &mut asked => return,
                    _ = hangup.recv() => reload(),
                    () = tokio::time::sleep(LOOK_EVERY) => {
                        look();
                        freed.look();
                    }
                }
            }
        });
        Ok(self.stop.reason().expect("the wait ended with a reason"))
    }

    /// Ends the wait of [`Servers::wait_with_reload`] for this reason.
    pub(crate) fn stop_because(&self, reason: StopReason) {
        self.stop.ask_for(reason);
    }

    /// Replaces the settings that can change in running servers.
    ///
    /// # Errors
    /// When a setting is invalid, a file of TLS can't be used, or the system refuses more file
    /// handles. Nothing changes then.
    pub(crate) fn reload(&self, mut settings: ServerSettings, tls: Option<&TlsSettings>) -> Result {
        settings.fit_handles()?;
        let invalid = |error: io::Error| CommandError::new(error.to_string());
        self.kafka_settings.check(&settings.kafka).map_err(invalid)?;
        if let (Some(running), Some(tls)) = (&self.tls, tls) {
            running.replace(tls).map_err(invalid)?;
        }
        self.kafka_settings.replace(settings.kafka).map_err(invalid)?;
        self.http_settings.replace(settings.http).map_err(invalid)?;
        self.grpc_limits.change(&settings.grpc.connections);
        Ok(())
    }

    /// The TLS of the servers, if they have a certificate.
    pub(crate) fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.as_ref()
    }

    /// The counters of the Kafka server.
    pub(crate) fn kafka_counters(&self) -> Arc<quire_kafka::Counters> {
        Arc::clone(&self.kafka_counters)
    }

    /// The metrics of all front ends and of the database.
    #[cfg(feature = "otlp")]
    pub(crate) fn metrics(&self) -> quire_http::MetricsSource {
        self.metrics.clone()
    }

    /// The counts of all front ends.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Stops the servers, and waits until they release the database.
    ///
    /// A long read for a client is abandoned after [`LEFT_BEHIND_AFTER`]. The read then holds the
    /// database until the process ends. The database recovers from that as from a crash; no
    /// acknowledged commit is lost.
    ///
    /// # Errors
    /// The error of a server that failed.
    pub(crate) fn stop(self) -> Result {
        self.stop.ask();
        let ended = self.runtime.block_on(self.task).map_err(|error| CommandError::at("stop the servers", error));
        self.runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
        ended?.map_err(|error| CommandError::at("serve", error))
    }
}

/// Listens on each address of the Kafka protocol.
async fn bind_kafka(
    database: &Database,
    addresses: &[ServedAddress],
    settings: quire_kafka::Settings,
    tls_of: &impl Fn(&ServedAddress) -> Result<Option<Arc<ServerTls>>>,
) -> Result<quire_kafka::Server> {
    let [first, others @ ..] = addresses else { unreachable!("the flag has a default") };
    let tcp = |address: &ServedAddress| address.tcp().expect("the flag takes TCP addresses");
    let server = quire_kafka::Server::bind_with(database.clone(), tcp(first), settings).await;
    let mut server = server.map_err(|error| not_bound(first, "--kafka", &error))?;
    if let Some(tls) = tls_of(first)? {
        server = server.with_tls(tls).map_err(|error| not_bound(first, "--kafka", &error))?;
    }
    for address in others {
        let with_it = server.and_on(tcp(address), tls_of(address)?).await;
        server = with_it.map_err(|error| not_bound(address, "--kafka", &error))?;
    }
    Ok(server)
}

/// Time that running requests get after the stop.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(5);

/// Explains why an address can't be listened on, and what to do when it is taken.
fn not_bound(address: &ServedAddress, flag: &str, error: &io::Error) -> CommandError {
    match error.kind() {
        io::ErrorKind::AddrInUse => CommandError::new(format!(
            "can't listen on {}: address already in use; choose another with {flag} (port 0 takes a free one)",
            address.address
        )),
        _ => CommandError::new(error.to_string()),
    }
}

/// Ends the run when the servers end, also by a panic.
struct StopOnDrop(StopSignal);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}
