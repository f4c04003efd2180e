//! What the flags and the directory say about the node, before anything is opened.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quire::system::MemberAddresses;
use quire::tools::{Backup, finish_receiving, receive_node};
use quire::{Disk, MemberFile, Position};
use quire_access::{ClientCertificates, PeerConnector, ServerTls, TlsSettings, TlsVersion};
use quire_cluster::{ClusterIdentity, FetchedFiles, JoinError, PeerIdentity, RunningMember, discover, fetch_files};
use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::{info, warn};

use super::ClusterArgs;
use super::node::TARGET;
use crate::failure::{CommandError, Result};
use crate::servers::Addresses;
use crate::stop::StopSignal;
use crate::stopwatch::Stopwatch;
use crate::text::counted;

/// How long a node waits for a member of the cluster that it joins.
const DISCOVERY_MAX: Duration = Duration::from_secs(30);
const DISCOVERY_PAUSE: Duration = Duration::from_millis(300);

/// The shortest and the longest heartbeat, in milliseconds.
const HEARTBEAT_MS: (u64, u64) = (5, 10_000);

/// How the database is opened as a node.
#[derive(Debug, Clone)]
pub(crate) struct NodePlan {
    pub(super) file: MemberFile,
    /// Whether the file must be written, once the database is open.
    pub(super) is_new: bool,
    pub(super) listen: SocketAddr,
    pub(super) host: String,
    pub(super) join: Vec<String>,
    pub(super) heartbeat: Duration,
    pub(super) tls: Option<TlsSettings>,
}

impl ClusterArgs {
    /// Checks the flags alone.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check(&self) -> Result {
        let problem = match self {
            ClusterArgs { cluster_listen: None, .. } if self.has_others() => {
                "settings of a cluster need --cluster-listen".to_owned()
            }
            ClusterArgs { cluster_listen: None, .. } => return Ok(()),
            ClusterArgs { cluster_init: true, cluster_join, .. } if !cluster_join.is_empty() => {
                "a node makes a cluster with --cluster-init, or joins one with --cluster-join".to_owned()
            }
            ClusterArgs { cluster_heartbeat_ms: ms, .. } if !(HEARTBEAT_MS.0..=HEARTBEAT_MS.1).contains(ms) => {
                let (least, most) = HEARTBEAT_MS;
                format!("--cluster-heartbeat-ms must be between {least} and {most}, got {ms}")
            }
            ClusterArgs { cluster_listen: Some(listen), cluster_advertised: None, .. }
                if listen.ip().is_unspecified() =>
            {
                format!("--cluster-listen is {listen}: name the host of this node with --cluster-advertised")
            }
            _ => return Ok(()),
        };
        Err(CommandError::new(format!("invalid cluster settings: {problem}")))
    }

    fn has_others(&self) -> bool {
        self.node.is_some()
            || self.cluster_init
            || !self.cluster_join.is_empty()
            || self.cluster_advertised.is_some()
            || self.cluster_roots.is_some()
    }

    /// Whether the server makes a new node of a cluster that exists.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub(crate) fn joins(&self, data: &Path) -> Result<bool> {
        let is_new = MemberFile::read(&Disk, data).map_err(CommandError::from)?.is_none();
        Ok(is_new && !self.cluster_join.is_empty())
    }

    /// Decides how the database in `data` is opened; `None` for a database alone. A node that joins
    /// a cluster gets its files.
    ///
    /// # Errors
    /// When the flags contradict the directory, or the cluster refuses the node.
    pub(crate) fn plan(&self, data: &Path, tls: Option<TlsSettings>) -> Result<Option<NodePlan>> {
        if self.cluster_listen.is_some() {
            finish_receiving(data).map_err(CommandError::from)?;
        }
        let file = MemberFile::read(&Disk, data).map_err(CommandError::from)?;
        let Some(listen) = self.cluster_listen else {
            return match file {
                None => Ok(None),
                Some(file) => Err(CommandError::new(format!(
                    "{} is node {} of a cluster: give --cluster-listen",
                    data.display(),
                    file.node
                ))),
            };
        };
        let tls = self.peer_tls(listen, tls)?;
        let host = self.cluster_advertised.clone().unwrap_or_else(|| match listen {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        });
        let mut plan = NodePlan {
            file: MemberFile {
                node: 0,
                incarnation: 0,
                is_founder: false,
                cluster: 0,
                since: Position::ZERO,
                has_voted: false,
            },
            is_new: false,
            listen,
            host,
            join: self.cluster_join.clone(),
            heartbeat: Duration::from_millis(self.cluster_heartbeat_ms),
            tls,
        };
        if let Some(file) = file {
            self.check_known(data, &file)?;
            return Ok(Some(NodePlan { file, ..plan }));
        }
        let Some(node) = self.node else {
            return Err(CommandError::new("a new node of a cluster needs a number: give --node"));
        };
        if !self.cluster_init && self.cluster_join.is_empty() {
            return Err(CommandError::new(format!(
                "{} is no node of a cluster: make one with --cluster-init, or join one with --cluster-join",
                data.display()
            )));
        }
        plan.file = new_file(node, self.cluster_init);
        if self.cluster_init {
            plan.is_new = true;
        } else {
            check_empty(data)?;
            plan.receive(data)?;
        }
        Ok(Some(plan))
    }

    /// Checks the flags against the node that the directory is.
    fn check_known(&self, data: &Path, file: &MemberFile) -> Result {
        let data = data.display();
        if let Some(node) = self.node.filter(|node| node.get() != file.node) {
            return Err(CommandError::new(format!("{data} is node {} of a cluster, not node {node}", file.node)));
        }
        if self.cluster_init {
            return Err(CommandError::new(format!(
                "{data} is node {} of a cluster already: start it without --cluster-init",
                file.node
            )));
        }
        Ok(())
    }

    /// The TLS between nodes. Beyond loopback, each node must have a certificate.
    fn peer_tls(&self, listen: SocketAddr, server: Option<TlsSettings>) -> Result<Option<TlsSettings>> {
        match (&self.cluster_roots, server) {
            (Some(roots), Some(server)) => Ok(Some(TlsSettings {
                version_min: TlsVersion::Tls13,
                client_certificates: ClientCertificates::Required,
                client_roots: Some(roots.clone()),
                client_crls: Vec::new(),
                client_names: Vec::new(),
                ..server
            })),
            (Some(_), None) => Err(CommandError::new("--cluster-roots needs --tls-certificate and --tls-key")),
            (None, _) if listen.ip().is_loopback() => Ok(None),
            (None, _) => Err(CommandError::new(format!(
                "--cluster-listen is {listen}: beyond loopback, nodes need certificates; give --cluster-roots, --tls-certificate and --tls-key"
            ))),
        }
    }
}

