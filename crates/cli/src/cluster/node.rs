//! The node of a server that runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quire::tools::{BackupSink, stream_backup};
use quire::{Database, Disk};
use quire_access::{ConnectionSettings, Forwarder, Listener, TlsProtocol};
use quire_cluster::{NodeFiles, NodeNotice, NodeObserver, NodeParts, NodeStatus, RunningMember};
use tracing::{info, warn};

use super::NodePlan;
use crate::failure::{CommandError, Result};
use crate::servers::Addresses;

/// The target of the events of a node.
pub(super) const TARGET: &str = "quire::cluster";

/// See the module.
#[derive(Debug)]
pub(crate) struct ServedNode {
    member: RunningMember,
    observer: Arc<NoticeLog>,
    address: String,
    /// Nodes that were named by a flag.
    join: Vec<String>,
}

/// The files of the database in this directory, for other nodes. It holds no handle of the
/// database, which a stop closes before the connections have ended.
#[derive(Debug)]
struct DatabaseFiles(PathBuf);

impl NodeFiles for DatabaseFiles {
    fn send(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        stream_backup(&self.0, &mut SinkOf(sink)).map(drop).map_err(io::Error::other)
    }
}

struct SinkOf<'s>(&'s mut dyn FnMut(&[u8]) -> io::Result<()>);

impl BackupSink for SinkOf<'_> {
    fn make_space(&mut self, _bytes: u64) -> io::Result<()> {
        // One node at a time gets files, and a segment has a bounded size.
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.0)(bytes)
    }
}

/// Writes notices to the log of the server.
#[derive(Debug, Default)]
struct NoticeLog {
    /// Why the node is refused for good.
    refusal: Mutex<Option<String>>,
}

impl NodeObserver for NoticeLog {
    fn note(&self, notice: &NodeNotice) {
        match notice.is_warning() {
            true => warn!(target: TARGET, "{notice}"),
            false => info!(target: TARGET, "{notice}"),
        }
        if let NodeNotice::NotJoined { reason, is_final: true } = notice {
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.clone());
        }
    }
}

impl NodePlan {
    /// Makes an opened database the first node of its cluster, where it is to be that. A crash
    /// before leaves a database alone.
    ///
    /// The database may be a restored backup of an earlier cluster. Its members count no more.
    ///
    /// # Errors
    /// When a node of an earlier cluster had the number, and when the directory can't be written.
    pub(crate) fn settle(&mut self, database: &Database, data: &Path) -> Result {
        if !self.is_new {
            return Ok(());
        }
        let shard = database.replicated();
        let system = shard.access_state().map_err(CommandError::from)?.1;
        if system.member(self.file.node).is_some() {
            let used = system.members().map(|(node, _)| node).max().unwrap_or_default();
            return Err(CommandError::new(format!(
                "{} is a copy of a cluster that had a node {}: give --node a number that no node has had, such as {}",
                data.display(),
                self.file.node,
                used.saturating_add(1)
            )));
        }
        // A later entry has another position only when these records stay.
        shard.log().sync().map_err(|error| CommandError::new(error.to_string()))?;
        self.file.since = shard.log().appended();
        self.file.write(&Disk, data).map_err(CommandError::from)
    }

    /// Checks that the node has the vote that it saved.
    ///
    /// # Errors
    /// When the vote is missing.
    fn check_vote(&self, database: &Database) -> Result {
        let log = database.replicated().log().clone();
        if !self.file.has_voted || log.office().map_err(|error| CommandError::new(error.to_string()))?.is_some() {
            return Ok(());
        }
        Err(CommandError::new(format!(
            "the file {} with the vote of node {} is missing: without it, the node could vote twice in one term, and the \
             cluster could lose commits; put the file back, or remove the node from the cluster and join with an empty \
             directory and another number",
            log.directory().join("office").display(),
            self.file.node
        )))
    }

    /// Starts the node. `served` are the addresses of the servers, which run and forward requests
    /// by `forwarding`.
    ///
    /// # Errors
    /// When the address can't be listened on, or the node can't be started.
    pub(crate) fn start(
        &mut self,
        database: &Database,
        data: &Path,
        served: &Addresses,
        forwarding: &Forwarder,
    ) -> Result<ServedNode> {
        let failed = |error: std::io::Error| CommandError::new(error.to_string());
        self.check_vote(database)?;
        let runtime = RunningMember::runtime().map_err(|error| CommandError::at("start threads", error))?;
        let listen = self.listen.into();
        let mut listener = runtime.block_on(Listener::bind(&listen, &ConnectionSettings::default())).map_err(failed)?;
        if let Some(tls) = self.listener_tls()? {
            listener = listener.with_tls(tls, TlsProtocol::Cluster).map_err(failed)?;
        }
        let address = listener.address().tcp().expect("it listens on TCP");
        let observer = Arc::new(NoticeLog::default());
        let parts = NodeParts {
            shard: database.replicated(),
            identity: self.identity(),
            is_founder: self.file.is_founder,
            founder: self.file.cluster,
            since: self.file.since,
            addresses: self.addresses(address, served),
            listener,
            connector: self.connector()?,
            join: self.join.clone(),
            record_bytes_max: database.commit_bytes_max(),
            heartbeat: self.heartbeat,
            files: Arc::new(DatabaseFiles(data.to_owned())),
            forwarding: forwarding.clone(),
            observer: Arc::clone(&observer) as _,
        };
        let member = RunningMember::start(parts, runtime).map_err(CommandError::from)?;
        // The vote is on the disk since the node was made.
        if !self.file.has_voted {
            self.file.has_voted = true;
            self.file.write(&Disk, data).map_err(CommandError::from)?;
        }
        Ok(ServedNode { member, observer, address: address.to_string(), join: self.join.clone() })
    }
}

impl ServedNode {
    /// The address for other nodes.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The state of the node.
    pub(crate) fn status(&self) -> NodeStatus {
        self.member.status()
    }

    /// Why the node can't continue, if it can't.
    pub(crate) fn failure(&self) -> Option<String> {
        let refusal = self.observer.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        refusal.or_else(|| self.member.status().failure)
    }

    /// The addresses of nodes that know the leader, if the node has stopped because it needs all
    /// files of the leader.
    pub(crate) fn addresses_of_files(&self) -> Option<Vec<String>> {
        let status = self.member.status();
        let others = status.members.iter().filter(|member| member.node != status.node);
        let addresses = others.map(|member| member.member.addresses.cluster.clone()).chain(self.join.iter().cloned());
        status.needs_files.then(|| addresses.collect())
    }

    /// Hands the office over where this node leads.
    pub(crate) fn hand_over(&self) {
        self.member.hand_over_before_stop();
    }

    /// Stops the node.
    pub(crate) fn stop(self) {
        self.member.stop();
    }
}
