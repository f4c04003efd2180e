//! A database of the test's own, served, and clients of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use quire::{Builder, Database, Durability};
use quire_access::budget::ByteBudget;
use quire_access::{ConnectionCounters, Traffic};
use quire_api::MetricsHistory;
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::graph_client::GraphClient;
use quire_grpc::proto::jobs_client::JobsClient;
use quire_grpc::proto::quire_client::QuireClient;
use quire_grpc::proto::sql_client::SqlClient;
use quire_grpc::proto::streams_client::StreamsClient;
use quire_grpc::{Server, Settings};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// See the module.
#[derive(Debug)]
pub(crate) struct Served {
    folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) history: Arc<MetricsHistory>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) async fn new() -> Self {
        Served::start(tempfile::tempdir().expect("a temporary directory")).await
    }

    /// A server over a database that is opened like this.
    pub(crate) async fn over(database: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        Served::start_over(folder, Settings::default(), database).await
    }

    /// A server with settings of its own.
    pub(crate) async fn with(settings: Settings) -> Self {
        Served::start_with(tempfile::tempdir().expect("a temporary directory"), settings).await
    }

    async fn start(folder: TempDir) -> Self {
        Served::start_with(folder, Settings::default()).await
    }

    async fn start_with(folder: TempDir, settings: Settings) -> Self {
        Served::start_over(folder, settings, |builder| builder).await
    }

    async fn start_over(folder: TempDir, settings: Settings, database: impl FnOnce(Builder) -> Builder) -> Self {
        let builder = database(Database::builder(folder.path()).durability(Durability::Os));
        Served::serve(folder, settings, builder.open().expect("opened")).await
    }

    /// A server, and its database without a guard.
    pub(crate) async fn with_owner() -> (Self, Database) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let owner = Database::builder(folder.path()).durability(Durability::Os).open().expect("opened");
        (Served::serve(folder, Settings::default(), owner.clone()).await, owner)
    }

    /// A server with a byte budget of its own, and its database without a guard.
    pub(crate) async fn with_budget(budget: ByteBudget) -> (Self, Database) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let owner = Database::builder(folder.path()).durability(Durability::Os).open().expect("opened");
        (Served::serve_within(folder, Settings::default(), owner.clone(), budget).await, owner)
    }

    async fn serve(folder: TempDir, settings: Settings, database: Database) -> Self {
        Served::serve_within(folder, settings, database, ByteBudget::default()).await
    }

    async fn serve_within(folder: TempDir, settings: Settings, database: Database, budget: ByteBudget) -> Self {
        let any = "127.0.0.1:0".parse().expect("an address");
        let server = Server::bind_with(database, any, settings).await.expect("bound").without_audit();
        let server = server.with_budget(budget);
        let (connections, traffic) = (server.connections(), Arc::<Traffic>::default());
        let history = Arc::<MetricsHistory>::default();
        let server = server.counting(Arc::clone(&traffic)).with_history(Arc::clone(&history));
        let (stop, stopped) = oneshot::channel();
        let address = server.address().tcp().expect("it is bound to TCP");
        let running = tokio::spawn(server.run(async { stopped.await.expect("the test stops it") }));
        Served { folder, address, connections, traffic, history, stop, running }
    }

    /// Stops it; the database is closed when this returns.
    pub(crate) async fn stop(self) -> TempDir {
        self.stop.send(()).expect("it is running");
        self.running.await.expect("it does not panic").expect("it ends well");
        self.folder
    }

    /// Stops it, opens the database again and serves it.
    pub(crate) async fn again(self) -> Self {
        Served::start(self.stop().await).await
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("an address");
        endpoint.connect().await.expect("it listens")
    }

    pub(crate) async fn commits(&self) -> QuireClient<Channel> {
        QuireClient::new(self.channel().await)
    }

    pub(crate) async fn streams(&self) -> StreamsClient<Channel> {
        StreamsClient::new(self.channel().await)
    }

    pub(crate) async fn events(&self) -> EventsClient<Channel> {
        EventsClient::new(self.channel().await).max_decoding_message_size(usize::MAX)
    }

    pub(crate) async fn graph(&self) -> GraphClient<Channel> {
        GraphClient::new(self.channel().await)
    }

    pub(crate) async fn sql(&self) -> SqlClient<Channel> {
        SqlClient::new(self.channel().await)
    }

    pub(crate) async fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel().await)
    }
}

/// The parts of a status for programs: its code, its reason, and the facts.
#[track_caller]
pub(crate) fn told(status: &Status) -> (Code, String, HashMap<String, String>) {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{status:?} has no reason"));
    assert_eq!(info.domain, "quire");
    (status.code(), info.reason, info.metadata)
}
