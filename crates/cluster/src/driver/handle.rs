//! The node of a running process.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use quire_access::{Forwarder, Listener, PeerConnector};
use quire_model::Position;
use quire_shard::{
    ClusterChange, ClusterControl, ClusterRole, ClusterStatus, Error, ErrorKind, MemberProgress, NodeOffice, Result,
    Shard,
};
use quire_system::{ClusterMember, MemberAddresses, MemberRole};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::events::{ChangeOutcome, DriverMailbox, NodeCommand};
use super::status::{NodeNotice, NodeObserver, NodeStatus};
use super::thread::{Driver, DriverProgress};
use crate::agreement::{Agreement, AgreementSettings, MemberSet, NodeId, NodeRole};
use crate::net::{
    ClusterIdentity, JoinError, LeaderLine, MemberTable, NodeFiles, PeerIdentity, PeerNetwork, discover, join,
};
use crate::shard::{ChangeRefusal, NodeIdentity, ShardNode};

/// The pause between attempts to join.
const JOIN_PAUSE: Duration = Duration::from_millis(500);

/// How long an attempt to hand the office over may take.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);

/// The parts of a node.
#[derive(Debug)]
pub struct NodeParts {
    /// The shard, opened as a member.
    pub shard: Arc<Shard>,
    /// The number and the incarnation.
    pub identity: PeerIdentity,
    /// Whether this node made the cluster.
    pub is_founder: bool,
    /// The incarnation of the node that made the cluster.
    pub founder: u128,
    /// The last record before the cluster, on the node that made it.
    pub since: Position,
    /// The addresses by which others reach this node.
    pub addresses: MemberAddresses,
    /// The listener between nodes.
    pub listener: Listener,
    /// Connects to other nodes.
    pub connector: PeerConnector,
    /// Nodes that are asked to make this one a member, besides the members that it knows.
    pub join: Vec<String>,
    /// The largest record that a node sends, in bytes.
    pub record_bytes_max: u64,
    /// The time between two heartbeats. An election begins after 8 to 16 of them without a leader.
    pub heartbeat: Duration,
    /// The files for nodes that lack records which this node no longer has.
    pub files: Arc<dyn NodeFiles>,
    /// Requests of clients that nodes forward to each other.
    pub forwarding: Forwarder,
    /// Takes notices.
    pub observer: Arc<dyn NodeObserver>,
}

/// A node that runs: its driver and its connections. Dropping it stops them.
#[derive(Debug)]
pub struct RunningMember {
    mailbox: Arc<DriverMailbox>,
    status: Arc<Mutex<NodeStatus>>,
    driver: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl RunningMember {
    /// A runtime for the connections of a node.
    ///
    /// # Errors
    /// When its threads can't be started.
    pub fn runtime() -> io::Result<Runtime> {
        Builder::new_multi_thread().worker_threads(2).thread_name("quire-peers").enable_all().build()
    }
}

impl RunningMember {
    /// Starts a node. `listener` was bound in `runtime`, which from then on belongs to the node.
    ///
    /// # Errors
    /// When the vote or the log can't be read, or a thread can't be started.
    pub fn start(parts: NodeParts, runtime: Runtime) -> Result<Self> {
        let NodeParts { shard, identity: own, is_founder, addresses, observer, .. } = parts;
        let initial = if is_founder { MemberSet::of_voters([own.node]) } else { MemberSet::default() };
        let (node, incarnation, since) = (own.node, own.incarnation, parts.since);
        let identity = NodeIdentity { node, incarnation, members: initial, since };
        let mailbox = Arc::new(DriverMailbox::default());
        let node = ShardNode::new(Arc::clone(&shard), identity)?;
        let cluster = ClusterIdentity { database: shard.id(), founder: parts.founder };
        let table = Arc::new(MemberTable::new(cluster, own, node.members()?));
        let connector = Arc::new(parts.connector);
        let network = Arc::new(PeerNetwork::new(
            Arc::clone(&table),
            Arc::clone(&mailbox),
            Arc::clone(&observer),
            Arc::clone(&connector),
            parts.files,
            parts.forwarding.clone(),
            parts.record_bytes_max,
        ));
        let agreement = Agreement::new(own.node, node, AgreementSettings::default(), fastrand::u64(..));
        shard.log().watch(Arc::clone(&mailbox) as _);
        let state = agreement.state();
        let log = shard.log();
        let status = Arc::new(Mutex::new(NodeStatus {
            node: own.node,
            role: state.role,
            term: state.term,
            leader: None,
            appended: log.appended(),
            durable: log.durable(),
            published: log.published(),
            elections_won: 0,
            damaged: 0,
            is_held_back: false,
            members: Vec::new(),
            failure: None,
            needs_files: false,
        }));
        let driver = Driver {
            agreement,
            mailbox: Arc::clone(&mailbox),
            table: Arc::clone(&table),
            links: Arc::clone(&network.links),
            observer: Arc::clone(&observer),
            own,
            addresses: addresses.clone(),
            tick: parts.heartbeat,
            status: Arc::clone(&status),
            progress: DriverProgress::default(),
        };
        let line = LeaderLine::new(Arc::clone(&table), Arc::downgrade(&shard), Arc::clone(&connector));
        parts.forwarding.begin(Arc::new(line));
        runtime.spawn(Arc::clone(&network).run(parts.listener));
        let announcement = Announcement { table, connector, observer, addresses, seeds: parts.join };
        runtime.spawn(announcement.run());
        let thread = std::thread::Builder::new().name("quire-node".to_owned()).spawn(move || driver.run());
        let thread = thread
            .map_err(|error| Error::new(ErrorKind::Io, format!("can't start the thread of the node: {error}")))?;
        let control =
            MemberControl { shard: Arc::downgrade(&shard), mailbox: Arc::clone(&mailbox), status: Arc::clone(&status) };
        shard.set_cluster_control(Arc::new(control));
        Ok(RunningMember { mailbox, status, driver: Some(thread), runtime: Some(runtime) })
    }

