//! The tasks of the connections: one accepts, one for each known member connects, and each
//! connection reads and writes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quire_access::{EstablishedConnection, Forwarder, Listener, PeerConnector, PeerStream};
use quire_model::codec::Decoder;
use quire_system::{MemberAddresses, MemberRole};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, split};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::fetch::{NodeFiles, send_files};
use super::forward::read_origin;
use super::frame::{FRAME_OVERHEAD_BYTES, FrameKind, frame, invalid, read_frame};
use super::hello::{HelloPurpose, PeerHello, PeerIdentity, PeerWelcome};
use super::links::PeerLinks;
use super::table::MemberTable;
use crate::agreement::NodeId;
use crate::driver::{DriverEvent, DriverMailbox, JoinOutcome, NodeNotice, NodeObserver};
use crate::shard::PeerPacket;

/// The time for a connection and its hello.
const GREETING: Duration = Duration::from_secs(2);
/// A connection on which nothing was sent for this long sends a ping.
const PING: Duration = Duration::from_secs(1);
/// A connection on which nothing arrives for this long is closed.
const SILENCE: Duration = Duration::from_secs(5);
/// The pauses between attempts to connect grow from the first to the last.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The most bytes of packets that wait for the driver, in KiB.
const WAITING_KIB_MAX: usize = 32 << 10;
/// The most bytes of records that a message has besides its last record.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct PeerNetwork {
    pub(crate) table: Arc<MemberTable>,
    pub(crate) links: Arc<PeerLinks>,
    pub(crate) mailbox: Arc<DriverMailbox>,
    pub(crate) observer: Arc<dyn NodeObserver>,
    connector: Arc<PeerConnector>,
    files: Arc<dyn NodeFiles>,
    forwarding: Forwarder,
    frame_bytes_max: u64,
    waiting: Arc<Semaphore>,
}

impl PeerNetwork {
    pub(crate) fn new(
        table: Arc<MemberTable>,
        mailbox: Arc<DriverMailbox>,
        observer: Arc<dyn NodeObserver>,
        connector: Arc<PeerConnector>,
        files: Arc<dyn NodeFiles>,
        forwarding: Forwarder,
        record_bytes_max: u64,
    ) -> Self {
        PeerNetwork {
            table,
            links: Arc::default(),
            mailbox,
            observer,
            connector,
            files,
            forwarding,
            frame_bytes_max: record_bytes_max + MESSAGE_BYTES_MAX + FRAME_OVERHEAD_BYTES,
            waiting: Arc::new(Semaphore::new(WAITING_KIB_MAX)),
        }
    }

