//! A cluster in one process: each node has its own directory, threads and port.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quire::Database;
use quire_access::{ConnectionSettings, Listener, PeerConnector};
use quire_cluster::{NodeId, NodeNotice, NodeObserver, NodeParts, NodeRole, PeerIdentity, RunningMember, discover};
use quire_system::{MemberAddresses, MemberRole};
use tempfile::TempDir;

pub(crate) fn identity(node: u64, incarnation: u128) -> PeerIdentity {
    PeerIdentity { node: NodeId::new(node).expect("not zero"), incarnation }
}

/// Counts notices, so that a test waits for one and not for a time.
#[derive(Debug)]
struct Notices(Mutex<Sender<String>>);

impl NodeObserver for Notices {
    fn note(&self, notice: &NodeNotice) {
        // The test may have ended.
        let _ = self.0.lock().expect("not poisoned").send(notice.to_string());
    }
}

struct ClusterProcess {
    member: Option<RunningMember>,
    database: Option<Database>,
    address: String,
    directory: TempDir,
}

/// See the module.
pub(crate) struct Cluster {
    nodes: BTreeMap<u64, ClusterProcess>,
    notices: (Sender<String>, Receiver<String>),
    runtime: tokio::runtime::Runtime,
}

impl Default for Cluster {
    fn default() -> Self {
        let runtime = RunningMember::runtime().expect("threads");
        Cluster { nodes: BTreeMap::new(), notices: channel(), runtime }
    }
}

impl Cluster {
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub(crate) fn connector(&self) -> PeerConnector {
        PeerConnector::plain()
    }

    pub(crate) fn database(&self, node: u64) -> &Database {
        self.nodes[&node].database.as_ref().expect("it runs")
    }

    pub(crate) fn node(&self, node: u64) -> &RunningMember {
        self.nodes[&node].member.as_ref().expect("it runs")
    }

    pub(crate) fn addresses(&self, nodes: &[u64]) -> Vec<String> {
        nodes.iter().map(|node| self.nodes[node].address.clone()).collect()
    }

    /// Starts the first node.
    pub(crate) fn found(&mut self, node: u64) {
        self.begin(node, None, None, Vec::new());
    }

    /// Starts a node that joins the others.
    pub(crate) fn join(&mut self, node: u64) {
        let seeds: Vec<String> = self.nodes.values().map(|node| node.address.clone()).collect();
        let found = self.block_on(discover(&self.connector(), &seeds, identity(node, node.into()), None));
        let id = found.expect("a cluster").database;
        self.begin(node, Some(id), None, seeds);
    }

    fn begin(&mut self, node: u64, id: Option<u128>, address: Option<String>, join: Vec<String>) {
        let directory = match self.nodes.remove(&node) {
            Some(process) => process.directory,
            None => tempfile::tempdir().expect("a temporary directory"),
        };
        let mut builder = Database::builder(directory.path().join("data")).member(true);
        builder = id.into_iter().fold(builder, quire::Builder::id);
        let database = builder.segment_bytes(1 << 20).open().expect("opened");
        let runtime = RunningMember::runtime().expect("threads");
        let listen = address.unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse().expect("an address");
        let settings = ConnectionSettings::default();
        let listener = runtime.block_on(Listener::bind(&listen, &settings)).expect("a port");
        let address = listener.address().to_string();
        let parts = NodeParts {
            shard: database.replicated(),
            identity: identity(node, node.into()),
            is_founder: node == 1,
            addresses: MemberAddresses { cluster: address.clone(), ..MemberAddresses::default() },
            listener,
            connector: PeerConnector::plain(),
            join,
            record_bytes_max: database.commit_bytes_max(),
            heartbeat: Duration::from_millis(50),
            observer: Arc::new(Notices(Mutex::new(self.notices.0.clone()))),
        };
        let member = RunningMember::start(parts, runtime).expect("started");
        let process = ClusterProcess { member: Some(member), database: Some(database), address, directory };
        self.nodes.insert(node, process);
    }

    pub(crate) fn stop(&mut self, node: u64) {
        let process = self.nodes.get_mut(&node).expect("a node");
        process.member.take().expect("it runs").stop();
        drop(process.database.take());
    }

    pub(crate) fn restart(&mut self, node: u64) {
        let address = self.nodes[&node].address.clone();
        self.begin(node, None, Some(address), Vec::new());
    }

    /// Waits until one of these nodes leads and serves.
    pub(crate) fn wait_for_leader(&self, nodes: &[u64]) -> u64 {
        self.wait(|| nodes.iter().copied().find(|node| self.database(*node).replicated().check_serves().is_ok()))
    }

    /// Waits until the leader knows this many voters, and no other member.
    pub(crate) fn wait_until_voters(&self, count: usize) {
        self.wait(|| {
            let mut statuses = self.nodes.values().filter_map(|node| Some(node.member.as_ref()?.status()));
            let leader = statuses.find(|status| status.role == NodeRole::Leader)?;
            let is_voter = |role| role == MemberRole::Voter;
            let all = leader.members.len() == count && leader.members.iter().all(|member| is_voter(member.member.role));
            all.then_some(())
        });
    }

    /// Waits until these nodes have published the same last record, which all of them have.
    pub(crate) fn wait_until_level(&self, nodes: &[u64]) {
        self.wait(|| {
            let logs = nodes.iter().map(|node| self.database(*node).replicated().log().clone());
            let ends: Vec<_> = logs.map(|log| (log.appended(), log.published())).collect();
            ends.iter().all(|(appended, published)| appended == published && *appended == ends[0].0).then_some(())
        });
    }

    /// The state of a node, as its checkpoint would hold it.
    pub(crate) fn saved_state(&self, node: u64) -> Vec<u8> {
        self.database(node).replicated().saved_state().expect("whole").1
    }

    /// Looks again after each notice, and after each tick of a node.
    fn wait<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            // A tick reports no notice, so a wait ends without one, too.
            let _ = self.notices.1.recv_timeout(Duration::from_millis(20));
        }
    }
}