    /// The state of the node, as of its last tick.
    pub fn status(&self) -> NodeStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes a member. This node must lead.
    ///
    /// # Errors
    /// Why it is not removed, or not known to be.
    pub fn remove(&self, node: NodeId) -> impl Future<Output = ChangeOutcome> + Send + use<> {
        self.command(NodeCommand::Remove(node))
    }

    /// Begins to hand the office over, to this node or to the one that is closest. This node must
    /// lead, and decides no commits meanwhile.
    ///
    /// # Errors
    /// Why it does not.
    pub fn hand_over(&self, to: Option<NodeId>) -> impl Future<Output = ChangeOutcome> + Send + use<> {
        self.command(NodeCommand::HandOver(to))
    }

    fn command(&self, command: NodeCommand) -> impl Future<Output = ChangeOutcome> + Send + use<> {
        let mailbox = Arc::clone(&self.mailbox);
        async move { mailbox.command(command).await }
    }

    /// Hands the office over where this node leads and another voter follows, and waits until
    /// another node leads, for a few seconds at most.
    pub fn hand_over_before_stop(&self) {
        let Some(runtime) = &self.runtime else { return };
        let handed_over = async {
            if self.hand_over(None).await.is_ok() {
                while self.status().role == NodeRole::Leader {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        };
        // Without a successor, the others elect one after the stop.
        let _ = runtime.block_on(async { timeout(HAND_OVER_MAX, handed_over).await });
    }

    /// Stops the node: nothing is published here any more.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.mailbox.stop();
        if let Some(driver) = self.driver.take() {
            // A panic of the driver was reported by it.
            let _ = driver.join();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for RunningMember {
    fn drop(&mut self) {
        self.end();
    }
}

/// The node, for the front ends of its database.
#[derive(Debug)]
struct MemberControl {
    shard: Weak<Shard>,
    mailbox: Arc<DriverMailbox>,
    status: Arc<Mutex<NodeStatus>>,
}

impl MemberControl {
    fn carry_out(&self, command: NodeCommand) -> ClusterChange {
        let mailbox = Arc::clone(&self.mailbox);
        self.explained(async move { mailbox.command(command).await })
    }

    fn explained(&self, outcome: impl Future<Output = ChangeOutcome> + Send + 'static) -> ClusterChange {
        let shard = Weak::clone(&self.shard);
        Box::pin(async move {
            let refusal = match outcome.await {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            };
            let kind = match refusal {
                ChangeRefusal::NotLeader => match shard.upgrade() {
                    Some(shard) => return Err(shard.not_leader()),
                    None => ErrorKind::Failed,
                },
                ChangeRefusal::Busy => ErrorKind::Overloaded,
                ChangeRefusal::Invalid(_) => ErrorKind::Invalid,
                ChangeRefusal::Unsettled => ErrorKind::Unsettled,
                ChangeRefusal::Stopped => ErrorKind::Failed,
            };
            Err(Error::new(kind, refusal.to_string()))
        })
    }
}

fn number(node: u64) -> Result<NodeId> {
    NodeId::new(node).ok_or_else(|| Error::new(ErrorKind::Invalid, "the number of a node is at least 1, got 0"))
}

impl ClusterControl for MemberControl {
    fn status(&self) -> ClusterStatus {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let members = status.members.into_iter().map(|member| MemberProgress {
            node: member.node.get(),
            member: member.member,
            is_connected: member.is_connected,
            acknowledged: member.acknowledged,
        });
        ClusterStatus {
            office: NodeOffice { node: status.node.get(), term: status.term, leader: status.leader.map(NodeId::get) },
            role: match status.role {
                NodeRole::Leader => ClusterRole::Leader,
                NodeRole::Follower => ClusterRole::Follower,
                NodeRole::Candidate => ClusterRole::Candidate,
            },
            appended: status.appended,
            durable: status.durable,
            published: status.published,
            elections_won: status.elections_won,
            members: members.collect(),
        }
    }

    fn confirm(&self) -> ClusterChange {
        let mailbox = Arc::clone(&self.mailbox);
        self.explained(async move { mailbox.confirm().await })
    }

    fn remove(&self, node: u64) -> ClusterChange {
        match number(node) {
            Ok(node) => self.carry_out(NodeCommand::Remove(node)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn transfer(&self, node: Option<u64>) -> ClusterChange {
        match node.map(number).transpose() {
            Ok(node) => self.carry_out(NodeCommand::HandOver(node)),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

/// Asks to become a member, and to be known by the addresses of this start.
#[derive(Debug)]
struct Announcement {
    table: Arc<MemberTable>,
    connector: Arc<PeerConnector>,
    observer: Arc<dyn NodeObserver>,
    addresses: MemberAddresses,
    seeds: Vec<String>,
}

impl Announcement {
    /// Checks that the nodes that were given are of the cluster of this node. Those that do not
    /// answer may be.
    ///
    /// # Errors
    /// The reason of the first one that refuses this node.
    async fn check_seeds(&self) -> std::result::Result<(), String> {
        let (own, cluster) = (self.table.own(), self.table.cluster());
        for seed in self.seeds.iter().filter(|seed| **seed != self.addresses.cluster) {
            let seed = std::slice::from_ref(seed);
            if let Err(JoinError::Refused(reason)) = discover(&self.connector, seed, own, Some(cluster)).await {
                return Err(reason);
            }
        }
        Ok(())
    }

    async fn run(self) {
        let own = self.table.own();
        if let Err(reason) = self.check_seeds().await {
            self.observer.note(&NodeNotice::NotJoined { reason, is_final: true });
            return;
        }
        let mut last_failure = String::new();
        loop {
            let is_known = self
                .table
                .member(own.node)
                .is_some_and(|known| known.incarnation == own.incarnation && known.addresses == self.addresses);
            if is_known {
                return;
            }
            let members = self.table.members();
            let is_other =
                |(node, member): &(&NodeId, &ClusterMember)| **node != own.node && member.role != MemberRole::Removed;
            let others = members.iter().filter(is_other);
            let mut asked: Vec<String> = others.map(|(_, member)| member.addresses.cluster.clone()).collect();
            asked.extend(self.seeds.iter().filter(|seed| **seed != self.addresses.cluster).cloned());
            if asked.is_empty() {
                // A cluster of this node alone: it notes its own addresses when it leads.
                sleep(JOIN_PAUSE).await;
                continue;
            }
            let joined = join(&self.connector, &asked, own, self.table.cluster(), &self.addresses).await;
            if let Err(error) = joined {
                let (reason, is_final) = (error.to_string(), matches!(error, JoinError::Refused(_)));
                if reason != last_failure {
                    self.observer.note(&NodeNotice::NotJoined { reason: reason.clone(), is_final });
                    last_failure = reason;
                }
                if is_final {
                    return;
                }
            }
            sleep(JOIN_PAUSE).await;
        }
    }
}