    /// Accepts connections, and connects to each member, until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>, listener: Listener) {
        tokio::join!(Arc::clone(&self).accept(listener), self.connect_to_members());
    }

    async fn accept(self: Arc<Self>, listener: Listener) {
        let mut connections = JoinSet::new();
        loop {
            let admission = listener.accept().await;
            while connections.try_join_next().is_some() {}
            let network = Arc::clone(&self);
            connections.spawn(async move {
                let Some(connection) = admission.establish(Instant::now() + GREETING).await else { return };
                network.serve(connection).await;
            });
        }
    }

    /// Serves a connection that another node has begun.
    async fn serve(&self, connection: EstablishedConnection) {
        let EstablishedConnection { mut stream, place, .. } = connection;
        // A place without a running request would go to another connection.
        let running = place.activity().begin();
        let hello = match timeout(GREETING, read_frame(&mut stream, FRAME_OVERHEAD_BYTES)).await {
            Ok(Ok(Some((FrameKind::Hello, bytes)))) => PeerHello::decode(&bytes),
            Ok(Err(error)) => Err(error.to_string()),
            _ => return,
        };
        let greeted = hello.and_then(|hello| self.table.admit(&hello).map(|()| hello));
        let hello = match greeted {
            Ok(hello) => hello,
            Err(reason) => {
                self.observer.note(&NodeNotice::Refused { reason: reason.clone() });
                let refused = frame(FrameKind::Refused, |out| out.extend(reason.as_bytes()));
                // The other node may be gone.
                let _ = timeout(GREETING, stream.write_all(&refused)).await;
                return;
            }
        };
        let welcome = PeerWelcome { cluster: self.table.cluster, from: self.table.own };
        let welcome = frame(FrameKind::Welcome, |out| out.extend(welcome.encode()));
        if !matches!(timeout(GREETING, stream.write_all(&welcome)).await, Ok(Ok(()))) {
            return;
        }
        match hello.purpose {
            HelloPurpose::Replicate { .. } => self.exchange(hello.from.node, stream).await,
            HelloPurpose::Join => {
                // The other node may be gone, and asks again.
                let _ = timeout(SILENCE, self.answer_join(hello.from, stream)).await;
            }
            HelloPurpose::Forward => {
                if let Ok(Ok(Some(origin))) = timeout(GREETING, read_origin(&mut stream)).await {
                    self.forwarding.admit(origin, stream, (place, running));
                }
            }
            HelloPurpose::Fetch => {
                // The other node asks again.
                let _ = send_files(&self.mailbox, &self.files, hello.from.node, stream).await;
            }
        }
    }

    async fn answer_join(&self, from: PeerIdentity, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let Some((FrameKind::Join, bytes)) = read_frame(&mut stream, FRAME_OVERHEAD_BYTES).await? else {
            return Ok(());
        };
        let addresses = MemberAddresses::decode(&mut Decoder::new(&bytes));
        let addresses = addresses.map_err(|error| invalid(error.to_string()))?;
        let answer = match self.mailbox.join(from, addresses).await {
            JoinOutcome::Joined => frame(FrameKind::Joined, |_| ()),
            JoinOutcome::LeaderIs(address) => frame(FrameKind::LeaderIs, |out| out.extend(address.as_bytes())),
            JoinOutcome::Refused(reason) => frame(FrameKind::Refused, |out| out.extend(reason.as_bytes())),
        };
        stream.write_all(&answer).await
    }

    /// Keeps a task for each member that is not this node.
    async fn connect_to_members(self: Arc<Self>) {
        let mut tasks: BTreeMap<NodeId, ((u128, String), AbortHandle)> = BTreeMap::new();
        let mut set = JoinSet::new();
        let mut members = self.table.watch();
        loop {
            let known = members.borrow_and_update().clone();
            let wanted: BTreeMap<NodeId, (u128, String)> = known
                .into_iter()
                .filter(|(node, member)| *node != self.table.own.node && member.role != MemberRole::Removed)
                .map(|(node, member)| (node, (member.incarnation, member.addresses.cluster)))
                .collect();
            tasks.retain(|node, (target, task)| {
                let is_wanted = wanted.get(node) == Some(target);
                if !is_wanted {
                    task.abort();
                    if !wanted.contains_key(node) {
                        self.links.close_all_of(*node);
                    }
                }
                is_wanted
            });
            for (node, target) in wanted {
                tasks.entry(node).or_insert_with(|| {
                    let to = PeerIdentity { node, incarnation: target.0 };
                    let task = set.spawn(Arc::clone(&self).connect(to, target.1.clone()));
                    (target, task)
                });
            }
            if members.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps a connection to a member, except while the member keeps one to this node.
    async fn connect(self: Arc<Self>, to: PeerIdentity, address: String) {
        let (mut pause, mut last_failure) = (RETRY.0, String::new());
        loop {
            if self.links.is_connected(to.node) {
                sleep(RETRY.1).await;
                continue;
            }
            match timeout(GREETING, self.greet(to, &address)).await {
                Ok(Ok(stream)) => {
                    (pause, last_failure) = (RETRY.0, String::new());
                    self.exchange(to.node, stream).await;
                }
                failed => {
                    let failure = match failed {
                        Ok(Err(error)) => error.to_string(),
                        _ => format!("no answer within {} s", GREETING.as_secs()),
                    };
                    if failure != last_failure {
                        let notice = NodeNotice::Unreachable { node: to.node, reason: failure.clone() };
                        self.observer.note(&notice);
                        last_failure = failure;
                    }
                    pause = (pause * 2).min(RETRY.1);
                }
            }
            sleep(pause).await;
        }
    }

    async fn greet(&self, to: PeerIdentity, address: &str) -> io::Result<PeerStream> {
        let purpose = HelloPurpose::Replicate { to };
        let hello = PeerHello { cluster: Some(self.table.cluster), from: self.table.own, purpose };
        let (stream, welcome) = greet(&self.connector, address, &hello).await?;
        if (welcome.cluster, welcome.from) != (self.table.cluster, to) {
            return Err(invalid(format!("{address} answers as node {} of another cluster", welcome.from.node)));
        }
        Ok(stream)
    }

    /// Exchanges packets with a node until the connection ends.
    async fn exchange(&self, node: NodeId, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut end = self.links.add(node);
        let id = end.id;
        self.observer.note(&NodeNotice::Connected { node });
        let (reader, mut writer) = split(stream);
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let writing = async {
            loop {
                match timeout(PING, end.next()).await {
                    Ok(Some(frames)) => {
                        writer.write_all(&frames).await?;
                        end.sent(frames.len());
                    }
                    Ok(None) => return io::Result::Ok(()),
                    Err(_) => writer.write_all(&frame(FrameKind::Ping, |_| ())).await?,
                }
                if end.is_empty() {
                    writer.flush().await?;
                }
            }
        };
        let reading = async {
            loop {
                let read = timeout(SILENCE, read_frame(&mut reader, self.frame_bytes_max)).await;
                let silent = || io::Error::new(io::ErrorKind::TimedOut, "nothing arrived for 5 s");
                match read.map_err(|_| silent())?? {
                    None => return io::Result::Ok(()),
                    Some((FrameKind::Ping, _)) => {}
                    Some((FrameKind::Packet, bytes)) => self.receive(node, id, &bytes).await?,
                    Some((kind, _)) => return Err(invalid(format!("unexpected frame {kind:?}"))),
                }
            }
        };
        let ended = tokio::select! {
            ended = writing => ended,
            ended = reading => ended,
        };
        self.links.close(node, id);
        self.mailbox.push(DriverEvent::Unreachable(node));
        let reason = ended.err().map(|error| error.to_string());
        self.observer.note(&NodeNotice::Disconnected { node, reason });
    }

    async fn receive(&self, node: NodeId, link: u64, bytes: &[u8]) -> io::Result<()> {
        let packet = PeerPacket::decode(bytes).map_err(|error| invalid(error.to_string()))?;
        if (packet.message.from(), packet.message.to()) != (node, self.table.own.node) {
            return Err(invalid(format!(
                "node {node} sent a message from node {} to node {}",
                packet.message.from(),
                packet.message.to()
            )));
        }
        let kib = bytes.len().div_ceil(1_024).min(WAITING_KIB_MAX);
        let kib = u32::try_from(kib).expect("at most 32 MiB");
        let Ok(space) = Arc::clone(&self.waiting).acquire_many_owned(kib).await else { return Ok(()) };
        self.mailbox.push(DriverEvent::Packet { link, packet: Box::new(packet), _space: space });
        Ok(())
    }
}

/// Connects to a node and says hello.
///
/// # Errors
/// Those of the connection. `PermissionDenied` when the node refuses; the message is its reason.
pub(super) async fn greet(
    connector: &PeerConnector,
    address: &str,
    hello: &PeerHello,
) -> io::Result<(PeerStream, PeerWelcome)> {
    let mut stream = connector.connect(address).await?;
    stream.write_all(&frame(FrameKind::Hello, |out| out.extend(hello.encode()))).await?;
    stream.flush().await?;
    let answer = read_frame(&mut stream, FRAME_OVERHEAD_BYTES).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            let why = format!("it is no port between nodes; give the address of the node's --cluster-listen ({error})");
            io::Error::new(io::ErrorKind::InvalidData, why)
        }
        _ => error,
    })?;
    match answer {
        Some((FrameKind::Welcome, bytes)) => {
            let welcome = PeerWelcome::decode(&bytes).ok_or_else(|| invalid("an invalid welcome"))?;
            Ok((stream, welcome))
        }
        Some((FrameKind::Refused, reason)) => {
            let reason = format!("{address} refuses: {}", String::from_utf8_lossy(&reason));
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
        }
        Some((kind, _)) => Err(invalid(format!("{address} answers with {kind:?}"))),
        None => Err(invalid(format!("{address} closes the connection: it may be no cluster port of Quire"))),
    }
}