/// Checks that a node may be made in a directory.
fn check_empty(data: &Path) -> Result {
    match std::fs::read_dir(data) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(CommandError::at(format!("read {}", data.display()), error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(CommandError::new(format!(
                "{} is not empty: join a cluster with an empty directory",
                data.display()
            ))),
        },
    }
}

fn new_file(node: NonZeroU64, is_founder: bool) -> MemberFile {
    let incarnation = uuid::Uuid::new_v4().as_u128();
    // A node that joins learns its cluster before it gets its files.
    let cluster = if is_founder { incarnation } else { 0 };
    MemberFile { node: node.get(), incarnation, is_founder, cluster, since: Position::ZERO, has_voted: false }
}

impl NodePlan {
    pub(super) fn identity(&self) -> PeerIdentity {
        let node = NonZeroU64::new(self.file.node).expect("the number of a node is not zero");
        PeerIdentity { node, incarnation: self.file.incarnation }
    }

    pub(super) fn connector(&self) -> Result<PeerConnector> {
        let invalid = |error: std::io::Error| CommandError::new(error.to_string());
        self.tls.as_ref().map_or_else(|| Ok(PeerConnector::plain()), PeerConnector::load).map_err(invalid)
    }

    pub(super) fn listener_tls(&self) -> Result<Option<Arc<ServerTls>>> {
        let load = |settings| ServerTls::load(settings).map_err(|error| CommandError::new(error.to_string()));
        self.tls.as_ref().map(load).transpose()
    }

    /// The addresses by which others reach this node, of listeners that run.
    pub(super) fn addresses(&self, cluster: SocketAddr, served: &Addresses) -> MemberAddresses {
        let reached = |address: Option<SocketAddr>| {
            address.map_or_else(String::new, |address| format!("{}:{}", self.host, address.port()))
        };
        MemberAddresses {
            cluster: reached(Some(cluster)),
            http: reached(served.http.tcp()),
            grpc: reached(served.grpc.tcp()),
            kafka: reached(served.kafka.first().and_then(|address| address.tcp())),
        }
    }

