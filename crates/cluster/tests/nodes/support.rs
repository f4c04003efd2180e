//! A cluster in one process: each node has its own directory, threads and port.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quire::tools::{BackupSink, receive_node, stream_backup};
use quire::{Database, MemberFile, Position};
use quire_access::{ConnectionSettings, Forwarder, Listener, PeerConnector};
use quire_cluster::{
    NodeFiles, NodeId, NodeNotice, NodeObserver, NodeParts, NodeRole, PeerIdentity, RunningMember, discover,
    fetch_files,
};
use quire_system::{MemberAddresses, MemberRole};
use tempfile::TempDir;

/// The bytes of a segment of each node.
pub(crate) const SEGMENT_BYTES: u64 = 1 << 20;

/// The directory of the database.
pub(crate) fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

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

#[derive(Debug)]
struct DatabaseFiles(PathBuf);

impl NodeFiles for DatabaseFiles {
    fn send(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        struct Sink<'s>(&'s mut dyn FnMut(&[u8]) -> io::Result<()>);

        impl BackupSink for Sink<'_> {
            fn make_space(&mut self, _bytes: u64) -> io::Result<()> {
                Ok(())
            }

            fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
                (self.0)(bytes)
            }
        }

        stream_backup(&self.0, &mut Sink(sink)).map(drop).map_err(io::Error::other)
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
        self.found_with(node, tempfile::tempdir().expect("a temporary directory"));
    }

    /// Starts the first node with the database in this directory.
    pub(crate) fn found_with(&mut self, node: u64, directory: TempDir) {
        self.begin(node, directory, None, Vec::new());
    }

    /// Starts a node that gets the files of the others, and joins them.
    pub(crate) fn join(&mut self, node: u64) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        self.fetch(node, &directory);
        let seeds = self.nodes.values().map(|node| node.address.clone()).collect();
        self.begin(node, directory, None, seeds);
    }

    /// Starts a node again with the files of the others.
    pub(crate) fn restart_with_files(&mut self, node: u64) {
        let ClusterProcess { address, directory, .. } = self.nodes.remove(&node).expect("a node");
        self.fetch(node, &directory);
        self.begin(node, directory, Some(address), Vec::new());
    }

    fn fetch(&self, node: u64, directory: &TempDir) {
        let seeds: Vec<String> = self.nodes.values().map(|node| node.address.clone()).collect();
        let own = identity(node, node.into());
        let cluster = self.block_on(discover(&self.connector(), &seeds, own, None)).expect("a cluster");
        let founder = cluster.founder;
        let member = MemberFile {
            node,
            incarnation: node.into(),
            is_founder: false,
            cluster: founder,
            since: Position::ZERO,
            has_voted: false,
        };
        // Before a node leads, none sends its files.
        self.wait(|| {
            let handle = self.runtime.handle();
            let (mut files, task) = fetch_files(handle, self.connector(), seeds.clone(), own, Some(cluster));
            let received = receive_node(&mut files, &data(directory), &member).ok();
            received.filter(|_| self.block_on(task).expect("not cancelled").is_ok())
        });
    }

    fn begin(&mut self, node: u64, directory: TempDir, address: Option<String>, join: Vec<String>) {
        let builder = Database::builder(data(&directory)).member(true);
        let database = builder.segment_bytes(SEGMENT_BYTES).open().expect("opened");
        let runtime = RunningMember::runtime().expect("threads");
        let listen = address.unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse().expect("an address");
        let settings = ConnectionSettings::default();
        let listener = runtime.block_on(Listener::bind(&listen, &settings)).expect("a port");
        let address = listener.address().to_string();
        let parts = NodeParts {
            shard: database.replicated(),
            identity: identity(node, node.into()),
            is_founder: node == 1,
            founder: 1,
            since: Position::ZERO,
            addresses: MemberAddresses { cluster: address.clone(), ..MemberAddresses::default() },
            listener,
            connector: PeerConnector::plain(),
            join,
            record_bytes_max: database.commit_bytes_max(),
            heartbeat: Duration::from_millis(50),
            forwarding: Forwarder::default(),
            files: Arc::new(DatabaseFiles(data(&directory))),
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
        let ClusterProcess { address, directory, .. } = self.nodes.remove(&node).expect("a node");
        self.begin(node, directory, Some(address), Vec::new());
    }

    /// Waits until a node has stopped because it needs files.
    pub(crate) fn wait_until_files_are_needed(&self, node: u64) {
        self.wait(|| self.node(node).status().needs_files.then_some(()));
    }

    /// Compacts the log of a node until no record up to this one is as it was.
    pub(crate) fn compact_beyond(&self, node: u64, position: Position) {
        let database = self.database(node);
        self.wait(|| {
            database.compact().expect("compacted");
            (database.replicated().log().compacted_end() > position).then_some(())
        });
    }

    /// Waits until a node has sealed a segment.
    pub(crate) fn wait_until_sealed(&self, node: u64) {
        self.wait(|| (self.database(node).replicated().log().statistics().sealed > 0).then_some(()));
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