    /// The plan of a node that gets files of the nodes at these addresses.
    pub(crate) fn after_files(&self, addresses: &[String]) -> NodePlan {
        let mut plan = NodePlan { is_new: false, ..self.clone() };
        plan.join.extend(addresses.iter().filter(|address| !self.join.contains(address)).cloned());
        plan
    }

    /// Gets all files of the leader, from the nodes that are known. Waits a while for them.
    ///
    /// # Errors
    /// When the cluster refuses the node, none of the nodes answers, or the files can't be written.
    pub(crate) fn receive(&mut self, data: &Path) -> Result {
        let failed = |error: io::Error| CommandError::at("start threads", error);
        let runtime = RunningMember::runtime().map_err(failed)?;
        let connector = self.connector()?;
        let stop = StopSignal::on_signals(&runtime)?;
        let waiting = Stopwatch::start();
        let mut is_first = true;
        loop {
            // A node that is refused creates no directory.
            let found = runtime.block_on(async {
                tokio::select! {
                    found = discover(&connector, &self.join, self.identity(), None) => Some(found),
                    () = stop.asked() => None,
                }
            });
            let received =
                found.map(|found| found.and_then(|found| self.fetch(data, runtime.handle(), &connector, found, &stop)));
            // Files that have arrived whole are in place for the next start.
            let Some(received) = received.filter(|_| !stop.is_asked()) else {
                return Err(CommandError::Interrupted);
            };
            match received {
                Ok((file, backup)) => {
                    self.file = file;
                    let backup = backup.map_err(CommandError::from)?;
                    let (files, record) = (backup.files.len(), backup.position.get());
                    let counted = counted(files as u64, "file");
                    info!(target: TARGET, files, record, "received {counted} up to record {record}");
                    return Ok(());
                }
                Err(JoinError::Refused(reason)) => return Err(CommandError::new(reason)),
                Err(JoinError::Unreachable(reason)) if waiting.elapsed() >= DISCOVERY_MAX => {
                    return Err(CommandError::new(format!("no member of the cluster sends its files: {reason}")));
                }
                Err(JoinError::Unreachable(reason)) => {
                    if is_first {
                        warn!(target: TARGET, reason, "waiting for a member of the cluster");
                    }
                    is_first = false;
                    runtime.block_on(async { sleep(DISCOVERY_PAUSE).await });
                }
            }
        }
    }

    /// Gets the files once. An outer error is one of the transfer.
    fn fetch(
        &self,
        data: &Path,
        runtime: &Handle,
        connector: &PeerConnector,
        cluster: ClusterIdentity,
        stop: &StopSignal,
    ) -> Result<(MemberFile, quire::Result<Backup>), JoinError> {
        if self.file.cluster != 0 && self.file.cluster != cluster.founder {
            let reason = "the nodes that send files belong to another cluster; check the addresses";
            return Err(JoinError::Refused(reason.to_owned()));
        }
        let file = MemberFile { cluster: cluster.founder, ..self.file };
        let (files, task) = fetch_files(runtime, connector.clone(), self.join.clone(), self.identity(), Some(cluster));
        let (asked, transfer) = (stop.asked(), task.abort_handle());
        runtime.spawn(async move {
            asked.await;
            transfer.abort();
        });
        let received = receive_node(&mut ProgressReader { files, bytes: 0, told: 0 }, data, &file);
        match (received, runtime.block_on(task)) {
            // The file that was not whole is the consequence.
            (Err(_), Ok(Err(error))) => Err(error),
            (received, _) => Ok((file, received)),
        }
    }
}

/// The bytes of files between two lines in the log.
const TOLD_BYTES: u64 = 256 << 20;

/// Tells the log how much of the files has arrived.
struct ProgressReader {
    files: FetchedFiles,
    bytes: u64,
    told: u64,
}

impl Read for ProgressReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.files.read(out)?;
        self.bytes += read as u64;
        if self.bytes - self.told >= TOLD_BYTES {
            self.told = self.bytes;
            let mib = self.bytes >> 20;
            info!(target: TARGET, mib, "received {mib} MiB of files");
        }
        Ok(read)
    }
}
